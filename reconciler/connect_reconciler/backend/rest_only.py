"""A Connect cluster that is reached by REST alone: no journal, no lease, no history.

Each connector's config holds its ledger entry. REST does not report target states; they follow from
statuses, which lag behind the requests that were accepted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace

from connect_reconciler import actions as act
from connect_reconciler.backend.backend import AtOnce, Connection, now_ms
from connect_reconciler.backend.followed_topics import StoredConnector
from connect_reconciler.backend.http import HttpCluster, RestBackend
from connect_reconciler.backend.lease import Lease, OnWait, no_progress
from connect_reconciler.backend.observe.kafka_view import fingerprint_key_given
from connect_reconciler.backend.observe.rest import (
    ledger_over_rest,
    observe_rest,
)
from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.client import OutcomeUnknown, RestClient, connector_path
from connect_reconciler.backend.rest.refusals import PATIENT
from connect_reconciler.backend.rest.shapes import FOLLOWS_S, is_passing, target_of
from connect_reconciler.ledger.config_entry import (
    Entry,
    dump_entry,
    entry_of,
    load_entry,
    offsets_mark,
)
from connect_reconciler.ledger.journal import Ending, Journal, JournalEntry
from connect_reconciler.ledger.topic import LedgerSnapshot, reduce_all
from connect_reconciler.model.config_values import LEDGER_KEY, without_reserved
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.ledger_records import PIN, RENAME, parts_of
from connect_reconciler.model.live import Feature, Live, knows
from connect_reconciler.model.secrets import masked_keys, same_spec, unmasked
from connect_runtime.herder.verbs import ConnectorInfo, RequestError
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_specs.desired import Desired, Project, RestTarget, TargetState
from connect_specs.diagnostics import Diagnostic, Failed

_NOT_FOUND = 404
_STATUS_UNKNOWN = "its status does not say whether it is stopped"


class RestOnlyBackend(RestBackend):
    def __init__(self, project: Project, target: RestTarget) -> None:
        super().__init__(project, {}, target)

    def observe(self, desired: Desired) -> Live:
        key = fingerprint_key_given()
        with self.plugins() as plugins, RestClient(self.target) as client:
            return observe_rest(
                desired, client, now_ms=now_ms, fingerprint_key=key, plugins=plugins
            )

    def ledger(self) -> LedgerSnapshot:
        return LedgerSnapshot()

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


def connection_over_rest(
    client: RestClient, desired: Desired, fingerprint_key: bytes | None
) -> Connection:
    """Returns what an apply needs; the ledger is as the configs hold it now. The caller closes
    `client`."""
    cluster = RestOnlyCluster(
        client,
        lambda name: ledger.entry(name),
        lambda name, config: unmasked(name, config, ledger.state, desired),
    )
    state, entries = ledger_over_rest(client, fingerprint_key)
    ledger = ConfigKeyLedger(state, cluster, entries)
    return Connection(cluster, ledger, NoLease(), cluster.read_back)


class RestOnlyCluster(HttpCluster):
    """Writes a connector's ledger `entry` with its config. `unmask` puts known values in the place
    of a connector's masks.

    Changes that were accepted here count until the cluster reports them too, and a target state
    also while the status does not show it: a worker that is not the leader may follow late.
    """

    def __init__(
        self,
        client: RestClient,
        entry: Callable[[str], str],
        unmask: Callable[[str, Mapping[str, str]], Mapping[str, str]],
    ) -> None:
        super().__init__(client)
        self._entry = entry
        self._unmask = unmask
        # Accepted by the cluster
        self._targets: dict[str, TargetState] = {}
        self._configs: dict[str, Mapping[str, str]] = {}
        self._lock = threading.Lock()

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        super().create(name, self._with_entry(name, config), state)
        with self._lock:
            self._targets[name] = state
            self._configs[name] = without_reserved(config)

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        super().update_config(name, self._with_entry(name, config))
        with self._lock:
            self._configs[name] = without_reserved(config)

    def set_target(self, name: str, target: TargetState) -> None:
        super().set_target(name, target)
        with self._lock:
            self._targets[name] = target

    def delete(self, name: str) -> None:
        super().delete(name)
        with self._lock:
            self._targets.pop(name, None)
            self._configs.pop(name, None)

    def _with_entry(self, name: str, config: Mapping[str, str]) -> dict[str, str]:
        entry, bare = self._entry(name), without_reserved(config)
        return {**bare, LEDGER_KEY: entry} if entry else bare

    def read_back(self, name: str) -> StoredConnector | None:
        """Implements `ReadConnector`."""
        with self._lock:
            exists, config = name in self._targets, self._configs.get(name)
        answers: list[ConnectorInfo | None] = []

        def followed() -> bool:
            info = self._client.read(connector_path(name), shapes.connector, exists=exists)
            answers.append(info)
            return info is None or config is None or same_spec(info.config, config)

        self._client.wait_for(followed, FOLLOWS_S)
        info = answers[-1]
        if info is None:
            return None
        target = self.target(name) or TargetState.RUNNING
        return StoredConnector(self._unmask(name, info.config), target, len(info.tasks))

    def target(self, name: str) -> TargetState | None:
        """Returns the target state; None if it is unknown, or the connector does not exist."""
        with self._lock:
            accepted = self._targets.get(name)
        answers: list[TargetState | None] = []

        def settled() -> bool:
            status = self.status(name)
            answers.append(target_of(status))
            if accepted is None:
                return not is_passing(status)
            return answers[-1] in (None, accepted)

        self._client.wait_for(settled, FOLLOWS_S)
        return answers[-1] or accepted

    def write_entry(self, name: str, entry: str) -> None:
        """Writes the entry into the connector's config. Raises RequestError, OutcomeUnknown."""
        try:
            self._write_entry(name, entry)
        except OutcomeUnknown:
            # Repeated without a check: writing the same entry twice does no harm
            self._write_entry(name, entry)

    def _write_entry(self, name: str, entry: str) -> None:
        if knows(self.version, Feature.PATCH_CONFIG):
            self.patch_config(name, {LEDGER_KEY: entry})
            return
        stored = self.read_back(name)
        config = {} if stored is None else stored.config
        masked = sorted(masked_keys(config))
        if masked:
            problem = f"the cluster masks {', '.join(masked)}, and a mask is never written"
            hint = "put the true value into the spec, or a ${provider:…} reference"
            raise Failed(Diagnostic("ledger.masked-config", problem, name, hint=hint))
        super().update_config(name, {**config, LEDGER_KEY: entry})


class ConfigKeyLedger:
    """The ledger over REST alone, a key in each connector's own config. Implements `LedgerWriter`.

    Writing a config restarts the tasks. So the entry is written together with a config change,
    while the connector is stopped, or right before a stop that serves another action. The records
    of a resume are written before it, with a mark of the current offsets, which later shows whether
    the connector ran. There is no journal. `entries` are those in the configs now, by connector.

    Raises Failed where a connector's entry could not be written: the others can go on.
    """

    topic = LEDGER_KEY

    def __init__(
        self, state: LedgerState, cluster: RestOnlyCluster, entries: Mapping[str, str]
    ) -> None:
        self._snapshot = LedgerSnapshot(state)
        self._upcoming: dict[str, LedgerSnapshot] = {}
        self._entries = dict(entries)
        self._cluster = cluster
        self._lock = threading.Lock()

    @property
    def state(self) -> LedgerState:
        return self._snapshot.state

    def begin(self, journal: Journal, *, new_fingerprint_key: bytes | None) -> None:
        """Does nothing: there is no journal, and no place for a key."""

    def started(
        self,
        step: JournalEntry,
        records: Sequence[NewRecord] = (),
        *,
        upcoming: Sequence[NewRecord] = (),
    ) -> None:
        self.correct(records)
        with self._lock:
            self._upcoming |= dict.fromkeys(
                _connectors_of(step, upcoming), _with_records(self._snapshot, upcoming)
            )
        name = step.connector
        action = act.ACTIONS[step.action]
        if action.asks_for is TargetState.STOPPED and self.state.restore_to(name) is not None:
            self._write(name, self._entry(name))
        elif action is act.Delete and self.state.restore_to(name) is not None:
            # If this fails, the connector is deleted all the same
            with suppress(Failed):
                self._write(name, entry_of(name, self.state))
        elif action in (act.Pause, act.Resume):
            kinds = {parts_of(record.key)[0] for record in records}
            must = bool(kinds & {PIN, RENAME}) or self.state.restore_to(name) is not None
            self._write_before_restoring(step, must=must)

    def done(self, step: JournalEntry, records: Sequence[NewRecord] = ()) -> None:
        self.correct(records)
        names = _connectors_of(step, records)
        with self._lock:
            for name in names:
                self._upcoming.pop(name, None)
            if issubclass(act.ACTIONS[step.action], act.ConfigAction):
                self._entries[step.connector] = dump_entry(self._entry(step.connector))
        for name in names:
            entry = self.entry(name)
            out_of_date = entry and self._entries.get(name) != entry
            if out_of_date and self._can_be_written(name, step):
                self._write(name, self._entry(name), may_be_gone=name != step.connector)

    def correct(self, records: Sequence[NewRecord]) -> None:
        """Keeps the records in memory, to be written with the connector's next change."""
        with self._lock:
            self._snapshot = _with_records(self._snapshot, records)

    def failed(self, step: JournalEntry) -> None:
        with self._lock:
            self._upcoming.pop(step.connector, None)

    def finish(
        self, ending: Ending, *, exit_code: int, now_ms: int, proven: Collection[str] = ()
    ) -> None:
        """Does nothing: there is no journal."""

    def prove(self, project: str, proven: Collection[str]) -> None:
        """Does nothing: there is no journal."""

    def entry(self, name: str) -> str:
        """Returns the entry for a config that is written now, with what the step is going to
        record."""
        with self._lock:
            return dump_entry(self._entry(name))

    def _entry(self, name: str) -> Entry | None:
        return entry_of(name, self._upcoming.get(name, self._snapshot).state)

    def _write_before_restoring(self, step: JournalEntry, *, must: bool) -> None:
        """Writes what the step is going to record, and the state that is yet to be restored."""
        name = step.connector
        target = self._cluster.target(name)
        if target is None and must:
            raise _not_written(name, _STATUS_UNKNOWN)
        if target is not TargetState.STOPPED:
            return
        entry, restore_to = self._entry(name), self.state.restore_to(name)
        if entry is not None and restore_to is not None:
            # A paused connector is written again later, and moves no offsets
            mark = self._mark(name) if step.action == act.Resume.__name__ else None
            owned = replace(entry.owned, restore_to=restore_to, resuming=mark)
            entry = replace(entry, owned=owned)
        self._write(name, entry)

    def _mark(self, name: str) -> str:
        try:
            return offsets_mark(self._cluster.offsets(name))
        except RequestError as error:
            raise _not_written(name, error.message) from error

    def _can_be_written(self, name: str, step: JournalEntry) -> bool:
        """Returns True if writing restarts no tasks. Raises Failed where it must not wait and may
        restart some."""
        action = act.ACTIONS[step.action]
        if action is act.Resume or (action is act.Pause and not self._has_state_to_restore(name)):
            return False
        target = self._cluster.target(name)
        if target is TargetState.STOPPED:
            return True
        if action is act.Pause and target is TargetState.PAUSED:
            return True
        # afterwards it is stopped, and what was recorded must not be lost
        stopped = action.asks_for is TargetState.STOPPED or issubclass(action, act.OffsetsAction)
        if stopped and name == step.connector:
            reason = _STATUS_UNKNOWN if target is None else f"it is {target.value}, not stopped"
            raise _not_written(name, reason)
        return False

    def _has_state_to_restore(self, name: str) -> bool:
        """Returns True if the entry in its config has a state to restore."""
        text = self._entries.get(name)
        return text is not None and load_entry(name, text).owned.restore_to is not None

    def _write(self, name: str, entry: Entry | None, *, may_be_gone: bool = False) -> None:
        """Writes the entry. `may_be_gone`: another thread may have deleted the connector."""
        text = dump_entry(entry)
        if not text or self._entries.get(name) == text:
            return
        try:
            self._cluster.write_entry(name, text)
        except RequestError as error:
            if may_be_gone and error.status == _NOT_FOUND:
                return
            raise _not_written(name, error.message) from error
        with self._lock:
            self._entries[name] = text


def _not_written(name: str, reason: str) -> Failed:
    problem = f"what was applied to {name} could not be kept in its config"
    hint = "run apply again: it goes on where this one ended"
    return Failed(Diagnostic("ledger.not-written", problem, name, reason, hint))


class NoLease:
    """Stands for the lease over REST alone, where nothing keeps two applies apart."""

    def keep(self) -> None:
        """Does nothing: there is no lease to lose."""


def _connectors_of(step: JournalEntry, records: Sequence[NewRecord]) -> tuple[str, ...]:
    """Returns the step's own connector, and those of its records."""
    return tuple(dict.fromkeys([step.connector, *(parts_of(record.key)[1] for record in records)]))


def _with_records(snapshot: LedgerSnapshot, records: Sequence[NewRecord]) -> LedgerSnapshot:
    return reduce_all(
        snapshot, (LogRecord(record.topic, 0, 0, 0, record.key, record.value) for record in records)
    )
