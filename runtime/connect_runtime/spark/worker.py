"""Runs one attempt in a Spark executor's Python worker, or none if its runtime is gone.

A worker that catches SIGHUP outlives Spark, so it must end by itself: an orphan drains for at most
`DRAIN_S`, then the process exits hard. Never raises: a task's exception is its outcome.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FrameType
from typing import TypeAlias

from pyspark import TaskContext

from connect_runtime.api import ConnectorError
from connect_runtime.config_providers.references import holds_reference
from connect_runtime.engine.engine_jar import class_path
from connect_runtime.engine.sent_files import missing_places
from connect_runtime.kafka.local_processes import find_java
from connect_runtime.logs.log_output import process_is_about
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.plugins import registry
from connect_runtime.plugins.modules import allow_modules
from connect_runtime.spark.attempts import (
    ENVELOPE,
    MetricsFile,
    NodeMissingPlugin,
    NotDecrypted,
    decrypt,
    envelope_from_json,
    keep_from_forks,
    key_of,
    launch_from_json,
    lock_lease,
    metrics_file,
    missing_plugin_json,
    outcome_json,
    sockets,
)
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

Orphaned: TypeAlias = Callable[[], bool]
Body: TypeAlias = Callable[[TaskLaunch, Orphaned], Outcome]

DRAIN_S = 5.0

# Each time costs 0.1 ms of CPU, in each of hundreds of tasks: those that count nothing publish less
# often, up to the second time
_PUBLISH_S = (5.0, 20.0)
_DRAIN_POLL_S = 0.25
# On systems that cannot wait for the end of a process
_WATCH_S = 0.25
_PR_SET_PDEATHSIG = 1
_SIGNALS = (signal.SIGHUP, signal.SIGTERM)


class OrphanWatch:
    """Detects that the process that launched this one is gone, and then sets a deadline.

    Its thread calls `publish` every few seconds, so that metrics need no thread of their own. It
    returns whether there was something new.
    """

    def __init__(self, publish: Callable[[], bool] = lambda: False) -> None:
        self._publish = publish
        self._parent = os.getppid()
        self._orphaned = False
        self._over = False
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._thread = threading.Thread(target=self._watch, name="orphan-watch", daemon=True)

    def __call__(self) -> bool:
        """Returns whether the runtime is gone."""
        return self._orphaned

    def begin(self) -> None:
        """Starts watching, on the main thread. From here on signals only set a flag."""
        for number in _SIGNALS:
            signal.signal(number, self._noticed)
        _request_signal_at_parents_death()
        self._thread.start()

    def end(self) -> None:
        """Stops watching, on the main thread. A signal kills an idle worker, as Spark expects."""
        self._over = True
        self._wake_up()
        self._thread.join(_DRAIN_POLL_S)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    def _noticed(self, number: int, frame: FrameType | None) -> None:
        # No lock here: the interrupted thread itself may hold it.
        self._orphaned = True
        self._wake_up()

    def _wake_up(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full: it will wake up anyway
            os.write(self._wake, b".")

    def _watch(self) -> None:
        parent = _descriptor_of(self._parent)
        waiting = select.poll()
        for descriptor in filter(None, (self._woken, parent)):
            waiting.register(descriptor, select.POLLIN)
        shortest_s, longest_s = (_WATCH_S, _WATCH_S) if parent is None else _PUBLISH_S
        wait_s = shortest_s
        # Signals can be missed or handled late; a missing parent cannot.
        while not self._orphaned and os.getppid() == self._parent:
            waiting.poll(wait_s * 1000)
            if self._over:
                return
            wait_s = shortest_s if self._publish_safely() else min(2 * wait_s, longest_s)
        self._orphaned = True
        deadline = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline:
            if self._over:
                return
            time.sleep(_DRAIN_POLL_S)
        os._exit(1)

    def _publish_safely(self) -> bool:
        try:
            return self._publish()
        except Exception:  # an orphan must be noticed even if metrics fail
            _log.debug("Metrics were not published", exc_info=True)
            return False


def _descriptor_of(pid: int) -> int | None:
    """Returns a descriptor that is readable once the process has ended; None if the system has no
    such thing, or the process is gone already."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _request_signal_at_parents_death() -> None:
    """Requests SIGTERM when the daemon dies, even by SIGKILL. On other systems only the watch
    notices."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def run_partition(partition: Iterable[object], body: Body | None = None) -> Iterator[str]:
    """Runs the launch in the job's properties, for `mapPartitions`. `body` replaces `run_task`. The
    partition has one element, which says nothing; PySpark takes a worker that leaves it unread for
    a broken one."""
    for _ in partition:
        try:
            yield outcome_json(_answer(TaskContext.get(), body))
        except NodeMissingPlugin as missing:
            yield missing_plugin_json(missing)


def _answer(task: TaskContext, body: Body | None) -> Outcome:
    envelope = envelope_from_json(task.getLocalProperty(ENVELOPE))
    if task.attemptNumber() > 0:
        # Spark retries after a lost executor in spite of its settings; the executor may not be dead
        trace = "The executor was lost; Spark's own retry does nothing"
        return Outcome(envelope.id, envelope.attempt, AttemptEnd.LOST, trace, dead=False)
    descriptor = None if envelope.lease is None else lock_lease(envelope.lease)
    if envelope.lease is not None and descriptor is None:
        return Outcome(envelope.id, envelope.attempt, AttemptEnd.ORPHANED)
    try:
        launch = launch_from_json(decrypt(envelope.encrypted, key_of()))
    except NotDecrypted as error:
        return Outcome(envelope.id, envelope.attempt, AttemptEnd.FAILED, str(error))
    if envelope.lease is None:  # the process of another machine, whose packages may differ
        check_plugins(launch)
    keep_from_forks(sockets() if descriptor is None else [*sockets(), descriptor])
    with contextlib.suppress(OSError):
        # a plugin that signals its process group, to end what it started, must end no other task
        os.setpgid(0, 0)
    return _run(launch, body, envelope.lease, descriptor)


def check_plugins(launch: TaskLaunch) -> None:
    """Raises NodeMissingPlugin if a class that the task needs is not on this node, where the driver
    has it."""
    if launch.java:
        _check_java(launch)
        return
    allow_modules(launch.worker)
    try:
        if "task.class" in launch.config:
            registry.task(launch.config["task.class"])
        config = {**launch.worker, **launch.connector_config}
        for kind, key in registry.class_keys(config):
            name = config.get(key, "").strip()
            if name and not holds_reference(name):
                registry.plugin(kind, key, name)
    except ConnectorError as error:
        raise NodeMissingPlugin(str(error)) from error


def _check_java(launch: TaskLaunch) -> None:
    missing = missing_places(launch.worker)
    if missing:
        paths = ", ".join(map(str, missing))
        raise NodeMissingPlugin(f"{paths} on plugin.path is neither here nor in the archive")
    if find_java() is None:
        raise NodeMissingPlugin("Java plugins need Java 17 or newer, in JAVA_HOME or PATH")
    try:
        class_path()
    except (ConnectError, OSError, subprocess.SubprocessError) as error:
        raise NodeMissingPlugin(f"{error}") from error


def _run(
    launch: TaskLaunch, body: Body | None, lease: str | None, descriptor: int | None
) -> Outcome:
    # the daemon forks with garbage collection off
    gc.enable()
    task = launch.id
    process_is_about(connector=task.connector, task=task.task, worker=launch.worker_id)
    metrics = TaskMetrics()
    file = _reading_file(lease, metrics)
    watch = OrphanWatch(file.publish if file else lambda: False)
    watch.begin()
    try:
        if body is None:
            from connect_runtime.tasks.run import run_task

            body = partial(run_task, metrics=metrics, lease=descriptor)
        return body(launch, watch)
    except BaseException:  # including SystemExit, which would look like a crash of the worker
        return Outcome(launch.id, launch.attempt, AttemptEnd.FAILED, traceback.format_exc())
    finally:
        watch.end()
        if file is not None:
            file.close()


def _reading_file(lease: str | None, metrics: TaskMetrics) -> MetricsFile | None:
    if lease is None:
        return None
    try:
        return MetricsFile(metrics_file(lease), metrics.reading)
    except OSError as error:
        _log.warning("The metrics of this task cannot be written: %s", error)
        return None
