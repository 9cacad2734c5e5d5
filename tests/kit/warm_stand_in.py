"""Stands for a warm fork in the eyes of whoever watches over processes: see warm.py.

It lives as long as the fork, ends as it ends, and hands on the signals that it gets. Started once for each test run, so
it imports nothing that takes time.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without the names of signals, which take time to make
import _socket
import marshal
import os
import sys

path, *arguments = sys.argv[1:]
files = []
for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - pathlib takes longer than all else here
    try:
        if int(name) < 3 or os.get_inheritable(int(name)):
            files.append(int(name))
    except OSError:
        continue  # the folder itself, which is closed by now
data = marshal.dumps({"arguments": arguments, "environment": dict(os.environ), "cwd": os.getcwd(), "files": files})  # noqa: PTH109 - as above
connection = _socket.socket(_socket.AF_UNIX)
connection.connect(path)
for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT):
    _signal.signal(number, lambda given, _frame: connection.send(bytes([given])))
rights = b"".join(number.to_bytes(4, sys.byteorder) for number in files)
connection.sendmsg([len(data).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
connection.sendall(data)
answer = b""
while len(answer) < 4 and (more := connection.recv(4)):
    answer += more
code = int.from_bytes(answer, "big", signed=True) if len(answer) == 4 else -_signal.SIGKILL
if code < 0:
    if -code not in {_signal.SIGKILL, _signal.SIGSTOP}:
        _signal.signal(-code, _signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
