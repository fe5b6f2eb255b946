"""When a Spark session is replaced, and what is said meanwhile; without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.spark import session_supervisor
from connect_runtime.spark.master import Application, MasterState, Tenure
from connect_runtime.spark.session import SparkSession
from support.wait import wait_until


class Master:
    """Stands in for a StandaloneMaster: it grants `cores` of its 8 to the session, and lists
    `others`. `known` False: it has forgotten the session."""

    def __init__(self) -> None:
        self.own_id = "app-1"
        self.cores, self.known = 8, True
        self.others: list[Application] = []
        self.ended: list[str] = []

    def state(self) -> MasterState:
        own = [Application(self.own_id, "own", None, self.cores)] if self.known else []
        return MasterState((*own, *self.others), 8, 0)

    def end(self, application: str) -> None:
        self.ended.append(application)
        self.others = [each for each in self.others if each.id != application]


class Session:
    """Stands in for a SparkSession; `slots` is what its JVM answers."""

    tenure = Tenure("group g, Kafka k", 5)

    def __init__(self, folder: Path, slots: int | None, master: Master | None) -> None:
        self.master = master
        self.log = folder / "spark.log"
        self.answer = slots
        self.alive = True
        self.frozen = threading.Event()

    def open(self) -> None: ...
    def slots(self) -> int | None:
        if self.frozen.is_set():
            raise OSError("no answer")
        return self.answer

    def kill(self) -> None:
        self.alive = False

    def close(self) -> None:
        self.alive = False


class Kept:
    """A supervisor of such sessions, in the order of their starts."""

    def __init__(
        self,
        folder: Path,
        *,
        master: Master | None = None,
        slots: int = 0,
        executors_s: float = 60.0,
        patience_s: float = 0.0,
    ) -> None:
        self.sessions: list[Session] = []
        self.supervisor = session_supervisor.SessionSupervisor(
            lambda: self._make(folder, slots, master),  # type: ignore[arg-type, return-value]
            opened=lambda session: None,
            failed=lambda reason: None,
            executors_s=executors_s,
            patience_s=patience_s,
        )

    def _make(self, folder: Path, slots: int, master: Master | None) -> Session:
        self.sessions.append(Session(folder, slots, master))
        return self.sessions[-1]

    def started(self, number: int) -> Session:
        wait_until(lambda: len(self.sessions) > number, what=f"session {number}")
        wait_until(lambda: self.supervisor.session is self.sessions[number], what="it to be open")
        return self.sessions[number]


def test_pauses_between_starts_double_up_to_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    tried: list[str] = []

    class Over:
        def wait(self, seconds: float) -> bool:
            waited.append(seconds)
            return len(waited) > 9

        def is_set(self) -> bool:
            return False

    def make() -> SparkSession:
        raise OSError("No space left on device")

    kept = session_supervisor.SessionSupervisor(
        make, opened=lambda session: None, failed=tried.append, executors_s=60.0
    )
    monkeypatch.setattr(kept, "_over", Over())
    kept._wanted.set()
    kept._keep()
    assert waited == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert set(tried) == {"Spark did not start: OSError: No space left on device"}
    assert kept.problem == f"{tried[0]}; starting it again"


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (
        ("_TICK_S", 0.01),
        ("_PROBE_S", 0.01),
        ("_BACKOFF_S", 0.01),
        ("_SILENT_S", 0.1),
        ("_DEAD_S", 0.5),
        ("_NO_SLOTS_REPORTED_S", 0.1),
        ("_MASTER_S", 0.01),
    ):
        monkeypatch.setattr(session_supervisor, name, seconds)


Keep = Callable[..., Kept]


@pytest.fixture
def keep(tmp_path: Path, fast: None) -> Iterator[Keep]:
    """Starts a supervisor, which is closed in the end."""
    with ExitStack() as closing:

        def start(**options: Any) -> Kept:
            kept = Kept(tmp_path, **options)
            closing.callback(kept.supervisor.close, prepare=lambda: None)
            kept.supervisor.start()
            return kept

        yield start


def test_executors_that_a_master_granted_and_that_do_not_start_are_given_up(
    keep: Keep,
) -> None:
    kept = keep(master=Master(), executors_s=0.5)
    first = kept.started(0)
    first.answer = 4
    wait_until(lambda: kept.supervisor.slots == 4, what="slots")
    first.answer = 0
    assert "no executor" in wait_until(lambda: kept.supervisor.problem, what="a problem")
    second = kept.started(1)
    assert not first.alive
    second.answer = 4
    wait_until(lambda: kept.supervisor.slots == 4, what="slots")
    wait_until(lambda: kept.supervisor.problem is None, what="the problem to be over")


def test_a_replacement_that_is_being_started_is_waited_for(keep: Keep) -> None:
    """The trap: a slow worker needs more time than the fast one before, and a new application would
    make it begin anew."""
    kept = keep(master=Master(), executors_s=600, slots=4)
    first = kept.started(0)
    wait_until(lambda: kept.supervisor.slots == 4, what="slots")
    first.answer = 0
    wait_until(lambda: kept.supervisor.problem, what="a problem")
    _waits(kept, first)


def _waits(kept: Kept, session: Session) -> None:
    """It stays for as long as many times the patience of these tests."""
    answers = kept.supervisor._answers
    before = answers.count
    wait_until(lambda: answers.count > before + 100, what="some probes")
    assert session.alive
    assert kept.sessions[-1] is session


def test_an_application_that_is_granted_no_core_waits_and_names_who_has_them(
    keep: Keep,
) -> None:
    """A new one would only be the last in the master's queue."""
    master = Master()
    master.cores = 0
    master.others = [Application("app-0", "nightly", None, 8)]
    kept = keep(master=master, executors_s=0.3)
    first = kept.started(0)
    problem = wait_until(lambda: kept.supervisor.problem, what="a problem")
    assert "none of its 8 cores to this runtime: nightly holds 8 (app-0)" in problem
    _waits(kept, first)
    assert master.ended == []


def test_an_application_that_the_master_has_forgotten_is_replaced_at_once(keep: Keep) -> None:
    master = Master()
    kept = keep(master=master, executors_s=600, slots=4)
    first = kept.started(0)
    wait_until(lambda: kept.supervisor.slots == 4, what="slots")
    master.known = False
    first.answer = 0
    kept.started(1)
    assert not first.alive


@pytest.mark.parametrize("patience_s", [0.0, 0.5])
def test_applications_of_former_leaders_are_ended_and_no_others(
    keep: Keep, patience_s: float
) -> None:
    master = Master()
    master.cores = 0
    master.others = [
        Application("former", "connect (group g, Kafka k, term 4)", None, 8),
        Application("newer", "connect (group g, Kafka k, term 6)", None, 0),
        Application("elsewhere", "connect (group g, Kafka l, term 4)", None, 0),
        Application("other", "nightly", None, 0),
    ]
    kept = keep(master=master, patience_s=patience_s)
    began = kept.supervisor._began
    wait_until(lambda: master.ended, what="an application to be ended")
    assert time.monotonic() - began >= patience_s
    _waits(kept, kept.started(0))
    assert master.ended == ["former"]


def test_a_former_leader_that_wakes_up_ends_nothing(keep: Keep) -> None:
    master = Master()
    master.cores = 0
    master.others = [Application("former", "connect (group g, Kafka k, term 4)", None, 8)]
    kept = keep(master=master, patience_s=0.3)
    first = kept.started(0)
    kept.supervisor.release(after_s=1.0)
    wait_until(lambda: not first.alive, what="the session to end")
    assert master.ended == []


def test_other_clusters_may_have_no_executors_for_long(keep: Keep) -> None:
    kept = keep()
    session = kept.started(0)
    # the first start may take its time
    assert kept.supervisor.problem is None
    session.answer = 2
    wait_until(lambda: kept.supervisor.slots == 2, what="slots")
    session.answer = 0
    wait_until(lambda: kept.supervisor.problem, what="a problem")
    wait_until(lambda: not session.alive or kept.supervisor.problem, what="it to stay")
    assert kept.sessions == [session]
    kept.supervisor.close(prepare=lambda: None)
    assert not session.alive


def test_a_session_that_does_not_answer_is_killed_and_replaced(
    keep: Keep, caplog: pytest.LogCaptureFixture
) -> None:
    kept = keep(slots=2)
    first = kept.started(0)
    first.frozen.set()
    kept.started(1)
    assert not first.alive
    assert "did not answer for 0.5 s" in caplog.text
    wait_until(lambda: kept.supervisor.problem is None, what="the problem to be over")


def test_a_problem_is_said_before_the_rest_of_a_session_is_ended(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(slots=2)
    first = kept.started(0)
    ending = threading.Event()
    monkeypatch.setattr(first, "close", lambda: ending.wait(30))
    first.alive = False
    said = "Spark's JVM ended; starting it again"
    wait_until(lambda: kept.supervisor.problem == said, what="the problem")
    assert kept.supervisor.slots == 0
    assert len(kept.sessions) == 1
    ending.set()
    kept.started(1)


def test_whatever_ends_a_session_badly_another_one_is_started(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(slots=2)
    first = kept.started(0)

    def close() -> None:
        raise OSError("Input/output error")

    monkeypatch.setattr(first, "close", close)
    first.alive = False
    kept.started(1)
    wait_until(lambda: kept.supervisor.problem is None, what="the problem to be over")


def test_a_slow_first_start_is_a_problem_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(tmp_path)
    opening = threading.Event()
    monkeypatch.setattr(Session, "open", lambda self: opening.wait(30))
    kept.supervisor.start()
    wait_until(lambda: kept.sessions, what="a start")
    assert kept.supervisor.problem is None
    monkeypatch.setattr(session_supervisor, "_SLOW_START_S", 0.0)
    assert str(kept.supervisor.problem).startswith("Spark has been starting for")
    opening.set()
    kept.supervisor.close(prepare=lambda: None)


def test_a_released_session_ends_and_another_one_starts_when_it_is_wanted(
    keep: Keep, caplog: pytest.LogCaptureFixture
) -> None:
    kept = keep(master=Master(), slots=2)
    first = kept.started(0)
    kept.supervisor.release()
    wait_until(lambda: not first.alive, what="the session to end")
    assert (kept.supervisor.slots, kept.supervisor.problem) == (0, None)
    kept.supervisor.start()
    kept.started(1)
    wait_until(lambda: kept.supervisor.slots == 2, what="slots")
    # giving executors back is no failure
    assert kept.supervisor._failures == 1
    assert "starting it again" not in caplog.text
    kept.supervisor.release()


def test_a_session_that_is_wanted_again_in_time_stays(keep: Keep) -> None:
    kept = keep(master=Master(), slots=2)
    first = kept.started(0)
    wait_until(lambda: kept.supervisor.slots == 2, what="slots")
    kept.supervisor.release(after_s=600)
    assert kept.supervisor.slots == 0
    assert first.alive
    kept.supervisor.start()
    wait_until(lambda: kept.supervisor.slots == 2, what="slots again")
    kept.supervisor.release(after_s=0.2)
    wait_until(lambda: not first.alive, what="the session to end")
    assert len(kept.sessions) == 1


def test_nothing_starts_before_a_session_is_wanted(tmp_path: Path) -> None:
    kept = Kept(tmp_path, master=Master())
    kept.supervisor.close(prepare=lambda: None)
    assert kept.sessions == []
