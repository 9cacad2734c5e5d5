from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_iterctl.errors import ExitCode
from pytest_iterctl.work import sandbox_check, sandbox_probe
from pytest_iterctl.work.sandbox_check import Obstacle, Surroundings, cause_of, check, look_around
from tests.work.sandboxes import require_sandbox


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "private"
    made.mkdir(mode=0o700)
    yield made
    assert list(made.iterdir()) == [], "the check left something behind"


def stand_in(tmp_path: Path, script: str, *, version: str = "bubblewrap 0.8.0") -> Path:
    """A program that passes for bubblewrap, up to the point."""
    path = tmp_path / "bwrap"
    path.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; exit; fi\n{script}\n')
    path.chmod(0o755)
    return path


# ── on this machine ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_machine_with_a_sandbox_has_no_obstacle(folder: Path) -> None:
    require_sandbox()
    assert check(folder) is None


def test_it_holds_in_a_folder_with_a_very_long_name(folder: Path) -> None:
    require_sandbox()
    deep = folder / ("x" * 200)
    deep.mkdir()
    assert check(deep) is None
    deep.rmdir()


def test_what_it_makes_on_the_machine_is_taken_away(folder: Path) -> None:
    require_sandbox()
    before = {path for place in ("/tmp", "/etc") for path in Path(place).glob("iterctl-sandbox-check-*")}
    assert check(folder) is None
    assert {path for place in ("/tmp", "/etc") for path in Path(place).glob("iterctl-sandbox-check-*")} == before


# ── something is missing or too old ──────────────────────────────────────────────────────────────────────────────────


def test_bubblewrap_is_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_check, "find_bubblewrap", lambda: None)
    found = check(folder)
    assert found is not None
    assert "was not found" in found.problem
    for line in ("apt install", "dnf install", "pacman -S", "apk add"):
        assert f"{line} bubblewrap" in found.remedy


@pytest.mark.parametrize("version", ["0.4.1", "0.6.1", "0.7"])
def test_bubblewrap_is_too_old(folder: Path, tmp_path: Path, version: str) -> None:
    found = check(folder, program=stand_in(tmp_path, "", version=f"bubblewrap {version}"))
    assert found is not None
    assert "is too old, 0.8.0 is needed" in found.problem


def test_something_else_is_called_bwrap(folder: Path, tmp_path: Path) -> None:
    found = check(folder, program=stand_in(tmp_path, "", version="hello\x1b[31m"))
    assert found is not None
    assert "doesn't answer as bubblewrap does: hello" in found.problem
    assert "\x1b" not in found.problem


def test_it_is_not_linux(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    found = check(folder)
    assert found is not None
    assert "needs Linux" in found.problem


def test_the_machine_has_no_filter(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.uname()
    other = os.uname_result((*real[:4], "riscv64"))
    monkeypatch.setattr(os, "uname", lambda: other)
    found = check(folder, program=stand_in(tmp_path, ""))
    assert found is not None
    assert "no filter of system calls for riscv64" in found.problem


def test_the_folder_can_not_be_used(tmp_path: Path) -> None:
    found = check(tmp_path / "gone", program=stand_in(tmp_path, ""))
    assert found is not None
    assert "the check could not be made" in found.problem


# ── it starts and does not hold: whatever it is, it is refused ───────────────────────────────────────────────────────

ALL_REFUSED = json.dumps(dict.fromkeys(sandbox_probe.WAYS, "refused"))


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exit 0", "can't write in its own work tree"),
        (f"echo '{ALL_REFUSED}'", "can't write in its own work tree"),
        ("exit 3", "did not start"),
        ("kill -9 $$", "it ended by exit"),
    ],
)
def test_one_that_does_nothing_is_refused(folder: Path, tmp_path: Path, script: str, problem: str) -> None:
    found = check(folder, program=stand_in(tmp_path, script))
    assert found is not None
    assert problem in found.problem


def test_one_without_any_walls_is_refused(folder: Path, tmp_path: Path) -> None:
    # The probe itself runs, outside of anything, and gets through nearly everywhere; it does no harm there.
    script = 'while [ "$1" != -- ]; do shift; done; shift; cd /; exec "$@"'
    found = check(folder, program=stand_in(tmp_path, script))
    assert found is not None
    assert "inside, a command can" in found.problem
    for way in ("read the driver's state", "change git's configuration", "connect to a service", "share a namespace"):
        assert way in found.problem


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "can't be read"),
        ("[]", "did not try every way"),
        ("{}", "did not try every way"),
        (json.dumps({**json.loads(ALL_REFUSED), "another": "refused"}), "did not try every way"),
        (json.dumps({**json.loads(ALL_REFUSED), "mount something": ""}), "inside, a command can mount something"),
        (json.dumps({**json.loads(ALL_REFUSED), "mount something": None}), "inside, a command can mount something"),
    ],
)
def test_an_answer_that_is_not_exactly_so_is_an_obstacle(answer: str, problem: str) -> None:
    found = sandbox_check._judged(answer)
    assert found is not None
    assert problem in found.problem


def test_only_the_full_list_of_refusals_is_none() -> None:
    assert sandbox_check._judged(ALL_REFUSED) is None


def test_an_obstacle_is_an_error_of_safety() -> None:
    error = Obstacle("nothing works", "mend it").error()
    assert error.exit_code is ExitCode.SAFETY
    assert error.render() == "error: there is no sandbox on this machine: nothing works\nhint: mend it"


# ── what bubblewrap says, and what it means ──────────────────────────────────────────────────────────────────────────

NEW_NAMESPACE = (
    "bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user "
    "namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'."
)
UID_MAP = "bwrap: setting up uid map: Permission denied"


@pytest.mark.parametrize(
    ("complaint", "surroundings", "problem", "remedy"),
    [
        (UID_MAP, Surroundings(apparmor_restriction="1"), "AppArmor", "apparmor_restrict_unprivileged_userns=0"),
        (UID_MAP, Surroundings(), "AppArmor", "profile"),
        (
            "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
            Surroundings(apparmor_restriction="1"),
            "AppArmor",
            "apparmor_restrict_unprivileged_userns=0",
        ),
        (NEW_NAMESPACE, Surroundings(unprivileged_clone="0"), "switched off", "kernel.unprivileged_userns_clone=1"),
        (NEW_NAMESPACE, Surroundings(container=True), "container", "seccomp=unconfined"),
        (
            NEW_NAMESPACE,
            Surroundings(container=True, unprivileged_clone="0"),
            "switched off",
            "kernel.unprivileged_userns_clone=1",
        ),
        (NEW_NAMESPACE, Surroundings(), "does not let this user make namespaces", "ask whoever runs this machine"),
        (
            "bwrap: Creating new namespace failed: No space left on device",
            Surroundings(),
            "no more user namespaces",
            "user.max_user_namespaces",
        ),
        (
            "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
            Surroundings(most_user_namespaces="0"),
            "no more user namespaces",
            "user.max_user_namespaces",
        ),
        (
            "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
            Surroundings(container=True),
            "hides parts of /proc",
            "systempaths=unconfined",
        ),
        ("bwrap: Failed to make / slave: Permission denied", Surroundings(container=True), "container", "seccomp"),
        ("bwrap: pivot_root: Operation not permitted", Surroundings(container=True), "container", "seccomp"),
        ("bwrap: Unknown option --disable-userns", Surroundings(), "too old", "newer"),
        (
            "bwrap: something new: Bad address",
            Surroundings(),
            "did not start (bwrap: something new: Bad",
            "docs/sandbox.md",
        ),
        ("", Surroundings(), "did not start (nothing)", "docs/sandbox.md"),
        ("a warning\nbwrap: \x1b[31mred\nand more", Surroundings(), "did not start (bwrap: red)", "docs/sandbox.md"),
    ],
)
def test_a_complaint_is_understood(complaint: str, surroundings: Surroundings, problem: str, remedy: str) -> None:
    found = cause_of(complaint, surroundings)
    assert problem in found.problem
    assert remedy in found.remedy


def test_the_surroundings_can_be_looked_at_anywhere() -> None:
    assert look_around().container in {True, False}


def test_a_complaint_of_the_real_program_comes_through(folder: Path, tmp_path: Path) -> None:
    found = check(folder, program=stand_in(tmp_path, f'echo "{UID_MAP}" >&2; exit 1'))
    assert found is not None
    assert UID_MAP in found.problem
