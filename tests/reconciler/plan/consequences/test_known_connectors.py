"""What plans say of well-known connectors beyond the keys that change: a slot that is dropped at
each stop, files of Iceberg's sink, where new connectors begin, and classes by short names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.actions import CopyOffsets, Create, Stop, UpdateConfig
from connect_reconciler.plan.planner import Plan, make_plan
from connect_specs.desired import Desired
from support.plans import desired_of, live_of

POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
ICEBERG = "org.apache.iceberg.connect.IcebergSinkConnector"
DROPS = {"connector.class": POSTGRES, "slot.drop.on.stop": "true"}
LOSES = "its slot is dropped when it stops: at its next start the task fails"


def plan_of(
    folder: Path,
    spec: str,
    config: Mapping[str, str],
    live: Mapping[str, str] | None = None,
    **more: Any,
) -> Plan:
    """Plans a spec with a config; `live` is the config of the connector `c` on the cluster, if
    there is one."""
    keys = "".join(f"  {key}: '{text}'\n" for key, text in config.items())
    desired = desired_of(f"{spec}\nconfig:\n{keys}", folder)
    kind = "sink" if "topics" in config and "Sink" in config["connector.class"] else "source"
    connectors = {} if live is None else {"c": {"kind": kind, "config": live, **more}}
    world = {
        "connectors": connectors,
        "kinds": {"PostgresConnector": "source", POSTGRES: "source"},
        "ledger": {"connectors": {name: {} for name in connectors}},
        "logs": {"t-0": [0, 9]},
    }
    desired = Desired("orders", desired.connectors, ())
    observed = replace(live_of(world, desired), classes={"PostgresConnector": POSTGRES})
    return make_plan(desired, observed, group_id="connect")


def test_a_change_stops_tasks_that_drop_their_slot(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "name: c", {**DROPS, "heartbeat.interval.ms": "9"}, DROPS)
    (update,) = (action for action in plan.actions if isinstance(action, UpdateConfig))
    assert LOSES in update.effects


def test_no_slot_is_dropped_by_a_change_of_a_stopped_connector(tmp_path: Path) -> None:
    changed = {**DROPS, "heartbeat.interval.ms": "9"}
    plan = plan_of(tmp_path, "name: c\nstate: stopped", changed, DROPS, target="stopped")
    (update,) = (action for action in plan.actions if isinstance(action, UpdateConfig))
    assert LOSES not in update.effects


def test_a_stop_drops_the_slot(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "name: c\nstate: stopped", DROPS, DROPS)
    (stop,) = (action for action in plan.actions if isinstance(action, Stop))
    assert LOSES in stop.effects


def test_a_rename_drops_the_slot_that_its_offsets_need(tmp_path: Path) -> None:
    offsets = [{"partition": {"server": "s"}, "offset": {"lsn": 1}}]
    plan = plan_of(tmp_path, "name: d\nrenamed_from: c", DROPS, DROPS, offsets=offsets)
    (stop,) = (action for action in plan.actions if isinstance(action, Stop))
    (copy,) = (action for action in plan.actions if isinstance(action, CopyOffsets))
    assert LOSES in stop.effects
    assert copy.effects == ("1 partition: without its slot they do not count",)


def test_a_renamed_sink_of_iceberg_leaves_files_behind(tmp_path: Path) -> None:
    config = {"connector.class": ICEBERG, "topics": "t"}
    plan = plan_of(tmp_path, "name: d\nrenamed_from: c", config, config, offsets={"t-0": 4})
    (copy,) = (action for action in plan.actions if isinstance(action, CopyOffsets))
    assert "never get there" in copy.effects[0]
    assert "iceberg.connect.group-id name connect-c" in copy.effects[1]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"connector.class": POSTGRES}, "reads all rows in a snapshot, then changes"),
        (
            {"connector.class": POSTGRES, "snapshot.mode": "no_data"},
            "reads changes alone, from now on: rows that are there already are not read",
        ),
        (
            {"connector.class": "PostgresConnector", "snapshot.mode": "initial_only"},
            "reads all rows in a snapshot, and ends: no changes are read",
        ),
        ({"connector.class": MIRROR}, "copies its topics from their start"),
        (
            {"connector.class": MIRROR, "source.consumer.auto.offset.reset": "latest"},
            "copies its topics from their end on, without what is in them now",
        ),
        ({"connector.class": "com.acme.QueueSource"}, "reads from the start of its source"),
    ],
)
def test_a_new_source_begins_as_its_config_says(
    tmp_path: Path, config: Mapping[str, str], words: str
) -> None:
    (create,) = (
        action
        for action in plan_of(tmp_path, "name: c", config).actions
        if isinstance(action, Create)
    )
    assert words in create.effects


def test_rules_know_a_class_by_its_short_name(tmp_path: Path) -> None:
    before = {"connector.class": "PostgresConnector", "topic.prefix": "a"}
    plan = plan_of(tmp_path, "name: c", {**before, "topic.prefix": "b"}, before)
    (update,) = (action for action in plan.actions if isinstance(action, UpdateConfig))
    assert [change.consequence for change in update.changes] == ["reread"]


def test_another_name_of_the_same_class_is_no_other_class(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        "name: c",
        {"connector.class": POSTGRES},
        {"connector.class": "PostgresConnector"},
    )
    (update,) = (action for action in plan.actions if isinstance(action, UpdateConfig))
    assert update.changes[0].effects == ("the same class, by another of its names",)
