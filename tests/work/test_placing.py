"""Files are put back exactly, and never through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.work.placing import put_back, put_where_plain, take_away
from pytest_iterctl.work.vault import Kept, Vault


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "vault")


def kept(vault: Vault, tmp_path: Path, content: str = "kept\n", *, mode: int = 0o644) -> Kept:
    source = tmp_path / "source"
    source.mkdir(exist_ok=True)
    (source / "file").write_text(content)
    (source / "file").chmod(mode)
    return vault.keep(source, [b"file"]).files[b"file"]


def test_a_file_is_what_was_kept(vault: Vault, root: Path, tmp_path: Path) -> None:
    (root / "a").mkdir()
    (root / "a/b.py").write_text("edited")
    put_back(vault, root, b"a/b.py", kept(vault, tmp_path))
    assert (root / "a/b.py").read_text() == "kept\n"
    assert [path.name for path in (root / "a").iterdir()] == ["b.py"]


def test_programs_and_links_stay_what_they_are(vault: Vault, root: Path, tmp_path: Path) -> None:
    put_back(vault, root, b"run", kept(vault, tmp_path, mode=0o755))
    assert os.access(root / "run", os.X_OK)
    put_back(vault, root, b"link", kept_link(vault, tmp_path))
    assert (root / "link").readlink() == Path("target")


def kept_link(vault: Vault, tmp_path: Path) -> Kept:
    folder = tmp_path / "links"
    folder.mkdir()
    (folder / "file").symlink_to("target")
    return vault.keep(folder, [b"file"]).files[b"file"]


def test_nothing_is_written_through_a_linked_folder(vault: Vault, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("theirs")
    (root / "a").symlink_to(outside)
    put_back(vault, root, b"a/b.py", kept(vault, tmp_path))
    assert (outside / "b.py").read_text() == "theirs"
    assert not (root / "a").is_symlink()
    assert (root / "a/b.py").read_text() == "kept\n"


def test_nothing_is_removed_through_a_linked_folder(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("theirs")
    (root / "a").symlink_to(outside)
    take_away(root, b"a/b.py")
    assert (outside / "b.py").exists()


def test_a_file_and_the_folders_that_are_empty_then_go_and_others_stay(root: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/c.py").write_text("x")
    (root / "a/d.py").write_text("x")
    take_away(root, b"a/b/c.py")
    assert sorted(path.name for path in root.rglob("*")) == ["a", "d.py"]
    take_away(root, b"a/b/c.py")
    take_away(root, b"gone/too.py")


def test_a_link_in_the_place_of_the_file_gives_way(vault: Vault, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "theirs.py"
    outside.write_text("theirs")
    (root / "b.py").symlink_to(outside)
    put_back(vault, root, b"b.py", kept(vault, tmp_path))
    assert outside.read_text() == "theirs"
    assert not (root / "b.py").is_symlink()


def test_a_full_folder_in_the_place_of_a_file_is_an_error_and_stays(vault: Vault, root: Path, tmp_path: Path) -> None:
    (root / "b.py").mkdir()
    (root / "b.py/work.txt").write_text("mine")
    with pytest.raises(RepositoryError, match="can't be put back"):
        put_back(vault, root, b"b.py", kept(vault, tmp_path))
    assert (root / "b.py/work.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("there", "kind", "expected"),
    [
        *((0o600, 0o644, 0o600), (0o444, 0o644, 0o444), (0o664, 0o644, 0o664), (0o000, 0o644, 0o400)),
        *((0o600, 0o755, 0o700), (0o640, 0o755, 0o750), (0o755, 0o644, 0o644), (0o4755, 0o755, 0o755)),
    ],
)
def test_who_may_read_and_write_a_file_stays(
    vault: Vault, root: Path, tmp_path: Path, there: int, kind: int, expected: int
) -> None:
    (root / "a.py").write_text("edited")
    (root / "a.py").chmod(there)
    put_back(vault, root, b"a.py", kept(vault, tmp_path, mode=kind))
    assert (root / "a.py").read_text() == "kept\n"
    assert oct((root / "a.py").stat().st_mode & 0o7777) == oct(expected)


def test_where_nothing_has_to_give_way_a_file_is_written(vault: Vault, root: Path, tmp_path: Path) -> None:
    (root / "a").mkdir()
    (root / "a/old.xml").write_text("old")
    for name in (b"a/old.xml", b"a/b/new.xml", b"top.xml"):
        assert put_where_plain(vault, root, name, kept(vault, tmp_path))
        assert (root / os.fsdecode(name)).read_text() == "kept\n"


@pytest.mark.parametrize(
    "name", [b"link.xml", b"nowhere.xml", b"linked/b.xml", b"linked/c/d.xml", b"folder", b"file/b"]
)
def test_links_and_folders_of_the_user_stay_what_they_are(
    vault: Vault, root: Path, tmp_path: Path, name: bytes
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.xml").write_text("theirs")
    (root / "linked").symlink_to(outside)
    (root / "link.xml").symlink_to(outside / "b.xml")
    (root / "nowhere.xml").symlink_to(outside / "nothing")
    (root / "folder").mkdir()
    (root / "file").write_text("mine")
    assert not put_where_plain(vault, root, name, kept(vault, tmp_path))
    assert [path.name for path in outside.iterdir()] == ["b.xml"]
    assert (outside / "b.xml").read_text() == "theirs"
    assert all((root / link).is_symlink() for link in ("linked", "link.xml", "nowhere.xml"))
    assert (root / "folder").is_dir()
    assert (root / "file").read_text() == "mine"
