"""A process that has imported all of `connect`, and forks one process for each command.

It is run as a script by `support.warm`, which says on stdin where to listen. Each connection is one
command: arguments, folder and environment as JSON, with the three standard streams as descriptors.
The answers are the new process's pid, and then its exit status. The server ends when its stdin
does, so with the process that started it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import random
import runpy
import select
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

_PACKAGES = ("connect_specs", "connect_reconciler", "connect_runtime")
# a command that runs connectors is a process of its own, and imports Spark itself
_NOT_IMPORTED = ("connect_runtime.spark", "connect_reconciler.cli.__main__")


def import_all() -> None:
    """Imports every module of this project but those that need Spark."""
    for package in map(importlib.import_module, _PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith(_NOT_IMPORTED):
                importlib.import_module(module.name)


def serve(listener: socket.socket) -> dict[str, Any] | None:
    """Forks for each request. Returns the request in the forked process; None at stdin's end."""
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([listener, woken, 0], [], [])
        if 0 in ready:
            return None
        if woken in ready:
            os.read(woken, 4096)
            _tell_who_ended(running)
        if listener not in ready:
            continue
        client, _ = listener.accept()
        text, streams = _read(client)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            for opened in (woken, wake, *streams):
                os.close(opened)
            for connection in (listener, client, *running.values()):
                connection.close()
            request: dict[str, Any] = json.loads(text)
            return request
        for stream in streams:
            os.close(stream)
        client.sendall(b"%d\n" % pid)
        running[pid] = client


def _read(client: socket.socket) -> tuple[bytes, list[int]]:
    """A request up to the end of what the client sends, and its standard streams."""
    text, streams, _, _ = socket.recv_fds(client, 65536, 3)
    while more := client.recv(65536):
        text += more
    return text, streams


def _tell_who_ended(running: dict[int, socket.socket]) -> None:
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with running.pop(pid) as client:
                client.sendall(b"%d\n" % status)


def become(request: dict[str, Any]) -> None:
    """Runs the command in this process, as `python -P -m connect_reconciler.cli` does."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    paths = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path]
    random.seed()
    if os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.argv[1:] = request["words"]
    runpy.run_module("connect_reconciler.cli", run_name="__main__", alter_sys=True)


def main() -> None:
    import_all()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        # what is not moved between generations is not copied for each fork
        gc.collect()
        gc.freeze()
        os.write(1, b"ready\n")
        request = serve(listener)
    if request is None:
        shutil.rmtree(Path(sys.argv[1]).parent)
    else:
        become(request)


if __name__ == "__main__":
    main()
