"""The cluster port over Connect's REST API, Apache's and ours. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect_reconciler.cluster.rest_client import RestClient, connector_path
from connect_reconciler.plan.versions import Feature, knows
from connect_runtime.herder.errors import RequestError
from connect_runtime.herder.values import ConnectorStatus
from connect_runtime.rest import wire
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry
from connect_specs.states import TargetState

_STOP_S = 60.0
# Every worker has this converter, and before 3.7 none reads its settings until a task starts
_CANNOT_RUN: Mapping[str, str] = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.cache.size": "none",
}


class HttpCluster:
    """Implements `Cluster`; closes its client with itself."""

    def __init__(self, client: RestClient) -> None:
        self._client = client
        self._version: str | None = None
        self._made: set[str] = set()

    @property
    def runs_tasks(self) -> bool:
        return True

    def ready(self) -> bool:
        """Whether a worker answers that has completed its start."""
        return self._client.healthy()

    @property
    def version(self) -> str:
        """What the cluster says that it is."""
        if self._version is None:
            self._version = str((self._client.read("/") or {}).get("version", ""))
        return self._version

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        body: dict[str, object] = {"name": name, "config": dict(config)}
        # Running is what every version does by itself
        if state is not TargetState.RUNNING:
            if not knows(self.version, Feature.INITIAL_STATE):
                self._create_idle(name, config, state)
                return
            body["initial_state"] = state.value.upper()
        self._post(name, body)

    def _create_idle(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        """On versions that only create what runs: with no task that could, until it is stopped."""
        self._post(name, {"name": name, "config": {**config, **_CANNOT_RUN}})
        self.stop(name)
        # What comes next may be its offsets, which tasks that still end would overwrite
        self._client.wait_for(lambda: _has_stopped(self.status(name)), _STOP_S)
        self.update_config(name, config)
        if state is TargetState.PAUSED:
            self.pause(name)

    def _post(self, name: str, body: Mapping[str, object]) -> None:
        # The same status says that the name is taken and that the cluster rebalances.
        self._client.change(
            "POST", "/connectors", body, final=lambda: self.config(name) is not None
        )
        self._made.add(name)

    def _change(self, method: str, name: str, *rest: str, body: object = None) -> Any:
        """Workers other than the leader may not know yet what was just created."""
        path = connector_path(name, *rest)
        return self._client.change(method, path, body, exists=name in self._made)

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        self._change("PUT", name, "config", body=dict(config))

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Changes these keys alone; only where the cluster knows how (`Feature.PATCH_CONFIG`)."""
        self._change("PATCH", name, "config", body=dict(changes))

    def config(self, name: str) -> Mapping[str, str] | None:
        found: Mapping[str, str] | None = self._client.read(connector_path(name, "config"))
        return found

    def status(self, name: str) -> ConnectorStatus | None:
        found = self._client.read(connector_path(name, "status"))
        return None if found is None else wire.connector_status_from_json(found)

    def stop(self, name: str) -> None:
        self._change("PUT", name, "stop")

    def pause(self, name: str) -> None:
        self._change("PUT", name, "pause")

    def resume(self, name: str) -> None:
        self._change("PUT", name, "resume")

    def restart(self, name: str) -> None:
        self._change("POST", name, "restart?includeTasks=true&onlyFailed=true")

    def delete(self, name: str) -> None:
        self._change("DELETE", name)
        self._made.discard(name)

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        path = connector_path(name, "offsets")
        found = self._client.read(path, exists=name in self._made)
        if found is None:
            raise RequestError(404, f"Connector {name} not found")
        return wire.offsets_from_json(found)

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        return _message(self._change("PATCH", name, "offsets", body=wire.offsets_json(offsets)))

    def reset_offsets(self, name: str) -> str:
        return _message(self._change("DELETE", name, "offsets"))

    def close(self) -> None:
        self._client.close()


def _has_stopped(status: ConnectorStatus | None) -> bool:
    return status is not None and status.connector.state is State.STOPPED and not status.tasks


def _message(answer: Any) -> str:
    return str(answer.get("message", "")) if isinstance(answer, dict) else ""
