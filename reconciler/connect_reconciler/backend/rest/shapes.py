"""The answers of Connect's REST API, as values. Pure.

Each function takes a decoded body, and raises WrongShape, KeyError or ValueError for one that
Connect would not send. Fields that newer versions add are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final

from connect_runtime.herder.verbs import ConnectorInfo, ConnectorStatus
from connect_runtime.rest import wire
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry, TargetState

# A status may take so long to follow a request
FOLLOWS_S = 10.0

_TARGETS: Mapping[State, TargetState] = {
    State.RUNNING: TargetState.RUNNING,
    State.PAUSED: TargetState.PAUSED,
    State.STOPPED: TargetState.STOPPED,
}
_KINDS: Mapping[type, str] = {
    NoneType: "null",
    bool: "a truth value",
    dict: "a map",
    list: "a list",
    str: "a text",
}


class WrongShape(TypeError):
    """A body of another shape; its text quotes nothing of the body."""


@dataclass(frozen=True, slots=True)
class ExpectedAnswer:
    """The answer of a request that succeeds: one of `statuses`, and a body that `parse` takes. None
    for a body that may be empty, and is ignored. With a `header`, the result is the body, and that
    header's text, empty if there is none."""

    statuses: tuple[int, ...]
    parse: Callable[[Any], Any] | None = None
    header: str = ""


@dataclass(frozen=True, slots=True)
class About:
    """A worker's answer to `GET /`."""

    version: str
    commit: str
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class ReportedConnector:
    """A connector of an expanded list. `status` None: it has none yet."""

    info: ConnectorInfo
    status: ConnectorStatus | None


def about(body: Any) -> About:
    fields = a_map(body)
    keys = ("version", "commit", "kafka_cluster_id")
    missing = [key for key in keys if not isinstance(fields.get(key), str)]
    if missing:
        raise WrongShape(f"a map without {', '.join(missing)}")
    return About(*(fields[key] for key in keys))


def a_map(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise WrongShape(f"{_kind(body)} where a map is expected")
    return body


def a_list(body: Any) -> list[Any]:
    if not isinstance(body, list):
        raise WrongShape(f"{_kind(body)} where a list is expected")
    return body


def maps(body: Any) -> list[Mapping[str, Any]]:
    return [a_map(item) for item in a_list(body)]


def plugins(body: Any) -> list[Mapping[str, Any]]:
    """Plugins as they are listed, with class and type."""
    fields = maps(body)
    for item in fields:
        _text(item["class"])
        _text(item["type"])
    return fields


def definitions(body: Any) -> list[Mapping[str, Any]]:
    """Returns a plugin's keys. One without a type could be a password."""
    fields = maps(body)
    for item in fields:
        _text(item["name"])
        _text(item["type"])
        a_list(item["dependents"])
        _ = item["required"], item["default_value"], item["importance"]
    return fields


def names(body: Any) -> list[str]:
    return [_text(item) for item in a_list(body)]


def config(body: Any) -> dict[str, str]:
    """Returns a connector's config, without keys that were set to null."""
    return {key: _text(item) for key, item in a_map(body).items() if item is not None}


def connector(body: Any) -> ConnectorInfo:
    fields = a_map(body)
    _text(fields["name"])
    maps(fields["tasks"])
    return wire.connector_info_from_json({**fields, "config": config(fields["config"])})


def status(body: Any) -> ConnectorStatus:
    fields = a_map(body)
    a_map(fields["connector"])
    maps(fields["tasks"])
    return wire.connector_status_from_json(fields)


def expanded(body: Any) -> dict[str, ReportedConnector]:
    """Returns the connectors of a list with infos and statuses; those that are just vanishing have
    none."""
    return {
        name: ReportedConnector(connector(item["info"]), status(item["status"]))
        for name, item in a_map(body).items()
        if a_map(item).get("info") is not None and item.get("status") is not None
    }


def expanded_infos(body: Any) -> dict[str, ConnectorInfo]:
    """Returns the same with infos alone."""
    fields = {name: a_map(item).get("info") for name, item in a_map(body).items()}
    return {name: connector(info) for name, info in fields.items() if info is not None}


def expanded_statuses(body: Any) -> dict[str, ConnectorStatus]:
    """Returns the same with statuses alone."""
    fields = {name: a_map(item).get("status") for name, item in a_map(body).items()}
    return {name: status(item) for name, item in fields.items() if item is not None}


def offsets(body: Any) -> tuple[OffsetEntry, ...]:
    for item in maps(a_map(body)["offsets"]):
        a_map(item["partition"])
        a_map(item["offset"] or {})
    return wire.offsets_from_json(body)


def message(body: Any) -> str:
    return _text(a_map(body)["message"])


def target_of(status: ConnectorStatus | None) -> TargetState | None:
    """Returns the target state that follows from a status; None for one without any, such as
    FAILED."""
    return None if status is None else _TARGETS.get(status.connector.state)


def is_passing(status: ConnectorStatus | None) -> bool:
    """Returns True if no target state follows from it yet: a worker is about to start the
    connector."""
    return status is None or status.connector.state in (State.UNASSIGNED, State.RESTARTING)


CREATED: Final = ExpectedAnswer((201,), connector)
UPDATED: Final = ExpectedAnswer((200,), connector)
ACCEPTED: Final = ExpectedAnswer((202, 204))
MESSAGE: Final = ExpectedAnswer((200,), message)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongShape(f"{_kind(value)} where a text is expected")
    return value


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "a number")
