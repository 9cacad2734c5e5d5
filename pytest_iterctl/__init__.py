"""Bounded generate-test-review loops around any coding agent: `pytest --iterate` and `iterctl`."""

from __future__ import annotations

from pluggy import HookimplMarker

__all__ = ["__version__", "hookimpl"]

#: Marks an implementation of one of the hooks in `hookspecs.py`, in a conftest.py or an installed plugin.
hookimpl = HookimplMarker("iterctl")


def __getattr__(name: str) -> str:
    # Reading the version costs an import that idle pytest runs must not pay for.
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415

        return version("pytest-iterctl")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
