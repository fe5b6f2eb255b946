"""Runs attempts on Spark: one single-partition job each, in its own thread and job group.

So no attempt can end another. Spark starts in the background, and again whenever it has ended;
attempts wait for it. Attempts that ran when it ended are LOST. Decides nothing: the herder decides
whether to launch again.

A node that has another Python than the driver, or lacks a plugin, is left for another one, once.
After that the task fails until the packages are installed.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.errors import PythonException

from connect_runtime.spark.attempts import (
    ENVELOPE,
    NodeMissingPlugin,
    ProcessLease,
    confirm_death,
    envelope_json,
    metrics_file,
    outcome_from_json,
    read_metrics,
)
from connect_runtime.spark.jvm import JvmFigures, ensure_java
from connect_runtime.spark.master import Tenure
from connect_runtime.spark.session import SparkSession, is_local, is_retried, node_of, other_hosts
from connect_runtime.spark.session_supervisor import SessionSupervisor
from connect_runtime.spark.worker import DRAIN_S, Body, run_partition
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch

_log = logging.getLogger(__name__)

# Time from a kill to the death of a process that the driver cannot see, with some reserve.
_UNSEEN_DEATH_S = 1.5
# The driver kills a process that it sees after it had time to drain, ...
_DEATH_GRACE_S = DRAIN_S + 1
# ... and the attempt ends without proof of its death after this time.
_DEATH_MAX_S = 10.0
_HOLD_POLL_S = 1.0
_WITHOUT_SLOT_S = 1.0
_AS_WANTED = (AttemptEnd.STOPPED, AttemptEnd.SUPERSEDED, AttemptEnd.ORPHANED)
_KILLED_S = 3.0
# More than a broker takes to start, and than a member of a group takes to join again
_LEADS_AGAIN_S = 20.0
_RETURN_S = 5.0
_WHAT_TO_DO = (
    "Install the same packages on every node, or send them with Spark: `connect package` "
    "(docs/spark-cluster.md)."
)
_NO_PYTHON = re.compile(r'Cannot run program "[^"]*": .*')
_DAEMON_SAID = re.compile(r"Error from python worker:\s*(.*?)\s*PYTHONPATH was:", re.DOTALL)
_CANNOT_IMPORT = ("ModuleNotFoundError", "ImportError", "No module named")
# The daemon's own refusal begins so
_WRONG_PYTHON = "This node runs Python"


@dataclass(slots=True, eq=False)
class _Attempt:
    launch: TaskLaunch
    on_end: Callable[[Outcome], None]
    group: str
    killed: threading.Event = field(default_factory=threading.Event)
    session: SparkSession | None = None
    thread: threading.Thread | None = None
    lease: ProcessLease | None = None
    # cancelled because of that, and not killed
    executor_lost: bool = False
    # a call to the JVM that has not returned yet
    cancelling: threading.Thread | None = None


class SparkLauncher:
    """Implements `Launcher`. `settings` are further Spark settings; `body` replaces the function
    that a worker runs and must be picklable. `cluster` names the Connect cluster, as in `Tenure`;
    `executors_s` and `patience_s` are as in `SessionSupervisor`."""

    def __init__(
        self,
        master: str,
        data_folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        body: Body | None = None,
        cluster: str = "",
        executors_s: float = 300.0,
        patience_s: float = 0.0,
    ) -> None:
        self._cluster = cluster
        self._tenure: Tenure | None = None
        self._local = is_local(master)
        run = functools.partial(run_partition, body=body)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._queued: list[_Attempt] = []
        self._attempts: dict[str, _Attempt] = {}
        # by task, of its newest attempt, if that failed
        self._last_readings: dict[TaskId, Mapping[str, Any]] = {}
        self._numbers = itertools.count(1)
        self._supervisor = SessionSupervisor(
            lambda: SparkSession(master, data_folder, run, settings, self._tenure),
            opened=self._start_queued,
            failed=self._end_queued,
            executors_s=executors_s,
            patience_s=patience_s,
        )

    def start(self) -> None:
        """Starts Spark in the background, on a cluster only once this runtime leads. Raises Failed
        if there is no suitable Java."""
        ensure_java()
        if self._local:
            self._supervisor.start()
        else:
            name = "spark-lost"
            threading.Thread(target=self._end_without_slot, name=name, daemon=True).start()

    def lead(self, term: int) -> None:
        """Starts Spark, if it does not run. On a standalone cluster the applications of leaders of
        earlier terms are then ended."""
        self._tenure = Tenure(self._cluster, term)
        self._supervisor.start()

    def follow(self) -> None:
        """Gives executors of a cluster back, which a new leader needs; not at once: while Kafka is
        away no runtime leads, and mostly the same one leads again. Running attempts go on, and
        notice in the end that they are orphans, and drain. Threads of this machine take nothing
        from anyone: Spark stays, and a failover is faster."""
        if not self._local:
            self._end_queued("another runtime leads")
            self._supervisor.release(_LEADS_AGAIN_S)

    @property
    def context(self) -> Any:
        """Returns the SparkContext; None if there is none."""
        session = self._supervisor.session
        return None if session is None else session.context

    @property
    def slots(self) -> int:
        """Returns how many attempts can run at once; 0 while Spark starts or has ended."""
        return self._supervisor.slots

    @property
    def active(self) -> int:
        """Returns how many attempts take up slots, including killed ones until they are dead."""
        with self._lock:
            return len(self._attempts)

    @property
    def problem(self) -> str | None:
        """Returns why nothing can run now."""
        return self._supervisor.problem

    def readings(self) -> Mapping[TaskId, Mapping[str, Any]]:
        """Returns what tasks have counted, of those that run on this machine or have ended. Reads a
        small file for each."""
        with self._lock:
            readings = dict(self._last_readings)
            leases = {a.launch.id: a.lease for a in self._attempts.values() if a.lease is not None}
        for task, lease in leases.items():
            newest = read_metrics(metrics_file(lease.path))
            if newest is not None:
                readings[task] = newest
        return readings

    @property
    def jvm(self) -> JvmFigures | None:
        """Returns what Spark's JVM said of itself a few seconds ago."""
        return self._supervisor.jvm

    def launch(self, launch: TaskLaunch, on_end: Callable[[Outcome], None]) -> None:
        """Starts an attempt, or keeps it until Spark is ready."""
        attempt = _Attempt(launch, on_end, f"{launch.id}/{launch.attempt}/{next(self._numbers)}")
        with self._lock:
            session = self._supervisor.session
            closed = self._closed.is_set()
            if not closed:
                self._attempts[attempt.group] = attempt
            if not closed and session is None:
                self._queued.append(attempt)
        if closed:
            on_end(_lost(launch, "the runtime is ending", dead=True))
        elif session is not None:
            self._start(attempt, session)

    def kill(self, task: TaskId, attempt: int) -> None:
        """Cancels the attempt's job. Its process is killed within a second of that."""
        with self._lock:
            matching = [
                running
                for running in self._attempts.values()
                if (running.launch.id, running.launch.attempt) == (task, attempt)
            ]
            queued = [running for running in matching if running in self._queued]
            for running in queued:
                self._queued.remove(running)
        for running in matching:
            running.killed.set()
            if running in queued:
                self._end(running, _lost(running.launch, "killed before it was started", dead=True))
            elif running.session is not None:
                _cancel(running, running.session)

    def close(self) -> None:
        """Kills running attempts, waits until they are dead, ends Spark. Bounded."""
        with self._lock:
            self._closed.set()
        self._end_queued("the runtime is ending")
        self._supervisor.close(prepare=self._kill_all)
        self._join(_RETURN_S)

    def _kill_all(self) -> None:
        # If Spark stopped at once, workers would have to notice that they are orphans.
        with self._lock:
            attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.killed.set()
            if attempt.session is not None:
                _cancel(attempt, attempt.session)
        self._join(_KILLED_S)

    def _join(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        with self._lock:
            threads = [attempt.thread for attempt in self._attempts.values()]
        for thread in filter(None, threads):
            thread.join(max(0.0, deadline - time.monotonic()))

    # --- attempts that wait for Spark ---

    def _start_queued(self, session: SparkSession) -> None:
        with self._lock:
            queued, self._queued = self._queued, []
        for attempt in queued:
            self._start(attempt, session)

    def _end_queued(self, reason: str) -> None:
        with self._lock:
            queued, self._queued = self._queued, []
        for attempt in queued:
            self._end(attempt, _lost(attempt.launch, reason, dead=True))

    def _start(self, attempt: _Attempt, session: SparkSession) -> None:
        """Returns at once: does not call the JVM."""
        name = f"attempt-{attempt.launch.id}"
        attempt.session = session
        thread = threading.Thread(
            target=self._drive, args=(attempt, session), name=name, daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads
            self._end(attempt, _lost(attempt.launch, str(error), dead=True))
        else:
            attempt.thread = thread

    # --- one attempt, on its own thread ---

    def _drive(self, attempt: _Attempt, session: SparkSession) -> None:
        outcome = self._outcome(attempt, session)
        lease = attempt.lease
        if lease is not None:
            self._keep_reading(outcome, metrics_file(lease.path))
        if not outcome.dead and lease is not None:
            outcome = replace(outcome, dead=confirm_death(lease, _DEATH_GRACE_S, _DEATH_MAX_S))
        if outcome.dead:
            self._forget(attempt)
        self._report(attempt, outcome)
        if not outcome.dead:
            self._hold_slot(lease)
            self._forget(attempt)
        if lease is not None:
            lease.drop()

    def _keep_reading(self, outcome: Outcome, file: Path) -> None:
        """Keeps the last reading of an attempt that failed, as Connect does, and no other."""
        reading = None if outcome.ended in _AS_WANTED else read_metrics(file)
        with self._lock:
            self._last_readings.pop(outcome.id, None)
            if reading is not None:
                self._last_readings[outcome.id] = reading
        with contextlib.suppress(OSError):  # the outcome is reported even if metrics fail
            file.unlink()

    def _outcome(self, attempt: _Attempt, session: SparkSession) -> Outcome:
        """Runs the attempt, once more on another node if a node cannot run it."""
        try:
            return self._run_once(attempt, session)
        except NodeMissingPlugin as missing:
            tried = [(node_of(session, attempt.group), missing)]
        hosts = other_hosts(session, tried[0][0])
        if hosts:
            _log.warning("%s; trying another node", node_failure_line(attempt.launch.id, *tried[0]))
            try:
                return self._run_once(attempt, session, hosts)
            except NodeMissingPlugin as missing:
                tried.append((node_of(session, attempt.group), missing))
        trace = node_failures_trace(attempt.launch.id, tried)
        return Outcome(attempt.launch.id, attempt.launch.attempt, AttemptEnd.FAILED, trace)

    def _run_once(
        self, attempt: _Attempt, session: SparkSession, hosts: Collection[str] = ()
    ) -> Outcome:
        """Raises NodeMissingPlugin if the node cannot run the task. `hosts`: run on one of
        these."""
        launch = attempt.launch
        try:
            job = self._job(attempt, session, hosts)
        except Exception as error:
            return _lost(launch, _loss_reason(attempt, session, error), dead=True)
        if attempt.killed.is_set():
            return _lost(launch, "killed before it was started", dead=True)
        try:
            return outcome_from_json(job.collect()[0])
        except NodeMissingPlugin:
            raise
        except PythonException as error:
            # The body never raises: this worker could not run it at all.
            return Outcome(launch.id, launch.attempt, AttemptEnd.FAILED, str(error))
        except Exception as error:
            reason = _loss_reason(attempt, session, error)
            if missing := wrong_python(reason):
                raise missing from error
            return _lost(launch, reason)

    def _job(self, attempt: _Attempt, session: SparkSession, hosts: Collection[str]) -> Any:
        """Returns an RDD that runs the attempt when it is collected."""
        launch, context = attempt.launch, session.context
        # Py4J would give up the call that lasts as long as the task, at a limit that a plugin in
        # this process has set for all new sockets
        socket.setdefaulttimeout(None)
        context.setJobGroup(attempt.group, f"task {launch.id}, attempt {launch.attempt}")
        if session.local:
            attempt.lease = ProcessLease(session.leases)
        path = None if attempt.lease is None else str(attempt.lease.path)
        context.setLocalProperty(ENVELOPE, envelope_json(launch, session.key, path))
        return session.job(hosts)

    # --- attempts that Spark would run again ---

    def _end_without_slot(self) -> None:
        """Ends attempts whose executor is lost and that wait for a slot of another one: Spark tries
        them again, where there is room, and says nothing. Watches until this launcher is closed."""
        while not self._closed.wait(_WITHOUT_SLOT_S):
            session, slots = self._supervisor.session, self._supervisor.slots
            with self._lock:
                attempts = [a for a in self._attempts.values() if a.session is session]
            if session is None or len(attempts) <= slots:
                continue
            for attempt in attempts:
                if not attempt.executor_lost and is_retried(session, attempt.group):
                    attempt.executor_lost = True
                    _cancel(attempt, session)

    def _hold_slot(self, lease: ProcessLease | None) -> None:
        """Keeps the attempt's slot taken while its process may still live."""
        if lease is None:
            time.sleep(_UNSEEN_DEATH_S)
            return
        with contextlib.suppress(OSError):
            while not lease.over() and not self._closed.wait(_HOLD_POLL_S):
                pass

    def _end(self, attempt: _Attempt, outcome: Outcome) -> None:
        self._forget(attempt)
        self._report(attempt, outcome)

    def _forget(self, attempt: _Attempt) -> None:
        with self._lock:
            self._attempts.pop(attempt.group, None)

    def _report(self, attempt: _Attempt, outcome: Outcome) -> None:
        try:
            attempt.on_end(outcome)
        except Exception:
            _log.exception("The outcome of %s could not be reported", attempt.launch.id)


def _cancel(attempt: _Attempt, session: SparkSession) -> None:
    """Returns at once: the JVM may be frozen, and is asked once until it has answered."""
    if attempt.cancelling is not None and attempt.cancelling.is_alive():
        return

    def cancel() -> None:
        try:
            session.cancel(attempt.group)
        except Exception as error:
            if session.alive:
                _log.warning("Attempt %s could not be cancelled: %s", attempt.group, error)

    name = f"cancel-{attempt.launch.id}"
    attempt.cancelling = threading.Thread(target=cancel, name=name, daemon=True)
    attempt.cancelling.start()


def _lost(launch: TaskLaunch, reason: str, *, dead: bool = False) -> Outcome:
    return Outcome(launch.id, launch.attempt, AttemptEnd.LOST, reason, dead)


def _loss_reason(attempt: _Attempt, session: SparkSession, error: Exception) -> str:
    """Returns why an attempt was lost. When Spark ends or its JVM dies, any exception may occur."""
    if attempt.killed.is_set():
        return "killed"
    if attempt.executor_lost:
        return "Its executor was lost, and no other one has a free slot"
    return failure_cause(error) if session.alive else "Spark's JVM is gone"


def wrong_python(message: str) -> NodeMissingPlugin | None:
    """Returns what Spark's error for a task says about the node's Python; None if it is another
    error."""
    if match := _NO_PYTHON.search(message):
        return NodeMissingPlugin(match[0])
    output = _DAEMON_SAID.search(message)
    last = output[1].strip().splitlines()[-1].strip() if output and output[1].strip() else ""
    if last.startswith(_WRONG_PYTHON) or any(text in last for text in _CANNOT_IMPORT):
        return NodeMissingPlugin(last)
    return None


def node_failure_line(task: TaskId, node: str, reason: NodeMissingPlugin) -> str:
    """Returns a sentence without a full stop."""
    return f"Task {task} cannot run on node {node}: {reason}"


def node_failures_trace(task: TaskId, tried: Iterable[tuple[str, NodeMissingPlugin]]) -> str:
    """Returns a task's trace: `tried` are nodes, and why each cannot run it."""
    return "\n".join((*(node_failure_line(task, *failure) for failure in tried), _WHAT_TO_DO))


def failure_cause(error: Exception) -> str:
    """Returns the cause of Spark's stage failure in a line or two."""
    thrown: Any = getattr(error, "java_exception", None)
    if thrown is None:
        return f"{type(error).__name__}: {error}"
    try:
        message = (thrown.getCause() or thrown).getMessage()
    except Exception:
        return str(error)
    return str(message).split("Consider setting")[0].split("\nDriver stacktrace")[0].strip()
