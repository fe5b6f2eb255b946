"""Writes a task's own status to the status topic.

Always with the runtime's own login, never a connector's, and outside of its transactions. Each
record names the attempt, and readers ignore records of an attempt older than the newest known, so a
zombie cannot hide its successor's status. The producer lives for a few records only: states change
rarely, and hundreds of idle clients would cost more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from typing import Final

from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import State, Status
from connect_runtime.storage.status_topic import task_record, topic_in_use_record
from connect_runtime.tasks.task_setup import TaskSetup
from connect_runtime.tasks.worker_topics import StatusWriter, open_statuses
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

_CLOSE_S: Final = 10.0


class Reporter:
    """Makes and writes the status records of one attempt.

    `write` never waits and never fails: a task continues even if its status cannot be written. A
    thread that lives only for this retries records in order until Kafka has them.
    """

    def __init__(self, setup: TaskSetup) -> None:
        self._setup = setup
        self._topics: set[str] = set()
        self.version: str | None = None
        self.trace: str | None = None
        self._lock = threading.Lock()
        self._unwritten: list[NewRecord] = []
        self._writing: threading.Thread | None = None
        self._closed = threading.Event()

    def record(self, state: State, trace: str | None = None, *, polled: bool = False) -> NewRecord:
        """Returns a record that says that the task is in `state`, and `polled` since it runs."""
        setup = self._setup
        status = Status(
            state=state,
            worker_id=setup.worker_id,
            generation=setup.leader_term,
            trace=trace,
            version=self.version,
            attempt=setup.attempt,
            polled=polled,
        )
        return task_record(setup.topics.status, setup.id, status)

    def failure(self, error: BaseException) -> NewRecord:
        """Returns a record that says that the task failed; `trace` then holds its text."""
        self.trace = self._setup.trace(error)
        return self.record(State.FAILED, self.trace)

    def new_topics(self, topics: Iterable[str]) -> list[NewRecord]:
        """Returns records for topics that this attempt uses for the first time; none if tracking is
        off."""
        found = [t for t in topics if t not in self._topics]
        if not self._setup.tracks_topics or not found:
            return []
        self._topics.update(found)
        setup = self._setup
        return [
            topic_in_use_record(
                setup.topics.status,
                topic,
                setup.id.connector,
                task=setup.id.task,
                discovered_ms=int(time.time() * 1000),
            )
            for topic in found
        ]

    def forget_topics(self) -> None:
        """Makes each topic new again, because the leader has forgotten which are in use."""
        self._topics.clear()

    def write(self, *records: NewRecord) -> None:
        """Queues records, to be written soon in order."""
        if not records:
            return
        with self._lock:
            self._unwritten.extend(records)
            if self._writing is None:
                self._writing = threading.Thread(target=self._run, name="statuses", daemon=True)
                self._writing.start()

    def close(self) -> None:
        """Returns when everything is written; gives up after ten seconds."""
        with self._lock:
            writing = self._writing
        if writing is not None:
            writing.join(_CLOSE_S)
        self._closed.set()

    def _run(self) -> None:
        writer: StatusWriter | None = None
        try:
            writer = self._writer()
            self._write_all(writer)
        except Exception:
            _log.exception("Task %s: its status cannot be written", self._setup.id)
            with self._lock:
                self._writing = None  # the next record is tried with another thread
        finally:
            if writer is not None:
                writer.close()

    def _write_all(self, writer: StatusWriter | None) -> None:
        silent = False
        while not self._closed.is_set():
            with self._lock:
                if not self._unwritten or writer is None:
                    self._unwritten.clear()
                    self._writing = None
                    return
                record = self._unwritten[0]
            unwritten = writer.write(record)
            if unwritten is None or not unwritten.passing:
                with self._lock:
                    self._unwritten.pop(0)
            if unwritten is not None and not silent:
                self._log_failure(unwritten.why)
            silent = unwritten is not None

    def _writer(self) -> StatusWriter | None:
        try:
            return open_statuses(self._setup)
        except ConnectError as error:
            self._log_failure(str(error))
            return None

    def _log_failure(self, why: str) -> None:
        _log.warning("Task %s: its status cannot be written: %s", self._setup.id, why)
