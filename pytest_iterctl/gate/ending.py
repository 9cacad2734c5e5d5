"""Rules about code that ends or replaces the process that judges it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pytest_iterctl.gate.findings import Sign
from pytest_iterctl.gate.paths import is_program
from pytest_iterctl.gate.source import Source

__all__ = ["process_ends", "stops_at_import"]

_RULE = "ends-process"
_EXECS = {f"os.exec{ending}" for ending in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")}
_KILLS = {"os.kill", "os.killpg", "signal.raise_signal", "signal.pthread_kill"}
_STOPS = {"sys.exit", "builtins.exit", "builtins.quit", "builtins.SystemExit"}
_FORKS = {"os.fork()", "os.forkpty()", "os.forkpty()[]", "pty.fork()", "pty.fork()[]"}
_CHILD = {"child", "_child", "daemon", "daemonize", "daemonise", "fork", "spawn"}


def process_ends(source: Source) -> Iterator[Sign]:
    """`os._exit`, `os.exec*`, `os.abort`, signals to oneself: whatever it takes to end before the tests can fail."""
    for node in source.nodes:
        if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript) and not _is_part(source, node):
            for name in sorted(source.names(node)):
                yield from _ended_by(source, node, name)
        elif isinstance(node, ast.ImportFrom) and node.module in {"os", "posix"} and not node.level:
            yield from (
                Sign(node, _RULE, False, f"os.{each.name}", f"imports os.{each.name}, which ends the process.")
                for each in node.names
                if each.name in {"_exit", "abort"}
            )


def _is_part(source: Source, node: ast.AST) -> bool:
    """Whether a node is only the way to a longer name (`os` in `os._exit`) or is being bound."""
    parent = source.parent(node)
    return (isinstance(parent, ast.Attribute) and parent.value is node) or isinstance(
        getattr(node, "ctx", None), ast.Store
    )


def _ended_by(source: Source, node: ast.AST, name: str) -> Iterator[Sign]:
    call = _call_of(source, node)
    if name == "os._exit":
        yield Sign(node, _RULE, _exits_green(source, node, call), name, _exit_text(source, node))
    elif name in _EXECS:
        own = _is_entry(source, node) or _in_child(source, node) or _forks(source, node)
        certain = not own and (source.function(node) is None or _is_fixed(source, call))
        yield Sign(node, _RULE, certain, "os.exec", f"calls {name}, which puts another program in the process's place.")
    elif name == "os.abort":
        yield Sign(node, _RULE, source.function(node) is None, name, "calls os.abort, which ends the process at once.")
    elif name in _KILLS and call is not None and _aims_at_itself(source, call, name):
        certain = source.function(node) is None
        yield Sign(node, _RULE, certain, name, f"sends a signal to its own process with {name}.")


def _is_fixed(source: Source, call: ast.Call | None) -> bool:
    """A program that is always the same one. Supervisors, wrappers and reloaders start what they are given."""
    if call is None:
        return True
    arguments = [each.elts if isinstance(each, ast.List | ast.Tuple) else [each] for each in call.args[:2]]
    return any(all(source.text(each) is not None for each in group) for group in arguments if group)


def _exit_text(source: Source, node: ast.AST) -> str:
    for each in source.above(node):
        if isinstance(each, ast.Call) and "atexit.register" in source.names(each.func):
            return "ends the process with os._exit when Python exits, so the tests' own exit code is lost."
    return "ends the process with os._exit, before the tests can report a failure."


def _call_of(source: Source, node: ast.AST) -> ast.Call | None:
    parent = source.parent(node)
    return parent if isinstance(parent, ast.Call) and parent.func is node else None


def _exits_green(source: Source, node: ast.AST, call: ast.Call | None) -> bool:
    """Not for a status that can only be red, and not in the child of a fork or the last line of a program."""
    status = call.args[0] if call is not None and call.args else None
    if isinstance(status, ast.Constant) and isinstance(status.value, int) and status.value % 256:
        return False
    return not (_in_child(source, node) or _is_entry(source, node))


def _in_child(source: Source, node: ast.AST) -> bool:
    """Below `if pid == 0:` or `if not pid:`, in its `else`, after `if pid: return`, or in a function called so."""
    below = node
    for each in source.above(node):
        if isinstance(each, ast.If) and _branch_of_child(source, each, below):
            return True
        if any(_parent_left(source, before) for before in _before(each, below)):
            return True
        below = each
    place = source.place(node).lower()
    return any(word in part for part in place.split(".") for word in _CHILD)


def _branch_of_child(source: Source, branch: ast.If, below: ast.AST) -> bool:
    match branch.test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            return below in branch.body and _is_fork(source, left)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return below in branch.body and _is_fork(source, operand)
        case ast.Compare(left=left, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=0)]):
            return below in branch.orelse and _is_fork(source, left)
        case test:
            return below in branch.orelse and _is_fork(source, test)


def _before(around: ast.AST, below: ast.AST) -> list[ast.stmt]:
    """The statements that ran in the same block before one was reached."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(around, name, None)
        if isinstance(block, list) and below in block:
            return block[: block.index(below)]
    return []


def _parent_left(source: Source, statement: ast.stmt) -> bool:
    """`if pid: ... return`: only the child goes on."""
    if not isinstance(statement, ast.If) or not isinstance(statement.body[-1], ast.Return | ast.Raise):
        return False
    match statement.test:
        case ast.Compare(left=left, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=0)]):
            return _is_fork(source, left)
        case test:
            return _is_fork(source, test)


def _is_fork(source: Source, node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):  # self.pid
        return any(
            _is_fork(source, each.value)
            for each in ast.walk(source.function(node) or node)
            if isinstance(each, ast.Assign) and any(_same_attribute(target, node) for target in each.targets)
        )
    return not source.names(node).isdisjoint(_FORKS)


def _same_attribute(target: ast.expr, node: ast.Attribute) -> bool:
    return isinstance(target, ast.Attribute) and ast.unparse(target) == ast.unparse(node)


def _forks(source: Source, node: ast.AST) -> bool:
    around = source.function(node)
    return around is not None and any(source.names(each) & _FORKS for each in ast.walk(around))


def _is_entry(source: Source, node: ast.AST) -> bool:
    """In a program's own entry: `main`, `if __name__ == "__main__"`, or a module that is run."""
    last = source.place(node).split(".")[-1]
    return last in {"main", "_main", "run_main"} or source.guarded(node, "__main__") or is_program(source.path)


def _aims_at_itself(source: Source, call: ast.Call, name: str) -> bool:
    if name in {"signal.raise_signal", "signal.pthread_kill"}:
        return True
    return bool(call.args) and not source.names(call.args[0]).isdisjoint(
        {"os.getpid()", "os.getpgid()", "os.getpgrp()"}
    )


def stops_at_import(source: Source) -> Iterator[Sign]:
    """`sys.exit(0)` while a module is imported. In functions, in programs and with a failing status it is honest."""
    if is_program(source.path):
        return
    for node in source.nodes:
        match node:
            case ast.Call(func=func, args=args) if not source.names(func).isdisjoint(_STOPS):
                status = args[0] if args else None
            case ast.Raise(exc=ast.Name() as exc) if "builtins.SystemExit" in source.names(exc):
                status = None
            case _:
                continue
        if source.function(node) is not None or source.guarded(node, "__main__") or _is_red(status):
            continue
        green = status is None or isinstance(status, ast.Constant)
        yield Sign(node, "stops-at-import", green, "sys.exit", "ends the program while the module is being imported.")


def _is_red(status: ast.expr | None) -> bool:
    match status:
        case ast.Constant(value=str() | bytes() | float()) | ast.JoinedStr() | ast.BinOp():
            return True
        case ast.Constant(value=int() as code):
            return code % 256 != 0
        case _:
            return False
