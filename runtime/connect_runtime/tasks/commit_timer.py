"""Commits open records while the next ones are polled and prepared.

Quick polls share a transaction, so one may be open when the next poll starts. That poll may take
any time, and so may preparing its records: transformations and converters, which are retried for
`errors.retry.timeout`. If the transaction stayed open, readers would wait for its records. After
`transaction.timeout.ms` Kafka would abort it, on every attempt.

Only the task's own thread calls the task: this thread calls only the writer. What ends meanwhile
waits for the commit to end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from connect_runtime.tasks.boundaries import Boundary
from connect_runtime.tasks.source_writer import SourceWriter


class CommitTimer:
    """A thread that starts with the first transaction left open and sleeps between transactions."""

    def __init__(
        self, writer: SourceWriter, boundary: Boundary, commit: Callable[[], None]
    ) -> None:
        self._writer = writer
        self._boundary = boundary
        self._commit = commit
        self._busy = threading.Lock()  # held by the thread that may use the writer
        self._open = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self._quiet_at = 0.0
        self._busy.acquire()

    @contextmanager
    def may_commit(self, quick_s: float) -> Iterator[None]:
        """Lets the thread commit while the block runs, which must not use the writer. More records
        are at hand if the block ends within `quick_s`.

        Raises the commit's error, even if the block raises another: the writer must no longer be
        used.
        """
        if not self._writer.open or not self._boundary.during_polls:
            yield
            return
        self._quiet_at = time.monotonic() + quick_s
        if not self._open.is_set():
            self._begin()
        self._busy.release()
        try:
            yield
        finally:
            self._busy.acquire()
            if self._error is not None:
                raise self._error

    def close(self) -> None:
        """Ends the thread. Called from the task's thread, outside `may_commit`."""
        self._closed.set()
        self._open.set()
        self._busy.release()
        if self._thread is not None:
            self._thread.join()

    def _begin(self) -> None:
        self._open.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="commit-timer", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while self._open.wait() and not self._closed.wait(self._left_s()):
            with self._busy:
                if self._closed.is_set():
                    return
                if self._writer.open and self._left_s() == 0:
                    try:
                        self._commit()
                    except Exception as error:  # the task's thread raises it
                        self._error = error
                        return
                if not self._writer.open:
                    self._open.clear()

    def _left_s(self) -> float:
        at = self._boundary.commit_at(self._quiet_at)
        return 0 if at is None else max(at - time.monotonic(), 0)
