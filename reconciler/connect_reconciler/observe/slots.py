"""Are there slots enough for all tasks that may run after an apply?

Each task of our runtime takes one slot for as long as it runs. Those that find none are UNASSIGNED,
which is no failure: so it is said beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connect_reconciler.cluster.rest_client import RestClient
from connect_reconciler.plan.live import Live
from connect_runtime.herder.errors import RequestError
from connect_specs.desired import Desired
from connect_specs.diagnostics import ConnectError, Diagnostic
from connect_specs.states import TargetState

_TASKS_MAX = "tasks.max"


def slots_of(runtime: RestClient) -> int | None:
    """How many tasks the runtime can run at once; None where it does not tell, or not yet."""
    try:
        slots = runtime.read("/runtime")["slots"]
    except (ConnectError, RequestError, KeyError, TypeError):
        return None
    return slots if isinstance(slots, int) and slots > 0 else None


def check_slots(desired: Desired, live: Live, slots: int | None) -> Iterator[Diagnostic]:
    """A warning if more tasks may run than there are slots."""
    if slots is None:
        return
    needed = sum(_tasks(name, desired, live) for name in {*desired.connectors, *live.connectors})
    if needed > slots:
        yield Diagnostic(
            "plan.slots",
            f"up to {needed} tasks may run, and the runtime has {slots} slots",
            why="tasks without a slot stay UNASSIGNED until another one ends",
            hint="give the runtime more slots (`connect up --slots`, spark.master), or lower "
            f"{_TASKS_MAX}",
        )


def _tasks(name: str, desired: Desired, live: Live) -> int:
    """How many tasks a connector may have: what it has now, if its config stays; else as many as
    its config allows."""
    spec, there = desired.connectors.get(name), live.connectors.get(name)
    if spec is None:
        # not ours, or about to be deleted
        return len(there.task_states) if there is not None and _is_other(name, live) else 0
    state = spec.state or (there.target if there is not None else TargetState.RUNNING)
    if state is TargetState.STOPPED:
        return 0
    if there is not None and there.task_states and _most(spec.config) == _most(there.config):
        return len(there.task_states)
    return _most(spec.config)


def _is_other(name: str, live: Live) -> bool:
    return name not in live.ledger.connectors


def _most(config: Mapping[str, str]) -> int:
    text = config.get(_TASKS_MAX, "1").strip()
    return int(text) if text.isdecimal() else 1
