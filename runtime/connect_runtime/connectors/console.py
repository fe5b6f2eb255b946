"""The console of a standalone worker, for its file connectors that name no file.

Each task is a process of its own, and of those only the one that a terminal has started may read
from it. So the worker passes on what it reads and what tasks write, through named pipes, of which
it keeps both ends: a task that starts again finds what the one before it has not read.
"""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final

# In the environment of tasks, the folder of the pipes
_FOLDER: Final = "CONNECT_CONSOLE"
_IN: Final = "console.in"
_OUT: Final = "console.out"
_BYTES: Final = 1 << 16
_TICK_S: Final = 0.1
_END_S: Final = 5.0
_SOURCE: Final = ("FileStreamSource", "FileStreamSourceConnector")
_SINK: Final = ("FileStreamSink", "FileStreamSinkConnector")


def uses_console(configs: Sequence[Mapping[str, str]]) -> bool:
    """Whether one of these connectors reads standard input or writes standard output."""
    return _one_is(_SOURCE, configs) or _one_is(_SINK, configs)


def _one_is(classes: Sequence[str], configs: Sequence[Mapping[str, str]]) -> bool:
    return any(
        not each.get("file") and each.get("connector.class", "").rpartition(".")[2] in classes
        for each in configs
    )


# --- the worker ---


@contextmanager
def console_for(configs: Sequence[Mapping[str, str]]) -> Iterator[None]:
    """Passes on what these connectors need of this process's console, to tasks of the Spark that
    is started meanwhile."""
    if not uses_console(configs):
        yield
        return
    with ExitStack() as stack:
        # not every folder of a project can hold pipes
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="connect-console-")))
        if _one_is(_SOURCE, configs):
            pipe = _pipe(folder / _IN)
            threading.Thread(target=_read, args=(pipe,), name="console-in", daemon=True).start()
        if _one_is(_SINK, configs):
            stack.enter_context(_writing(_pipe(folder / _OUT)))
        os.environ[_FOLDER] = str(folder)
        stack.callback(os.environ.pop, _FOLDER)
        yield


def _pipe(file: Path) -> int:
    """A new pipe, opened for both ends: nobody ever waits for the other one, or sees it close."""
    os.mkfifo(file, 0o600)
    # left open for the thread, which may wait in it: the process is about to end
    return os.open(file, os.O_RDWR | os.O_CLOEXEC)


def _read(pipe: int) -> None:
    with suppress(OSError):
        while data := os.read(0, _BYTES):
            _write_all(pipe, data)


@contextmanager
def _writing(pipe: int) -> Iterator[None]:
    over = threading.Event()
    writer = threading.Thread(target=_write, args=(pipe, over), name="console-out", daemon=True)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join(_END_S)


def _write(pipe: int, over: threading.Event) -> None:
    """Returns once it is `over` and nothing is left."""
    while True:
        ready, _, _ = select.select([pipe], [], [], _TICK_S)
        if ready:
            data = os.read(pipe, _BYTES)
            # what has closed its end takes no more, and is no reason to stop a task
            with suppress(OSError, ValueError):
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
        elif over.is_set():
            return


def _write_all(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


# --- tasks ---


def standard_input() -> BinaryIO:
    """The console's, else one that is at its end. Its `read` returns None while there is
    nothing."""
    pipe = _file(_IN) or Path(os.devnull)
    return os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)


def standard_output() -> BinaryIO | None:
    """The console's; None if this process has none but its own."""
    pipe = _file(_OUT)
    return None if pipe is None else pipe.open("wb", buffering=0)


def _file(name: str) -> Path | None:
    folder = os.environ.get(_FOLDER)
    if folder is None:
        return None
    pipe = Path(folder) / name
    return pipe if pipe.is_fifo() else None
