"""The vault gives back exactly what was there, or says that somebody changed it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_iterctl.errors import RepositoryError, StoreError
from pytest_iterctl.work import vault as vault_module
from pytest_iterctl.work.vault import Kept, Manifest, Stamps, Vault

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


# What changed since ---------------------------------------------------------------------------------------------------


def settle(root: Path) -> None:
    """Wait until the files are old enough to be recognised by their times."""
    newest = max((path.lstat().st_ctime_ns for path in root.rglob("*")), default=0)
    while time.time_ns() <= newest:
        time.sleep(0.001)


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Base:
    monkeypatch.setattr(vault_module, "_SETTLED", 0)
    return Base(tmp_path)


class Base:
    """A work tree that was kept, with files of each kind."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        (self.root / "shop/deep").mkdir(parents=True)
        for name in ("a.py", "b.py", "shop/c.py", "shop/deep/d.py"):
            (self.root / name).write_text(f"{name}\n")
        (self.root / "run.sh").write_text("#!/bin/sh\n")
        (self.root / "run.sh").chmod(0o755)
        (self.root / "link").symlink_to("a.py")
        settle(self.root)
        time.sleep(0.02)  # the next change gets another time
        self.vault = Vault(folder / "vault")
        names = [b"a.py", b"b.py", b"shop/c.py", b"shop/deep/d.py", b"run.sh", b"link"]
        self.manifest, self.stamps = self.vault.keep_with_stamps(self.root, names)

    def changed(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        with_stamps = self.vault.changed(self.root, self.manifest, self.stamps)
        assert with_stamps == self.vault.changed(self.root, self.manifest, Stamps())
        return with_stamps


def test_nothing_changed_and_nothing_was_read(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    assert base.changed() == ((), ())
    assert set(base.stamps.files) == set(base.manifest.files)
    monkeypatch.setattr(vault_module, "_digest", lambda *_: pytest.fail("a file was read"))
    assert base.vault.changed(base.root, base.manifest, base.stamps) == ((), ())


def test_contents_kinds_and_targets_count(base: Base) -> None:
    (base.root / "a.py").write_text("other\n")
    (base.root / "b.py").chmod(0o755)
    (base.root / "run.sh").chmod(0o644)
    (base.root / "link").unlink()
    (base.root / "link").symlink_to("b.py")
    (base.root / "shop/c.py").unlink()
    (base.root / "shop/c.py").symlink_to("../a.py")
    assert base.changed() == ((b"a.py", b"b.py", b"link", b"run.sh", b"shop/c.py"), ())


def test_a_file_that_was_only_touched_is_the_same(base: Base) -> None:
    (base.root / "a.py").touch()
    content = (base.root / "b.py").read_bytes()
    (base.root / "b.py").unlink()
    (base.root / "b.py").write_bytes(content)
    assert base.changed() == ((), ())


def test_a_change_of_the_old_size_with_the_old_time_is_seen(base: Base) -> None:
    path = base.root / "a.py"
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_text("A.py\n")
    os.utime(path, ns=times)
    assert base.changed() == ((b"a.py",), ())


def test_what_is_no_file_any_more_is_gone(base: Base) -> None:
    (base.root / "a.py").unlink()
    (base.root / "b.py").unlink()
    (base.root / "b.py").mkdir()
    (base.root / "run.sh").unlink()
    os.mkfifo(base.root / "run.sh")
    (base.root / "shop/deep/d.py").unlink()
    (base.root / "shop/deep").rmdir()
    (base.root / "shop/deep").write_text("a file in the place of a folder\n")
    assert base.changed() == ((), (b"a.py", b"b.py", b"run.sh", b"shop/deep/d.py"))


def test_nothing_is_reached_through_a_linked_folder(base: Base) -> None:
    (base.root / "shop").rename(base.root / "moved")
    (base.root / "shop").symlink_to("moved")
    assert base.changed() == ((), (b"shop/c.py", b"shop/deep/d.py"))


def test_a_file_that_changed_just_before_is_read_again(tmp_path: Path) -> None:
    """Two changes within one tick of the clock look the same to the system."""
    (tmp_path / "a.py").write_text("one\n")
    manifest, stamps = Vault(tmp_path / "vault").keep_with_stamps(tmp_path, [b"a.py"])
    assert (set(manifest.files), set(stamps.files)) == ({b"a.py"}, set())


def test_a_file_that_changes_while_it_is_read_gets_no_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_module, "_SETTLED", 0)
    path, genuine = tmp_path / "a.py", vault_module._chunks
    path.write_text("one\n")
    time.sleep(0.02)

    def chunks(place: bytes) -> Iterator[bytes]:
        yield from genuine(place)
        path.write_text("two\n")

    monkeypatch.setattr(vault_module, "_chunks", chunks)
    assert Vault(tmp_path / "vault").keep_with_stamps(tmp_path, [b"a.py"])[1].files == {}


def test_stamps_are_read_as_they_were_written_or_not_at_all(base: Base, tmp_path: Path) -> None:
    place = tmp_path / "stamps"
    base.stamps.write(place)
    assert Stamps.read(place, base.stamps.digest()) == base.stamps
    place.write_bytes(place.read_bytes() + b"\n")
    with pytest.raises(StoreError, match="changed by somebody else"):
        Stamps.read(place, base.stamps.digest())
    place.unlink()
    with pytest.raises(StoreError, match="is gone"):
        Stamps.read(place, base.stamps.digest())


@given(st.lists(st.sampled_from(["edit", "touch", "remove", "program", "link", "folder"]), min_size=4, max_size=4))
def test_times_never_change_the_answer(deeds: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(vault_module, "_SETTLED", 0)
        base = Base(Path(place))
        for name, deed in zip(("a.py", "b.py", "shop/c.py", "shop/deep/d.py"), deeds, strict=True):
            path = base.root / name
            match deed:
                case "edit":
                    path.write_text("edited\n")
                case "touch":
                    path.touch()
                case "program":
                    path.chmod(0o755)
                case _:
                    path.unlink()
            if deed == "link":
                path.symlink_to("/nowhere")
            elif deed == "folder":
                path.mkdir()
        differing, gone = base.changed()
        names = sorted(base.manifest.files)
        by_deed = dict(zip((b"a.py", b"b.py", b"shop/c.py", b"shop/deep/d.py"), deeds, strict=True))
        assert differing == tuple(n for n in names if by_deed.get(n) in {"edit", "program", "link"})
        assert gone == tuple(n for n in names if by_deed.get(n) in {"remove", "folder"})


# Accidents ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_failure_while_keeping_leaves_nothing_under_a_final_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    (tmp_path / "a.bin").write_bytes(b"x" * size)
    vault = Vault(tmp_path / "vault")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(RepositoryError, match="No space left"):
        patch.setattr(os, "write", fail)
        vault.keep(tmp_path, [b"a.bin"])
    assert [path for path in (tmp_path / "vault").rglob("*") if path.is_file()] == []
    room = tmp_path / "room"
    room.mkdir()
    vault.lay(vault.keep(tmp_path, [b"a.bin"]), room)
    assert (room / "a.bin").stat().st_size == size


@pytest.mark.slow
def test_a_kill_while_keeping_leaves_only_whole_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    names = [f"f{number}" for number in range(400)]
    for number, name in enumerate(names):
        (root / name).write_bytes(str(number).encode() * 5_000)
    program = (
        "import os, sys; from pathlib import Path; from pytest_iterctl.work.vault import Vault\n"
        "root = sys.argv[1]; names = sorted(os.listdir(os.fsencode(root)))\n"
        "print(flush=True); Vault(Path(sys.argv[2])).keep(Path(root), names)"
    )
    for delay in (0.0, 0.005, 0.02):
        place = tmp_path / f"vault{delay}"
        command = [sys.executable, "-c", program, str(root), str(place)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as keeping:
            assert keeping.stdout is not None
            keeping.stdout.readline()
            time.sleep(delay)
            keeping.kill()
        for path in place.rglob("*"):
            if path.is_file() and path.suffix != ".partial":
                assert hashlib.sha256(path.read_bytes()).hexdigest() == path.parent.name + path.name


def test_many_keep_the_same_at_once(tmp_path: Path) -> None:
    root, room = tmp_path / "root", tmp_path / "room"
    root.mkdir()
    room.mkdir()
    for number in range(30):
        (root / f"f{number}").write_bytes(str(number % 7).encode() * 200_000)
    (root / "large").write_bytes(b"y" * 2_500_000)
    names = [os.fsencode(path.name) for path in root.iterdir()]
    vault = Vault(tmp_path / "vault")
    with ThreadPoolExecutor(8) as pool:
        manifests = list(pool.map(lambda _: vault.keep(root, names), range(8)))
    assert all(manifest == manifests[0] for manifest in manifests)
    vault.lay(manifests[0], room)
    assert tree_of(room) == tree_of(root)


def test_a_kept_file_that_a_power_cut_left_empty_is_kept_anew(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")
    vault = Vault(tmp_path / "vault")
    manifest = vault.keep(tmp_path, [b"a.py"])
    kept = next(path for path in (tmp_path / "vault").rglob("*") if path.is_file())
    kept.write_bytes(b"")
    assert vault.keep(tmp_path, [b"a.py"]) == manifest
    assert vault.content(manifest.files[b"a.py"]) == b"one\n"


def test_a_name_that_is_none_of_a_kept_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is no name of a kept file"):
        Vault(tmp_path).content(Kept("../../etc/passwd", "file"))
