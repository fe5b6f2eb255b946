"""Sequences of REST requests about one connector, and the state that each leaves behind.

The states are those of a real Apache worker: `RUNNING: RUNNING` is a running connector with a
running task, `STOPPED` one without tasks, and nothing is no connector. Paths are below the
connector's; `CREATE` is a POST of a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

CREATE: Final = "create"

SOURCE: Final = {"connector.class": "FileStreamSource", "topic": "{topic}", "file": "/no/such/file"}
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
SINK: Final = {
    "connector.class": "FileStreamSink",
    "topics": "{topic}",
    "file": "{file}",
    "key.converter": _STRING,
    "value.converter": _STRING,
}
RUNNING: Final = "RUNNING: RUNNING"


@dataclass(frozen=True, slots=True)
class Step:
    """A request, the status of its answer, and the connector's state after it."""

    method: str
    path: str
    status: int
    state: str
    body: Any = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def _create(state: str, leaves: str, config: Mapping[str, Any] = SOURCE) -> Step:
    return Step("POST", CREATE, 201, leaves, {"config": config, "initial_state": state})


def _put(path: str, status: int, state: str, body: Any = None) -> Step:
    return Step("PUT", path, status, state, body)


def _restart(status: int, state: str, *flags: str) -> Step:
    return Step("POST", f"/restart?{'&'.join(f'{flag}=true' for flag in flags)}", status, state)


SEQUENCES: Final[Mapping[str, tuple[Step, ...]]] = {
    "every verb in every state": (
        _create("RUNNING", RUNNING),
        _put("/pause", 202, "PAUSED: PAUSED"),
        _restart(204, "PAUSED: PAUSED"),
        _restart(202, "PAUSED: PAUSED", "includeTasks"),
        _put("/stop", 204, "STOPPED"),
        _put("/stop", 204, "STOPPED"),
        _restart(202, "STOPPED", "includeTasks", "onlyFailed"),
        _put("/pause", 202, "PAUSED"),
        Step("POST", "/tasks/7/restart", 404, "PAUSED"),
        _put("/resume", 202, RUNNING),
        Step("POST", "/tasks/0/restart", 204, RUNNING),
        Step("DELETE", "", 204, ""),
        Step("DELETE", "", 404, ""),
        _put("/pause", 404, ""),
    ),
    "what was refused changes nothing": (
        _create("RUNNING", RUNNING),
        _put("/config", 400, RUNNING, {"connector.class": "No.such"}),
        _put("/config", 400, RUNNING, {**SOURCE, "tasks.max": 0}),
        Step("PATCH", "/config", 400, RUNNING, {"tasks.max": "x"}),
        Step("POST", CREATE, 409, RUNNING, {"config": SOURCE, "initial_state": "STOPPED"}),
        Step("PATCH", "/offsets", 400, RUNNING, {"offsets": []}),
        Step("DELETE", "/offsets", 400, RUNNING),
        _put("/config", 500, RUNNING, "null"),
    ),
    "a config of a connector that does not run": (
        _create("STOPPED", "STOPPED"),
        _put("/config", 200, "STOPPED", {**SOURCE, "batch.size": 5}),
        _put("/resume", 202, RUNNING),
        _put("/pause", 202, "PAUSED: PAUSED"),
        Step("PATCH", "/config", 200, "PAUSED: PAUSED", {"batch.size": None, "more": True}),
        _put("/stop", 204, "STOPPED"),
        _put("/config", 200, "STOPPED", SINK),
        _put("/resume", 202, RUNNING),
        Step("DELETE", "", 204, ""),
    ),
    "a connector that cannot start": (
        _create("RUNNING", "FAILED", {**SOURCE, "file": None}),
        _restart(202, "FAILED", "includeTasks"),
        _put("/resume", 202, "FAILED"),
        Step("PATCH", "/config", 200, RUNNING, {"file": "/no/such/file"}),
        _put("/config", 200, "FAILED: RUNNING", {**SOURCE, "file": None}),
        Step("DELETE", "", 204, ""),
        _put("/config", 201, RUNNING, SOURCE),
    ),
}
