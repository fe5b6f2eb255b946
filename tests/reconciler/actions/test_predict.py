"""The state that an action leaves its connector in."""

from __future__ import annotations

import pytest

from connect_reconciler.actions import Delete, FieldChange, Stop, UpdateConfig
from connect_reconciler.actions.connector_state import ConnectorState
from connect_reconciler.model.config_values import Plain
from connect_reconciler.model.ledger import Renaming
from connect_reconciler.model.live import Kind
from connect_reconciler.model.offsets import Offsets
from connect_specs.desired import OffsetEntry, TargetState

OFFSETS = Offsets((OffsetEntry({"p": 1}, {"at": 2}),))


@pytest.mark.parametrize(
    ("kind", "key", "known"),
    [
        ("sink", "consumer.override.group.id", False),
        ("sink", "consumer.override.bootstrap.servers", False),
        ("sink", "tasks.max", True),
        ("source", "offsets.storage.topic", False),
        ("source", "consumer.override.group.id", True),
        ("unknown", "offsets.storage.topic", False),
    ],
)
def test_offsets_are_unknown_once_a_config_looks_for_them_elsewhere(
    kind: Kind, key: str, *, known: bool
) -> None:
    state = ConnectorState("a", "orders", config={}, offsets=OFFSETS, kind=kind)
    changes = (FieldChange(key, None, Plain("x")),)
    update = UpdateConfig(connector="a", config={key: Plain("x")}, changes=changes)
    assert update.predict({"a": state})["a"].offsets == (OFFSETS if known else Offsets())


def test_a_deleted_connector_leaves_its_offsets_unless_they_are_reset() -> None:
    state = ConnectorState("a", "orders", config={}, owner="orders", offsets=OFFSETS)
    left = Delete(connector="a").predict({"a": state})["a"]
    assert (left.config, left.owner, left.offsets) == (None, None, OFFSETS)
    reset = Delete(connector="a", reset_offsets=True).predict({"a": state})["a"]
    assert reset.offsets == Offsets()


def test_a_rename_ends_with_the_delete_of_the_old_name() -> None:
    states = {
        "old": ConnectorState("old", "orders", config={}),
        "new": ConnectorState("new", "orders", config={}, renames={"old": Renaming("carried")}),
    }
    assert Delete(connector="old", renamed_to="new").predict(states)["new"].renames == {}
    assert Delete(connector="old").predict(states)["new"].renames == states["new"].renames


def test_a_stop_for_a_rename_takes_the_connector_over() -> None:
    states = {name: ConnectorState(name, "orders", config={}) for name in ("old", "new")}
    stop = Stop(connector="old", renamed_to="new", restore_to=TargetState.PAUSED)
    old = stop.predict(states)["old"]
    assert (old.owner, old.target, old.restore_to) == (
        "orders",
        TargetState.STOPPED,
        TargetState.PAUSED,
    )
