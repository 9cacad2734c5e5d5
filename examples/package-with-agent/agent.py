"""An agent as a script: it gets the prompt on stdin, edits files in the work tree, and says what it cost.

A model would read the prompt and think. This one knows two edits and makes the one that the prompt asks for first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

EDITS = {
    "test_punctuation_is_left_out": (
        'title.lower().replace(" ", "-")',
        '"-".join(re.findall(r"[a-z0-9]+", title.lower()))',
    ),
    "test_a_long_title_is_cut": ("longest + 1", "longest"),
}

prompt = sys.stdin.read()
source = Path("slugs/__init__.py")
code = source.read_text()
for test, (old, new) in EDITS.items():
    if test in prompt and old in code:
        code = code.replace(old, new)
        if "re." in new:
            code = code.replace("annotations\n", "annotations\n\nimport re\n", 1)
        print(f"I changed {source} for {test}.")
        break  # one thing at a time, so that there is something left for the second iteration
source.write_text(code)

# The last thing printed may be a JSON object; iterctl counts what it says towards the limits.
print(json.dumps({"cost_usd": 0.02, "tokens": len(prompt) // 4}))
