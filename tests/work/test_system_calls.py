from __future__ import annotations

import errno
import os
import struct

import pytest

from pytest_iterctl.work.system_calls import MACHINES, filter_program

ALLOWED = 0x7FFF0000
ERROR = 0x00050000


def decision(machine: str, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the kernel would make of this call: 0 when it is let through, else the error; a machine of eight lines."""
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=iIQ6Q", number, MACHINES[machine].audit if audit is None else audit, 0, *values)
    program = list(struct.iter_unpack("=HBBI", filter_program(machine)))
    position, register = 0, 0
    while True:
        operation, when_true, when_false, constant = program[position]
        position += 1
        match operation:
            case 0x20:
                register = struct.unpack_from("=I", data, constant)[0]
            case 0x54:
                register &= constant
            case 0x15:
                position += when_true if register == constant else when_false
            case 0x35:
                position += when_true if register >= constant else when_false
            case 0x06:
                assert constant == ALLOWED or constant & 0xFFFF0000 == ERROR
                return 0 if constant == ALLOWED else constant & 0xFFFF
            case _:
                pytest.fail(f"unknown operation {operation:#x}")


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def call(machine: str, name: str, *arguments: int) -> int:
    return decision(machine, MACHINES[machine].numbers[name], *arguments)


@pytest.mark.parametrize("name", ["keyctl", "mount", "bpf", "setns", "io_uring_enter", "kexec_load", "open_tree"])
def test_what_nobody_needs_is_refused(machine: str, name: str) -> None:
    assert call(machine, name) == errno.EPERM


@pytest.mark.parametrize("name", ["clone3", "openat2", "fchmodat2", "io_uring_setup"])
def test_what_has_an_older_form_seems_not_to_exist(machine: str, name: str) -> None:
    assert call(machine, name) == errno.ENOSYS


@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
def test_no_namespace_is_made(machine: str, flag: int) -> None:
    assert call(machine, "clone", flag | 17) == errno.EPERM
    assert call(machine, "unshare", flag) == errno.EPERM


def test_processes_and_threads_are_made(machine: str) -> None:
    assert call(machine, "clone", 17) == 0
    assert call(machine, "clone", 0x3D0F00) == 0  # what pthread_create asks for
    assert call(machine, "unshare", 0x400) == 0  # CLONE_FILES
    assert call(machine, "unshare", 0x80) == errno.EPERM  # CLONE_NEWTIME, which is a signal's number to clone


@pytest.mark.parametrize("family", range(64))
def test_only_four_families_of_sockets_are_open(machine: str, family: int) -> None:
    assert (call(machine, "socket", family, 1, 0) == 0) == (family in {1, 2, 10, 16})
    assert (call(machine, "socketpair", family, 1, 0) == 0) == (family == 1)


def test_the_upper_half_of_a_family_does_not_deceive(machine: str) -> None:
    assert call(machine, "socket", (1 << 32) | 40) == errno.EAFNOSUPPORT


def test_netlink_tells_of_addresses_and_nothing_else(machine: str) -> None:
    assert call(machine, "socket", 16, 3, 0) == 0
    assert all(call(machine, "socket", 16, 3, protocol) == errno.EPROTONOSUPPORT for protocol in range(1, 32))


def test_nobody_types_into_a_terminal(machine: str) -> None:
    for request in (0x5412, 0x541C, (1 << 32) | 0x5412):
        assert call(machine, "ioctl", 0, request) == errno.EPERM
    assert call(machine, "ioctl", 0, 0x5413) == 0  # the size of the window


def test_a_program_can_not_be_lent(machine: str) -> None:
    for mode in (0o4755, 0o2755, 0o6000):
        assert call(machine, "fchmod", 3, mode) == errno.EPERM
        assert call(machine, "fchmodat", 0, 0, mode) == errno.EPERM
        assert call(machine, "openat", 0, 0, os.O_CREAT | os.O_WRONLY, mode) == errno.EPERM
        assert call(machine, "mknodat", 0, 0, mode, 0) == errno.EPERM
        assert call(machine, "openat", 0, 0, os.O_WRONLY, mode) == 0  # nothing is made, so the mode is no mode
    assert call(machine, "fchmod", 3, 0o1777) == 0
    assert call(machine, "openat", 0, 0, os.O_CREAT, 0o755) == 0
    assert call(machine, "openat", 0, 0, os.O_DIRECTORY, 0o6000) == 0


def test_other_architectures_are_refused_as_a_whole(machine: str) -> None:
    for audit in (0x40000003, 0x40000028, 0):
        assert all(decision(machine, number, audit=audit) == errno.ENOSYS for number in range(0, 500, 7))
    assert decision("x86_64", 0x40000000 | 16) == errno.ENOSYS


def test_everything_else_is_let_through(machine: str) -> None:
    refused = set(MACHINES[machine].numbers.values())
    assert all(decision(machine, number) == 0 for number in range(600) if number not in refused)


def test_a_machine_that_is_not_known_is_an_error() -> None:
    with pytest.raises(KeyError):
        filter_program("m68k")
