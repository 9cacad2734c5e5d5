"""Programs that come as data are shown; caches, plugins and libraries of the system are nobody's disguise."""

from __future__ import annotations

import textwrap

import pytest

from pytest_iterctl.gate.audit import audit


def rules(
    program: str, *, added: tuple[str, ...] = (), changed: tuple[str, ...] = (), before: str | None = None
) -> set[tuple[str, bool]]:
    old = {} if before is None else {"shop/core.py": textwrap.dedent(before).encode()}
    new = {"shop/core.py": textwrap.dedent(program).encode()}
    found = audit(old, new, is_protected=lambda path: path.startswith("tests/"), added=added, changed=changed)
    return {(each.rule, each.certain) for each in found if each.rule != "reaches-inside"}


ARCHIVES = {
    "appended": "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), 'locale.zip'))\n",
    "inserted": "import sys\nfrom pathlib import Path\nsys.path.insert(0, str(Path(__file__).with_name('a.whl')))\n",
    "with its folder": "import sys\nfrom pathlib import Path as P\nsys.path.append(f'{P(__file__).parent}/a.egg')\n",
    "by a name": "import sys\nHERE = 'lib/a.zip'\nsys.path += [HERE]\n",
    "in an f-string": "import sys\ndef f(folder):\n    sys.path.extend([f'{folder}/a.zip'])\n",
    "in a slice": "import sys\nsys.path[:0] = ['a.zip']\n",
    "assigned": "import sys\nsys.path = ['a.egg', *sys.path]\n",
    "as a site": "import site\nsite.addsitedir('a.zip')\n",
    "under another name": "from sys import path as p\np.append('a.' + 'zip')\n",
}


@pytest.mark.parametrize("program", ARCHIVES.values(), ids=list(ARCHIVES))
def test_an_archive_on_the_path_is_shown(program: str) -> None:
    assert rules(program) == {("runs-data", False)}
    assert rules(f"{program}x = 1\n", before=program) == set()


LOADS = {
    "a pickle": "import pickle\nfrom pathlib import Path\nR = Path(__file__).with_name('r.dat')\n"
    "def f():\n    return pickle.loads(R.read_bytes())\n",
    "an open pickle": "import pickle as p\nwith open('shop/r.dat', 'rb') as file:\n    x = p.load(file)\n",
    "a pickle by its class": "import pickle\nx = pickle.Unpickler(open('shop/r.dat', 'rb')).load()\n",
    "another pickle": "from joblib import load\nx = load('shop/r.dat')\n",
    "a resource": "import pickle, pkgutil\nx = pickle.loads(pkgutil.get_data(__name__, 'r.dat'))\n",
    "a shelf": "import shelve\nx = shelve.open('shop/r.dat')\n",
    "a pickle by a function": "import pickle\nR = 'r.dat'\ndef f(p):\n    return pickle.load(p)\nx = f(open(R))\n",
    "a library": "import ctypes\nfrom pathlib import Path\nx = ctypes.CDLL(str(Path(__file__).with_name('r.dat')))\n",
    "a library by its loader": "from ctypes import cdll\nx = cdll.LoadLibrary('./r.dat')\n",
    "a library by its name": "import ctypes\nx = ctypes.cdll['./r.dat']\n",
    "a library by cffi": "import cffi\nffi = cffi.FFI()\nx = ffi.dlopen('shop/r.dat')\n",
    "on the path": "import os, sys\nsys.path.append(os.path.join(os.path.dirname(__file__), 'r.dat'))\n",
}


@pytest.mark.parametrize("program", LOADS.values(), ids=list(LOADS))
def test_a_program_in_a_file_of_the_change_is_shown(program: str) -> None:
    assert rules(program, added=("shop/r.dat",)) == {("runs-data", False)}
    assert rules(program, changed=("shop/r.dat",)) == {("runs-data", False)}
    assert rules(program) == set()


def test_a_load_that_was_there_is_new_with_another_file() -> None:
    program = LOADS["a pickle"]
    assert rules(f"{program}x = 1\n", before=program) == set()
    assert rules(f"{program}x = 1\n", before=program, changed=("shop/r.dat",)) == {("runs-data", False)}


HONEST = {
    "a cache": """
        import pickle, tempfile
        from pathlib import Path
        CACHE = Path(tempfile.gettempdir()) / "shop" / "prices.pickle"
        def load():
            if CACHE.exists():
                return pickle.loads(CACHE.read_bytes())
            CACHE.write_bytes(pickle.dumps(worked_out()))
            return worked_out()
    """,
    "a cache beside it": """
        import pickle
        from pathlib import Path
        def load():
            with open(Path(__file__).parent / ".cache" / "prices.pickle", "rb") as file:
                return pickle.load(file)
    """,
    "a given pickle": "import pickle\ndef f(path):\n    with open(path) as file:\n        return pickle.load(file)\n",
    "a message": "import os, pickle\ndef f(pipe):\n    return pickle.loads(pipe.recv_bytes())\n",
    "a copy": "import pickle\ndef f(x):\n    return pickle.loads(pickle.dumps(x))\n",
    "libraries": """
        import ctypes, ctypes.util
        libc = ctypes.CDLL(None)
        libm = ctypes.CDLL(ctypes.util.find_library("m"))
        libz = ctypes.cdll.LoadLibrary("libz.so.1")
    """,
    "folders": """
        import os, sys
        from pathlib import Path
        sys.path.insert(0, os.path.dirname(__file__))
        sys.path.append(str(Path(__file__).parent / "vendor"))
        sys.path[:] = [each for each in sys.path if not each.endswith(".zip") or each]
    """,
    "a given entry": "import sys\ndef f(entry):\n    sys.path.insert(0, entry)\n",
    "archives": "import zipfile\ndef f():\n    return zipfile.ZipFile('a.zip').namelist()\n",
    "data of the change": "import json\nfrom pathlib import Path\nx = json.loads(Path('shop/r.json').read_text())\n",
    "data beside a message": "import pickle\nR = 'shop/r.json'\ndef f(pipe):\n    return pickle.loads(pipe.recv())\n",
    "loads of something else": "import json\ndef f(p):\n    return json.load(p), p.load('r.dat')\nx = open('r.dat')\n",
}


@pytest.mark.parametrize("program", HONEST.values(), ids=list(HONEST))
def test_what_programs_do_with_data_is_left_alone(program: str) -> None:
    assert rules(program, added=("shop/r.dat", "shop/r.json", "tests/data/prices.pickle")) == set()
