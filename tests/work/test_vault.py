"""The vault gives back exactly what was there, or says that somebody changed it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.errors import StoreError
from pytest_iterctl.work.vault import Manifest, Vault

parts = st.binary(min_size=1, max_size=8).map(lambda part: part.replace(b"/", b"_").replace(b"\0", b"_"))
names = st.lists(parts.filter(lambda part: part not in {b".", b".."}), min_size=1, max_size=3).map(b"/".join)
contents = st.binary(max_size=200)


def tree_of(folder: Path) -> dict[bytes, tuple[bytes, bool]]:
    found = {}
    for place, _, files in os.walk(os.fsencode(folder)):
        for name in files:
            path = os.path.join(place, name)  # noqa: PTH118 - names are bytes
            link = os.path.islink(path)  # noqa: PTH114 - names are bytes
            held = os.readlink(path) if link else Path(os.fsdecode(path)).read_bytes()  # noqa: PTH115 - names are bytes
            found[os.path.relpath(path, os.fsencode(folder))] = (held, os.access(path, os.X_OK) and not link)
    return found


@given(st.dictionaries(names, contents, max_size=6))
def test_what_is_laid_out_is_what_was_kept(files: dict[bytes, bytes]) -> None:
    with tempfile.TemporaryDirectory() as place:
        root, room = Path(place, "root"), Path(place, "room")
        root.mkdir()
        written = []
        for name, content in files.items():
            path = Path(os.fsdecode(os.fsencode(root) + b"/" + name))
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            except OSError:
                continue  # a file is in the way of a folder of that name
            written.append(name)
        vault = Vault(Path(place, "vault"))
        manifest = vault.keep(root, written)
        room.mkdir()
        vault.lay(manifest, room)
        assert tree_of(room) == tree_of(root)


def test_programs_links_and_large_files_come_back(tmp_path: Path) -> None:
    root, room = tmp_path / "root", tmp_path / "room"
    root.mkdir()
    room.mkdir()
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "large.bin").write_bytes(b"x" * 3_000_000)
    (root / "link").symlink_to("large.bin")
    (root / "outside").symlink_to("/nowhere/at/all")
    vault = Vault(tmp_path / "vault")
    vault.lay(vault.keep(root, [b"run.sh", b"large.bin", b"link", b"outside", b"gone"]), room)
    assert tree_of(room) == tree_of(root)


def test_a_manifest_is_read_as_it_was_written_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")
    manifest = Vault(tmp_path / "vault").keep(tmp_path, [b"a.py"])
    place = tmp_path / "manifest"
    manifest.write(place)
    assert Manifest.read(place, manifest.digest()) == manifest
    place.write_bytes(place.read_bytes().replace(b"a.py", b"b.py"))
    with pytest.raises(StoreError, match="changed by somebody else"):
        Manifest.read(place, manifest.digest())
    place.unlink()
    with pytest.raises(StoreError, match="is gone"):
        Manifest.read(place, manifest.digest())


def test_a_kept_file_that_somebody_changed_is_not_laid_out(tmp_path: Path) -> None:
    root, room = tmp_path / "root", tmp_path / "room"
    root.mkdir()
    room.mkdir()
    (root / "a.py").write_text("honest\n")
    vault = Vault(tmp_path / "vault")
    manifest = vault.keep(root, [b"a.py"])
    kept = next(path for path in (tmp_path / "vault").rglob("*") if path.is_file())
    kept.write_text("forged\n")
    with pytest.raises(StoreError, match="changed by somebody else"):
        vault.lay(manifest, room)


def test_what_was_kept_stays_what_it_was_when_the_tree_changes(tmp_path: Path) -> None:
    root, room = tmp_path / "root", tmp_path / "room"
    root.mkdir()
    room.mkdir()
    (root / "a.py").write_text("before\n")
    vault = Vault(tmp_path / "vault")
    manifest = vault.keep(root, [b"a.py"])
    (root / "a.py").write_text("after\n")
    vault.lay(manifest, room)
    assert (room / "a.py").read_text() == "before\n"
