"""The room instead of the work tree: where modules are searched for, by this process and its children.

PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import glob
import os
import sys
from contextlib import suppress
from typing import Any

from .places import of_the_standard_library, within

__all__ = ["Move"]

_NESTED = 4  # how deep the containers of an import finder are searched for paths


class Move:
    """Turns paths of the original work tree into those of the room, where the room has them."""

    def __init__(self, origin: str, tree: str) -> None:
        self.tree = tree
        self.origins = list(dict.fromkeys((os.path.abspath(origin), os.path.realpath(origin))))
        prefixes = dict.fromkeys((os.path.abspath(sys.prefix), os.path.realpath(sys.prefix)))
        # An environment that the whole work tree lies in does not tell what belongs to which.
        self.kept = [each for each in prefixes if not any(within(origin, each) for origin in self.origins)]

    def target(self, path: str, *, suffixes: bool = False) -> str:
        """The same in the room; '' for what stays where it is."""
        whole = os.path.abspath(path)
        if within(whole, self.tree) or any(within(whole, each) for each in self.kept):
            return ""
        for origin in self.origins:
            if within(whole, origin):
                there = os.path.normpath(os.path.join(self.tree, os.path.relpath(whole, origin)))
                # Import finders name a module without its suffix.
                found = os.path.exists(there) or (suffixes and bool(glob.glob(glob.escape(there) + ".*")))
                return there if found else ""
        return ""

    def everything(self) -> list[str]:
        """Map sys.path, the import finders and what child processes will search; returns the folders for children."""
        before = os.environ.get("PYTHONPATH", "")
        given = before.split(os.pathsep) if before else []
        inherited = {os.path.abspath(each) for each in given}
        folders: list[str] = []
        for number, entry in enumerate(sys.path):
            there = self.target(entry) if entry else ""
            if there:
                sys.path[number] = there
                if os.path.abspath(entry) not in inherited:
                    folders.append(there)
        for finder in list(sys.meta_path):
            with suppress(Exception):  # a finder may be any object at all
                folders += self.finder(finder)
        sys.path_importer_cache.clear()
        mapped = [(self.target(each) if each else "") or each for each in given]
        new = [each for each in dict.fromkeys(folders) if each not in mapped]
        if new or mapped != given:
            os.environ["PYTHONPATH"] = os.pathsep.join(mapped + new)
        return new

    def finder(self, finder: object) -> list[str]:
        """Map what an editable install knows; returns the folders that hold its packages."""
        owner = finder if isinstance(finder, type) else type(finder)
        module = sys.modules.get(owner.__module__)
        if module is None or of_the_standard_library(module):
            return []
        parents: list[str] = []
        for namespace in (vars(finder), vars(module)):
            for name, value in list(namespace.items()):
                if name.startswith("__"):
                    continue
                if isinstance(value, (dict, list)):
                    parents += self.container(value, (), 0)
                elif isinstance(value, str) and os.path.isabs(value) and namespace is vars(module):
                    there = self.target(value, suffixes=True)
                    if there:
                        setattr(module, name, there)
        return parents

    def container(self, values: dict[Any, Any] | list[Any], package: tuple[str, ...], depth: int) -> list[str]:
        parents: list[str] = []
        if depth > _NESTED:
            return parents
        for key, value in list(values.items() if isinstance(values, dict) else enumerate(values)):
            parts = tuple(key.split(".")) if isinstance(key, str) else package
            if isinstance(value, (dict, list)):
                parents += self.container(value, parts, depth + 1)
            elif isinstance(value, str) and os.path.isabs(value):
                there = self.target(value, suffixes=True)
                if there:
                    values[key] = there
                    steps = tuple(os.path.splitext(there)[0].split(os.sep))
                    # A package that does not have its folder's name can't be told to a child process.
                    if parts and steps[-len(parts) :] == parts:
                        parents.append(os.sep.join(steps[: -len(parts)]) or os.sep)
        return parents
