"""A Connect worker's REST API as far as plans and applies over REST alone use it, in memory.

tests/contract/test_worker.py holds its answers to those of a real worker.

Whatever was asked takes place at once. `doom` may kill whoever asks, at a request that changes
something. With `busy` a connector that runs moves its offsets. `lag` is for how many requests after
a change the worker answers what only its leader knows at once as it was before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import orjson

from connect_reconciler.model.live import Feature, knows
from connect_runtime import KAFKA_VERSION
from connect_specs.desired import TargetState, partition_key
from support.dooming import Doom

_STATES = {"stop": TargetState.STOPPED, "pause": TargetState.PAUSED, "resume": TargetState.RUNNING}

_NO_OFFSETS = "Partitions / offsets need to be provided for an alter offsets request"
_STOPPED_FIRST = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done"
    " for the specified connector by issuing a 'PUT' request to the '/connectors/{}/stop' endpoint"
)

Offsets = dict[str, tuple[dict[str, Any], dict[str, Any]]]


@dataclass(slots=True)
class Stored:
    """One connector. `status` in place of the one that its target state has. `with_tasks`: it has
    said what its tasks are, as it does once it runs."""

    config: dict[str, str]
    target: TargetState
    status: str | None = None
    with_tasks: bool = True

    @property
    def tasks(self) -> int:
        return int(self.with_tasks and self.target is not TargetState.STOPPED)


@dataclass(slots=True)
class FakeWorker:
    """What outlives every apply. `offsets` also of connectors that are gone; `asked` are the
    requests that changed something, `reads` the others. `away` are those that something before the
    worker answers with 503, by their number among all `changes`, and whether they were done all the
    same. The first `silent` connectors have no status until statuses alone are asked for. Each
    config that is written gets the key `stamp`, if there is one."""

    version: str = KAFKA_VERSION
    busy: bool = False
    lag: int = 0
    connectors: dict[str, Stored] = field(default_factory=dict)
    offsets: dict[str, Offsets] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    doom: Doom | None = None
    silent: int = 0
    away: dict[int, bool] = field(default_factory=dict)
    on_alter: Callable[[str], None] = lambda name: None
    on_run: Callable[[str], None] = lambda name: None
    _before: dict[str, Stored] = field(default_factory=dict)
    _behind: int = 0
    changes: int = 0
    stamp: str = ""
    stamps: int = 0

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._answer)

    def caught_up(self) -> None:
        """Ends the lag."""
        self.lag = self._behind = 0

    def set_offsets(self, name: str, entries: list[dict[str, Any]]) -> None:
        held = self.offsets.setdefault(name, {})
        for entry in entries:
            key = partition_key(entry["partition"])
            if entry["offset"] is None:
                held.pop(key, None)
            else:
                held[key] = (entry["partition"], entry["offset"])

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            self.reads.append(request.url.raw_path.decode())
        else:
            self.changes += 1
            passed = self.away.get(self.changes)
            if passed is not None:
                if passed:
                    self._change(request)
                return httpx.Response(503, html="<h1>no server</h1>")
        parts = request.url.path.strip("/").split("/")
        followed = request.method == "GET" or parts[-1] in _STATES
        if self._behind and followed:
            self._behind -= 1
            if parts[-1] in _STATES:
                if parts[1] not in self._before:
                    return _error(404, f"Unknown connector {parts[1]}")
            elif parts[-1] != "offsets":
                return replace(self, connectors=self._before)._read(request)
        if request.method == "GET":
            return self._read(request)
        self._before, self._behind = copy.deepcopy(self.connectors), self.lag
        doom = self.doom
        if doom is None:
            return self._change(request)
        answer: httpx.Response = doom.around(lambda: self._change(request))
        return answer

    # --- reading ---

    def _read(self, request: httpx.Request) -> httpx.Response:
        parts = request.url.path.strip("/").split("/")
        match parts:
            case [""]:
                return _json({"version": self.version, "commit": "x", "kafka_cluster_id": "c"})
            case ["connectors"] if request.url.query:
                wanted = request.url.params.get_list("expand")
                self.silent = 0 if wanted == ["status"] else self.silent
                told = [*self.connectors][self.silent if "status" in wanted else 0 :]
                return _json({name: self._expanded(name, wanted) for name in told})
            case ["connectors"]:
                return _json(list(self.connectors))
        name = parts[1]
        if name not in self.connectors:
            return _error(404, _unknown(name, "GET", parts[2:]))
        match parts[2:]:
            case []:
                return _json(self._info(name))
            case ["config"]:
                return _json(self.connectors[name].config)
            case ["status"]:
                return _json(self._status(name))
            case ["offsets"]:
                return _json({"offsets": self._offsets(name)})
        raise AssertionError(request.url.path)

    def _expanded(self, name: str, wanted: list[str]) -> dict[str, Any]:
        found = {"info": self._info(name), "status": self._status(name)}
        return {each: found[each] for each in wanted}

    def _info(self, name: str) -> dict[str, Any]:
        found = self.connectors[name]
        tasks = [{"connector": name, "task": number} for number in range(found.tasks)]
        return {"name": name, "config": found.config, "tasks": tasks, "type": _kind(found.config)}

    def _status(self, name: str) -> dict[str, Any]:
        found = self.connectors[name]
        part = {"state": found.status or found.target.value.upper(), "worker_id": "w"}
        tasks = [{"id": number, **part} for number in range(found.tasks)]
        return {"name": name, "type": _kind(found.config), "connector": part, "tasks": tasks}

    def _offsets(self, name: str) -> list[dict[str, Any]]:
        held = self.offsets.get(name, {}).values()
        return [{"partition": partition, "offset": offset} for partition, offset in held]

    # --- changing ---

    def _change(self, request: httpx.Request) -> httpx.Response:
        parts = request.url.path.strip("/").split("/")
        self.asked.append(f"{request.method} {request.url.path}")
        body = orjson.loads(request.content) if request.content else {}
        if parts == ["connectors"]:
            return self._create(body)
        name = parts[1]
        if name not in self.connectors and (request.method, parts[2:]) == ("PUT", ["config"]):
            return self._create({"name": name, "config": body})
        if name not in self.connectors:
            return _error(404, _unknown(name, request.method, parts[2:]))
        match request.method, parts[2:]:
            case "PUT", ["config"]:
                self.connectors[name].config = self._stamped({**body, "name": name})
                self._runs(name)
            case "PATCH", ["config"] if knows(self.version, Feature.PATCH_CONFIG):
                now = {**self.connectors[name].config, **body}
                self.connectors[name].config = {k: v for k, v in now.items() if v is not None}
                self._runs(name)
            case "PUT", [verb] if verb in _STATES:
                found, target = self.connectors[name], _STATES[verb]
                found.target = target
                if target is not TargetState.PAUSED:
                    found.with_tasks = target is TargetState.RUNNING
                self._runs(name)
                return httpx.Response(204 if verb == "stop" else 202)
            case "POST", ["restart"]:
                return httpx.Response(204)
            case "DELETE", []:
                del self.connectors[name]
                return httpx.Response(204)
            case "PATCH", ["offsets"]:
                return self._alter(name, body.get("offsets"))
            case "DELETE", ["offsets"]:
                return self._reset(name)
            case _:
                return _error(405, "HTTP 405 Method Not Allowed")
        return _json(self._info(name))

    def _create(self, body: Mapping[str, Any]) -> httpx.Response:
        name = body["name"]
        if name in self.connectors:
            return _error(409, f"Connector {name} already exists")
        if "initial_state" in body and not knows(self.version, Feature.INITIAL_STATE):
            return _error(500, 'Unrecognized field "initial_state"')
        target = TargetState(body.get("initial_state", "RUNNING").lower())
        config = self._stamped({**body["config"], "name": name})
        self.connectors[name] = Stored(config, target, with_tasks=target is TargetState.RUNNING)
        self._runs(name)
        return httpx.Response(201, json=self._info(name))

    def _stamped(self, config: dict[str, str]) -> dict[str, str]:
        """The config as it is stored: some distributions count how often each was written."""
        if self.stamp:
            self.stamps += 1
            config[self.stamp] = str(self.stamps)
        return config

    def _alter(self, name: str, entries: list[dict[str, Any]] | None) -> httpx.Response:
        if not entries:
            return _error(400, _NO_OFFSETS)
        if self.connectors[name].target is not TargetState.STOPPED:
            return _error(400, _STOPPED_FIRST.format(name))
        self.on_alter(name)
        self.set_offsets(name, entries)
        return _json({"message": "The offsets for this connector have been altered successfully"})

    def _reset(self, name: str) -> httpx.Response:
        if self.connectors[name].target is not TargetState.STOPPED:
            return _error(400, _STOPPED_FIRST.format(name))
        self.on_alter(name)
        self.offsets.pop(name, None)
        return _json({"message": "The offsets for this connector have been reset successfully"})

    def _runs(self, name: str) -> None:
        found = self.connectors[name]
        if found.target is not TargetState.RUNNING or _cannot_run(found.config):
            return
        self.on_run(name)
        if self.busy:
            sink = _kind(found.config) == "sink"
            partition = {"kafka_topic": "t", "kafka_partition": 0} if sink else {"filename": "f"}
            at = "kafka_offset" if sink else "position"
            _, now = self.offsets.get(name, {}).get(partition_key(partition), ({}, {at: 0}))
            self.set_offsets(name, [{"partition": partition, "offset": {at: now[at] + 1}}])


def _unknown(name: str, method: str, path: list[str]) -> str:
    """Connect has a text of its own for each of these requests."""
    match method, path:
        case "GET", ["status"]:
            return f"No status found for connector {name}"
        case "PUT", [_]:
            return f"Unknown connector {name}"
        case "POST", ["restart"]:
            return f"Unknown connector: {name}"
    return f"Connector {name} not found"


def _cannot_run(config: Mapping[str, str]) -> bool:
    return config.get("key.converter.schemas.cache.size") == "none"


def _kind(config: Mapping[str, str]) -> str:
    return "sink" if "topics" in config else "source"


def _json(value: object) -> httpx.Response:
    return httpx.Response(200, json=value)


def _error(status: int, message: str) -> httpx.Response:
    return httpx.Response(status, json={"error_code": status, "message": message})
