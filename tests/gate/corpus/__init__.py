"""The cases: one module per family of cheats, the honest changes, and the bases that they all start from."""

from __future__ import annotations
