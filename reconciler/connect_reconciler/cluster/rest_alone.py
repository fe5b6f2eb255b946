"""A cluster that only its REST API tells of: what a connector is, and its ledger entry in it.

Target states are not told; they follow from statuses, which lag behind what was asked here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from connect_reconciler.cluster import shapes
from connect_reconciler.cluster.http import HttpCluster
from connect_reconciler.cluster.port import OutcomeUnknown
from connect_reconciler.cluster.readback import Found
from connect_reconciler.cluster.rest_client import RestClient, connector_path
from connect_reconciler.plan.reserved import LEDGER_KEY, without_reserved
from connect_reconciler.plan.secrets.masked import masked_keys, same_config
from connect_reconciler.plan.versions import Feature, knows
from connect_runtime.herder.values import ConnectorInfo, ConnectorStatus
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic, Failed
from connect_specs.states import TargetState

# How long a status may take to follow what was asked
FOLLOWS_S = 10.0

_TARGETS: Mapping[State, TargetState] = {
    State.RUNNING: TargetState.RUNNING,
    State.PAUSED: TargetState.PAUSED,
    State.STOPPED: TargetState.STOPPED,
}


def target_of(status: ConnectorStatus | None) -> TargetState | None:
    """The target state that a status tells; None for one that tells none, such as FAILED."""
    return None if status is None else _TARGETS.get(status.connector.state)


def is_passing(status: ConnectorStatus | None) -> bool:
    """Whether it tells nothing yet: a worker is about to start the connector in some state."""
    return status is None or status.connector.state in (State.UNASSIGNED, State.RESTARTING)


@dataclass(slots=True)
class RestReadBack:
    """Implements `ReadBack`. `unmask` puts known values in the place of a connector's masks.

    What was asked and written here counts until the cluster says it too, and a state also where its
    status says nothing: a worker that is not the leader may follow late.
    """

    cluster: HttpCluster
    client: RestClient
    unmask: Callable[[str, Mapping[str, str]], Mapping[str, str]]
    _asked: dict[str, TargetState] = field(default_factory=dict)
    _written: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, name: str) -> Found | None:
        with self._lock:
            exists, written = name in self._asked, self._written.get(name)
        told: list[ConnectorInfo | None] = []

        def followed() -> bool:
            info: ConnectorInfo | None = self.client.read(
                connector_path(name), shapes.connector, exists=exists
            )
            told.append(info)
            return info is None or written is None or _says(info, written)

        self.client.wait_for(followed, FOLLOWS_S)
        info = told[-1]
        if info is None:
            return None
        target = self.target(name) or TargetState.RUNNING
        return Found(self.unmask(name, info.config), target, len(info.tasks))

    def asked(self, name: str, target: TargetState) -> None:
        """Takes note of what the cluster has accepted."""
        with self._lock:
            self._asked[name] = target

    def wrote(self, name: str, config: Mapping[str, str]) -> None:
        """Takes note of a config that the cluster has accepted."""
        with self._lock:
            self._written[name] = without_reserved(config)

    def deleted(self, name: str) -> None:
        """Takes note that nothing is there any more."""
        with self._lock:
            self._asked.pop(name, None)
            self._written.pop(name, None)

    def target(self, name: str) -> TargetState | None:
        """The target state, None where nothing tells."""
        with self._lock:
            asked = self._asked.get(name)
        told: list[TargetState | None] = []

        def settled() -> bool:
            status = self.cluster.status(name)
            told.append(target_of(status))
            if asked is None:
                return not is_passing(status)
            return told[-1] in (None, asked)

        self.client.wait_for(settled, FOLLOWS_S)
        return told[-1] or asked


def _says(info: ConnectorInfo, written: Mapping[str, str]) -> bool:
    found = {**without_reserved(info.config), "name": info.name}
    return same_config(found, {**written, "name": info.name})


@dataclass(frozen=True, slots=True)
class RestKeeper:
    """Implements `Keeper`."""

    cluster: HttpCluster
    read_back: RestReadBack

    def target(self, name: str) -> TargetState | None:
        return self.read_back.target(name)

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        return self.cluster.offsets(name)

    def keep(self, name: str, entry: str) -> None:
        try:
            self._write(name, entry)
        except OutcomeUnknown:
            # Asked again rather than looked for: it says the same twice
            self._write(name, entry)

    def _write(self, name: str, entry: str) -> None:
        if knows(self.cluster.version, Feature.PATCH_CONFIG):
            self.cluster.patch_config(name, {LEDGER_KEY: entry})
            return
        found = self.read_back(name)
        config = {} if found is None else found.config
        masked = sorted(masked_keys(config))
        if masked:
            what = f"the cluster masks {', '.join(masked)}, and a mask is never written"
            hint = "put the true value into the spec, or a ${provider:…} reference"
            raise Failed(Diagnostic("ledger.masked-config", what, name, hint=hint))
        self.cluster.update_config(name, {**config, LEDGER_KEY: entry})


class KeyedCluster(HttpCluster):
    """Writes a connector's ledger entry with its config, and tells what was accepted."""

    def __init__(
        self, client: RestClient, entry: Callable[[str], str], read_back: RestReadBack
    ) -> None:
        super().__init__(client)
        self._entry = entry
        self._read_back = read_back

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        super().create(name, self._keyed(name, config), state)
        self._read_back.asked(name, state)
        self._read_back.wrote(name, config)

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        super().update_config(name, self._keyed(name, config))
        self._read_back.wrote(name, config)

    def stop(self, name: str) -> None:
        super().stop(name)
        self._read_back.asked(name, TargetState.STOPPED)

    def pause(self, name: str) -> None:
        super().pause(name)
        self._read_back.asked(name, TargetState.PAUSED)

    def resume(self, name: str) -> None:
        super().resume(name)
        self._read_back.asked(name, TargetState.RUNNING)

    def delete(self, name: str) -> None:
        super().delete(name)
        self._read_back.deleted(name)

    def _keyed(self, name: str, config: Mapping[str, str]) -> dict[str, str]:
        entry, bare = self._entry(name), without_reserved(config)
        return {**bare, LEDGER_KEY: entry} if entry else bare


class UnkeyedCluster(HttpCluster):
    """A cluster with a ledger topic: the entry that a config still holds from before there was one
    goes before offsets move, or it would tell of too few pins if Kafka were taken away again."""

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        self._drop_entry(name)
        return super().alter_offsets(name, offsets)

    def reset_offsets(self, name: str) -> str:
        self._drop_entry(name)
        return super().reset_offsets(name)

    def _drop_entry(self, name: str) -> None:
        config = self.config(name) or {}
        if LEDGER_KEY not in config:
            return
        if knows(self.version, Feature.PATCH_CONFIG):
            self.patch_config(name, {LEDGER_KEY: None})
        elif not masked_keys(config):
            self.update_config(name, without_reserved(config))
