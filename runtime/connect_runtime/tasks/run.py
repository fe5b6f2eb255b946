"""Runs one attempt at a task, from reading its assignment to its outcome."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException

from connect_runtime.api import SourceTask
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import Fenced
from connect_runtime.tasks.control.assignments import AttemptAssignment, DesiredTaskState
from connect_runtime.tasks.control.statuses import StatusReporter
from connect_runtime.tasks.control.worker_topics import WorkerTopics
from connect_runtime.tasks.java_task import run_java_task
from connect_runtime.tasks.kafka_failures import BatchTooLarge, Interrupted
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch
from connect_runtime.tasks.sink.sink_task import run_sink
from connect_runtime.tasks.source.source_task import run_source
from connect_runtime.tasks.task_setup import TaskSetup, resolve_launch
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

# Values are nested up to 1,000 levels, as in Connect; each level takes a few calls.
RECURSION: Final = 5_000
# New objects before Python looks for cycles among them: a batch makes tens of thousands.
COLLECT_AFTER: Final = 20_000


def run_task(
    launch: TaskLaunch,
    orphaned: Callable[[], bool],
    metrics: TaskMetrics | None = None,
    lease: int | None = None,
) -> Outcome:
    """Runs the attempt and returns when it has ended, never raising.

    `orphaned` is checked between batches: once True, the attempt commits what it can within five
    seconds and ends without a status. In all other cases its statuses are in the topic before this
    returns. `metrics` counts what the task does. `lease` is the descriptor whose lock proves that
    the attempt lives; a JVM that runs it keeps it open.
    """
    # Spark's workers are forked with the collector off; cycles would pile up over months.
    gc.enable()
    sys.setrecursionlimit(max(RECURSION, sys.getrecursionlimit()))
    gc.set_threshold(COLLECT_AFTER)
    try:
        setup = resolve_launch(launch)
    except Exception as error:  # a config provider may be third-party code
        # the leader writes the status: Kafka's address may be what cannot be resolved
        trace = TaskSetup(launch).trace(error)
        _log.error("Task %s failed: %s", launch.id, trace)
        return Outcome(launch.id, launch.attempt, AttemptEnd.FAILED, trace)
    setup.lease = lease
    reporter = StatusReporter(setup)
    try:
        try:
            end = _run_in_fitting_batches(setup, orphaned, reporter, metrics or TaskMetrics())
        finally:
            reporter.close()
        return Outcome(launch.id, launch.attempt, end)
    except Fenced as error:
        return Outcome(launch.id, launch.attempt, AttemptEnd.FENCED, str(error))
    except Interrupted as error:
        trace = setup.trace(error)
        _log.warning("Task %s was interrupted: %s", launch.id, error)
        end = AttemptEnd.INTERRUPTED
        return Outcome(launch.id, launch.attempt, end, trace, killed=error.killed)
    except BaseException as error:  # a connector's exception is its outcome, also sys.exit's
        trace = reporter.trace or setup.trace(error)
        _log.error("Task %s failed: %s", launch.id, trace)
        return Outcome(launch.id, launch.attempt, AttemptEnd.FAILED, trace)


def _run_in_fitting_batches(
    setup: TaskSetup, orphaned: Callable[[], bool], reporter: StatusReporter, metrics: TaskMetrics
) -> AttemptEnd:
    """Starts again with smaller batches if Kafka refuses them. Java's producer splits a batch
    that is too large, which librdkafka cannot; this task has not kept what it sent."""
    while True:
        try:
            return _run(setup, orphaned, reporter, metrics)
        except BatchTooLarge:
            smaller = setup.with_smaller_batches()
            if smaller is None:
                raise
            setup = smaller
            _log.warning("Task %s begins anew, with smaller batches", setup.id)


def _run(
    setup: TaskSetup, orphaned: Callable[[], bool], reporter: StatusReporter, metrics: TaskMetrics
) -> AttemptEnd:
    # the leader repeats an assignment after it has forgotten the connector's topics
    assignment = AttemptAssignment(setup, orphaned, repeated=reporter.forget_topics)
    end = WorkerTopics(setup).read_assignment(assignment).end
    return end or _run_newest(setup, assignment, reporter, metrics)


def _run_newest(
    setup: TaskSetup,
    assignment: AttemptAssignment,
    reporter: StatusReporter,
    metrics: TaskMetrics,
) -> AttemptEnd:
    if setup.java:
        return _run_java(setup, assignment, reporter, metrics)
    try:
        task = setup.new_task()
        reporter.version = task.version()
        if isinstance(task, SourceTask):
            return run_source(setup, task, assignment, reporter, metrics)
        return run_sink(setup, task, assignment, reporter, metrics)
    except (Fenced, Interrupted):
        raise
    except Exception as error:
        if not isinstance(error, BatchTooLarge) or setup.with_smaller_batches() is None:
            _report_failure(setup, reporter, error)
        raise


def _run_java(
    setup: TaskSetup,
    assignment: AttemptAssignment,
    reporter: StatusReporter,
    metrics: TaskMetrics,
) -> AttemptEnd:
    try:
        return run_java_task(setup, assignment, reporter, metrics)
    except (Fenced, Interrupted):
        raise
    except Exception as error:
        _report_failure(setup, reporter, error)
        raise


def _report_failure(setup: TaskSetup, reporter: StatusReporter, error: Exception) -> None:
    """Writes FAILED, unless another attempt has the task by now."""
    try:
        if WorkerTopics(setup).newest_state() is not DesiredTaskState.SUPERSEDED:
            reporter.write(reporter.failure(error))
    except (ConnectError, KafkaException, Interrupted) as failed:
        _log.error("Task %s failed, and its status cannot be written: %s", setup.id, failed)
