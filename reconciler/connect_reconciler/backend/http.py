"""The cluster port over Connect's REST API, Apache's and ours, and the backends that use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connect_reconciler.backend.backend import Backend, LiveStatuses, short_timeout_client
from connect_reconciler.backend.lease import OnWait, no_progress
from connect_reconciler.backend.observe.rest import statuses_over_rest
from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.answers import NotConnect
from connect_reconciler.backend.rest.client import RestClient, connector_path
from connect_reconciler.backend.rest.connection import shown_url
from connect_reconciler.backend.rest.shapes import ExpectedAnswer
from connect_reconciler.model.config_values import is_of_cluster
from connect_reconciler.model.live import Feature, knows
from connect_reconciler.model.secrets import masked_keys, same_config
from connect_runtime.herder.verbs import ConnectorStatus, RequestError
from connect_runtime.rest import wire
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry, Project, RestTarget, TargetState
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed

_STOP_S = 60.0
_CREATED = 201
_VERBS: Mapping[TargetState, str] = {
    TargetState.RUNNING: "resume",
    TargetState.PAUSED: "pause",
    TargetState.STOPPED: "stop",
}
# Every worker has this converter, and before 3.7 none reads its settings until a task starts
_CANNOT_RUN: Mapping[str, str] = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.cache.size": "none",
}


class RestBackend(Backend):
    """A cluster that is reached at the REST URL of connect.yaml."""

    def __init__(self, project: Project, kafka: Mapping[str, str], target: RestTarget) -> None:
        super().__init__(project, kafka)
        self.target = target

    @property
    def address(self) -> str:
        return shown_url(self.target)

    def statuses(self) -> LiveStatuses:
        # The worker that answers stands for all: Connect does not report its leader
        return LiveStatuses(self.address, *statuses_over_rest(self.target))

    def rest(self) -> RestClient:
        return short_timeout_client(self.target)

    def cluster(self, waits: OnWait = no_progress) -> HttpCluster:
        return HttpCluster(RestClient.checked(self.target))


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
        """Returns True if a worker answers that has completed its start."""
        return self._client.healthy()

    @property
    def version(self) -> str:
        """Returns the version that the cluster reports."""
        if self._version is None:
            self._version = self._client.about().version
        return self._version

    def is_ours(self) -> bool:
        """Returns True if a runtime of ours answers: Apache's workers have no slots. False if the
        question is refused."""
        try:
            return self._client.read("/runtime", shapes.a_map) is not None
        except ConnectError:
            return False

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        body: dict[str, object] = {"name": name, "config": dict(config)}
        # Running is what every version does by itself
        if state is not TargetState.RUNNING:
            if not knows(self.version, Feature.INITIAL_STATE):
                self._create_idle(name, config, state)
                return
            body["initial_state"] = state.value.upper()
        self._post(name, body, config)

    def _create_idle(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        """Creates a connector on versions that create it running: with a config that no task can
        start with, until it is stopped."""
        idle = {**config, **_CANNOT_RUN}
        self._post(name, {"name": name, "config": idle}, idle)
        self.set_target(name, TargetState.STOPPED)
        # Its offsets may be set next, which tasks that still end would overwrite
        self._client.wait_for(lambda: _has_stopped(self.status(name)), _STOP_S)
        self.update_config(name, config)
        if state is TargetState.PAUSED:
            self.set_target(name, state)

    def _post(self, name: str, body: Mapping[str, object], config: Mapping[str, str]) -> None:
        # 409 stands for a name in use and for a rebalance
        self._client.change(
            "POST",
            "/connectors",
            body,
            expect=shapes.CREATED,
            final=lambda: self.config(name) is not None,
            done=self._has(name, config, created=True),
        )
        self._made.add(name)

    def _change(
        self,
        method: str,
        name: str,
        *words: str,
        body: object = None,
        expect: ExpectedAnswer = shapes.ACCEPTED,
        done: Callable[[], bool] | None = None,
    ) -> Any:
        """Sends a change. Workers that do not lead may not have read yet that the connector
        exists."""
        path, exists = connector_path(name, *words), name in self._made
        return self._client.change(method, path, body, expect=expect, done=done, exists=exists)

    def _has(
        self, name: str, config: Mapping[str, str], *, created: bool = False
    ) -> Callable[[], bool]:
        """Returns a check that this config is stored now. Masks in a config that was `created` may
        stand for anything; elsewhere they are the same before and after, and prove nothing."""

        def has() -> bool:
            stored = self._look(name)
            if stored is None or (masked_keys(stored) and not created):
                return False
            bare = {**config, "name": name}
            # A key that the cluster adds is no sign that the config was written
            own = {key: text for key, text in stored.items() if not is_of_cluster(key)}
            return same_config({**own, "name": name}, bare)

        return has

    def _look(self, name: str) -> Mapping[str, str] | None:
        """Returns the config, requested once: callers repeat the request themselves."""
        return self._client.read(connector_path(name, "config"), shapes.config, once=True)

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        body, done = dict(config), self._has(name, config)
        try:
            self._change("PUT", name, "config", body=body, expect=shapes.UPDATED, done=done)
        except NotConnect as error:
            if error.status == _CREATED:
                raise Failed(_not_there_before(name, error)) from error
            raise

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Changes these keys alone. The cluster must support it (`Feature.PATCH_CONFIG`)."""

        def done() -> bool:
            stored = self._look(name)
            return stored is not None and all(stored.get(k) == v for k, v in changes.items())

        self._change("PATCH", name, "config", body=dict(changes), expect=shapes.UPDATED, done=done)

    def config(self, name: str) -> Mapping[str, str] | None:
        return self._client.read(connector_path(name, "config"), shapes.config)

    def status(self, name: str) -> ConnectorStatus | None:
        return self._client.read(connector_path(name, "status"), shapes.status)

    def set_target(self, name: str, target: TargetState) -> None:
        self._change("PUT", name, _VERBS[target])

    def restart(self, name: str, *, only_failed: bool) -> None:
        failed = "true" if only_failed else "false"
        self._change("POST", name, f"restart?includeTasks=true&onlyFailed={failed}")

    def delete(self, name: str) -> None:
        self._change("DELETE", name, done=lambda: self._look(name) is None)
        self._made.discard(name)

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        path = connector_path(name, "offsets")
        stored = self._client.read(path, shapes.offsets, exists=name in self._made)
        if stored is None:
            raise RequestError(404, f"Connector {name} not found")
        return stored

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        body = wire.offsets_json(offsets)
        return str(self._change("PATCH", name, "offsets", body=body, expect=shapes.MESSAGE))

    def reset_offsets(self, name: str) -> str:
        return str(self._change("DELETE", name, "offsets", expect=shapes.MESSAGE))

    def close(self) -> None:
        self._client.close()


def _has_stopped(status: ConnectorStatus | None) -> bool:
    return status is not None and status.connector.state is State.STOPPED and not status.tasks


def _not_there_before(name: str, error: NotConnect) -> Diagnostic:
    problem = "it was not there when its config was to be updated, so the cluster created it"
    reason = (
        f"{error.exchange}: someone deleted it meanwhile, or this is not the cluster that was"
        " looked at"
    )
    hint = (
        "check that the target's URL leads to the cluster that is meant, then plan again; "
        f"`connect delete {name}` removes it where it does not belong"
    )
    return Diagnostic("apply.created-instead", problem, name, reason, hint)
