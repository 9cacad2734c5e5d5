"""Our own cheats and honest changes, and the gate that has to tell them apart."""

from __future__ import annotations
