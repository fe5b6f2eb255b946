"""What an apply left half done: a line for each action, judged by what is there now."""

from __future__ import annotations

import pytest

from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.model.ledger import (
    ConnectorSnapshot,
    HalfDone,
    LedgerState,
    Owned,
    Unfinished,
)
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.plan.checks.unfinished import took_place, unfinished
from connect_specs.desired import OffsetEntry, TargetState

RUNNING, STOPPED = TargetState.RUNNING, TargetState.STOPPED
CONFIG = {"name": "a", "file": "x"}
AT = Offsets((OffsetEntry({"f": "x"}, {"at": 7}),))
ELSEWHERE = Offsets((OffsetEntry({"f": "x"}, {"at": 9}),))
PAST = ConnectorSnapshot({"name": Plain("a"), "file": Plain("x")}, RUNNING, offsets=AT)
OTHER = ConnectorSnapshot({"name": Plain("a"), "file": Plain("y")}, RUNNING, offsets=ELSEWHERE)
HIDDEN = ConnectorSnapshot({"name": Plain("a"), "file": Secret("f00")}, RUNNING)
PARKED = ConnectorSnapshot({"name": Plain("a"), "file": Plain("x")}, STOPPED)


def live(target: TargetState | None, *steps: HalfDone, offsets: Offsets = AT) -> Live:
    connectors = {}
    if target is not None:
        connectors["a"] = LiveConnector("a", "source", CONFIG, target, offsets)
    journal = Unfinished("id-1", "alex@ci pid 7 since T", steps)
    return Live(connectors, LedgerState(unfinished=(journal,), fingerprint_key=b"key"))


@pytest.mark.parametrize(
    ("action", "target", "past", "expected"),
    [
        ("Create", RUNNING, ConnectorSnapshot(None), True),
        ("Create", None, ConnectorSnapshot(None), False),
        ("Delete", None, PAST, True),
        ("Delete", RUNNING, PAST, False),
        ("DeleteOld", None, PAST, True),
        ("DeleteOld", STOPPED, PAST, False),
        ("Stop", STOPPED, PAST, True),
        ("StopOld", STOPPED, PAST, True),
        ("StopOld", RUNNING, PAST, False),
        ("Stop", STOPPED, PARKED, True),
        ("StopOld", STOPPED, PARKED, None),
        ("Stop", RUNNING, PAST, False),
        ("Resume", RUNNING, PAST, True),
        ("Pause", RUNNING, PAST, False),
        ("UpdateConfig", RUNNING, OTHER, True),
        ("UpdateConfig", RUNNING, PAST, False),
        ("UpdateConfig", RUNNING, HIDDEN, True),
        ("AlterOffsets", STOPPED, OTHER, True),
        ("AlterOffsets", STOPPED, PAST, False),
        ("ResetOffsets", STOPPED, PAST, False),
        ("ResetOffsets", STOPPED, HIDDEN, None),
        ("Restart", RUNNING, PAST, None),
        ("Stop", None, PAST, None),
        ("UpdateConfig", RUNNING, None, None),
    ],
)
def test_whether_it_took_place(
    action: str, target: TargetState | None, past: ConnectorSnapshot | None, expected: bool | None
) -> None:
    assert took_place(HalfDone("a", action, past), live(target)) is expected


def test_a_line_for_each() -> None:
    steps = (HalfDone("a", "AlterOffsets", PAST), HalfDone("a", "Create"), HalfDone("b", "StopOld"))
    assert [each.what for each in unfinished(live(STOPPED, *steps), "orders")] == [
        "apply id-1 by alex@ci pid 7 since T ended in the middle of `set offsets a`: it did not"
        " take place",
        "apply id-1 by alex@ci pid 7 since T ended in the middle of `create a`: it took place",
        "apply id-1 by alex@ci pid 7 since T ended in the middle of `stop old b`: whether it took"
        " place cannot be told",
    ]
    assert [each.what for each in unfinished(live(STOPPED), "orders")] == [
        "apply id-1 by alex@ci pid 7 since T is running or ended early; "
        "this plan goes on from there"
    ]


def test_a_connector_that_an_apply_over_rest_left_stopped() -> None:
    """Over REST alone no journal is kept: the ledger's entry of a stopped connector tells."""
    left = Owned("orders", CONFIG, None, restore_to=RUNNING)
    connectors = live(STOPPED).connectors
    over_rest = Live(connectors, LedgerState({"a": left}), rest_alone=True)
    (said,) = unfinished(over_rest, "orders")
    assert (said.code, said.where) == ("plan.unfinished-apply", "a")
    assert said.what == "a is stopped: an apply that stopped it did not make it running again"
    assert list(unfinished(over_rest, "another project")) == []
    assert list(unfinished(Live(connectors, LedgerState({"a": left})), "orders")) == []
