"""Runs an attempt at a task of a Java connector, in the JVM of its node or one of its own.

The JVM polls, puts, converts and commits. This process follows the assignment, writes the statuses,
hands over the offsets, and ends with the JVM.
"""

from __future__ import annotations

import hashlib
import logging
import socket
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

import orjson

from connect_runtime.agent.client import AgentClient
from connect_runtime.agent.messages import JoinJvm
from connect_runtime.api import ConnectorError
from connect_runtime.engine.java_loggers import SharedLevels
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_connection import Answers, Fields, JvmConnection, JvmEnded
from connect_runtime.engine.shared_jvm import SharedJvm
from connect_runtime.kafka.local_processes import note_process
from connect_runtime.metrics.jvm_metrics import task_reading
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import Fenced, NewRecord
from connect_runtime.storage.snapshots import State
from connect_runtime.tasks.control.assignments import (
    AssignmentFollower,
    AttemptAssignment,
    DesiredTaskState,
)
from connect_runtime.tasks.control.statuses import StatusReporter
from connect_runtime.tasks.control.worker_topics import ServedOffsets, WorkerTopics
from connect_runtime.tasks.kafka_failures import Interrupted, kafka_may_interrupt, missing_right
from connect_runtime.tasks.launch import AttemptEnd
from connect_runtime.tasks.source.offsets import has_own_offsets_topic
from connect_runtime.tasks.source.plain_writer import KafkaOffsets, worker_offsets
from connect_runtime.tasks.task_setup import TaskSetup
from connect_runtime.traces import JavaError
from connect_runtime.waiting import TakesTooLong
from connect_specs.diagnostics import Diagnostic
from connect_specs.secrets import secrets_in

_log = logging.getLogger(__name__)

# Levels of loggers, and that the runtime is gone, are noticed within so long; the rest at once
_LOOK_S: Final = 1.0
# Scanning its plugins, and asking Kafka for the cluster's id
_START_S: Final = 90.0
# Longer than `task.shutdown.graceful.timeout.ms`, within which the JVM answers
_STOP_SLACK_S: Final = 2.0
_METRICS_S: Final = 10.0
_REFUSED: Final = "TransactionalIdAuthorizationException"
# The last one if it is fenced while a transaction ends
_FENCED: Final = (
    "ProducerFencedException",
    "InvalidProducerEpochException",
    "InvalidTxnStateException",
)


def run_java_task(
    setup: TaskSetup,
    assignment: AttemptAssignment,
    reporter: StatusReporter,
    metrics: TaskMetrics,
) -> AttemptEnd:
    """Runs the attempt until it is to end. Raises JavaError if the task fails, Interrupted if its
    JVM ends by itself."""
    woken, wakes = socket.socketpair()
    follower = AssignmentFollower(setup, assignment, woken)
    with woken, wakes, closing(follower), closing(_JavaTask(setup, reporter, wakes)) as task:
        metrics.read_elsewhere(task.reading)
        return task.run(follower)


class _JavaTask:
    """`wakes`: ends the wait of who follows the assignment."""

    def __init__(self, setup: TaskSetup, reporter: StatusReporter, wakes: socket.socket) -> None:
        self._setup = setup
        self._wakes = wakes
        self._reporter = reporter
        self._topics = WorkerTopics(setup)
        self._failure: JavaError | None = None
        self._over: Interrupted | None = None
        self._interrupted: Interrupted | None = None
        self._reading: Mapping[str, Any] = {"metrics": {}, "clients": []}
        self._writing = threading.Lock()
        self._closed = False
        self._ending = False
        self._offsets_writer: KafkaOffsets | ServedOffsets | None = None
        self._levels = SharedLevels(setup.logger_levels)
        self._own_jvm_trace: str | None = None
        self._jvm = self._shared_jvm() if setup.shares_jvm else self._own_jvm()

    def _shared_jvm(self) -> JvmConnection:
        setup = self._setup
        configs = [dict(setup.connector_config), dict(setup.config)]
        request = JoinJvm(
            setup.id.connector,
            setup.id.task,
            hashlib.sha256(orjson.dumps(configs, option=orjson.OPT_SORT_KEYS)).hexdigest(),
            setup.worker,
            setup.worker_id,
            setup.graceful_s,
        )
        jvm = SharedJvm(AgentClient(setup.socket, {}), request, self._take, self._answers())
        if jvm.own_jvm is not None:
            self._own_jvm_trace = setup.redact(jvm.own_jvm)
        return jvm

    def _own_jvm(self) -> JvmConnection:
        setup = self._setup
        jvm = PluginJvm(
            setup.worker,
            setup.worker_id,
            on_event=self._take,
            answers=self._answers(),
            options=setup.jvm_options,
            held=() if setup.lease is None else (setup.lease,),
            watched=True,
        )
        if setup.lease is not None:
            with suppress(OSError):  # such as a full disk: then it cannot be killed by its pid
                note_process(setup.lease, jvm.pid)
        return jvm

    def _answers(self) -> Answers:
        return {
            "is-newest": self._is_newest,
            "offsets": self._offsets,
            "write-offsets": self._write_offsets,
        }

    def run(self, follower: AssignmentFollower) -> AttemptEnd:
        state = follower.desired()
        if state.end is not None:
            return state.end
        try:
            setup = self._setup
            of_configs = (s for c in (setup.connector_config, setup.config) for s in secrets_in(c))
            self._jvm.hide((*setup.secret_values, *of_configs))
            self._set_levels()
            end = self._fence()
            if end is not None:
                return end
            self._jvm.call("start-task", _START_S, attempt=self._attempt(state))
        except TakesTooLong:
            raise Interrupted(f"The JVM has not started the task in {_START_S:.0f} s") from None
        except JvmEnded as error:
            raise Interrupted(str(error)) from None
        return self._run_on(follower, state)

    def _run_on(self, follower: AssignmentFollower, state: DesiredTaskState) -> AttemptEnd:
        while True:
            newest = follower.desired(_LOOK_S)
            self._set_levels()
            if newest.end is not None:
                return self._stopped(newest.end)
            if self._interrupted is not None:
                raise self._interrupted
            if self._failure is not None:
                return self._failed(self._named(self._failure))
            if self._over is not None:
                raise self._over
            if newest is not state:
                state = newest
                paused = state is DesiredTaskState.PAUSE
                self._call("pause", _START_S, paused=paused)

    def _failed(self, failure: JavaError) -> AttemptEnd:
        """Returns the end of an attempt that is not wanted any more, such as one whose start found
        that. Raises Fenced if an older attempt that made its producer late has ended this one,
        which starts again and has not failed; else the failure."""
        end = self._topics.newest_state().end
        if end is not None:
            return self._stopped(end)
        if self._setup.transactional and any(name in failure.trace for name in _FENCED):
            raise Fenced(Diagnostic("task.fenced", failure.text))
        raise failure

    def _set_levels(self) -> None:
        for namespace, level in self._levels.changes():
            self._call("log-level", _METRICS_S, logger=namespace, level=level)

    def _fence(self) -> AttemptEnd | None:
        """Fences an earlier attempt, whose open transaction would hide the offsets until it times
        out. Returns the end of this attempt if another one has the task."""
        setup = self._setup
        if not setup.transactional:
            return None
        end = self._topics.newest_state().end
        if end is None:
            config, ids = dict(setup.connector_config), [setup.transactional_id]
            try:
                self._jvm.call("fence", _START_S, config=config, ids=ids)
            except JavaError as error:
                if _REFUSED in error.trace:
                    raise self._named(error) from None
                raise Interrupted(f"The task's producer id was not fenced: {error}") from None
        return end

    def _named(self, failure: JavaError) -> JavaError:
        """Returns the failure; if a right to the transactional id is missing, with the id."""
        if _REFUSED not in failure.trace:
            return failure
        right = missing_right(self._setup.transactional_id)
        text = f"{failure.text} {right}"
        trace = failure.trace.replace(failure.text, text, 1)
        return JavaError(failure.type, text, failure.status, trace)

    def reading(self) -> Mapping[str, Any]:
        """Returns what the JVM counts of the task, as `TaskMetrics` returns it of a Python task."""
        try:
            rows = self._jvm.call("metrics", _METRICS_S)
        except (JavaError, JvmEnded, TakesTooLong):
            return self._reading
        self._reading = task_reading(self._setup.id, rows)
        return self._reading

    def close(self) -> None:
        """Ends the JVM, or what it runs of this attempt: nothing may outlive that, such as a write
        of offsets that a user may move once this has ended."""
        self._ending = True
        self._jvm.end()
        with self._writing:
            self._closed = True
            if self._offsets_writer is not None:
                self._offsets_writer.close()

    def _attempt(self, state: DesiredTaskState) -> Mapping[str, Any]:
        setup = self._setup
        return {
            "connector": setup.id.connector,
            "task": setup.id.task,
            "attempt": setup.attempt,
            "count": setup.task_count,
            "connectorConfig": dict(setup.connector_config),
            "taskConfig": dict(setup.config),
            "exactlyOnce": setup.exactly_once,
            "paused": state is DesiredTaskState.PAUSE,
            "tail": self._tail(),
        }

    def _tail(self) -> Mapping[str, Any] | None:
        """Returns a source's offsets in the worker's topic, and the positions up to which they are
        known: none of its own topic, which is read over them (KIP-618)."""
        if not self._setup.transactional:
            return None
        records, positions = self._topics.source_offset_rows()
        with kafka_may_interrupt():
            own = has_own_offsets_topic(self._setup.source_clients)
        rows = [
            (b64encode(record.key).decode(), b64encode(record.value).decode())
            for record in records
            if record.key is not None and record.value is not None
        ]
        read_on = {} if own else {str(p): offset for p, offset in positions.items()}
        return {"rows": rows, "positions": read_on, "own": own}

    def _is_newest(self, fields: Fields) -> bool:
        with self._interrupts():
            return self._topics.newest_state().end is None

    def _offsets(self, fields: Fields) -> list[str | None]:
        with self._interrupts():
            rows, _ = self._topics.source_offset_rows()
        values = {row.key: row.value for row in rows}
        stored = (values.get(b64decode(key)) for key in fields["keys"])
        return [None if value is None else b64encode(value).decode() for value in stored]

    @contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Has a Kafka that is away interrupt the attempt: the JVM gets an error, and would fail the
        task."""
        try:
            yield
        except Interrupted as error:
            self._interrupted = error
            self._wake()
            raise

    def _write_offsets(self, fields: Fields) -> None:
        """Writes offsets to the worker's topic: those of a source without transactions, and copies
        of one that has a topic of its own. Raises ConnectorError."""
        topic = self._setup.topics.offsets
        records = [
            NewRecord(topic, b64decode(key), None if value is None else b64decode(value))
            for key, value in fields["rows"]
        ]
        with self._writing:
            if self._closed:
                raise ConnectorError("The attempt has ended")
            if self._offsets_writer is None:
                self._offsets_writer = worker_offsets(self._setup)
            if not self._offsets_writer.write(records, self._setup.flush_timeout_s):
                raise ConnectorError("The offsets were not written")

    def _stopped(self, end: AttemptEnd) -> AttemptEnd:
        if end is AttemptEnd.SUPERSEDED:
            return end
        patience_s = self._setup.graceful_s + _STOP_SLACK_S
        self._call("stop-task", patience_s, task=self._setup.id.task)
        if self._failure is not None:
            _log.error("Task %s failed at its end: %s", self._setup.id, self._failure.trace)
        if end is AttemptEnd.STOPPED:
            self._reporter.write(self._reporter.record(State.UNASSIGNED))
        return end

    def _call(self, name: str, timeout_s: float, **arguments: Any) -> None:
        """Calls; what goes wrong is seen by events, or ends with the JVM."""
        try:
            self._jvm.call(name, timeout_s, connector=self._setup.id.connector, **arguments)
        except (JavaError, JvmEnded, TakesTooLong) as error:
            _log.warning("Task %s: %s failed: %s", self._setup.id, name, error or "it takes long")

    def _take(self, event: str, fields: Fields) -> None:
        """Takes an event, on the thread that reads them."""
        if self._ending:
            return
        reporter = self._reporter
        match event:
            case "task-running":
                reporter.version = fields["version"]
                reporter.write(reporter.record(State.RUNNING, self._own_jvm_trace))
            case "task-resumed":
                reporter.write(reporter.record(State.RUNNING, self._own_jvm_trace))
            case "task-paused":
                reporter.write(reporter.record(State.PAUSED))
            case "topic":
                reporter.write(*reporter.new_topics([fields["topic"]]))
            case "task-failed":
                self._failure = self._jvm.error(fields["failure"])
                self._wake()
            case "task-ended":
                # as one whose `poll` is interrupted by its own code does: in Apache's it stays away
                self._over = Interrupted("The task has ended by itself")
                self._wake()
            case "ended" if self._over is None:
                self._over = Interrupted(fields["why"], killed=fields["killed"])
                self._wake()
            case _:
                pass

    def _wake(self) -> None:
        with suppress(OSError):  # the attempt has ended, or many bytes wait
            self._wakes.send(b".", socket.MSG_DONTWAIT)
