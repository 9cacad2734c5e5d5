"""Finds the user's repository and runs git in it without disturbing anything that is the user's.

Each call names its git directory and work tree, because an agent may have rewritten `.git`; drops every `GIT_*`
variable of the caller, because hooks and wrappers leave some behind; and overrides the settings that could run
programs, write to the user's index or hide an edit. Names and contents are bytes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_iterctl.errors import RepositoryError

__all__ = ["Answer", "Repository", "complaint_of"]

OLDEST_GIT = (2, 30)

# These say where the user's own configuration is; everything else that starts with GIT_ belongs to someone else's call.
_KEPT_VARIABLES = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})

_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",  # no refreshing of the user's index on the side
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",  # a file may be called `:(glob)*`
    "GIT_NO_REPLACE_OBJECTS": "1",  # `git replace` must not change what a snapshot holds
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}

_SETTINGS = (
    # Nothing but git itself may run.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=",  # empty: before 2.36 `false` would be the name of a program
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "protocol.allow=never",
    # Every edit must be seen, also one with an old time stamp, also where the user asked git to look away.
    "core.ignoreStat=false",
    "core.trustctime=true",
    "core.checkStat=default",
    # A private index is a plain one: no parts in the user's git directory, no folders that stand for their files.
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "core.sparseCheckout=false",
    "index.sparse=false",
    # Contents are taken as they are, submodules are left alone.
    "core.safecrlf=false",
    "submodule.recurse=false",
    "i18n.commitEncoding=UTF-8",
    # A snapshot that was reported survives a power cut.
    "core.fsync=loose-object,reference",
    "core.fsyncMethod=batch",
)
_NO_REFLOG = ("core.logAllRefUpdates=false",)

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x1f\x7f-\x9f]")
_VERSION = re.compile(rb"git version (\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Answer:
    """How a git call ended, for the callers that can live with a failure."""

    code: int
    output: bytes
    complaint: bytes


@dataclass(frozen=True, slots=True)
class Repository:
    """What was true of the repository when it was found; `head` and `branch` do not follow later commits."""

    root: Path
    git_dir: Path
    common_dir: Path
    head: str
    branch: str | None

    @classmethod
    def discover(cls, start: Path) -> Repository:
        folder = start if start.is_dir() else start.parent
        _require_git()
        _require_repository(folder)
        _require_work_tree(folder)
        root = _ask_path(folder, "--show-toplevel")
        git_dir = _ask_path(root, "--absolute-git-dir")
        common_dir = Path(os.path.realpath(root / _ask_path(root, "--git-common-dir")))
        found = cls(root, git_dir, git_dir if common_dir == git_dir.resolve() else common_dir, "", None)
        return cls(found.root, found.git_dir, found.common_dir, found.current_head(), found.current_branch())

    def describe_head(self) -> str:
        return self.head[:7] or "unborn"

    def current_head(self) -> str:
        """The commit that HEAD names now; '' while there is none."""
        answer = self.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return answer.output.decode("ascii").strip() if answer.code == 0 else ""

    def current_branch(self) -> str | None:
        answer = self.ask("symbolic-ref", "--quiet", "HEAD")
        return os.fsdecode(answer.output.removesuffix(b"\n")).removeprefix("refs/heads/") if answer.code == 0 else None

    def git(
        self,
        *arguments: str,
        index: Path | None = None,
        feed: bytes | None = None,
        settings: tuple[str, ...] = _NO_REFLOG,
        variables: Mapping[str, str] | None = None,
        work_tree: Path | None = None,
    ) -> bytes:
        """What git prints; RepositoryError with git's own words when it fails."""
        answer = self.ask(
            *arguments, index=index, feed=feed, settings=settings, variables=variables, work_tree=work_tree
        )
        if answer.code != 0:
            raise failure(arguments[0], answer)
        return answer.output

    def ask(
        self,
        *arguments: str,
        index: Path | None = None,
        feed: bytes | None = None,
        settings: tuple[str, ...] = _NO_REFLOG,
        variables: Mapping[str, str] | None = None,
        work_tree: Path | None = None,
    ) -> Answer:
        """Run git and say how it went, whatever the exit code."""
        return _run(
            self.command(*arguments, settings=settings, work_tree=work_tree),
            work_tree or self.root,
            self.environment(index=index, variables=variables),
            feed,
        )

    def command(
        self, *arguments: str, settings: tuple[str, ...] = _NO_REFLOG, work_tree: Path | None = None
    ) -> list[str]:
        overrides = [part for setting in (*_SETTINGS, *settings) for part in ("-c", setting)]
        return ["git", f"--git-dir={self.git_dir}", f"--work-tree={work_tree or self.root}", *overrides, *arguments]

    def environment(self, *, index: Path | None = None, variables: Mapping[str, str] | None = None) -> dict[str, str]:
        environment = _clean_environment()
        if self.common_dir != self.git_dir:
            # The `commondir` file of a linked work tree is within an agent's reach; this one wins over it.
            environment["GIT_COMMON_DIR"] = str(self.common_dir)
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        environment.update(variables or {})
        return environment


def failure(subcommand: str, answer: Answer) -> RepositoryError:
    words = complaint_of(answer.complaint) or f"it ended with exit code {answer.code} and no message"
    return RepositoryError(f"git {subcommand} failed: {words}")


def complaint_of(complaint: bytes) -> str:
    """The last thing git said on stderr, as one harmless line."""
    lines = [_ESCAPES.sub("", line).strip() for line in complaint.decode("utf-8", "replace").split("\n")]
    telling = [line for line in lines if line and not line.startswith("hint:")]
    return telling[-1] if telling else ""


def _clean_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT_VARIABLES}
    return kept | _VARIABLES


def _run(command: list[str], folder: Path, environment: dict[str, str], feed: bytes | None = None) -> Answer:
    # A process group of its own: Ctrl-C is for us, and must not cut a restore in half.
    given: dict[str, int | bytes] = {"stdin": subprocess.DEVNULL} if feed is None else {"input": feed}
    try:
        ended = subprocess.run(  # type: ignore[call-overload]  # `stdin` and `input` exclude each other
            command, cwd=folder, env=environment, capture_output=True, check=False, process_group=0, **given
        )
    except FileNotFoundError as error:
        if not folder.is_dir():
            raise RepositoryError(f"the folder {folder} is gone") from error
        raise _not_installed() from error
    return Answer(ended.returncode, ended.stdout, ended.stderr)


def _not_installed() -> RepositoryError:
    return RepositoryError("git was not found on the PATH", hint="install git 2.30 or newer; snapshots are git commits")


def _require_git() -> None:
    if shutil.which("git") is None:
        raise _not_installed()
    output = _run(["git", "version"], Path.cwd(), _clean_environment()).output
    version = _VERSION.search(output)
    if version is None:
        raise RepositoryError(f"`git version` answered {complaint_of(output)!r}, which names no version")
    if (int(version[1]), int(version[2])) < OLDEST_GIT:
        raise RepositoryError(
            f"git {version[1].decode()}.{version[2].decode()} is too old for exact snapshots",
            hint="install git 2.30 or newer",
        )


def _require_repository(folder: Path) -> None:
    import git  # noqa: PLC0415 - costs 50 ms, and only a run that starts needs it

    try:
        with git.Repo(folder, search_parent_directories=True, expand_vars=False):
            return
    except git.exc.NoSuchPathError as error:
        raise RepositoryError(f"the folder {folder} does not exist") from error
    except git.exc.InvalidGitRepositoryError as error:
        # GitPython listens to the caller's GIT_* variables; git itself, without them, has the last word.
        answer = _run(["git", "rev-parse", "--git-dir"], folder, _clean_environment())
        if b"not a git repository" in answer.complaint:
            raise RepositoryError(
                f"{folder} is not in a git repository",
                hint="`git init` and a first commit are enough; snapshots are kept there",
            ) from error


def _require_work_tree(folder: Path) -> None:
    """Refuse what git itself refuses, in its words, and what has no files to snapshot."""
    answer = _run(
        ["git", "rev-parse", "--is-bare-repository", "--is-inside-git-dir", "--is-inside-work-tree"],
        folder,
        _clean_environment(),
    )
    if answer.code != 0:
        raise _refused_by_git(answer)
    bare, inside_git_dir, inside_work_tree = (word == b"true" for word in answer.output.split())
    if inside_work_tree and not inside_git_dir:
        return
    if bare:
        raise RepositoryError(
            f"{folder} is a bare repository: it has no files to work on",
            hint="start in a clone or in a linked work tree of it (`git worktree add`)",
        )
    raise RepositoryError(f"{folder} is inside a git directory", hint="start in the work tree, beside `.git`")


def _refused_by_git(answer: Answer) -> RepositoryError:
    lines = [_ESCAPES.sub("", line).strip() for line in answer.complaint.decode("utf-8", "replace").split("\n")]
    advice = next((line for line in lines if "safe.directory" in line and line.startswith("git config")), "")
    if not advice:
        return failure("rev-parse", answer)
    refusal = next((line.removeprefix("fatal: ") for line in lines if line.startswith("fatal: ")), lines[0])
    return RepositoryError(f"git refuses this repository: {refusal}", hint=f"if you trust it: {advice}")


def _ask_path(folder: Path, question: str) -> Path:
    answer = _run(["git", "rev-parse", question], folder, _clean_environment())
    if answer.code != 0:
        raise failure("rev-parse", answer)
    return Path(os.fsdecode(answer.output.removesuffix(b"\n")))
