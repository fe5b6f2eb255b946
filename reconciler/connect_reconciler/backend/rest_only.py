"""A Connect cluster that is reached by REST alone: no journal, no lease, no history.

Each connector's config holds its ledger entry. REST does not report target states; they follow from
statuses, which lag behind what was asked here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

from connect_reconciler.backend.backend import AtOnce, Connection, now_ms
from connect_reconciler.backend.config_ledger import ConfigKeyLedger, NoLease
from connect_reconciler.backend.http import HttpCluster, RestBackend
from connect_reconciler.backend.lease import Lease, OnWait, no_progress
from connect_reconciler.backend.observe.kafka_view import fingerprint_key_given
from connect_reconciler.backend.observe.rest import (
    ledger_over_rest,
    observe_rest,
)
from connect_reconciler.backend.port import OutcomeUnknown, StoredConnector
from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.client import RestClient, connector_path
from connect_reconciler.backend.rest.refusals import PATIENT
from connect_reconciler.backend.rest.shapes import FOLLOWS_S, is_passing, target_of
from connect_reconciler.drift.model import LiveWithHistory
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.model.config_values import LEDGER_KEY, without_reserved
from connect_reconciler.model.live import Feature, Live, knows
from connect_reconciler.model.secrets import masked_keys, same_spec, seen
from connect_runtime.herder.verbs import ConnectorInfo
from connect_specs.desired import Desired, OffsetEntry, Project, RestTarget
from connect_specs.diagnostics import Diagnostic, Failed, Invalid
from connect_specs.states import TargetState


class RestOnlyBackend(RestBackend):
    def __init__(self, project: Project, target: RestTarget) -> None:
        super().__init__(project, {}, target)

    def observe(self, desired: Desired) -> Live:
        key = fingerprint_key_given()
        with self.plugins() as plugins, RestClient(self.target) as client:
            return observe_rest(
                desired, client, now_ms=now_ms, fingerprint_key=key, plugins=plugins
            )

    def observe_with_history(self, desired: Desired) -> LiveWithHistory:
        # REST tells neither when things were written nor what deleted connectors left
        return LiveWithHistory(self.observe(desired))

    def ledger(self) -> LedgerSnapshot:
        return LedgerSnapshot()

    def ensure_kafka(self, within_s: float | None = None) -> None:
        """Does nothing: no Kafka is used."""

    def ensure_one_cluster(self, name: str) -> None:
        """Does nothing: no topics are read that could be those of another cluster."""

    @contextmanager
    def connection(
        self,
        desired: Desired,
        by: str,
        *,
        lease: Lease | None = None,
        at_once: AtOnce = nullcontext,
        waits: OnWait = no_progress,
    ) -> Iterator[Connection]:
        with ExitStack() as stack:
            with at_once():
                client = stack.enter_context(RestClient.checked(self.target, PATIENT))
            yield connection_over_rest(client, desired, fingerprint_key_given())

    def ensure_lease(self) -> None:
        problem = "over REST alone there is no lease, and no other apply is known of"
        hint = "leave out --takeover and --lock-timeout, or add cluster.kafka to connect.yaml"
        raise Invalid(Diagnostic("apply.no-lease", problem, str(self.project.file), hint=hint))

    def take_over(self, say: Callable[[str], None]) -> AbstractContextManager[Lease]:
        self.ensure_lease()
        raise AssertionError("there is no lease to take over")


def connection_over_rest(
    client: RestClient, desired: Desired, fingerprint_key: bytes | None
) -> Connection:
    """Returns what an apply needs; the ledger is as the configs hold it now. The caller closes
    `client`."""
    asks = HttpCluster(client)
    read_back = RestConnectorReader(
        asks, client, lambda name, config: seen(name, config, ledger.state, desired)
    )
    state, entries = ledger_over_rest(client, fingerprint_key)
    ledger = ConfigKeyLedger(state, RestEntryStore(asks, read_back), entries)
    return Connection(KeyedCluster(client, ledger.entry, read_back), ledger, NoLease(), read_back)


@dataclass(slots=True)
class RestConnectorReader:
    """Implements `ReadConnector`. `unmask` puts known values in the place of a connector's masks.

    Changes that were accepted here count until the cluster reports them too, and a target state
    also while the status does not show it: a worker that is not the leader may follow late.
    """

    cluster: HttpCluster
    client: RestClient
    unmask: Callable[[str, Mapping[str, str]], Mapping[str, str]]
    _asked: dict[str, TargetState] = field(default_factory=dict)
    _written: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, name: str) -> StoredConnector | None:
        with self._lock:
            exists, config = name in self._asked, self._written.get(name)
        answers: list[ConnectorInfo | None] = []

        def followed() -> bool:
            info = self.client.read(connector_path(name), shapes.connector, exists=exists)
            answers.append(info)
            return info is None or config is None or same_spec(info.config, config)

        self.client.wait_for(followed, FOLLOWS_S)
        info = answers[-1]
        if info is None:
            return None
        target = self.target(name) or TargetState.RUNNING
        return StoredConnector(self.unmask(name, info.config), target, len(info.tasks))

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
        """Returns the target state; None where it is unknown."""
        with self._lock:
            target_asked = self._asked.get(name)
        answers: list[TargetState | None] = []

        def settled() -> bool:
            status = self.cluster.status(name)
            answers.append(target_of(status))
            if target_asked is None:
                return not is_passing(status)
            return answers[-1] in (None, target_asked)

        self.client.wait_for(settled, FOLLOWS_S)
        return answers[-1] or target_asked


@dataclass(frozen=True, slots=True)
class RestEntryStore:
    """The cluster as a ledger in configs uses it."""

    cluster: HttpCluster
    read_back: RestConnectorReader

    def target(self, name: str) -> TargetState | None:
        """Returns the target state; None if it is unknown, or the connector does not exist."""
        return self.read_back.target(name)

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        return self.cluster.offsets(name)

    def write_entry(self, name: str, entry: str) -> None:
        """Writes the entry into the connector's config. Raises RequestError, OutcomeUnknown."""
        try:
            self._write(name, entry)
        except OutcomeUnknown:
            # Asked again rather than looked for: it says the same twice
            self._write(name, entry)

    def _write(self, name: str, entry: str) -> None:
        if knows(self.cluster.version, Feature.PATCH_CONFIG):
            self.cluster.patch_config(name, {LEDGER_KEY: entry})
            return
        stored = self.read_back(name)
        config = {} if stored is None else stored.config
        masked = sorted(masked_keys(config))
        if masked:
            problem = f"the cluster masks {', '.join(masked)}, and a mask is never written"
            hint = "put the true value into the spec, or a ${provider:…} reference"
            raise Failed(Diagnostic("ledger.masked-config", problem, name, hint=hint))
        self.cluster.update_config(name, {**config, LEDGER_KEY: entry})


class KeyedCluster(HttpCluster):
    """Writes a connector's ledger entry with its config, and notes what was accepted."""

    def __init__(
        self, client: RestClient, entry: Callable[[str], str], read_back: RestConnectorReader
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

    def set_target(self, name: str, target: TargetState) -> None:
        super().set_target(name, target)
        self._read_back.asked(name, target)

    def delete(self, name: str) -> None:
        super().delete(name)
        self._read_back.deleted(name)

    def _keyed(self, name: str, config: Mapping[str, str]) -> dict[str, str]:
        entry, bare = self._entry(name), without_reserved(config)
        return {**bare, LEDGER_KEY: entry} if entry else bare
