"""What one snapshot has lost against another, and what a verdict on it says: of real trees in a real repository."""

from __future__ import annotations

import json
import random
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_iterctl.control.destruction import verdict_on
from pytest_iterctl.work.git import Repository
from pytest_iterctl.work.losses import Losses, losses_between
from pytest_iterctl.work.snapshots import Snapshots
from tests.work.repositories import World, isolated

Deed = Callable[[Path], object]
FILES = 60


def module(number: int, lines: int = 40) -> str:
    return "".join(f"    value_{number}_{line} = compute({line}, {number * line})\n" for line in range(lines))


def project(root: Path) -> None:
    for number in range(FILES):
        path = root / f"package/area_{number % 4}/module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def work_{number}(compute):\n{module(number)}")
    for folder in ("package", *(f"package/area_{number}" for number in range(4))):
        (root / folder / "__init__.py").touch()
    (root / "README.md").write_text("A project.\n" * 3)
    (root / "data.json").write_text(json.dumps({f"key {number}": number for number in range(900)}, indent=1))
    (root / "picture.png").write_bytes(bytes(range(256)) * 30)
    for number in range(40):
        path = root / f"vendor/other/file_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(module(number + 1000))
    (root / "scratch.txt").write_text("untracked\n")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("losses")
    with pytest.MonkeyPatch.context() as patch:
        world = isolated(folder, patch)
        world.init()
        project(world.root)
        (world.root / "scratch.txt").unlink()
        world.commit()
    (world.root / "scratch.txt").write_text("untracked\n" * 900)
    return folder


@pytest.fixture
def world(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    world = isolated(tmp_path, monkeypatch)
    shutil.copytree(base / "repository", world.root, symlinks=True)
    return world


def losses(world: World, deed: Deed) -> Losses:
    repository = Repository.discover(world.root)
    snapshots = Snapshots(repository, world.private)
    before = snapshots.take("refs/iterctl/run/task/0-base", "before")
    deed(world.root)
    after = snapshots.take("refs/iterctl/run/task/1-generate", "after")
    return losses_between(repository, before.commit, after.commit, tracked=repository.head)


def modules(root: Path) -> list[Path]:
    return sorted(root.glob("package/*/module_*.py"), key=lambda path: int(path.stem.rpartition("_")[2]))


def every(do: Callable[[Path], object]) -> Deed:
    return lambda root: [do(path) for path in modules(root)]


def rewritten(change: Callable[[str], str]) -> Deed:
    return every(lambda path: path.write_text(change(path.read_text())))


def joined_into_one(root: Path) -> None:
    (root / "package/all.py").write_text("\n".join(path.read_text() for path in modules(root)))
    for path in modules(root):
        path.unlink()


def split_into_many(root: Path) -> None:
    for path in modules(root)[:20]:
        lines = path.read_text().splitlines(keepends=True)
        folder = path.with_suffix("")
        folder.mkdir()
        for number, start in enumerate(range(0, len(lines), 10)):
            (folder / f"part_{number}.py").write_text("import base\n" + "".join(lines[start : start + 10]))
        path.unlink()


def moved_with_edits(root: Path) -> None:
    (root / "src").mkdir()
    for path in modules(root):
        text = path.read_text().replace("_1 = ", "_one = ")
        (root / "src" / path.name).write_text("from __future__ import annotations\n" + text)
        path.unlink()


def into_src(root: Path) -> None:
    (root / "src").mkdir()
    (root / "package").rename(root / "src/package")


def replaced_by_others(root: Path) -> None:
    removed(FILES)(root)
    for number in range(FILES):
        (root / f"{number}.py").write_text("x\n")


def made_folders(root: Path) -> None:
    for path in modules(root)[:30]:
        path.unlink()
        path.mkdir()


def made_links(root: Path) -> None:
    for path in modules(root)[:30]:
        path.unlink()
        path.symlink_to("/dev/null")


def empty_files_removed(root: Path) -> None:
    for path in (root / "package").rglob("__init__.py"):
        path.unlink()


def removed_and_renamed(root: Path) -> None:
    removed(30)(root)
    (root / "package").rename(root / "parcel")


def minified(root: Path) -> None:
    path = root / "data.json"
    path.write_text(json.dumps(json.loads(path.read_text())))


def everything_removed(root: Path) -> None:
    for path in root.iterdir():
        if path.is_file():
            path.unlink()
        elif path.name != ".git":
            shutil.rmtree(path)


def removed(count: int) -> Deed:
    def do(root: Path) -> None:
        for path in modules(root)[:count]:
            path.unlink()

    return do


def emptied(count: int, rest: str = "") -> Deed:
    return lambda root: [path.write_text(rest) for path in modules(root)[:count]]


HONEST: dict[str, Deed] = {
    "nothing": lambda root: None,
    "adds a file": lambda root: (root / "new.py").write_text("x\n"),
    "deletes a dead module": removed(1),
    "deletes ten modules": removed(10),
    "deletes a dead area": lambda root: shutil.rmtree(root / "package/area_1"),
    "renames a package": lambda root: (root / "package").rename(root / "parcel"),
    "moves everything into src": into_src,
    "moves and edits everything": moved_with_edits,
    "joins all modules": joined_into_one,
    "splits many modules": split_into_many,
    "changes every indentation": rewritten(lambda text: text.replace("    ", "\t")),
    "reformats every file": rewritten(lambda text: text.replace(" = compute(", " = compute(\n        ")),
    "joins lines everywhere": rewritten(lambda text: text.replace("\n    ", "; ")),
    "sorts all lines": rewritten(lambda text: "".join(sorted(text.splitlines(keepends=True)))),
    "changes line ends": rewritten(lambda text: text.replace("\n", "\r\n")),
    "rewrites every line": rewritten(lambda text: text.replace("compute", "reckon").replace("value", "worth")),
    "shortens names": rewritten(lambda text: text.replace("    value_1_", "    ")),
    "minifies its data": minified,
    "removes half of a file": lambda root: modules(root)[0].write_text(module(0, 5)),
    "removes a vendored copy": lambda root: shutil.rmtree(root / "vendor"),
    "renews a vendored copy": lambda root: [path.write_text("new\n") for path in (root / "vendor").rglob("*.py")],
    "removes empty files": empty_files_removed,
    "removes its scratch files": lambda root: (root / "scratch.txt").unlink(),
    "replaces a picture": lambda root: (root / "picture.png").write_bytes(b"\x89PNG\0" * 10),
    "makes files programs": every(lambda path: path.chmod(0o755)),
    "shortens many files a little": rewritten(lambda text: "".join(text.splitlines(keepends=True)[:30])),
    "wraps its text": lambda root: (root / "README.md").write_text(textwrap.fill("A project. " * 50)),
}

DESTRUCTIVE: dict[str, Deed] = {
    "removes everything": everything_removed,
    "removes the package": lambda root: shutil.rmtree(root / "package"),
    "removes a third": removed(20),
    "empties a third": emptied(20),
    "leaves a word in each": emptied(20, "pass\n"),
    "leaves blanks in each": emptied(20, "\n" * 3),
    "replaces files by others": replaced_by_others,
    "guts most files": rewritten(lambda text: "".join(text.splitlines(keepends=True)[:4])),
    "makes folders of files": made_folders,
    "makes links of files": made_links,
    "removes and renames": removed_and_renamed,
}


@pytest.mark.parametrize("deed", HONEST)
def test_an_honest_change_is_not_destructive(world: World, deed: str) -> None:
    found = losses(world, HONEST[deed])
    assert not verdict_on(found).destructive, verdict_on(found).reason


@pytest.mark.parametrize("deed", DESTRUCTIVE)
def test_a_destructive_change_is_seen(world: World, deed: str) -> None:
    found = losses(world, DESTRUCTIVE[deed])
    assert verdict_on(found).destructive
    assert not verdict_on(found, allowed=True).destructive


def test_the_facts_are_exact(world: World) -> None:
    found = losses(world, removed(12))
    assert found.files == FILES + 5 + 3 + 1  # modules, packages, others, and the vendored copy as one
    assert found.lines == FILES * 41 + 3 + 902
    assert [each.path for each in found.losses if each.gone] == sorted(
        f"package/area_{number % 4}/module_{number}.py" for number in range(12)
    )
    assert sum(each.lost for each in found.losses) == 12 * 41


def test_a_copy_that_is_left_keeps_a_file_from_being_gone(world: World) -> None:
    for number, path in enumerate(modules(world.root)[:30]):
        shutil.copy(path, world.root / f"copy_{number}.py")
    world.commit()
    assert losses(world, removed(30)).losses == ()


def test_an_unborn_branch_counts_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = isolated(tmp_path, monkeypatch)
    world.init()
    project(world.root)
    assert verdict_on(losses(world, removed(60))).destructive


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
def test_moving_files_around_is_never_destructive(
    base: Path, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)

    def shuffle(root: Path) -> None:
        for number, path in enumerate(chance.sample(modules(root), chance.randrange(FILES))):
            folder = root / "".join(chance.choices("abc/", k=6)).strip("/")
            folder.mkdir(parents=True, exist_ok=True)
            path.rename(folder / f"{number}-{path.name}")
            if chance.random() < 0.5:
                with (folder / f"{number}-{path.name}").open("a") as stream:
                    stream.write("import more\n" * chance.randrange(5))

    with pytest.MonkeyPatch.context() as patch:
        world = isolated(tmp_path_factory.mktemp("moved"), patch)
        shutil.copytree(base / "repository", world.root, symlinks=True)
        found = losses(world, shuffle)
    assert not any(each.gone for each in found.losses)
    assert not verdict_on(found).destructive
