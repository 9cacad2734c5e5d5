"""When a task has ended: what the work tree holds then, and the commit that was asked for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from pytest_iterctl.control.events import Settled, Warned
from pytest_iterctl.control.standing import best_attempt
from pytest_iterctl.control.state import TaskState
from pytest_iterctl.errors import IterctlError, RepositoryError
from pytest_iterctl.loop.base import Bases
from pytest_iterctl.loop.change import GONE, sorted_change
from pytest_iterctl.loop.history import History
from pytest_iterctl.loop.workspace import Workspace
from pytest_iterctl.text import file_name, one_line
from pytest_iterctl.work.commit import commit_change
from pytest_iterctl.work.offer import offer_change
from pytest_iterctl.work.placing import put_back, put_where_plain, take_away
from pytest_iterctl.work.pytest_run import forget_all_bytecode, forget_bytecode
from pytest_iterctl.work.snapshots import Snapshot, Snapshots
from pytest_iterctl.work.untracked import names_of
from pytest_iterctl.work.vault import Kept, Manifest

__all__ = ["keep_left_out", "put_back_protected", "settle"]


def settle(workspace: Workspace, history: History, bases: Bases, task: TaskState) -> None:
    snapshots = bases.snapshots
    if task.status == "proceed":
        history.record(_accepted(workspace, history, bases, task))
    elif task.iterations == 0 and not any(attempt.turns for attempt in task.attempts):
        history.record(Settled(task=task.id, holds="untouched", iteration=0, commit=task.latest))
    else:
        history.record(_escalated(workspace, history, snapshots, task))


def _accepted(workspace: Workspace, history: History, bases: Bases, task: TaskState) -> Settled:
    snapshots = bases.snapshots
    result = _as_judged(workspace, history, bases, task)
    left_out = ""
    if result.tree != (task.latest_tree or snapshots.tree_of(task.latest)):
        left_out = keep_left_out(workspace, history, snapshots, task.id, "", result.commit, task.latest)
    started = history.state.started
    message = started.plan.commit_message if started is not None else None
    committed = branch = patch = problem = ""
    text = message or _default_message(task)
    written = bases.load(task).written if task.proof is not None else frozenset()
    try:
        if started is not None and started.plan.own_tree:
            patch = _patch(workspace, history, snapshots, task, result.commit, written)
            branch, committed = _branch(history, snapshots, task, result.commit, text, written)
        elif message is not None:
            committed = commit_change(workspace.repository, snapshots, task.base, result.commit, text, without=written)
    except RepositoryError as error:
        problem = f"{error.message}; {error.hint}" if error.hint else error.message
    return Settled(
        task=task.id,
        holds="accepted",
        iteration=task.attempts[-1].iteration,
        commit=result.commit,
        committed=committed,
        branch=branch,
        patch=patch,
        problem=problem,
        left_out=left_out,
    )


def _branch(
    history: History, snapshots: Snapshots, task: TaskState, final: str, message: str, without: frozenset[bytes]
) -> tuple[str, str]:
    """Each accepted task's branch starts where that of the one before ends: it builds on that."""
    earlier = [
        each.settled.committed for each in history.state.tasks if each.settled is not None and each.settled.branch
    ]
    head = history.state.started.head if history.state.started is not None else ""
    # Where a branch of the user's is called `iterctl`, git can make none below that.
    names = tuple(f"{start}{task.id}{end}" for start in ("iterctl/", "iterctl-") for end in ("", f"-{history.run}"))
    return offer_change(
        *(snapshots.repository, task.base, final, message),
        names=names,
        onto=earlier[-1] if earlier else head,
        without=without,
    )


def _patch(
    workspace: Workspace, history: History, snapshots: Snapshots, task: TaskState, final: str, without: frozenset[bytes]
) -> str:
    """The change on top of what the task began with, where the work tree itself does not get it; where that is.

    '' where there is none: git takes an empty patch for a broken one.
    """
    stem = "change" if len(history.state.tasks) == 1 else f"{task.id}-change"
    try:
        path = workspace.place.report_directory(history.run) / f"{stem}.patch"
        snapshots.write_patch(task.base, final, path, without=tuple(map(os.fsdecode, without)))
        if path.stat().st_size == 0:
            path.unlink()
            return ""
        return os.path.relpath(path, workspace.root)
    except (IterctlError, OSError) as error:
        history.record(Warned(text=f"the change is not kept as a patch: {error}"))
        return ""


def _as_judged(workspace: Workspace, history: History, bases: Bases, task: TaskState) -> Snapshot:
    """Make the work tree exactly what was judged: the base, and over it the accepted files and nothing else.

    Harmless to repeat: whatever a killed driver left half done is finished by the next one.
    """
    attempt = task.attempts[-1]
    ref = f"refs/iterctl/{history.run}/{task.id}/{attempt.iteration}-accepted"
    message = f"iterctl {history.run} {task.id} accepted"
    if attempt.iteration == 0 or attempt.gate is None:
        return bases.snapshots.take(ref, message)  # nobody has changed anything
    folder = bases.folder(task.id)
    judged = Manifest.read(folder / f"judged-{attempt.iteration}.jsonl", attempt.gate.judged)
    base = bases.load(task)
    current = bases.snapshots.take(f"{ref}-before", message)
    changed, gone = bases.vault.changed(bases.root, base.manifest, base.stamps)
    told = [name for name in bases.snapshots.names(current.commit) if name not in base.manifest.files]
    since = _edited_since(bases.snapshots, task, current)
    agents = {os.fsencode(each.path) for each in attempt.gate.left_out}
    wanted = {
        name: judged.files.get(name, base.manifest.files.get(name, GONE))
        for name in dict.fromkeys((*judged.files, *changed, *gone, *told))
        if name not in base.written
        # What somebody else has changed since the tests ran is theirs, unless it is in the place of what was judged.
        and (name in judged.files or name in agents or name not in since)
    }
    present = bases.vault.keep(bases.root, wanted).files
    differing = {name: kept for name, kept in wanted.items() if present.get(name, GONE) != kept}
    _tell_edited(history, task, since, frozenset(differing), current)
    if differing:
        forget_bytecode(bases.root, tuple(differing))
        _put(bases, differing)
    _take_planted(workspace, history, bases, task)
    forget_all_bytecode(bases.root, (*base.manifest.files, *judged.files))
    protection = bases.protection(task, base, ())
    new = (name for name in judged.files if name not in base.manifest.files)
    bases.note_added_tests(name for name in new if protection.is_new_test(os.fsdecode(name)))
    accepted = bases.snapshots.take(ref, message)
    _write_reports(history, bases, task, judged)  # after it, since they are no part of what was accepted
    return accepted


def _edited_since(snapshots: Snapshots, task: TaskState, current: Snapshot) -> frozenset[bytes]:
    """What has changed since the last snapshot of the task, by a person or by whoever reviewed."""
    if not task.latest_tree or current.tree == task.latest_tree:
        return frozenset()
    return frozenset(snapshots.changed_names(task.latest, current.commit))


def _tell_edited(
    history: History, task: TaskState, since: frozenset[bytes], replaced: frozenset[bytes], current: Snapshot
) -> None:
    """Somebody's edits, said before anything is put over them: which stay, which do not, and where those are then."""
    told = []
    if stayed := since - replaced:
        told.append(f"{names_of(stayed)} stayed as edited")
    if gone := since & replaced:
        told.append(f"{names_of(gone)} {_put_back_from(gone, current)}")
    if told:
        text = f"the work tree of {task.id} was edited after its tests had run: {'; '.join(told)}"
        history.record(Warned(text=text))


def _put_back_from(names: frozenset[bytes], kept: Snapshot) -> str:
    first = shlex.quote(file_name(min(names)))
    return f"put back; as edited: git restore --source={kept.commit[:12]} -- {first}{' …' if len(names) > 1 else ''}"


def put_back_protected(workspace: Workspace, history: History, bases: Bases, task: TaskState) -> None:
    """Undo what the agent did to protected files; its snapshot has it all."""
    undone = sorted_change(bases, bases.load(task), task).undone
    forget_bytecode(bases.root, tuple(undone))
    _put(bases, undone)
    _take_planted(workspace, history, bases, task)


def _put(bases: Bases, wanted: Mapping[bytes, Kept]) -> None:
    for name, kept in wanted.items():
        if kept == GONE:
            take_away(bases.root, name)
    for name, kept in wanted.items():
        if kept != GONE:
            put_back(bases.vault, bases.root, name, kept)


def _take_planted(workspace: Workspace, history: History, bases: Bases, task: TaskState) -> None:
    """Out of the work tree, said by name, and kept where people look: no patch holds what git does not see."""
    for name in bases.planted(task.id):
        kept = bases.vault.keep(bases.root, [name]).files.get(name)
        if kept is None:
            continue
        try:
            place = workspace.place.report_directory(history.run)
            put_back(bases.vault, place, b"planted/" + name, kept)
        except (IterctlError, OSError):
            place = bases.folder(task.id)  # nobody else writes there
            put_back(bases.vault, place, b"planted/" + name, kept)
        take_away(bases.root, name)
        copy = os.fsencode(os.path.relpath(place, workspace.root)) + b"/planted/" + name
        text = f"{file_name(name)} is hidden from git and was not there before {task.id} began, so it was taken away"
        history.record(Warned(text=f"{text}; as it was it is kept as {file_name(copy)}"))


def _write_reports(history: History, bases: Bases, task: TaskState, judged: Manifest) -> None:
    """The user's own reports, as the verdict run wrote them; one that can't be written is no reason to stop."""
    attempt, base = task.attempts[-1], bases.load(task)
    if attempt.gate is None or not attempt.gate.reports:
        return
    found = Manifest.read(bases.folder(task.id) / f"reports-{attempt.iteration}.jsonl", attempt.gate.reports)
    asked = tuple(os.fsencode(each) for each in base.reports)
    elsewhere: list[bytes] = []
    for name, kept in found.files.items():
        # What the base's own run was not asked for, or what is part of the source, is no report.
        is_asked = any(name == each or name.startswith(each + b"/") for each in asked)
        is_source = name in judged.files or (name in base.manifest.files and name not in base.written)
        if is_asked and not is_source:
            try:
                if not put_where_plain(bases.vault, bases.root, name, kept):
                    elsewhere.append(name)
            except IterctlError as error:
                history.record(Warned(text=f"a report of the verdict run was not written: {error.message}"))
    if elsewhere:
        # A link of the user's leads where they want their reports; what lies there is from the work tree's own run.
        text = f"reports behind links are those of the work tree's own run: {names_of(elsewhere)}"
        history.record(Warned(text=text))


def keep_left_out(
    workspace: Workspace, history: History, snapshots: Snapshots, task: str, which: str, without: str, with_it: str
) -> str:
    """What the agent changed and what was not accepted, as a patch on top of the tree without it; where that is."""
    try:
        stem = "left-out" if len(history.state.tasks) == 1 else f"{task}-left-out"
        path = workspace.place.report_directory(history.run) / f"{stem}{which}.patch"
        snapshots.write_patch(without, with_it, path)
        return os.path.relpath(path, workspace.root)
    except (IterctlError, OSError) as error:
        history.record(Warned(text=f"what was left out is not kept as a patch: {error}"))
        return ""


def _default_message(task: TaskState) -> str:
    return one_line(f"{task.id}: {task.task.prompt.strip() or 'make the tests pass'}", 72)


def _escalated(workspace: Workspace, history: History, snapshots: Snapshots, task: TaskState) -> Settled:
    holds = task.settings.on_escalate
    iteration, commit = task.attempts[-1].iteration, ""
    if holds == "base":
        iteration, commit = max(task.floor_iteration - 1, 0), task.floor
    elif holds == "best" and (best := best_attempt(task)) is not None:
        iteration, commit = best.iteration, best.latest_snapshot or task.floor
    ref = f"refs/iterctl/{history.run}/{task.id}/{task.attempts[-1].iteration}-end"
    current = snapshots.take(ref, f"iterctl {history.run} {task.id} at the end")
    if commit and snapshots.tree_of(commit) != current.tree:
        names = frozenset(snapshots.changed_names(current.commit, commit))
        if edited := _edited_since(snapshots, task, current) & names:
            text = f"the work tree of {task.id} was edited after the last iteration: {names_of(edited)}"
            history.record(Warned(text=f"{text} {_put_back_from(edited, current)}"))
        forget_bytecode(workspace.root, tuple(names))
        snapshots.restore(commit)
    started = history.state.started
    patch = ""
    if started is not None and started.plan.own_tree:
        patch = _patch(workspace, history, snapshots, task, commit or current.commit, frozenset())
    return Settled(task=task.id, holds=holds, iteration=iteration, commit=commit or current.commit, patch=patch)
