"""Code that is taken out of the count of coverage: shown where it is new, and asked about where it is old."""

from __future__ import annotations

import pytest

from pytest_iterctl.gate.audit import audit
from pytest_iterctl.loop.record import ASK

BASE = "def f(a):\n    if a:\n        return 1\n    return 2\n\n\ndef g():\n    return 3\n"
NEW, OLD = "excludes-coverage", "excludes-old-code"


def rules(after: str, before: str = BASE) -> list[tuple[int, str]]:
    found = audit({"a.py": before.encode()}, {"a.py": after.encode()}, is_protected=lambda _: False)
    assert not any(each.certain for each in found)
    return [(each.line, each.rule) for each in found]


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (BASE.replace("def f(a):", "def f(a):  # pragma: no cover"), [(1, OLD)]),
        (BASE.replace("    if a:", "    if a:  # pragma:no cover - never"), [(2, OLD)]),
        (BASE.replace("return 3", "return 3  # PRAGMA: NO COVER"), [(8, OLD)]),
        (BASE.replace("    if a:", "    if a:  # pragma: no branch"), [(2, OLD)]),
        (BASE.replace("return 3", "return 4  # pragma: no cover"), [(8, NEW)]),
        (BASE + "\n\ndef h():  # pragma: no cover\n    return 4\n", [(11, NEW)]),
        (BASE.replace("def g", "X = 1  # pragma: no cover\n\n\ndef g"), [(7, NEW)]),
        (BASE.replace("return 3", "return '# pragma: no cover'"), []),
        (BASE.replace("return 3", "return 3  # no pragma, and no cover"), []),
        (BASE.replace("return 3", "return 3  # covered"), []),
    ],
)
def test_comments_that_exclude_code_are_found(after: str, found: list[tuple[int, str]]) -> None:
    assert rules(after) == found


PRAGMA = "  # pragma: no cover\n    g()\n"


@pytest.mark.parametrize(
    "guard",
    [
        "if __name__ == '__main__':",
        "if sys.version_info < (3, 9):",
        "if sys.version_info[:2] >= (3, 14):",
        "if not sys.version_info >= (3, 9):",
        "if sys.version_info[1] == 8:",
        "if sys.version_info.minor > 12:",
        "if sys.platform == 'win32':",
        "if sys.platform.startswith('win'):",
        "if sys.platform in ('win32', 'cygwin'):",
        "if os.name == 'nt' and sys.platform != 'darwin':",
        "if platform.system() == 'Windows':",
        "WINDOWS = sys.platform == 'win32'\n\n\nif WINDOWS:",
        "if typing.TYPE_CHECKING:",
        "try:\n    import colorama\nexcept ImportError:",
        "try:\n    from a import b\nexcept (ValueError, ModuleNotFoundError):",
    ],
)
def test_code_that_no_test_here_could_run_may_be_excluded(guard: str) -> None:
    assert rules(f"import os\nimport platform\nimport sys\nimport typing\n{BASE}\n\n{guard}{PRAGMA}") == []


@pytest.mark.parametrize(
    "guard",
    [
        "if sys.version_info:",
        "if sys.version_info >= (3,):",
        "if sys.version_info >= (2, 7) or sys.platform == 'win32':",
        "if sys.platform != 'amiga':",
        "if sys.platform == sys.platform:",
        "if sys.platform.lower() == 'win32':",
        "if os.environ.get('WINDOWS'):",
        "if __name__:",
        "if flags == 1:",
        "if sys.version_info > 3:",
        "if sys.version_info[9] > 3:",
        "WINDOWS = sys.platform == 'win32'\nWINDOWS = True\nif WINDOWS:",
        "WINDOWS = not WINDOWS\nif WINDOWS:",
        "try:\n    raise ImportError\nexcept ImportError:",
        "try:\n    import colorama\n    colorama.init()\nexcept ImportError:",
        "try:\n    import colorama\nexcept Exception:",
    ],
)
def test_what_only_looks_like_a_guard_is_found(guard: str) -> None:
    assert [rule for _, rule in rules(f"import os\nimport sys\n{BASE}\n\n{guard}{PRAGMA}")] == [NEW]


def test_comments_that_were_there_are_nothing_new() -> None:
    before = BASE.replace("return 3", "return 3  # pragma: no cover")
    assert rules(before.replace("return 1", "return 5"), before) == []
    assert rules("# moved\n" + before, before) == []
    assert rules("class A:\n    " + before.replace("\n", "\n    "), before) == []


def test_only_what_changes_nothing_else_is_asked_about() -> None:
    assert OLD in ASK
    assert NEW not in ASK
