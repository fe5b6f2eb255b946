"""What Connect's REST API answers, as values. Pure.

Each function takes a decoded body, and raises WrongShape, KeyError or ValueError for one that
Connect would not send. What newer versions add is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from connect_runtime.herder.verbs import ConnectorInfo, ConnectorStatus
from connect_runtime.rest import wire
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry
from connect_specs.states import TargetState

# How long a status may take to follow what was asked
FOLLOWS_S = 10.0

_TARGETS: Mapping[State, TargetState] = {
    State.RUNNING: TargetState.RUNNING,
    State.PAUSED: TargetState.PAUSED,
    State.STOPPED: TargetState.STOPPED,
}


class WrongShape(TypeError):
    """Says what a body is not, without a word of it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a request is answered if it succeeds: with one of `statuses`, and a body that `parse`
    takes. None for a body that may be empty, and is not looked at."""

    statuses: tuple[int, ...]
    parse: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class About:
    """What a worker says that it is: the answer to `GET /`."""

    version: str
    commit: str
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A connector of an expanded list. `status` None: it has none yet."""

    info: ConnectorInfo
    status: ConnectorStatus | None


def about(body: Any) -> About:
    found = a_map(body)
    keys = ("version", "commit", "kafka_cluster_id")
    missing = [key for key in keys if not isinstance(found.get(key), str)]
    if missing:
        raise WrongShape(f"a map without {', '.join(missing)}")
    return About(*(found[key] for key in keys))


def a_map(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise WrongShape(f"{_kind(body)} where a map is expected")
    return body


def a_list(body: Any) -> list[Any]:
    if not isinstance(body, list):
        raise WrongShape(f"{_kind(body)} where a list is expected")
    return body


def maps(body: Any) -> list[Mapping[str, Any]]:
    return [a_map(each) for each in a_list(body)]


def plugins(body: Any) -> list[Mapping[str, Any]]:
    """Plugins as they are listed, with class and type."""
    found = maps(body)
    for each in found:
        _text(each["class"])
        _text(each["type"])
    return found


def definitions(body: Any) -> list[Mapping[str, Any]]:
    """A plugin's keys. One without a type could be a password."""
    found = maps(body)
    for each in found:
        _text(each["name"])
        _text(each["type"])
        a_list(each["dependents"])
        _ = each["required"], each["default_value"], each["importance"]
    return found


def names(body: Any) -> list[str]:
    return [_text(each) for each in a_list(body)]


def config(body: Any) -> dict[str, str]:
    """Of a connector, without keys that were set to null."""
    return {key: _text(each) for key, each in a_map(body).items() if each is not None}


def connector(body: Any) -> ConnectorInfo:
    found = a_map(body)
    _text(found["name"])
    maps(found["tasks"])
    return wire.connector_info_from_json({**found, "config": config(found["config"])})


def status(body: Any) -> ConnectorStatus:
    found = a_map(body)
    a_map(found["connector"])
    maps(found["tasks"])
    return wire.connector_status_from_json(found)


def expanded(body: Any) -> dict[str, Listed]:
    """The connectors of a list with infos and statuses; those that are just vanishing have none."""
    return {
        name: Listed(connector(each["info"]), status(each["status"]))
        for name, each in a_map(body).items()
        if a_map(each).get("info") is not None and each.get("status") is not None
    }


def expanded_infos(body: Any) -> dict[str, ConnectorInfo]:
    """The same with infos alone."""
    found = {name: a_map(each).get("info") for name, each in a_map(body).items()}
    return {name: connector(info) for name, info in found.items() if info is not None}


def expanded_statuses(body: Any) -> dict[str, ConnectorStatus]:
    """The same with statuses alone."""
    found = {name: a_map(each).get("status") for name, each in a_map(body).items()}
    return {name: status(each) for name, each in found.items() if each is not None}


def offsets(body: Any) -> tuple[OffsetEntry, ...]:
    for each in maps(a_map(body)["offsets"]):
        a_map(each["partition"])
        a_map(each["offset"] or {})
    return wire.offsets_from_json(body)


def message(body: Any) -> str:
    return _text(a_map(body)["message"])


def target_of(status: ConnectorStatus | None) -> TargetState | None:
    """The target state that a status tells; None for one that tells none, such as FAILED."""
    return None if status is None else _TARGETS.get(status.connector.state)


def is_passing(status: ConnectorStatus | None) -> bool:
    """Whether it tells nothing yet: a worker is about to start the connector in some state."""
    return status is None or status.connector.state in (State.UNASSIGNED, State.RESTARTING)


CREATED: Final = Expected((201,), connector)
UPDATED: Final = Expected((200,), connector)
ACCEPTED: Final = Expected((202, 204))
MESSAGE: Final = Expected((200,), message)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongShape(f"{_kind(value)} where a text is expected")
    return value


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case dict():
            return "a map"
        case list():
            return "a list"
        case str():
            return "a text"
        case _:
            return "a number"
