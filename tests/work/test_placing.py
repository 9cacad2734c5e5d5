"""Files are put back exactly, and never through a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_iterctl.errors import RepositoryError
from pytest_iterctl.work.placing import put_back, take_away
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
