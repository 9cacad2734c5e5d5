"""What a task's tests are made of, as far as the kept base tells."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pytest_iterctl.gate.protected import Protection, PytestFacts
from pytest_iterctl.plan.frozen import FrozenTask
from pytest_iterctl.work.vault import Manifest, Vault

__all__ = ["protection_of"]

_PROGRAMS = frozenset({".py", ".js", ".ts", ".mjs", ".cjs", ".jsx", ".tsx", ".rb", ".go", ".json", ".sh", ".php"})


def protection_of(
    manifest: Manifest, vault: Vault, task: FrozenTask, facts: Mapping[str, object], may_change: tuple[str, ...]
) -> Protection:
    files = {os.fsdecode(name): kept for name, kept in manifest.files.items()}
    # What the room needs beyond git's files is the base's, since nobody would see an edit of it.
    protect = (*task.settings.prepare.files, *task.settings.protect)

    def protection(sources: Mapping[str, bytes], may_change: tuple[str, ...]) -> Protection:
        if task.test is not None:
            return Protection.for_command(
                files,
                command=task.test.command,
                junit=task.test.junit,
                protect=protect,
                may_change=may_change,
                sources=sources,
            )
        return Protection.of(
            files,
            config=PytestFacts.of(facts),
            protect=protect,
            may_change=may_change,
            test_roots=_roots(facts),
            sources=sources,
        )

    # What the tests read is known from the tests themselves, so these are looked for first.
    rough = protection({}, ())
    wanted = (path for path in files if rough.is_protected(path) or path == "package.json")
    sources = {path: vault.content(files[path]) for path in wanted if files[path].kind != "link" and _is_read(path)}
    return protection(sources, may_change)


def _is_read(path: str) -> bool:
    """Whether the tests in this file are programs whose texts may name the files that they read."""
    return Path(path).suffix in _PROGRAMS


def _roots(facts: Mapping[str, object]) -> tuple[str, ...]:
    """The path arguments of pytest, seen from the repository's root."""
    given, prefix = facts.get("positional"), facts.get("prefix_below_root")
    start = prefix if isinstance(prefix, str) else "."
    words = [word for word in given if isinstance(word, str)] if isinstance(given, list) else []
    return tuple(os.path.normpath(os.path.join(start, word)) for word in words)  # noqa: PTH118 - node ids are no paths
