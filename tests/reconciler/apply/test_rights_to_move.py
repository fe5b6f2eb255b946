"""Which rights a plan needs to move offsets."""

from __future__ import annotations

from pathlib import Path

from connect_reconciler.actions import Delete
from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply.sink_moves import rights_to_move
from connect_reconciler.model.live import Live, LiveConnector
from connect_runtime.kafka.client_checks import DELETE
from connect_specs.desired import Desired, Project
from connect_specs.names import ClusterTopics
from connect_specs.states import TargetState

PROJECT = Project("p", Path("connect.yaml"), "g", ClusterTopics.of("g"), {}, None, {}, ())
PLAN = Plan("p", "g", "c", 0, (Delete(connector="old", renamed_to="new", reset_offsets=True),))
OLD = LiveConnector("old", "sink", {"name": "old", "topics": "t"}, TargetState.STOPPED)


def test_the_old_sinks_group_is_deleted() -> None:
    live = Live(connectors={"old": OLD})
    assert rights_to_move(PLAN, Desired("p", {}), live, PROJECT) == ({}, {"connect-old": (DELETE,)})


def test_an_old_sink_that_is_gone_already_needs_no_right() -> None:
    assert rights_to_move(PLAN, Desired("p", {}), Live(), PROJECT) == ({}, {})
