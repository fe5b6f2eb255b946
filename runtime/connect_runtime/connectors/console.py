"""The console of a standalone worker, for its file connectors that name no file.

Each task is a process of its own. Tasks write to the worker's standard output themselves, so that
nothing which a task has counted as written can be lost with the worker. Of the processes that a
terminal has started, only the worker may read from it. So it passes on what it reads through a
pipe, of which it keeps both ends: a task that starts again finds what the one before it has not
read.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import secrets
import select
import socket
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from typing import Final

_log = logging.getLogger(__name__)

# In the environment of tasks, the addresses where the worker hands out its console
_IN: Final = "CONNECT_CONSOLE_IN"
_OUT: Final = "CONNECT_CONSOLE_OUT"
_STDIN: Final = 0
_STDOUT: Final = 1
_BYTES: Final = 1 << 16
_ANSWER_S: Final = 10.0
_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group
_SOURCE: Final = ("FileStreamSource", "FileStreamSourceConnector")
_SINK: Final = ("FileStreamSink", "FileStreamSinkConnector")


def uses_console(configs: Sequence[Mapping[str, str]]) -> bool:
    """Returns True if one of these connectors reads standard input or writes standard output."""
    return _one_is(_SOURCE, configs) or _one_is(_SINK, configs)


def _one_is(classes: Sequence[str], configs: Sequence[Mapping[str, str]]) -> bool:
    return any(
        not config.get("file") and config.get("connector.class", "").rpartition(".")[2] in classes
        for config in configs
    )


# --- the worker ---


@contextmanager
def console_for(configs: Sequence[Mapping[str, str]]) -> Iterator[None]:
    """Hands out this process's console, as far as these connectors use it, to tasks of the Spark
    that is started in this context."""
    with ExitStack() as stack:
        if _one_is(_SOURCE, configs):
            stack.enter_context(_handed_out(_IN, [_input_to_read()]))
        if _one_is(_SINK, configs):
            lock = os.memfd_create("connect-console")
            stack.callback(os.close, lock)
            stack.enter_context(_handed_out(_OUT, [_STDOUT, lock]))
        yield


@contextmanager
def _handed_out(variable: str, descriptors: Sequence[int]) -> Iterator[None]:
    """Gives duplicates to processes of this user, at an address that is no file: nothing is left of
    it, however this process ends."""
    address = f"connect-console-{secrets.token_hex(8)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{address}")
        listener.listen()
        thread = threading.Thread(
            target=_hand_out, args=(listener, descriptors), name=variable, daemon=True
        )
        thread.start()
        os.environ[variable] = address
        try:
            yield
        finally:
            del os.environ[variable]
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _hand_out(listener: socket.socket, descriptors: Sequence[int]) -> None:
    while True:
        try:
            asking, _ = listener.accept()
        except OSError as error:
            if error.errno == errno.EINVAL:  # it was shut down
                return
            raise
        with asking, suppress(OSError):  # the asking process may be gone
            if _is_ours(asking):
                socket.send_fds(asking, [b"."], descriptors)


def _is_ours(connection: socket.socket) -> bool:
    """Returns True if a process of the same user is at the other end: an address is open to
    all."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.geteuid())


def _input_to_read() -> int:
    """Starts to pass on standard input; returns where it is read, without waiting."""
    # both ends stay open for the thread, which may wait in them until the process ends
    end, pipe = os.pipe()
    os.set_blocking(end, False)
    threading.Thread(target=_pass_on, args=(pipe,), name="console-in", daemon=True).start()
    return end


def _pass_on(pipe: int) -> None:
    while True:
        try:
            data = os.read(_STDIN, _BYTES)
        except BlockingIOError:  # as other processes may have set it
            select.select([_STDIN], [], [])
            continue
        except OSError as error:
            _log.warning("Standard input can be read no longer: %s", error)
            return
        if data:
            _write_all(pipe, data)
        elif not os.isatty(_STDIN):  # after Ctrl-D, people go on typing
            return


def _write_all(descriptor: int, data: bytes) -> None:
    unwritten = memoryview(data)
    while unwritten:
        try:
            unwritten = unwritten[os.write(descriptor, unwritten) :]
        except BlockingIOError:  # as other processes may have set it
            waiting = select.poll()
            waiting.register(descriptor, select.POLLOUT)
            waiting.poll()


# --- tasks ---


def standard_input() -> FileIO:
    """Returns the console's, else one that is at its end. Its `read` returns None while there is
    nothing."""
    handed = _handed(_IN)
    return FileIO(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) if handed is None else handed[0])


def standard_output() -> Output | None:
    """Returns the console's; None if this process has none but its own."""
    handed = _handed(_OUT)
    return None if handed is None else Output(*handed)


def _handed(variable: str) -> list[int] | None:
    """Returns the descriptors that the worker hands out; None if it does not. Raises OSError."""
    address = os.environ.get(variable)
    if address is None:
        return None
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(_ANSWER_S)
        asking.connect(f"\0{address}")
        descriptors: list[int] = []
        if _is_ours(asking):
            _, descriptors, _, _ = socket.recv_fds(asking, 1, 2, socket.MSG_CMSG_CLOEXEC)
    if not descriptors:
        raise ConnectionError("The worker does not hand out its console")
    return descriptors


class Output:
    """The worker's standard output, for one task of several."""

    def __init__(self, descriptor: int, lock: int) -> None:
        self._descriptor = descriptor
        # duplicates would share one lock, and each task needs one that the others wait for
        self._lock = os.open(f"/proc/self/fd/{lock}", os.O_RDWR | os.O_CLOEXEC)
        os.close(lock)

    def write(self, lines: bytes) -> int:
        """Writes whole lines, between those of other tasks. The lock ends with this process."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            # with a byte in it, a write began that was killed, and left half a line
            torn = os.fstat(self._lock).st_size > 0
            os.ftruncate(self._lock, 1)
            _write_all(self._descriptor, b"\n" + lines if torn else lines)
            os.ftruncate(self._lock, 0)
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        return len(lines)

    def close(self) -> None:
        """Leaves it open for the others."""
        os.close(self._descriptor)
        os.close(self._lock)
