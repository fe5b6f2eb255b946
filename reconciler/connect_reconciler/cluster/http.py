"""The cluster port over Connect's REST API, Apache's and ours. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect_reconciler.cluster.rest_client import RestClient, connector_path
from connect_runtime.herder.errors import RequestError
from connect_runtime.herder.values import ConnectorStatus
from connect_runtime.rest import wire
from connect_specs.desired import OffsetEntry
from connect_specs.states import TargetState


class HttpCluster:
    """Implements `Cluster`; closes its client with itself."""

    def __init__(self, client: RestClient) -> None:
        self._client = client

    @property
    def runs_tasks(self) -> bool:
        return True

    def ready(self) -> bool:
        """Whether a worker answers that has completed its start."""
        return self._client.healthy()

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        body = {"name": name, "config": dict(config), "initial_state": state.value.upper()}
        # The same status says that the name is taken and that the cluster rebalances.
        self._client.change(
            "POST", "/connectors", body, final=lambda: self.config(name) is not None
        )

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        self._client.change("PUT", connector_path(name, "config"), dict(config))

    def config(self, name: str) -> Mapping[str, str] | None:
        found: Mapping[str, str] | None = self._client.read(connector_path(name, "config"))
        return found

    def status(self, name: str) -> ConnectorStatus | None:
        found = self._client.read(connector_path(name, "status"))
        return None if found is None else wire.connector_status_from_json(found)

    def stop(self, name: str) -> None:
        self._client.change("PUT", connector_path(name, "stop"))

    def pause(self, name: str) -> None:
        self._client.change("PUT", connector_path(name, "pause"))

    def resume(self, name: str) -> None:
        self._client.change("PUT", connector_path(name, "resume"))

    def restart(self, name: str) -> None:
        self._client.change(
            "POST", connector_path(name, "restart") + "?includeTasks=true&onlyFailed=true"
        )

    def delete(self, name: str) -> None:
        self._client.change("DELETE", connector_path(name))

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        found = self._client.read(connector_path(name, "offsets"))
        if found is None:
            raise RequestError(404, f"Connector {name} not found")
        return wire.offsets_from_json(found)

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        return _message(
            self._client.change(
                "PATCH", connector_path(name, "offsets"), wire.offsets_json(offsets)
            )
        )

    def reset_offsets(self, name: str) -> str:
        return _message(self._client.change("DELETE", connector_path(name, "offsets")))

    def close(self) -> None:
        self._client.close()


def _message(answer: Any) -> str:
    return str(answer.get("message", "")) if isinstance(answer, dict) else ""
