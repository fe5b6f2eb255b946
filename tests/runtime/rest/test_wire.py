"""Values to Connect's JSON and back."""

from __future__ import annotations

from connect_runtime.herder.verbs import ConnectorInfo, ConnectorStatus, InstanceStatus, RuntimeInfo
from connect_runtime.rest import wire
from connect_runtime.storage.snapshots import State, TaskId
from connect_specs.desired import OffsetEntry

INFO = ConnectorInfo("c", {"a": "b"}, (TaskId("c", 0), TaskId("c", 1)), "sink")
STATUS = ConnectorStatus(
    "c",
    InstanceStatus(State.RUNNING, "w:1", None, "1.0"),
    {1: InstanceStatus(State.FAILED, "w:2", "trace", None), 0: InstanceStatus(State.PAUSED, "w:1")},
    "source",
)
RUNTIME = RuntimeInfo("http://a:1", False, 7, 8, 3, (TaskId("c", 4),), "it broke", True)
OFFSETS = (OffsetEntry({"p": 1}, {"o": None}), OffsetEntry({"p": 2}, None))


def test_values_survive_the_way_through_json() -> None:
    assert wire.connector_info_from_json(wire.connector_info_json(INFO)) == INFO
    assert wire.connector_status_from_json(wire.connector_status_json(STATUS)) == STATUS
    assert wire.offsets_from_json(wire.offsets_json(OFFSETS)) == OFFSETS
    assert wire.runtime_from_json(wire.runtime_json(RUNTIME)) == RUNTIME


def test_tasks_are_shown_by_number() -> None:
    assert [task["id"] for task in wire.connector_status_json(STATUS)["tasks"]] == [0, 1]


def test_missing_and_additional_fields_are_accepted() -> None:
    found = wire.connector_status_from_json(
        {
            "name": "c",
            "connector": {"state": "RUNNING", "worker_id": "w:1", "new": 1},
            "tasks": [],
        }
    )
    assert found.connector == InstanceStatus(State.RUNNING, "w:1")
    assert found.type == "unknown"


def test_an_undefined_version_is_left_out() -> None:
    found = wire.task_status_json(0, InstanceStatus(State.RUNNING, "w:1", "", "undefined"))
    assert found == {"id": 0, "state": "RUNNING", "worker_id": "w:1"}
