"""Runs attempts at tasks on Spark: one job of one partition each, on a thread and in a job group of
its own, so that no attempt can end another.

Spark starts in the background; attempts wait for it. When the JVM dies, its attempts are LOST and
the next launch starts another one. Decides nothing: whether to launch again is the herder's.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import re
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import InheritableThread
from pyspark.errors import PythonException

from connect_runtime.spark.messages import launch_json, outcome_from_json
from connect_runtime.spark.session import SparkSession, ensure_java
from connect_runtime.spark.worker import Body, run_partition
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import Ended, Outcome, TaskLaunch

_log = logging.getLogger(__name__)

# From the kill to the death of the worker process, which the driver does not see.
_DEATH_S = 1.5
_RETURN_S = 5.0
_SESSION_S = 30.0
# How old the number of a cluster's cores may be.
_CORES_S = 5.0


@dataclass(slots=True)
class _Attempt:
    launch: TaskLaunch
    ended: Callable[[Outcome], None]
    group: str
    killed: threading.Event = field(default_factory=threading.Event)


class SparkLauncher:
    """Implements `Launcher`. `settings` are further Spark settings; `body` stands in for what a
    worker runs and must be picklable."""

    def __init__(
        self,
        master: str,
        data_folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        body: Body | None = None,
    ) -> None:
        self._master = master
        self._data_folder = data_folder
        self._settings = dict(settings or {})
        self._run = functools.partial(run_partition, body=body)
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._starting: threading.Thread | None = None
        self._closed = False
        self._queued: list[_Attempt] = []
        self._attempts: dict[tuple[TaskId, int], _Attempt] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._numbers = itertools.count(1)
        self._cores: tuple[float, int] = (0.0, 0)

    def start(self) -> None:
        """Begins to start Spark and returns at once. Raises Failed when there is no fit Java."""
        ensure_java()
        with self._lock:
            self._ensure_session()

    @property
    def context(self) -> Any:
        """The SparkContext; None while there is none."""
        session = self._session
        return None if session is None else session.context

    @property
    def slots(self) -> int:
        """How many attempts can run at once; 0 while Spark starts or is gone."""
        session = self._session
        if session is None or not session.alive:
            return 0
        return _local_slots(self._master) or self._cluster_cores(session)

    def _cluster_cores(self, session: SparkSession) -> int:
        asked_at, cores = self._cores
        if time.monotonic() - asked_at > _CORES_S:
            try:
                cores = int(session.context.defaultParallelism)
            except Exception:
                cores = 0
            self._cores = (time.monotonic(), cores)
        return cores

    @property
    def active(self) -> int:
        """How many attempts are running or waiting to."""
        with self._lock:
            return len(self._attempts)

    @property
    def problem(self) -> str | None:
        """Why nothing can run now."""
        return None

    def launch(self, launch: TaskLaunch, ended: Callable[[Outcome], None]) -> None:
        """Starts an attempt, or keeps it until Spark is there."""
        attempt = _Attempt(launch, ended, f"{launch.id}/{launch.attempt}/{next(self._numbers)}")
        with self._lock:
            closed = self._closed
            if not closed:
                self._attempts[launch.id, launch.attempt] = attempt
                self._queued.append(attempt)
                session = self._ensure_session()
                if session is not None:
                    self._start_queued(session)
        if closed:
            ended(_lost(launch, "the runtime is ending"))

    def kill(self, task: TaskId, attempt: int) -> None:
        """Cancels the attempt's job. Its process is killed within a second of that."""
        with self._lock:
            found = self._attempts.get((task, attempt))
            session = self._session
            queued = found is not None and found in self._queued
            if found is None:
                return
            found.killed.set()
            if queued:
                self._queued.remove(found)
        if queued:
            self._end(found, _lost(found.launch, "killed before it was started"))
        elif session is not None:
            _cancel(session, found)

    def close(self) -> None:
        """Kills what runs, waits until it is dead, ends Spark. Bounded."""
        with self._lock:
            self._closed = True
            starting = self._starting
            queued, self._queued = self._queued, []
        for attempt in queued:
            self._end(attempt, _lost(attempt.launch, "the runtime is ending"))
        if starting is not None:
            starting.join(_SESSION_S)
        with self._lock:
            session, self._session = self._session, None
            attempts = list(self._attempts.values())
            threads = list(self._threads.values())
        if session is None:
            return
        if attempts and session.alive:
            for attempt in attempts:
                attempt.killed.set()
                _cancel(session, attempt)
            # Stopping Spark now would leave the workers to notice that they are orphans.
            time.sleep(_DEATH_S)
        session.close()
        deadline = time.monotonic() + _RETURN_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    # --- the session ---

    def _ensure_session(self) -> SparkSession | None:
        """The living session; else None, and one is being started. Under the lock."""
        if self._session is not None and self._session.alive:
            return self._session
        if self._starting is None:
            gone, self._session = self._session, None
            self._starting = threading.Thread(
                target=self._start_session, args=(gone,), name="spark-start", daemon=True
            )
            self._starting.start()
        return None

    def _start_session(self, gone: SparkSession | None) -> None:
        session: SparkSession | None = None
        trace = ""
        began = time.monotonic()
        try:
            if gone is not None:
                _log.warning("Spark's JVM is gone; starting another one")
                gone.close()
            session = SparkSession.start(self._master, self._data_folder, self._settings)
            _log.info("Spark started in %.1f s", time.monotonic() - began)
        except Exception:
            trace = traceback.format_exc()
            _log.exception("Spark did not start")
        with self._lock:
            self._starting = None
            self._session = session
            failed: list[_Attempt] = []
            if session is None:
                failed, self._queued = self._queued, []
            elif not self._closed:
                self._start_queued(session)
        for attempt in failed:
            self._end(attempt, _lost(attempt.launch, f"Spark did not start: {trace}"))

    def _start_queued(self, session: SparkSession) -> None:
        """Under the lock. What cannot be started, because Spark is ending, stays queued."""
        queued, self._queued = self._queued, []
        for attempt in queued:
            thread = InheritableThread(
                target=self._drive,
                args=(session, attempt),
                name=f"attempt-{attempt.launch.id}",
                daemon=True,
            )
            try:
                thread.start()
            except Exception:
                _log.exception("Attempt %s has to wait", attempt.group)
                self._queued.append(attempt)
            else:
                self._threads[attempt.group] = thread

    # --- one attempt, on its own thread ---

    def _drive(self, session: SparkSession, attempt: _Attempt) -> None:
        try:
            outcome = self._outcome(session, attempt)
        finally:
            with self._lock:
                self._threads.pop(attempt.group, None)
        self._end(attempt, outcome)

    def _outcome(self, session: SparkSession, attempt: _Attempt) -> Outcome:
        launch = attempt.launch
        try:
            context = session.context
            context.setJobGroup(attempt.group, f"task {launch.id}, attempt {launch.attempt}")
            if attempt.killed.is_set():
                return _lost(launch, "killed before it was started")
            partition = context.parallelize([launch_json(launch)], 1)
            return outcome_from_json(partition.mapPartitions(self._run).collect()[0])
        except PythonException as error:
            # The body lets nothing through: this is a worker that could not run it at all.
            return Outcome(launch.id, launch.attempt, Ended.FAILED, str(error))
        except Exception as error:
            # When Spark ends or its JVM dies, a driver thread may see any exception.
            if attempt.killed.is_set():
                return _lost(launch, "killed")
            if not session.alive:
                return _lost(launch, "Spark's JVM is gone")
            return _lost(launch, _reason(error))

    def _end(self, attempt: _Attempt, outcome: Outcome) -> None:
        with self._lock:
            self._attempts.pop((attempt.launch.id, attempt.launch.attempt), None)
        try:
            attempt.ended(outcome)
        except Exception:
            _log.exception("The end of %s could not be told", attempt.launch.id)


def _local_slots(master: str) -> int:
    """The N of `local[N]`; 0 for a cluster."""
    if master == "local":
        return 1
    found = re.fullmatch(r"local\[(\d+|\*)(?:,\d+)?\]", master)
    if found is None:
        return 0
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])


def _cancel(session: SparkSession, attempt: _Attempt) -> None:
    """Also when the job is about to be submitted only: Python's own call misses that one."""
    try:
        session.context._jsc.sc().cancelJobGroupAndFutureJobs(attempt.group)  # noqa: SLF001
    except Exception as error:
        if session.alive:
            _log.warning("Attempt %s could not be cancelled: %s", attempt.group, error)


def _lost(launch: TaskLaunch, reason: str) -> Outcome:
    return Outcome(launch.id, launch.attempt, Ended.LOST, reason)


def _reason(error: Exception) -> str:
    """What Spark's stage failure is about, in a line or two."""
    thrown: Any = getattr(error, "java_exception", None)
    if thrown is None:
        return f"{type(error).__name__}: {error}"
    try:
        message = (thrown.getCause() or thrown).getMessage()
    except Exception:
        return str(error)
    return str(message).split("Consider setting")[0].strip()
