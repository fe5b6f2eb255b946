"""Keeps one Spark session alive while it is wanted: starts, watches and replaces it.

A session has ended when its JVM died or does not answer, when its SparkContext was stopped, when a
restarted master has forgotten it, and when the executors that a master grants it do not start. A
master that grants it nothing is waited for: a new application would only be the last in its queue.
Calls to the JVM run neither on a caller's thread nor on the watching one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from connect_runtime.logs.log_output import rotate
from connect_runtime.spark.jvm import JvmFigures
from connect_runtime.spark.master import MasterState, StandaloneMaster, former_applications
from connect_runtime.spark.session import SparkSession
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

# Pause after a session ended or did not start: 1 s, then 2, 4, ... up to a minute. After a session
# that lived this long, the pauses start over.
_BACKOFF_S = 1.0
_BACKOFF_MAX_S = 60.0
_SETTLED_S = 60.0

_TICK_S = 0.25
# A tick that took longer, because this process was frozen, says nothing about the JVM.
_TICK_MAX_S = 1.0
_PROBE_S = 1.0
_FIGURES_EVERY = 15  # probes
# Silence of the JVM that is reported, and after which it counts as ended.
_SILENT_S = 10.0
_DEAD_S = 60.0
# A start that takes longer is reported.
_SLOW_START_S = 45.0
# Time without executors that is reported, unless they are just being started first.
_NO_SLOTS_REPORTED_S = 10.0
# Between two questions to a master, while there are no executors.
_MASTER_S = 2.0

_END_S = 30.0


@dataclass(slots=True)
class _Answers:
    """The JVM's last answer, and the number of answers. `slots` None: the context was stopped.
    `master`: what a standalone master said when there were no executors; None if it did not
    answer."""

    slots: int | None = 0
    figures: JvmFigures | None = None
    master: MasterState | None = None
    count: int = 0
    enough: threading.Event = field(default_factory=threading.Event)


class SessionSupervisor:
    """`make` creates a session that is not open yet. `opened` is called when one is open, `failed`
    with the reason when one did not open; both on the supervisor's thread. `executors_s`: a session
    of a standalone cluster whose executors take longer to start is replaced. `patience_s`: how long
    after `start` applications of former leaders may go on."""

    def __init__(
        self,
        make: Callable[[], SparkSession],
        *,
        opened: Callable[[SparkSession], None],
        failed: Callable[[str], None],
        executors_s: float,
        patience_s: float = 0.0,
    ) -> None:
        self._make = make
        self._opened = opened
        self._failed = failed
        self._executors_s = executors_s
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._wanted = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="spark-supervisor", daemon=True)
        self._began = 0.0
        self._released_at = 0.0
        self._current: SparkSession | None = None
        self._session: SparkSession | None = None
        self._slots = 0
        self._problem: str | None = None
        self._answers = _Answers()
        self._starting_first = True
        self._failures = 0

    def start(self) -> None:
        """Wants a session from now on, and returns at once."""
        if self._wanted.is_set():
            return
        self._began, self._starting_first, self._problem = time.monotonic(), True, None
        self._wanted.set()
        if self._thread.ident is None:
            self._thread.start()

    def release(self, after_s: float = 0.0) -> None:
        """Wants no session until the next `start`, and returns at once. After this time, unless it
        is wanted again, the executors go back to the cluster."""
        self._released_at = time.monotonic() + after_s
        self._wanted.clear()

    @property
    def session(self) -> SparkSession | None:
        """Returns the open session; None if there is none."""
        session = self._session
        return session if session is not None and session.alive else None

    @property
    def slots(self) -> int:
        """Returns how many tasks can run at once; 0 while there is no session, or none is
        wanted."""
        return self._slots if self._wanted.is_set() and self.session is not None else 0

    @property
    def jvm(self) -> JvmFigures | None:
        """Returns what the open session's JVM said of itself last."""
        return None if self.session is None else self._answers.figures

    @property
    def problem(self) -> str | None:
        """Returns why nothing can run now; None if tasks can, if Spark has just begun to start, or
        if no session is wanted."""
        if not self._wanted.is_set():
            return None
        if self._problem is not None or not self._starting_first:
            return self._problem
        waited = time.monotonic() - self._began if self._began else 0.0
        return None if waited < _SLOW_START_S else f"Spark has been starting for {waited:.0f} s"

    def close(self, prepare: Callable[[], None]) -> None:
        """Ends the session within a bounded time; calls `prepare` first if it is open."""
        if self.session is not None:
            prepare()
        with self._lock:
            self._over.set()
            self._wanted.set()  # wakes a thread that waits for it
            if self._session is None and self._current is not None:
                self._current.kill()
        if self._thread.ident is not None:
            self._thread.join(_END_S)

    # --- on the supervisor's thread ---

    def _keep(self) -> None:
        wait_s = 0.0
        while not self._over.wait(wait_s):
            self._wanted.wait()
            if self._over.is_set():
                return
            began = time.monotonic()
            try:
                self._live()
            except Exception as error:
                # nothing else would start another session
                _log.exception("Spark could not be watched or ended")
                self._report(f"Spark failed: {_in_a_line(error)}")
            if time.monotonic() - began > _SETTLED_S or not self._wanted.is_set():
                self._failures = 0
            wait_s = min(_BACKOFF_S * 2 ** min(self._failures, 10), _BACKOFF_MAX_S)
            self._failures += 1

    def _live(self) -> None:
        """Runs one session from its start to its end."""
        began = time.monotonic()
        session: SparkSession | None = None
        try:
            session = self._make()
            with self._lock:
                if self._over.is_set():
                    return
                self._current = session
            session.open()
            _log.info("Spark started in %.1f s", time.monotonic() - began)
        except Exception as error:
            reason = f"Spark did not start: {_in_a_line(error)}"
            _log.debug("Spark did not start", exc_info=True)
            self._report(reason)
            self._failed(reason)
        else:
            self._slots = 0
            self._session = session
            self._opened(session)
            self._report(self._watch(session))
        finally:
            with self._lock:
                self._session = self._current = None
            if session is not None:
                session.close()

    def _report(self, reason: str) -> None:
        """Reports the problem at once: ending what is left of a session takes seconds."""
        if self._wanted.is_set() and not self._over.is_set():
            self._starting_first = False
            self._problem = f"{reason}; starting it again"
            _log.warning("%s", self._problem)

    def _watch(self, session: SparkSession) -> str:
        """Waits until the session ends or is no longer wanted; returns why it ended."""
        answers = self._answers = _Answers()
        probe = threading.Thread(
            target=_probe, args=(session, answers), name="spark-probe", daemon=True
        )
        probe.start()
        master = session.master
        if master is not None:
            args = (session, master, answers)
            name = "spark-master"
            threading.Thread(target=self._ask, args=args, name=name, daemon=True).start()
        try:
            return self._end_of(session, None if master is None else master.own_id, answers)
        finally:
            answers.enough.set()

    def _end_of(self, session: SparkSession, application: str | None, answers: _Answers) -> str:
        """Waits until the session ends; returns the reason. `application`: its id at a standalone
        master; None if there is none."""
        counted, silent_s, empty_s, starting_s, last = 0, 0.0, 0.0, 0.0, time.monotonic()
        while True:
            now_s = time.monotonic()
            step, last = min(now_s - last, _TICK_MAX_S), now_s
            silent_s = 0.0 if answers.count != counted else silent_s + step
            counted = answers.count
            empty_s = 0.0 if answers.slots else empty_s + step
            answer = None if application is None or answers.slots else answers.master
            shortage = answer.shortage(application) if answer and application else None
            starting_s = 0.0 if answers.slots or shortage else starting_s + step
            if not self._wanted.is_set() and now_s >= self._released_at:
                return ""
            if not session.alive:
                return "Spark's JVM ended"
            if answers.slots is None:
                return "Spark's context was stopped"
            if silent_s > _DEAD_S:
                session.kill()
                return f"Spark's JVM did not answer for {_DEAD_S:g} s"
            if answer and application and answer.application(application) is None:
                return "Spark had no executor, and its master does not know the application"
            if application is not None and starting_s > self._executors_s:
                return f"Spark had no executor for {empty_s:.0f} s"
            if answers.slots:
                self._starting_first = False
            self._slots = answers.slots
            reported_s = _NO_SLOTS_REPORTED_S
            if self._starting_first and shortage is None:
                reported_s = _SLOW_START_S
            problem = _problem_of(silent_s, empty_s, reported_s, shortage)
            if problem or answers.slots:  # else the earlier problem may persist
                self._problem = problem
            _keep_small(session)
            if self._over.wait(_TICK_S):
                return ""

    def _ask(self, session: SparkSession, master: StandaloneMaster, answers: _Answers) -> None:
        """Asks a master once, and again while there are no executors. Ends applications of former
        leaders, which may hang and keep all cores."""
        done = False
        while not answers.enough.is_set():
            if not done or not answers.slots:
                try:
                    done = self._ask_once(session, master, answers)
                except Exception:
                    answers.master = None
                    _log.debug("Spark's master did not answer", exc_info=True)
            answers.enough.wait(_MASTER_S)

    def _ask_once(self, session: SparkSession, master: StandaloneMaster, answers: _Answers) -> bool:
        """Returns whether former leaders' applications were given the time to end by themselves."""
        answers.master = state = master.state()
        due = time.monotonic() - self._began >= self._patience_s and self._wanted.is_set()
        if due and session.tenure is not None:
            for application in former_applications(state, master.own_id, session.tenure):
                text = "Spark application %s of a former leader is ended, to get its cores: %s"
                _log.warning(text, application.id, application.name)
                master.end(application.id)
        return due


def _probe(session: SparkSession, answers: _Answers) -> None:
    while answers.slots is not None:
        try:
            answers.slots = session.slots()
        except Exception:
            # the JVM is dying; if not, its silence is noticed
            _log.debug("Spark did not answer", exc_info=True)
        else:
            answers.count += 1
            if answers.slots is not None and answers.count % _FIGURES_EVERY == 1:
                answers.figures = _figures(session)
        if answers.enough.wait(_PROBE_S):
            return


def _figures(session: SparkSession) -> JvmFigures | None:
    """Returns figures for metrics; None without an answer, which the session does not need."""
    try:
        return session.jvm_figures()
    except Exception:
        _log.debug("Spark's JVM says nothing of itself", exc_info=True)
        return None


def _problem_of(
    silent_s: float, empty_s: float, reported_s: float, shortage: str | None
) -> str | None:
    if silent_s > _SILENT_S:
        return f"Spark's JVM has not answered for {silent_s:.0f} s"
    if empty_s <= reported_s:
        return None
    return shortage or f"Spark has had no executor for {empty_s:.0f} s: does one start?"


def _keep_small(session: SparkSession) -> None:
    try:
        rotate(session.log)
    except OSError as error:
        _log.debug("%s was not rotated: %s", session.log, error)


def _in_a_line(error: Exception) -> str:
    """Returns our own errors as they are, and the first line of others."""
    text = str(error)
    if isinstance(error, ConnectError) or not text:
        return text or type(error).__name__
    return f"{type(error).__name__}: {text.strip().splitlines()[0]}"
