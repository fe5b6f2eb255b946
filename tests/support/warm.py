"""Runs `connect` without paying for its start: forked from a process that has imported it.

Each command is a process of its own as ever, with its own folder, environment and standard streams,
and ends as any Python does. Only the half second of imports is saved, once per test process. What a
fork cannot give is a start from nothing: measuring it, other `PYTHON...` variables, another site.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

_SERVER = Path(__file__).with_name("warm_server.py")
# `connect` for scripts: it has its process forked, and ends as that does
_COMMAND = """\
#!{python} -IS
import json, os, socket, sys

request = {{"words": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}
text = json.dumps(request).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    sent = socket.send_fds(server, [text], [0, 1, 2])
    server.sendall(text[sent:])
    server.shutdown(socket.SHUT_WR)
    with server.makefile() as answers:
        _pid, status = answers
code = os.waitstatus_to_exitcode(int(status))
sys.exit(code if code >= 0 else 128 - code)
"""
# read when Python starts, so that a fork comes too late for them
_READ_AT_START = ("PYTHONIOENCODING", "PYTHONUTF8", "LANG", "LC_ALL", "LC_CTYPE")


_HERE = {name: os.environ.get(name) for name in _READ_AT_START}


def can_run(environment: Mapping[str, str]) -> bool:
    """Whether a forked process behaves as a new one in this environment."""
    same = all(environment.get(name) == _HERE[name] for name in _READ_AT_START)
    return sys.platform == "linux" and same


def run(
    words: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    given: str = "",
    timeout_s: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Runs `connect` with these words to its end, as `subprocess.run` would: both outputs are kept,
    and TimeoutExpired is raised after `timeout_s`."""
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        stdin.write(given.encode())
        stdin.seek(0)
        request = {
            "words": [str(word) for word in words],
            "folder": str(folder),
            "environment": dict(environment),
        }
        streams = [each.fileno() for each in (stdin, stdout, stderr)]
        status = _status(json.dumps(request).encode(), streams, ["connect", *words], timeout_s)
        texts = []
        for output in (stdout, stderr):
            output.seek(0)
            texts.append(output.read().decode().replace("\r\n", "\n").replace("\r", "\n"))
    code = os.waitstatus_to_exitcode(status)
    return subprocess.CompletedProcess(["connect", *words], code, *texts)


def _status(request: bytes, streams: list[int], command: list[str], timeout_s: float) -> int:
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(_server())
        sent = socket.send_fds(server, [request], streams)
        server.sendall(request[sent:])
        server.shutdown(socket.SHUT_WR)
        with server.makefile() as answers:
            pid = int(answers.readline())
            server.settimeout(timeout_s)
            try:
                return int(answers.readline())
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(command, timeout_s) from None


@cache
def path() -> str:
    """A PATH on which `connect` is forked, for scripts that run it."""
    own = str(Path(sys.executable).parent)
    if sys.platform != "linux":
        return os.pathsep.join((own, os.environ["PATH"]))
    address = _server()
    command = Path(address).with_name("connect")
    command.write_text(_COMMAND.format(python=sys.executable, address=address))
    command.chmod(0o755)
    return os.pathsep.join((str(command.parent), own, os.environ["PATH"]))


@cache
def _server() -> str:
    """The address of this process's own server, which is started at first."""
    address = f"{tempfile.mkdtemp(prefix='connect-warm-')}/socket"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.Popen(
        [sys.executable, "-P", str(_SERVER), address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"ready\n", "the server of warm commands did not start"

    def end(server: subprocess.Popen[bytes], stdin: IO[bytes]) -> None:
        stdin.close()
        server.wait(10)

    atexit.register(end, process, process.stdin)
    return address
