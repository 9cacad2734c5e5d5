"""Runs inside a sandbox and tries to get out, so that the driver knows whether the walls stand on this machine.

`python -I -S sandbox_probe.py` gets its orders as JSON on standard input and prints as JSON what became of each way
out: the error that it ended with, or "" when it led out. The tries do no harm where they succeed. Standard library
only. The tests try many more ways; these are one of each kind, so that a wall that is missing shows.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import socket
import sys
from collections.abc import Callable, Iterator
from typing import TypedDict

__all__ = ["WAYS", "Orders"]

_CLONE_NEWUSER = 0x10000000
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION, _SESSION_KEYRING = 0, -3
_NOWHERE = "192.0.2.1"  # an address for documentation, at which nobody answers
_PATIENCE = 2.0
_STANDARD_STREAMS = 3


class Orders(TypedDict):
    """What the probe must know of the outside; identities are pairs of device and inode."""

    work_tree: str
    secret: str
    socket: str
    abstract: str
    port: int
    namespaces: dict[str, str]
    private: dict[str, tuple[int, int]]
    fresh: str


def _open(path: str, flags: int) -> None:
    os.close(os.open(path, flags, 0o600))


def write_system(orders: Orders) -> None:
    path = f"/etc/{orders['fresh']}"
    _open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.unlink(path)  # noqa: PTH108 - pathlib is slow to import


def read_secret(orders: Orders) -> None:
    _open(orders["secret"], os.O_RDONLY)


def change_git_configuration(orders: Orders) -> None:
    _open(f"{orders['work_tree']}/.git/config", os.O_WRONLY | os.O_APPEND)


def plant_git_hook(orders: Orders) -> None:
    _open(f"{orders['work_tree']}/.git/hooks/{orders['fresh']}", os.O_WRONLY | os.O_CREAT)


def replace_git_folder(orders: Orders) -> None:
    path = f"{orders['work_tree']}/.git"
    os.rename(path, path + "-moved")  # noqa: PTH104 - pathlib is slow to import
    os.rename(path + "-moved", path)  # noqa: PTH104 - pathlib is slow to import


def connect_to_loopback(orders: Orders) -> None:
    socket.create_connection(("127.0.0.1", orders["port"]), _PATIENCE).close()


def connect_outside(_orders: Orders) -> None:
    try:
        socket.create_connection((_NOWHERE, 9), _PATIENCE).close()
    except TimeoutError:
        return  # it was sent: there is a route


def send_datagram(_orders: Orders) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"", (_NOWHERE, 9))


def _connect_unix(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(address)


def connect_to_abstract_socket(orders: Orders) -> None:
    _connect_unix("\0" + orders["abstract"])


def connect_to_socket_file(orders: Orders) -> None:
    _connect_unix(orders["socket"])


def open_hypervisor_socket(_orders: Orders) -> None:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()


def open_packet_socket(_orders: Orders) -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()


def open_raw_socket(_orders: Orders) -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()


def make_user_namespace(_orders: Orders) -> None:
    _call("unshare", _CLONE_NEWUSER)


def mount(_orders: Orders) -> None:
    """There is no such file system: whoever may mount is told so, and nothing is mounted."""
    try:
        _call("mount", b"none", b"/", b"iterctl-none", 0, None)
    except PermissionError:
        raise
    except OSError:
        return


def read_keyring(_orders: Orders) -> None:
    _call("syscall", _KEYCTL[platform.machine()], _JOIN_SESSION, _SESSION_KEYRING, 0, 0, 0)


def change_kernel_setting(_orders: Orders) -> None:
    _open("/proc/sys/kernel/core_pattern", os.O_WRONLY)


def share_namespace(orders: Orders) -> None:
    shared = [kind for kind, name in orders["namespaces"].items() if os.readlink(f"/proc/self/ns/{kind}") == name]  # noqa: PTH115
    if not shared:
        raise PermissionError(errno.EPERM, "all are its own")


def see_private_folder(orders: Orders) -> None:
    for path, identity in orders["private"].items():
        state = os.stat(path)  # noqa: PTH116 - pathlib is slow to import
        if (state.st_dev, state.st_ino) == tuple(identity):
            return
    raise PermissionError(errno.EPERM, "all are its own")


def keep_capability(_orders: Orders) -> None:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - see above
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    if not any(int(lines[name], 16) for name in names) and lines["NoNewPrivs"].strip() == "1":
        raise PermissionError(errno.EPERM, "there are none")


def inherit_descriptor(_orders: Orders) -> None:
    for number in range(_STANDARD_STREAMS, 256):
        try:
            os.fstat(number)
        except OSError:
            continue
        return
    raise PermissionError(errno.EPERM, "there are none")


def _call(name: str, *arguments: int | bytes | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc[name](*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


#: What each way is called when it is told to a person.
WAYS: dict[str, Callable[[Orders], None]] = {
    "write in /etc": write_system,
    "read the driver's state": read_secret,
    "change git's configuration": change_git_configuration,
    "plant a git hook": plant_git_hook,
    "replace the .git folder": replace_git_folder,
    "connect to a service of this machine": connect_to_loopback,
    "connect to an outside address": connect_outside,
    "send a datagram": send_datagram,
    "connect to an abstract socket": connect_to_abstract_socket,
    "connect to a socket in the file system": connect_to_socket_file,
    "open a socket to the hypervisor": open_hypervisor_socket,
    "open a packet socket": open_packet_socket,
    "open a raw socket": open_raw_socket,
    "make a user namespace": make_user_namespace,
    "mount something": mount,
    "use the keyring": read_keyring,
    "change a kernel setting": change_kernel_setting,
    "share a namespace": share_namespace,
    "see a home or temporary folder": see_private_folder,
    "keep a capability": keep_capability,
    "inherit a file descriptor": inherit_descriptor,
}


def tried(orders: Orders) -> Iterator[tuple[str, str]]:
    for name, way in WAYS.items():
        try:
            way(orders)
        except OSError as error:
            yield name, error.strerror or str(error) or "refused"
        else:
            yield name, ""


def main() -> None:
    orders: Orders = json.loads(sys.stdin.buffer.read())
    path = f"{orders['work_tree']}/{orders['fresh']}"
    with open(path, "x", encoding="ascii") as file:  # noqa: PTH123 - pathlib is slow to import
        file.write("written inside")
    print(json.dumps(dict(tried(orders))))


if __name__ == "__main__":
    main()
