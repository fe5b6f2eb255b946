"""Runs the herder: one thread that reads the topics, answers requests and carries out decisions.

`tick(now)` is one pass: read, elect, answer, decide, act. Other threads reach it only through the
queue. `decide` decides effects and `records` encodes them; this file moves values between them and
the edges. It keeps no state that must survive.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from connect_runtime.herder.cluster_log import ClusterLog
from connect_runtime.herder.decide import decide, next_look
from connect_runtime.herder.earlier_attempts import ended_attempts
from connect_runtime.herder.effects import Effect, StopRun, Unassign, connector_of
from connect_runtime.herder.records import (
    ConnectorWrite,
    connector_write,
    split_for_transactions,
    unassigned_records,
)
from connect_runtime.herder.runs import (
    Event,
    FencingEnded,
    Identified,
    InstanceFailed,
    InstanceStarted,
    InstanceStopped,
    Request,
    RunPhase,
    TaskEnded,
)
from connect_runtime.herder.verbs import NotLeader
from connect_runtime.herder.view import View, changed, changed_by, same
from connect_runtime.herder.worker import Worker
from connect_runtime.storage.assignments_topic import term_record
from connect_runtime.storage.log import (
    Fenced,
    LogRecord,
    Logs,
    NewRecord,
    WriteFailed,
    WriteRefused,
)
from connect_specs.diagnostics import ConnectError
from connect_specs.names import leader_transactional_id

_log = logging.getLogger(__name__)

T = TypeVar("T")

# The loop waits for an event this long before it looks at the topics and the clock again.
_IDLE_S = 0.05
# A request waits this long for the herder, as in Connect.
REQUEST_TIMEOUT_S = 90.0
# Rounds of decide and act in one tick; the rest waits for the next tick.
_ROUNDS = 12
# Pause before a failed write is retried.
_WRITE_RETRY_S = 0.5
# The last statuses are waited for this long
_FLUSH_S = 3.0
# If a leader was fenced although the election still calls it the leader, it waits this long, more
# than a session. By then the election knows a successor; if there is none, Kafka only ended a
# transaction that took too long.
_FENCED_S = 7.0


class Candidate(Protocol):
    """Membership in the group that elects the leader."""

    @property
    def leading(self) -> bool: ...
    @property
    def term(self) -> int:
        """Returns a number that grows each time that leadership is won."""
        ...

    def poll(self, timeout_s: float = 0.0) -> None: ...
    def close(self) -> None: ...


class Herder:
    """Runs in its own thread between `start` and `stop`.

    Other threads call it through `run_on_thread`.
    """

    def __init__(
        self,
        url: str,
        logs: Logs,
        election: Candidate,
        worker: Worker,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self._topics = worker.settings.topics
        self._transactional_id = leader_transactional_id(worker.settings.group_id)
        self._election = election
        self._worker = worker
        self._events = worker.events
        self._clock = clock
        self._log = ClusterLog(logs, self._topics)
        self._thread = threading.Thread(target=self._loop, name="herder", daemon=True)
        self._ticking: int | None = None
        self._stopping = threading.Event()
        self._leading = False
        self._won: int | None = None
        self._fenced_until = 0.0
        # the topics were read to their end at least once
        self.opened = False
        # The last error that prevented a step
        self.obstacle: ConnectError | None = None
        self._not_before = 0.0
        # The last view that needed no effects, and when time alone may change that.
        self._settled: View | None = None
        self._next_look = 0.0
        self._term = 0
        self._led_at = self._led_time = 0.0
        self.view = View(worker_id=worker.settings.worker_id)
        # Counts the views that differed from the one before
        self.changes = 0

    # --- for other threads ---

    def start(self) -> None:
        """Starts the herder's thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Lets tasks and connectors end, writes their statuses, and leaves the group."""
        self._stopping.set()
        self._thread.join(timeout_s)

    def run_on_thread(self, work: Callable[[], T]) -> T:
        """Runs `work` on the herder's thread, and returns or raises its result."""
        if threading.get_ident() == self._ticking:
            return work()
        answer: Future[T] = Future()
        self._events.put(Request(work, answer))
        try:
            return answer.result(REQUEST_TIMEOUT_S)
        except TimeoutError:
            # Either it never starts, or it has run and the caller gets its result.
            if answer.cancel():
                raise
            return answer.result()

    @property
    def leading(self) -> bool:
        """Returns whether this runtime leads, as far as it knows. The election may know that it is
        over while the herder waits for Kafka."""
        return self._leading and self._election.leading

    @property
    def has_led(self) -> bool:
        """Returns whether this runtime leads, or did."""
        return self._won is not None

    @property
    def statuses_problem(self) -> str | None:
        """Returns which statuses cannot be written or read now, and why."""
        return self._log.statuses.problem

    # --- for what runs on the herder's thread ---

    def now(self) -> float:
        """Returns the time of the herder's clock, in seconds."""
        return self._clock()

    def must_lead(self) -> None:
        """Raises NotLeader unless this runtime leads."""
        if not self._leading:
            raise NotLeader(None)

    def write(self, records: Sequence[NewRecord]) -> Sequence[LogRecord]:
        """Writes as the leader. Raises NotLeader before anything was sent; Fenced if another
        runtime took the lead, and then the records may be written; or WriteFailed."""
        self.must_lead()
        try:
            committed = self._log.write(records)
        except Fenced:
            self._replaced()
            raise
        self._refresh()
        return committed

    def prove_leading(self) -> None:
        """Repeats the record of this leader's term. Raises as `write` does."""
        self.write([term_record(self._topics.assignments, self._term, self.url)])

    # --- the loop ---

    def _loop(self) -> None:
        try:
            while not self._stopping.is_set():
                self._guarded(lambda: self.tick(self._clock()))
                self._guarded(self._wait)
        finally:
            for step in (self._drain, self._worker.close, self._election.close, self._log.close):
                self._guarded(step)
            self._refuse_the_rest()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
            return
        except ConnectError as error:
            self.obstacle = error
            _log.warning("%s; it will be retried", error.explained)
        except Exception:
            _log.exception("The herder failed; it continues")
        self._not_before = self._clock() + _WRITE_RETRY_S
        self._stopping.wait(_WRITE_RETRY_S)

    def _wait(self) -> None:
        """Waits for an event, or until the topics are due to be read."""
        try:
            event = self._events.get(timeout=_IDLE_S)
        except queue.Empty:
            return
        self._take(event)

    def tick(self, now: float) -> None:
        """Runs one pass. Public for tests, which call it with their own clock."""
        self._ticking = threading.get_ident()
        if not self.opened:
            self._log.open()
            self.opened = True
        self._log.poll()
        self._refresh()
        self._election.poll(0.0)
        won = self._election.term if self._election.leading else None
        if self._leading and won != self._won:
            self._follow()
        elif self._leading and self._log.assignments.term > self._term:
            # the election has not noticed, and Kafka fences no statuses
            self._replaced()
        # not right after being fenced, or two leaders would fence each other in turns
        may_lead = won != self._won or now >= self._fenced_until
        if won is not None and not self._leading and may_lead:
            self._lead(won, now)
        if self._leading and not self._log.usable:
            self._log.claim(self._transactional_id)
            self._refresh()
        self._worker.kill_former(now)
        # only what is queued now: a constant stream of requests must not block the election
        for _ in range(self._events.qsize()):
            self._take(self._events.get_nowait())
        self._settle(now)

    def _take(self, event: Event) -> None:
        match event:
            case Request(answer=answer) if not answer.set_running_or_notify_cancel():
                pass  # the caller has given up
            case Request(answer=answer) if self._stopping.is_set():
                answer.set_exception(NotLeader(None))
            case Request(work=work, answer=answer):
                try:
                    answer.set_result(work())
                except Exception as error:
                    answer.set_exception(error)
                self._settle(self._clock())
            case InstanceStarted() | InstanceFailed() | InstanceStopped():
                self._worker.instance_changed(event, self._clock())
                self._refresh()
            case Identified(class_name=class_name, kind=kind, version=version):
                self._worker.remember_class(class_name, kind, version)
                self._refresh()
            case FencingEnded():
                self._worker.fencing_ended(event, self.view, self._clock())
                self._refresh()
            case TaskEnded(outcome=outcome):
                self._worker.task_ended(outcome, self._clock())
                self._refresh()

    # --- leading ---

    def _lead(self, won: int, now: float) -> None:
        self._log.claim(self._transactional_id)
        try:
            self._term = self._log.begin_term(self.url)
        except Fenced:
            self._won, self._fenced_until = won, now + _FENCED_S
            raise
        self._leading = True
        self._won = won
        self._led_at, self._led_time = self._clock(), time.time()
        self._worker.lead(self._term)
        self._refresh()
        _log.info("%s leads, term %d", self.url, self._term)

    def _replaced(self) -> None:
        """Stops leading, and does not lead again before the election must know the successor."""
        self._fenced_until = self._clock() + _FENCED_S
        self._follow()

    def _follow(self) -> None:
        """Stops leading: the new leader supersedes our attempts, which end by themselves."""
        self._leading = False
        self._log.follow()
        self._worker.forget_all(self._clock())
        self._refresh()
        _log.warning("%s no longer leads", self.url)

    def _refresh(self) -> None:
        earlier = self.view
        self.view = View(
            config=self._log.config,
            status=self._log.status,
            assignments=self._log.assignments,
            instances=self._worker.instances,
            runs=self._worker.runs,
            kinds=self._worker.kinds,
            versions=self._worker.versions,
            fencings=self._worker.fencings,
            failures=self._worker.failures.all,
            published=self._worker.published,
            dead=self._worker.dead,
            waits=self._worker.waits,
            exactly_once=self._worker.settings.exactly_once,
            paused_release=self._worker.settings.paused_release,
            slots=self._worker.slots,
            occupied=self._worker.occupied,
            obstacle=self._worker.obstacle,
            worker_id=self._worker.settings.worker_id,
            term=self._term,
            led_at=self._led_at,
            led_time=self._led_time,
        )
        self.changes += not same(self.view, earlier)

    def _settle(self, now: float) -> None:
        """Decides and acts until nothing is left to do now."""
        if not self._leading or self._stopping.is_set() or now < self._not_before:
            return
        due: frozenset[str] | None = None
        if now < self._next_look and self._settled is not None:
            if same(self.view, self._settled):
                return
            due = changed(self.view, self._settled)
        for _ in range(_ROUNDS):
            decided = self.view
            effects = decide(decided, now, due)
            if not effects:
                self._settled, self._next_look = decided, next_look(decided, now)
                return
            try:
                self.perform(effects, now)
            except Fenced:
                return
            except WriteFailed as error:
                _log.warning("A write failed and will be retried: %s", error)
                self._not_before = now + _WRITE_RETRY_S
                return
            due = changed_by(effects, self.view, decided)

    def perform(self, effects: Sequence[Effect], now: float) -> None:
        """Writes all records of `effects` at once, then carries the effects out. An effect that
        fails is its connector's failure and does not affect other connectors.
        On the herder's thread only. Raises as `write` does."""
        by_connector: dict[str, list[Effect]] = {}
        for effect in effects:
            by_connector.setdefault(connector_of(effect), []).append(effect)
        writes: list[ConnectorWrite] = []
        for name, steps in by_connector.items():
            try:
                writes.append(connector_write(name, steps, self.view, self._topics, self.url))
            except Exception as error:  # a plugin's answer may not be encodable
                self._fail(name, error, now)
        self._carry_out(writes, now)

    def _carry_out(self, writes: Sequence[ConnectorWrite], now: float) -> None:
        """Writes all in one transaction; if Kafka refuses a record, halves them until the connector
        that it belongs to is found."""
        records = [record for write in writes for record in write.records]
        committed: Sequence[LogRecord] = ()
        try:
            for batch in split_for_transactions(records, self._topics.config):
                committed = self.write(batch) if batch else ()
        except WriteRefused as error:
            if len(writes) == 1:
                self._fail(writes[0].name, error, now)
                return
            half = len(writes) // 2
            self._carry_out(writes[:half], now)
            self._carry_out(writes[half:], now)
            return
        offsets = {
            record.key: record.offset
            for record in committed
            if record.topic == self._topics.assignments
        }
        for write in writes:
            try:
                for effect in write.effects:
                    self._worker.act(effect, self.view, now, write.attempts, offsets)
            except Exception as error:
                self._fail(write.name, error, now)
        self._refresh()

    def _fail(self, name: str, error: Exception, now: float) -> None:
        self._worker.failures.add(name, error, self.view, now)
        self._refresh()

    # --- shutdown ---

    def _refuse_the_rest(self) -> None:
        # only what is queued now: a constant stream of requests must not block the election
        for _ in range(self._events.qsize()):
            event = self._events.get_nowait()
            if isinstance(event, Request) and event.answer.set_running_or_notify_cancel():
                event.answer.set_exception(NotLeader(None))

    def _drain(self) -> None:
        """Lets tasks flush and commit, then writes statuses that say that nothing runs."""
        if not self._leading:
            return
        now_s = self._clock()
        self.perform(
            [StopRun(t) for t, run in self.view.runs.items() if run.phase is RunPhase.LAUNCHED],
            now_s,
        )
        deadline = now_s + self._worker.settings.graceful_s
        if self._worker.runs:
            while self._clock() < deadline and any(r.active for r in self._worker.runs.values()):
                self._election.poll(0.0)
                self._wait()
        self._log.poll()
        self._refresh()
        connectors, ending = self.view.config.connectors, self.view.assignments.ending
        over = [t for t in ending if ended_attempts(self.view, connectors.get(t.connector), (t,))]
        self.perform([Unassign(task) for task in over], now_s)
        self.write(unassigned_records(self.view, self._topics.status))
        # before the next leader writes its own
        self._log.statuses.flush(_FLUSH_S)
