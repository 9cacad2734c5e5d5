"""A change of what is installed is seen; what runs leave behind, and the work tree, is no such change."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_iterctl.errors import StoreError
from pytest_iterctl.work import interpreter
from pytest_iterctl.work.interpreter import Fingerprint, difference, installed_folders, take, top_level_modules


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder of packages of an environment."""
    folder = tmp_path / "venv/lib/python3.11/site-packages"
    for name in ("shop/__init__.py", "_pytest/main.py", "shop-1.dist-info/entry_points.txt", "one.py"):
        write(folder / name)
    return folder


def write(path: Path, content: str = "x = 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_nothing_happened(site: Path) -> None:
    assert difference(take([site]), take([site])) == ()
    assert take([site]).digest() == take([site]).digest()


def test_what_was_added_changed_and_removed_is_said(site: Path) -> None:
    before = take([site])
    write(site / "painter.py")
    write(site / "shop/__init__.py", "x = 2  # other\n")
    (site / "one.py").unlink()
    assert difference(before, take([site])) == (
        "removed …/site-packages/one.py",
        "added …/site-packages/painter.py",
        "changed …/site-packages/shop/__init__.py",
    )
    assert before.digest() != take([site]).digest()


def test_a_change_with_the_old_size_and_time_is_seen(site: Path) -> None:
    one = site / "one.py"
    times = (one.stat().st_atime_ns, one.stat().st_mtime_ns)
    before = take([site])
    time.sleep(0.02)
    one.write_text("x = 2\n")
    os.utime(one, ns=times)
    assert difference(before, take([site])) == ("changed …/site-packages/one.py",)


def test_what_runs_by_itself_comes_first_and_the_rest_is_counted(site: Path) -> None:
    before = take([site])
    for name in ("a.py", "zz.pth", "sitecustomize.py", "evil-1.dist-info/entry_points.txt", "pytest/x.py", "b.py"):
        write(site / name)
    assert difference(before, take([site]), most=5) == (
        "added …/site-packages/zz.pth",
        "added …/site-packages/sitecustomize.py",
        "added …/site-packages/evil-1.dist-info/entry_points.txt",
        "added …/site-packages/pytest/x.py",
        "added …/site-packages/a.py",
        "and 1 more",
    )


def test_bytecode_that_no_room_reads_is_no_change(site: Path) -> None:
    before = take([site])
    write(site / "shop/__pycache__/__init__.cpython-311.pyc")
    write(site / "shop/old.pyo")
    assert difference(before, take([site])) == ()


def test_bytecode_without_a_source_is_a_module_like_any_other(site: Path, tmp_path: Path) -> None:
    """A bytecode folder of one's own does not keep Python from importing `painter.pyc`."""
    before = take([site])
    source = write(tmp_path / "painter.py", "print('painted')\n")
    compiled = site / "painter.pyc"
    command = "import py_compile, sys; py_compile.compile(sys.argv[1], sys.argv[2])"
    subprocess.run([sys.executable, "-c", command, str(source), str(compiled)], check=True)
    environment = {"PYTHONPATH": str(site), "PYTHONPYCACHEPREFIX": str(tmp_path / "fresh")}
    ran = subprocess.run([sys.executable, "-c", "import painter"], env=environment, capture_output=True, check=True)
    assert ran.stdout == b"painted\n"
    assert difference(before, take([site])) == ("added …/site-packages/painter.pyc",)


def test_links_are_known_by_their_target_and_not_followed(site: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/deep.py")
    (site / "linked").symlink_to(tmp_path / "elsewhere")
    before = take([site])
    assert not any(name.endswith("deep.py") for name in before.files)
    write(tmp_path / "elsewhere/more.py")
    assert difference(before, take([site])) == ()
    (site / "linked").unlink()
    (site / "linked").symlink_to("/nowhere")
    assert difference(before, take([site])) == ("changed …/site-packages/linked",)


def test_what_is_missing_may_appear_later(tmp_path: Path) -> None:
    folder, archive, settings = tmp_path / "new", tmp_path / "python311.zip", tmp_path / "pyvenv.cfg"
    before = take([folder, archive], [settings])
    assert set(before.files.values()) == {"missing"}
    write(folder / "a.py")
    write(archive)
    write(settings)
    assert difference(before, take([folder, archive], [settings])) == (
        f"added {settings}",
        f"added {folder}",
        f"added {folder}/a.py",
        f"added {archive}",
    )


def test_an_empty_folder_and_none_differ(tmp_path: Path) -> None:
    before = take([tmp_path / "later"])
    (tmp_path / "later").mkdir()
    assert difference(before, take([tmp_path / "later"])) == (f"added {tmp_path}/later",)


def test_a_folder_by_two_names_or_inside_another_is_looked_at_once(site: Path) -> None:
    lib = site.parent.parent
    lib.with_name("lib64").symlink_to("lib")
    again = lib.with_name("lib64") / "python3.11/site-packages"
    write(site.parent / "json/decoder.py")
    names = [name for name in take([site, again, site.parent, site.parent / "json"]).files if name.endswith(".py")]
    assert sorted(Path(name).name for name in names) == ["__init__.py", "decoder.py", "main.py", "one.py"]


def test_packages_below_a_standard_library_belong_to_another_environment(site: Path) -> None:
    before = take([site.parent])
    write(site / "other.py")
    write(site.parent / "json/_vendor/site-packages/kept.py")
    assert [line.rpartition("/")[2] for line in difference(before, take([site.parent]))] == ["kept.py"]


def test_an_archive_inside_a_folder_of_packages_is_still_named(site: Path) -> None:
    archive = write(site / "bundle.egg")
    assert isinstance(take([site, archive]).files[str(archive)], tuple)


def test_names_that_are_no_text_are_kept_and_shown_harmlessly(site: Path, tmp_path: Path) -> None:
    before = take([site])
    Path(os.fsdecode(os.fsencode(site) + b"/caf\xe9\x1b[2J.py")).write_text("")
    after = take([site])
    assert difference(before, after) == (r"added …/site-packages/caf\xe9\x1b[2J.py",)
    after.write(tmp_path / "kept")
    assert Fingerprint.read(tmp_path / "kept", after.digest()) == after


def test_an_unreadable_folder_is_noted(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("/shop"):
            raise PermissionError(13, "Permission denied")
        return genuine(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scandir)
        assert take([site]).files[f"{site}/shop"] == "unreadable"


def test_a_fingerprint_is_read_as_it_was_written_or_not_at_all(site: Path, tmp_path: Path) -> None:
    taken, place = take([site]), tmp_path / "fingerprint"
    taken.write(place)
    assert Fingerprint.read(place, taken.digest()) == taken
    place.write_bytes(place.read_bytes().replace(b"one.py", b"two.py"))
    with pytest.raises(StoreError, match="changed by somebody else"):
        Fingerprint.read(place, taken.digest())
    place.unlink()
    with pytest.raises(StoreError, match="is gone"):
        Fingerprint.read(place, taken.digest())


# Which folders those are ----------------------------------------------------------------------------------------------


def facts_of(prefix: Path, *path: Path | str) -> dict[str, object]:
    return {
        "prefix": str(prefix),
        "base_prefix": "/usr",
        "executable": str(prefix / "bin/python"),
        "path": [str(entry) for entry in path],
    }


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Temporary folders are not where these tests run."""
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(interpreter, "_TEMPORARY", (str(tmp_path / "scratch"),))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "scratch"))
    return tmp_path


def folders_of(*names: Path) -> None:
    for name in names:
        name.mkdir(parents=True, exist_ok=True)


def test_an_environment_inside_the_work_tree_is_no_source_of_it(elsewhere: Path) -> None:
    root = elsewhere / "root"
    prefix, site = root / ".venv", root / ".venv/lib/python3.11/site-packages"
    standard, archive = elsewhere / "python/lib", elsewhere / "python/lib/python311.zip"
    folders_of(site, prefix / "bin", root / "src", standard)
    folders, files = installed_folders(facts_of(prefix, "", root, root / "src", site, standard, archive), root)
    assert folders == (site, standard, prefix / "bin")
    assert files == (archive, prefix / "pyvenv.cfg", prefix / "bin/python")


def test_a_work_tree_inside_the_prefix_keeps_its_sources(elsewhere: Path) -> None:
    prefix = elsewhere / "usr/local"
    root, site = prefix / "src/app", prefix / "lib/python3.11/site-packages"
    folders_of(root / "src", site)
    folders, _ = installed_folders(facts_of(prefix, root / "src", root.parent, site), root)
    assert folders == (site, prefix / "bin")


def test_an_environment_at_the_root_itself(elsewhere: Path) -> None:
    root = elsewhere / "root"
    site = root / "lib/python3.11/site-packages"
    folders_of(site, root / "src")
    assert installed_folders(facts_of(root, root, root / "src", site), root)[0] == (site, root / "bin")


def test_a_linked_spelling_of_the_work_tree_is_the_work_tree(elsewhere: Path) -> None:
    root = elsewhere / "root"
    folders_of(root / "src")
    (elsewhere / "short").symlink_to(root)
    prefix = elsewhere / "venv"
    assert installed_folders(facts_of(prefix, elsewhere / "short/src"), root)[0] == (prefix / "bin",)
    assert installed_folders(facts_of(prefix, root / "src"), elsewhere / "short")[0] == (prefix / "bin",)


def test_temporary_folders_count_only_when_the_interpreter_lives_there(elsewhere: Path) -> None:
    root, made = elsewhere / "root", elsewhere / "scratch/made-by-a-test"
    prefix = elsewhere / "scratch/venv"
    site = prefix / "lib/python3.11/site-packages"
    folders_of(root, made, site)
    assert installed_folders(facts_of(prefix, made, site), root)[0] == (site, prefix / "bin")


def test_the_program_is_its_link_and_what_that_leads_to(elsewhere: Path) -> None:
    prefix = elsewhere / "venv"
    genuine = write(elsewhere / "python/bin/python3.11")
    (elsewhere / "python/bin/python3").symlink_to("python3.11")
    folders_of(prefix / "bin")
    (prefix / "bin/python").symlink_to(elsewhere / "python/bin/python3")
    assert installed_folders(facts_of(prefix), elsewhere / "root")[1][1:] == (prefix / "bin/python", genuine)


@pytest.mark.parametrize(
    "facts", [{}, {"path": None, "prefix": 3, "executable": None}, {"path": [None, 3, "", ".", "a\0b"], "prefix": "x"}]
)
def test_facts_that_are_none_name_nothing(facts: dict[str, object], tmp_path: Path) -> None:
    assert installed_folders(facts, tmp_path) == ((), ())


def test_this_very_interpreter(tmp_path: Path) -> None:
    facts = {"prefix": sys.prefix, "base_prefix": sys.base_prefix, "executable": sys.executable, "path": sys.path}
    folders, files = installed_folders(facts, tmp_path)
    taken = take(folders, files)
    assert str(Path(pytest.__file__)) in taken.files
    assert {"pytest", "_pytest", "pluggy", "yaml"} <= top_level_modules(folders)


# Names of modules -----------------------------------------------------------------------------------------------------


def test_names_of_modules_come_from_names_of_files(site: Path) -> None:
    for name in ("fast.cpython-311-x86_64-linux-gnu.so", "bare.pyc", "google/cloud/__init__.py", "texts/readme.md"):
        write(site / name)
    for name in ("__pycache__/one.pyc", "a-b.py", "distutils-precedence.pth", "share/man/x.1"):
        write(site / name)
    assert top_level_modules([site]) == {"shop", "_pytest", "one", "fast", "bare", "google"}


def test_only_folders_of_packages_are_asked_for_modules(site: Path, tmp_path: Path) -> None:
    write(tmp_path / "lib/python3.11/test/__init__.py")
    assert top_level_modules([tmp_path / "lib/python3.11", tmp_path / "missing/site-packages"]) == frozenset()


@pytest.mark.slow
def test_thirty_thousand_files_take_well_under_a_second(tmp_path: Path) -> None:
    for number in range(300):
        folder = tmp_path / f"package{number}"
        folder.mkdir()
        for inner in range(100):
            (folder / f"m{inner}.py").touch()
    started = time.perf_counter()
    taken = take([tmp_path])
    assert time.perf_counter() - started < 2  # a tenth of it, on an idle machine
    assert len(taken.files) == 30_001
