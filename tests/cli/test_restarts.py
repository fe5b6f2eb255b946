"""When what failed is restarted, and what is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

from connect_reconciler.cli.verbs.restart import Tried, failed_parts, next_try
from connect_runtime.herder.values import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State


def status(connector: State, *tasks: State) -> ConnectorStatus:
    parts: Mapping[int, InstanceStatus] = {
        number: InstanceStatus(state, "w") for number, state in enumerate(tasks)
    }
    return ConnectorStatus("a", InstanceStatus(connector, "w"), parts, "source")


@pytest.mark.parametrize(
    ("found", "parts"),
    [
        (None, ()),
        (status(State.RUNNING, State.RUNNING), ()),
        (status(State.RUNNING, State.FAILED, State.RUNNING, State.FAILED), ("task 0", "task 2")),
        (status(State.FAILED), ("connector",)),
        (status(State.PAUSED, State.FAILED), ()),
        (status(State.STOPPED), ()),
        (status(State.RUNNING, State.UNASSIGNED), ()),
    ],
)
def test_what_failed_and_should_run(found: ConnectorStatus | None, parts: tuple[str, ...]) -> None:
    assert failed_parts(found) == parts


def test_pauses_double_up_to_an_hour() -> None:
    tried: Tried | None = None
    restarts = []
    for now in range(0, 5 * 3600, 10):
        tried, restart = next_try(tried, failed=True, now=now)
        if restart:
            restarts.append(now)
    pauses = [after - before for before, after in pairwise(restarts)]
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_what_stayed_up_starts_from_new() -> None:
    tried, _ = next_try(Tried(5, at=0), failed=False, now=959)
    assert tried == Tried(5, at=0)
    tried, restart = next_try(tried, failed=False, now=960)
    assert (tried, restart) == (None, False)
    assert next_try(None, failed=True, now=961) == (Tried(1, at=961), True)


def test_what_is_up_for_a_moment_is_no_reason_to_hurry() -> None:
    tried, restart = next_try(Tried(3, at=0), failed=True, now=239)
    assert (tried, restart) == (Tried(3, at=0), False)
    assert next_try(tried, failed=True, now=240) == (Tried(4, at=240), True)
