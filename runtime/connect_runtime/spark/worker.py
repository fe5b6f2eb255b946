"""What runs in a Spark executor's Python worker: one attempt at a task, or none when its runtime
is gone.

A worker outlives Spark when it catches SIGHUP, so whoever catches it has to end by itself: an
orphan drains for at most `DRAIN_S`, then the process exits hard. Never raises: what a task threw is
its outcome.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TypeAlias

from pyspark import TaskContext

from connect_runtime.spark.lease import hold
from connect_runtime.spark.messages import (
    Envelope,
    envelope_from_json,
    launch_from_json,
    outcome_json,
)
from connect_runtime.spark.sealing import Unreadable, key_of, unseal
from connect_runtime.tasks.launch import Ended, Outcome, TaskLaunch

Orphaned: TypeAlias = Callable[[], bool]
Body: TypeAlias = Callable[[TaskLaunch, Orphaned], Outcome]

DRAIN_S = 5.0

_WATCH_S = 0.25
_PR_SET_PDEATHSIG = 1
_SIGNALS = (signal.SIGHUP, signal.SIGTERM)


class OrphanWatch:
    """Notices that the process that launched this one is gone, and sets a deadline then."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._orphaned = False
        self._over = threading.Event()

    def __call__(self) -> bool:
        """Whether the runtime is gone."""
        return self._orphaned

    def begin(self) -> None:
        """On the main thread. Signals only take note from here on."""
        for number in _SIGNALS:
            signal.signal(number, self._noticed)
        _ask_for_signal_at_parents_death()
        threading.Thread(target=self._watch, name="orphan-watch", daemon=True).start()

    def end(self) -> None:
        """On the main thread. An idle worker dies of a signal, as Spark expects."""
        self._over.set()
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    def _noticed(self, number: int, frame: FrameType | None) -> None:
        # No Event here: its lock may be held by the very thread that the signal interrupts.
        self._orphaned = True

    def _watch(self) -> None:
        while not self._orphaned:
            if self._over.wait(_WATCH_S):
                return
            # Signals can be missed or handled late; a parent that is gone cannot.
            if os.getppid() != self._parent:
                self._orphaned = True
        if not self._over.wait(DRAIN_S):
            os._exit(1)


def _ask_for_signal_at_parents_death() -> None:
    """SIGTERM when the daemon dies, also by SIGKILL. Elsewhere the watch alone has to notice."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def run_partition(envelopes: Iterable[str], body: Body | None = None) -> Iterator[str]:
    """Runs the one launch of a partition, for `mapPartitions`. `body` stands in for `run_task`."""
    for text in envelopes:
        yield outcome_json(_answer(envelope_from_json(text), body))


def _answer(envelope: Envelope, body: Body | None) -> Outcome:
    task = TaskContext.get()
    if task is not None and task.attemptNumber() > 0:
        # Spark does so for a lost executor, whatever its settings; it may not be dead
        trace = "The executor was lost; Spark's own second try does nothing"
        return Outcome(envelope.id, envelope.attempt, Ended.LOST, trace, dead=False)
    if envelope.lease is not None and not hold(envelope.lease):
        return Outcome(envelope.id, envelope.attempt, Ended.ORPHANED)
    try:
        launch = launch_from_json(unseal(envelope.sealed, key_of()))
    except Unreadable as error:
        return Outcome(envelope.id, envelope.attempt, Ended.FAILED, str(error))
    return _run(launch, body)


def _run(launch: TaskLaunch, body: Body | None) -> Outcome:
    # the daemon forks with the collector off
    gc.enable()
    watch = OrphanWatch()
    watch.begin()
    try:
        if body is None:
            from connect_runtime.tasks.run import run_task

            body = run_task
        return body(launch, watch)
    except BaseException:  # also SystemExit, which would look like a crash of the worker
        return Outcome(launch.id, launch.attempt, Ended.FAILED, traceback.format_exc())
    finally:
        watch.end()
