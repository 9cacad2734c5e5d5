"""Rules about code that looks where product code has no business: callers, all objects, the interpreter, test files."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.paths import is_about, is_program, names_a_test
from pytest_iterctl.gate.source import Source

__all__ = ["looks_at_callers", "touches_test_files", "watches_interpreter"]

_FRAMES = {"sys._getframe", "sys._current_frames", "inspect.stack", "inspect.currentframe", "inspect.trace"}
_FRAMES |= {"inspect.getouterframes", "sys._getframemodulename", "traceback.extract_stack", "traceback.walk_stack"}
_TEST_WORD = re.compile(r"^_?(?:py)?tests?(?:_|\b)|conftest|^unittest|^assert|^Test(?:Report|Case)$")
_OWN_LOCALS = re.compile(r"self|cls|__\w+__|__tracebackhide__")
_OBJECTS = {"gc.get_objects", "gc.get_referrers"}
_TRACERS = {"sys.settrace", "sys.setprofile", "threading.settrace", "threading.setprofile"}
_TRACERS |= {"threading.settrace_all_threads", "threading.setprofile_all_threads"}
_INSIDES = {"ctypes.pythonapi", "ctypes.memmove", "ctypes.memset", "forbiddenfruit.curse", "sys.addaudithook"}
_DEEPEST = 20  # joins in one path: nobody writes more
_OPENS = {"builtins.open", "os.open"}
_ASKS = {"exists", "is_dir", "is_file"}
_READS = {"read_text", "read_bytes", "read", "iterdir", "glob", "rglob", *_ASKS}
_WRITES = {"write_text", "write_bytes", "unlink", "rename", "replace", "touch", "rmdir", "symlink_to", "hardlink_to"}
_FILE_WRITERS = {"os.remove", "os.unlink", "os.rename", "os.replace", "os.truncate", "os.symlink", "os.link"}
_FILE_WRITERS |= {f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "move", "rmtree", "copytree")}
_LISTS = {"glob.glob", "glob.iglob", "os.listdir", "os.scandir", "os.walk", "os.stat", "os.access"}
_LISTS |= {"os.path.exists", "os.path.lexists", "os.path.isdir", "os.path.isfile"}
_BY_ARGUMENT = (_OPENS, _FILE_WRITERS, _LISTS)
#: Subjects that have to do with all folders of a project.
_PACKAGING = ("packag", "build", "install", "deploy", "release", "scaffold", "layout")
_OWN_PLACES = {"__file__", "os.getcwd()", "pathlib.Path.cwd()", "os.curdir"}


def looks_at_callers(source: Source) -> Iterator[Sign]:
    """Frames. Loggers walk them too; who compares them with a test, or takes a caller's variable, doesn't log."""
    judged: dict[ast.AST, bool] = {}  # by function: a long one isn't read again for each of its frames
    for node in source.nodes:
        if isinstance(node, ast.Name | ast.Attribute | ast.Call) and isinstance(
            getattr(node, "ctx", ast.Load()), ast.Load
        ):
            for name in _frames(source, node):
                around = source.function(node) or source.statement(node)
                if around not in judged:
                    judged[around] = _mentions_tests(source, around) or _takes_variable(source, around)
                certain = judged[around] and not source.helper
                yield Sign(node, "looks-at-callers", certain, name, f"looks at its callers with {name}.")


def _frames(source: Source, node: ast.AST) -> frozenset[str]:
    names = source.names(node)
    if not names and isinstance(node, ast.Attribute) and node.attr == "f_back":  # of a traceback, say
        return frozenset({"f_back"})
    return names & _FRAMES


def _mentions_tests(source: Source, around: ast.AST) -> bool:
    return any(
        _TEST_WORD.search(text) or "pytest" in text
        for each in ast.walk(around)
        if isinstance(each, ast.Constant) and not isinstance(source.parent(each), ast.Expr)
        for text in [each.value]
        if isinstance(text, str) and len(text) < 60  # noqa: PLR2004 - a name, not prose
    )


def _takes_variable(source: Source, around: ast.AST) -> bool:
    """`frame.f_locals["expected"]`: a variable of the caller, by its name."""
    for each in ast.walk(around):
        match each:
            case ast.Subscript(value=ast.Attribute(attr="f_locals"), slice=key, ctx=ast.Load()):
                name = source.text(key)
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="f_locals"), attr="get"), args=[key, *_]):
                name = source.text(key)
            case _:
                continue
        if name and not _OWN_LOCALS.fullmatch(name):
            return True
    return False


def watches_interpreter(source: Source) -> Iterator[Sign]:
    """Tracing, walking over all objects, reaching into the interpreter's memory."""
    judged: dict[ast.AST, bool] = {}
    for node in source.nodes:
        if not isinstance(node, ast.Name | ast.Attribute | ast.Call):
            continue
        for name in source.names(node):
            if name in _OBJECTS:
                around = source.function(node) or source.statement(node)
                if around not in judged:
                    judged[around] = _mentions_tests(source, around)
                certain = judged[around] and not source.helper
                yield Sign(node, "walks-objects", certain, name, f"searches all objects in memory with {name}.")
            elif name in _TRACERS and not _puts_back(source, node):
                own = is_about(
                    source.path, "trac", "debug", "cov", "profil", "monitor", "pdb", "bdb", "thread", "audit"
                )
                certain = not own and not source.helper
                yield Sign(node, "traces", certain, name, f"watches everything that runs with {name}.")
            elif name in _INSIDES:
                yield Sign(node, "reaches-inside", False, name, f"reaches into the interpreter with {name}.")
        if isinstance(node, ast.Call) and _from_address(source, node):
            yield Sign(node, "reaches-inside", False, "id()", "reaches into an object's memory by its address.")


def _puts_back(source: Source, node: ast.AST) -> bool:
    call = source.parent(node)
    return isinstance(call, ast.Call) and bool(call.args) and isinstance(call.args[0], ast.Constant)


def _from_address(source: Source, call: ast.Call) -> bool:
    reaches = isinstance(call.func, ast.Attribute) and call.func.attr in {"from_address", "cast"}
    return reaches and any("builtins.id()" in source.names(arg) for arg in call.args)


def touches_test_files(is_protected: Callable[[str], bool]) -> Callable[[Source], Iterator[Sign]]:
    """Product code that opens tests. Tools that lay out other projects do so below a folder that they are given."""

    def rule(source: Source) -> Iterator[Sign]:
        for node in source.nodes:
            writes = _file_call(source, node) if isinstance(node, ast.Call) else None
            if writes is None or not isinstance(node, ast.Call):
                continue
            path, anchored = _path_in(source, node)
            if path and _is_test_folder(source, path, is_protected):
                yield _looks_for_folder(source, node, path, anchored=anchored)
            elif path and (names_a_test(path) or is_protected(path)):
                certain = anchored and not source.helper and (writes or names_a_test(path))
                done = "changes" if writes else "reads"
                yield Sign(node, "touches-test-files", certain, done, f"{done} {path!r}, which belongs to the tests.")

    return rule


def _is_test_folder(source: Source, path: str, is_protected: Callable[[str], bool]) -> bool:
    """Whether the path is that of a whole folder of tests: anything in there would be protected."""
    if names_a_test(path) or "*" in path:
        return False
    around = ("", *(f"{folder}/" for folder in PurePosixPath(source.path).parents if str(folder) != "."))
    return any(is_protected(f"{folder}{path.rstrip('/')}/any") for folder in around)


def _looks_for_folder(source: Source, call: ast.Call, path: str, *, anchored: bool) -> Sign:
    """Where there are tests there is a test run: only a tool asks for that, and it asks where its user works."""
    aside = source.helper or is_program(source.path) or is_about(source.path, *_PACKAGING)
    own = any(source.names(each) & _OWN_PLACES for each in source.expressions(call))
    text = f"looks for {path!r}, the folder of the tests."
    return Sign(call, "touches-test-files", anchored and own and not aside, "looks for", text)


def _file_call(source: Source, call: ast.Call) -> bool | None:
    """True for a call that writes, False for one that reads, None for everything else."""
    names = source.names(call.func)
    if names & _OPENS or (isinstance(call.func, ast.Attribute) and call.func.attr == "open"):
        place = 0 if isinstance(call.func, ast.Attribute) and not names & _OPENS else 1
        mode = next((each.value for each in call.keywords if each.arg == "mode"), None)
        mode = mode or (call.args[place] if len(call.args) > place else None)
        return any(letter in (source.text(mode) or "") for letter in "wax+")
    if names & _FILE_WRITERS:
        return True
    if isinstance(call.func, ast.Attribute):
        if call.func.attr in _WRITES:
            text_has_it_too = call.func.attr == "replace" and len(call.args) != 1
            return True if _is_path(call.func.value) and not text_has_it_too else None
        if call.func.attr in _READS:
            return False if _is_path(call.func.value) else None
    return False if names & _LISTS else None


def _is_path(node: ast.expr) -> bool:
    """Text has `replace` too; a path is joined with `/`, called, or kept under a name."""
    return not isinstance(node, ast.Constant | ast.JoinedStr)


def _path_in(source: Source, call: ast.Call) -> tuple[str, bool]:
    """The path that a call is about, and whether it is this project's own: relative, or found from `__file__`."""
    method = isinstance(call.func, ast.Attribute) and not any(source.names(call.func) & each for each in _BY_ARGUMENT)
    owner = [call.func.value] if method and isinstance(call.func, ast.Attribute) else []
    moves = not method or (isinstance(call.func, ast.Attribute) and call.func.attr in {"rename", "replace", "glob"})
    for candidate in [*owner, *(call.args[:2] if moves else ())]:
        parts, anchored = _joined(source, candidate)
        path = "/".join(parts)
        if path and any(part.strip("./") for part in parts):
            return re.sub(r"^(?:\./|\.\./|/)+", "", path), anchored and not path.startswith("/")
    return "", False


def _joined(source: Source, node: ast.expr, depth: int = 0, through: int = 3) -> tuple[list[str], bool]:
    """The known parts of a path in order, and whether what comes before them is this project's folder."""
    text = source.text(node)
    if text is not None:
        return ([text], True) if len(text) < 500 and "\n" not in text else ([], False)  # noqa: PLR2004 - no path
    match node:
        case ast.BinOp(left=left, op=ast.Div() | ast.Add(), right=right) if depth < _DEEPEST:
            before, anchored = _joined(source, left, depth + 1, through)
            after, _ = _joined(source, right, depth + 1, 0)  # a name is followed on one side, so that it ends
            return [*before, *after], anchored
        case ast.Call(func=func, args=[first, *rest]) if source.names(func) & {"os.path.join", "pathlib.Path"}:
            before, anchored = _joined(source, first, depth + 1, through)
            return [*before, *(part for each in rest for part in _joined(source, each, depth + 1, 0)[0])], anchored
        case ast.Name() if through and (given := source.given(node)) is not None and depth < _DEEPEST:
            return _joined(source, given, depth + 1, through - 1)
        case _:
            around = (source.names(each) for each in ast.walk(node) if isinstance(each, ast.expr))
            return [], any(names & _OWN_PLACES for names in around)
