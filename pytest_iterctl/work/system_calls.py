"""Builds the filter of system calls for sandboxed commands: what namespaces and mounts don't keep away.

A new network namespace does not cover every family of sockets (vsock reaches the hypervisor from any of them), a
session's keyring is inherited, io_uring opens sockets that no filter sees, and a kernel has more doors that nobody
needs for writing code. The filter is a program for the kernel's classic BPF machine, which bubblewrap loads last. What
it refuses fails with an error number; it never ends the process, so that tools can fall back.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["MACHINES", "filter_program"]

# Offsets in the kernel's `struct seccomp_data`.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
# Operations of the machine: load a word, compare it, combine it, return.
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_X32 = 0x40000000  # the other way to call an x86_64 kernel, with numbers of its own

_SET_ID = 0o6000
_CREATE = os.O_CREAT | (getattr(os, "O_TMPFILE", 0) & ~os.O_DIRECTORY)
#: CLONE_NEWTIME (which only unshare knows), NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
_NAMESPACES = 0x7E020000
_NEW_TIME = 0x80
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16


class Condition(NamedTuple):
    """Something about one argument: that its lower half, masked, is (or is not) one of these values."""

    argument: int
    mask: int
    values: tuple[int, ...]
    holds: bool = True


class Rule(NamedTuple):
    """A call that fails with this error when all of the conditions are met; without conditions always."""

    call: str
    conditions: tuple[Condition, ...] = ()
    error: int = errno.EPERM


class Machine(NamedTuple):
    """One architecture: how the kernel calls it, and the numbers of its system calls."""

    audit: int
    numbers: dict[str, int]


def _any_of(argument: int, mask: int) -> Condition:
    return Condition(argument, mask, (0,), holds=False)


_NEVER = (
    "acct",
    "add_key",
    "bpf",
    "chroot",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "open_tree_attr",
    "perf_event_open",
    "pivot_root",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "setns",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "userfaultfd",
    "vhangup",
)

_RULES = (
    *(Rule(call) for call in _NEVER),
    # "No such call" makes callers take the older one, whose arguments a filter can see.
    *(Rule(call, error=errno.ENOSYS) for call in ("clone3", "fchmodat2", "io_uring_setup", "openat2")),
    Rule("clone", (_any_of(0, _NAMESPACES),)),
    Rule("unshare", (_any_of(0, _NAMESPACES | _NEW_TIME),)),
    # Typing into a terminal from behind.
    Rule("ioctl", (Condition(1, 0xFFFFFFFF, (_TIOCSTI, _TIOCLINUX)),)),
    # Only what stays inside: the sockets of this network namespace, and of netlink only what tells of its addresses.
    Rule("socket", (Condition(0, 0xFFFFFFFF, (_UNIX, _INET, _INET6, _NETLINK), holds=False),), errno.EAFNOSUPPORT),
    Rule("socket", (Condition(0, 0xFFFFFFFF, (_NETLINK,)), _any_of(2, 0xFFFFFFFF)), errno.EPROTONOSUPPORT),
    Rule("socketpair", (Condition(0, 0xFFFFFFFF, (_UNIX,), holds=False),), errno.EAFNOSUPPORT),
    # A program that runs as its owner would lend the owner's rights to everybody outside.
    Rule("chmod", (_any_of(1, _SET_ID),)),
    Rule("fchmod", (_any_of(1, _SET_ID),)),
    Rule("fchmodat", (_any_of(2, _SET_ID),)),
    Rule("creat", (_any_of(1, _SET_ID),)),
    Rule("mknod", (_any_of(1, _SET_ID),)),
    Rule("mknodat", (_any_of(2, _SET_ID),)),
    Rule("open", (_any_of(1, _CREATE), _any_of(2, _SET_ID))),
    Rule("openat", (_any_of(2, _CREATE), _any_of(3, _SET_ID))),
)

_SAME_EVERYWHERE = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "openat2": 437,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "fchmodat2": 452,
    "open_tree_attr": 467,
}

_X86_64 = (
    "open=2 ioctl=16 socket=41 socketpair=53 clone=56 creat=85 chmod=90 fchmod=91 syslog=103 mknod=133 vhangup=153 "
    "pivot_root=155 chroot=161 acct=163 mount=165 umount2=166 swapon=167 swapoff=168 reboot=169 iopl=172 ioperm=173 "
    "init_module=175 delete_module=176 quotactl=179 kexec_load=246 add_key=248 request_key=249 keyctl=250 openat=257 "
    "mknodat=259 fchmodat=268 unshare=272 perf_event_open=298 fanotify_init=300 open_by_handle_at=304 setns=308 "
    "finit_module=313 kexec_file_load=320 bpf=321 userfaultfd=323"
)
_AARCH64 = (
    "ioctl=29 mknodat=33 umount2=39 mount=40 pivot_root=41 chroot=51 fchmod=52 fchmodat=53 openat=56 vhangup=58 "
    "quotactl=60 acct=89 unshare=97 kexec_load=104 init_module=105 delete_module=106 syslog=116 reboot=142 socket=198 "
    "socketpair=199 add_key=217 request_key=218 keyctl=219 clone=220 swapon=224 swapoff=225 perf_event_open=241 "
    "fanotify_init=262 open_by_handle_at=265 setns=268 finit_module=273 bpf=280 userfaultfd=282 kexec_file_load=294"
)


def _numbers(text: str) -> dict[str, int]:
    own = {name: int(number) for name, _, number in (part.partition("=") for part in text.split())}
    return {**_SAME_EVERYWHERE, **own}


MACHINES = {
    "x86_64": Machine(0xC000003E, _numbers(_X86_64)),
    "aarch64": Machine(0xC00000B7, _numbers(_AARCH64)),
}


def filter_program(machine: str) -> bytes:
    """The filter for this architecture (`os.uname().machine`); KeyError for one whose numbers are not known."""
    audit, numbers = MACHINES[machine]
    refuse = _ERROR | errno.ENOSYS
    # Another architecture's calls (32-bit programs, x32) have other numbers: none of them is let through.
    program = [_load(_ARCHITECTURE), _step(_EQUAL, audit, 1, 0), _step(_RETURN, refuse), _load(_NUMBER)]
    if machine == "x86_64":
        program += [_step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, refuse)]
    for rule in _RULES:
        if rule.call in numbers:
            body = _body(rule)
            program += [_load(_NUMBER), _step(_EQUAL, numbers[rule.call], 0, len(body)), *body]
    program.append(_step(_RETURN, _ALLOW))
    return b"".join(program)


def _body(rule: Rule) -> list[bytes]:
    """The steps behind the comparison of the number; each condition that is not met jumps over the rest of them."""
    body = [_step(_RETURN, _ERROR | rule.error)]
    for condition in reversed(rule.conditions):
        body = [*_check(condition, len(body)), *body]
    return body


def _check(condition: Condition, beyond: int) -> Iterable[bytes]:
    """Fall through to what follows when the condition is met, else go on behind the next `beyond` steps."""
    values = condition.values
    yield _load(_ARGUMENTS + 8 * condition.argument)
    yield _step(_AND, condition.mask)
    for index, value in enumerate(values):
        left = len(values) - 1 - index
        if condition.holds:
            yield _step(_EQUAL, value, left, 0 if left else beyond)
        else:
            yield _step(_EQUAL, value, left + beyond, 0)


def _load(offset: int) -> bytes:
    return _step(_LOAD, offset)


def _step(operation: int, constant: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, when_true, when_false, constant)
