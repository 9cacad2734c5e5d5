"""What is installed from the work tree is imported from the room."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probe.probed import Room, write

WHERE = """
    import os, subprocess, sys
    import calc

    def test_here():
        assert calc.__file__.startswith(os.getcwd()), calc.__file__

    def test_child(tmp_path):
        code = "import calc; print(calc.__file__)"
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(os.getcwd()), done.stdout
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The work tree that the room is a copy of; what only the work tree has is not found in the room."""
    folder = tmp_path / "work"
    write(folder, {"src/calc.py": "WORK = True\n", "extra/only_here.py": "", "src/pkg/__init__.py": ""})
    return folder


def environment(tmp_path: Path, files: dict[str, str]) -> str:
    """An interpreter's site folder of its own: a .pth file there is what an editable install leaves."""
    site = tmp_path / "env"
    write(site / "site", files)
    sitecustomize = "import site, os\nsite.addsitedir(os.path.join(os.path.dirname(__file__), 'site'))\n"
    write(site, {"sitecustomize.py": sitecustomize})
    return str(site)


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["here", "workers"])
def test_an_editable_install_by_path_leads_into_the_room(
    room: Room, tmp_path: Path, work: Path, workers: tuple[str, ...]
) -> None:
    path = environment(tmp_path, {"editable.pth": f"{work}/src\n{work}/extra\n"})
    files = {"src/calc.py": "ROOM = True\n", "src/pkg/__init__.py": "", "test_where.py": WHERE}
    probed = room(files, *workers, plugins=("xdist",), exam={"from": str(work)}, PYTHONPATH=path)
    assert probed.exit_code == 0, probed.output
    assert probed.log.counts.passed == 2
    searched = probed.log.interpreter["path"]
    assert isinstance(searched, tuple)
    assert f"{work}/extra" in searched  # the room does not have it
    assert f"{work}/src" not in searched


FINDER = """
    import sys
    from importlib.machinery import PathFinder
    from importlib.util import spec_from_file_location
    from pathlib import Path
    MAPPING = {{"calc": "{work}/src/calc", "pkg": "{work}/src/pkg"}}
    NAMESPACES = {{"ns": ["{work}/src/ns"]}}
    ROOT = "{work}"
    class _EditableFinder:
        @classmethod
        def find_spec(cls, fullname, path=None, target=None):
            for name, place in MAPPING.items():
                if fullname == name:
                    for each in (Path(place, "__init__.py"), Path(place + ".py")):
                        if each.exists():
                            return spec_from_file_location(fullname, each)
    def install():
        sys.meta_path.append(_EditableFinder)
"""


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["here", "workers"])
def test_an_editable_install_by_finder_leads_into_the_room(
    room: Room, tmp_path: Path, work: Path, workers: tuple[str, ...]
) -> None:
    path = environment(
        tmp_path,
        {
            "__editable___calc_finder.py": FINDER.format(work=work),
            "editable.pth": "import __editable___calc_finder; __editable___calc_finder.install()\n",
        },
    )
    where = f"""{WHERE}
    def test_finder():
        import __editable___calc_finder as finder
        assert finder.MAPPING["pkg"] == os.getcwd() + "/src/pkg"
        assert finder.ROOT == os.getcwd()
        assert finder.NAMESPACES["ns"] == ["{work}/src/ns"]
    """
    files = {"src/calc.py": "ROOM = True\n", "src/pkg/__init__.py": "", "test_where.py": where}
    probed = room(files, *workers, plugins=("xdist",), exam={"from": str(work)}, PYTHONPATH=path)
    assert probed.exit_code == 0, probed.output
    assert probed.log.counts.passed == 3


def test_a_path_given_by_the_environment_leads_into_the_room(room: Room, work: Path) -> None:
    files = {"src/calc.py": "ROOM = True\n", "src/pkg/__init__.py": "", "test_where.py": WHERE}
    probed = room(files, exam={"from": str(work)}, PYTHONPATH=f"{work}/src")
    assert probed.exit_code == 0, probed.output


def test_without_an_origin_nothing_is_mapped(room: Room, work: Path) -> None:
    files = {"src/calc.py": "ROOM = True\n", "test_where.py": "import calc\ndef test_a():\n    assert calc.WORK\n"}
    assert room(files, PYTHONPATH=f"{work}/src").exit_code == 0
