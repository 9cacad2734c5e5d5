"""An agent whose model is overloaded twice and then answers. A failed call is not an iteration."""

from __future__ import annotations

import sys
from pathlib import Path

log = Path("calls.log")  # git ignores it, so it stays when the rest of a failed call is undone
calls = len(log.read_text().splitlines()) + 1 if log.exists() else 1
source = Path("greeting.py")

with log.open("a") as stream:
    stream.write(f"call {calls}\n")
if calls <= 2:
    source.write_text("half of an ed")
    sys.exit("the model is overloaded")
source.write_text(source.read_text().replace("{name}", "{name}!"))
