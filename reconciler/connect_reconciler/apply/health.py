"""Does a connector run, is it stopped? Judged from statuses alone, pure.

Statuses lag behind: after a change, the ones from before it are still there for a while. A verdict
therefore counts at once only where it says something new, and else when it has stood for a while.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from connect_reconciler.apply.lag import Standings, growth
from connect_runtime.herder.values import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State


class Verdict(Enum):
    """What a status says about a connector that is to run."""

    RUNNING = auto()
    FAILED = auto()
    UNSETTLED = auto()


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, and in words what is wrong or missing."""

    verdict: Verdict
    detail: str = ""


def judge(status: ConnectorStatus | None) -> Judged:
    """A connector runs when it and all its tasks do; one failure is enough to fail it."""
    if status is None:
        return Judged(Verdict.UNSETTLED, "it has no status yet")
    parts = [("the connector", status.connector)]
    parts += [(f"task {number}", part) for number, part in sorted(status.tasks.items())]
    for who, part in parts:
        if part.state is State.FAILED:
            return Judged(Verdict.FAILED, f"{who} failed: {last_line(part.trace)}")
    for who, part in parts:
        if part.state is not State.RUNNING:
            return Judged(Verdict.UNSETTLED, f"{who} is {part.state.value}")
    if not status.tasks:
        return Judged(Verdict.RUNNING, "it has no tasks")
    return Judged(Verdict.RUNNING)


def still_running(status: ConnectorStatus | None) -> str:
    """What is left of a connector that was asked to stop; empty when it is gone."""
    if status is None:
        return "it has no status yet"
    if status.tasks:
        number, part = next(iter(sorted(status.tasks.items())))
        return f"task {number} is {part.state.value}"
    if status.connector.state is not State.STOPPED:
        return f"the connector is {status.connector.state.value}"
    return ""


@dataclass(frozen=True, slots=True)
class Watch:
    """One connector that is waited for. `before` is its status from before the change; `since` is
    when the newest verdict was first seen, `first` how far a sink was then, once that was read.
    `grew` says that it fell further behind since."""

    before: ConnectorStatus | None
    judged: Judged = Judged(Verdict.UNSETTLED)
    since: float = 0.0
    first: Standings | None = None
    grew: str = ""


def watch(
    state: Watch, status: ConnectorStatus | None, now: float, settle_s: float
) -> tuple[Watch, bool]:
    """The watch after one more look, and whether its verdict is final."""
    judged = judge(status)
    if judged != state.judged:
        state = Watch(state.before, judged, now)
    if judged.verdict is Verdict.UNSETTLED:
        return state, False
    if judged.verdict is Verdict.FAILED and _failures(status) - _failures(state.before):
        return state, True
    return state, now - state.since >= settle_s


def watch_lag(state: Watch, now: Standings, *, final: bool) -> tuple[Watch, bool]:
    """The same for a sink that runs, once its standings were read again. One whose lag has grown is
    looked at until it has not: after a pause there is much to catch up with."""
    if state.first is None:
        return replace(state, first=now), False
    if not final:
        return state, False
    grew = growth(state.first, now)
    return replace(state, grew=grew), not grew


def last_line(trace: str | None) -> str:
    """The line of a Python traceback that names the error; of a Java one, the innermost cause."""
    lines = [line.strip() for line in (trace or "").splitlines() if line.strip()]
    if not lines:
        return "there is no trace"
    if lines[0].startswith("Traceback "):
        return lines[-1]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return causes[-1].removeprefix("Caused by: ") if causes else lines[0]


def _failures(status: ConnectorStatus | None) -> set[tuple[int, InstanceStatus]]:
    if status is None:
        return set()
    parts = [(-1, status.connector), *status.tasks.items()]
    return {(number, part) for number, part in parts if part.state is State.FAILED}
