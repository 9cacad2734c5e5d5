"""`python -m pytest_iterctl` is `iterctl`."""

from __future__ import annotations

from pytest_iterctl.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
