"""Alters and resets offsets as KIP-875 describes: only while stopped, and after fencing zombies.

The connector's `alter_offsets` is asked before any offset moves. It runs on the caller's thread,
between two steps on the herder's; the connector accepts no other change until the second. Source
offsets are written with the transactional id of the connector's task 0: one that starts later
fences a leader that was replaced (docs/decisions).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from connect_runtime.api import (
    ConfigError,
    ConnectorError,
    SinkConnector,
    SourceConnector,
    TopicPartition,
)
from connect_runtime.config_providers.registry import ConfigProviders, Resolved
from connect_runtime.engine.catalog import used_catalog
from connect_runtime.herder import requests
from connect_runtime.herder.earlier_attempts import kind_of, still_writing
from connect_runtime.herder.herder import Herder
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.herder.requests import NOT_FOUND, parse_sink_offsets, parse_source_offsets
from connect_runtime.herder.source_offsets import SourceOffsets
from connect_runtime.herder.verbs import LEADER_CHANGED, NotLeader, Refusal, RequestError
from connect_runtime.herder.view import class_of
from connect_runtime.kafka.groups import GroupActive, SinkGroups
from connect_runtime.plugins import sides
from connect_runtime.plugins.definitions import ConnectorTypes
from connect_runtime.plugins.registry import Plugin
from connect_runtime.settings.connector_clients import ConnectorClients, Kind
from connect_runtime.storage import config_topic
from connect_runtime.storage.assignments_topic import assignment_record
from connect_runtime.storage.log import LogWriter, NewRecord, OffsetsNotWritten
from connect_runtime.storage.offsets_topic import OffsetWrites
from connect_runtime.storage.snapshots import ConnectorState
from connect_runtime.traces import JavaError, trace_text
from connect_runtime.waiting import TakesTooLong, retry_while, within
from connect_specs.desired import Offset, OffsetEntry, Partition, sink_entry
from connect_specs.diagnostics import ConnectError

_log = logging.getLogger(__name__)

# As long as a request may take
_HOOK_S = 90
_IMPORT_S = 60
_RETRY_S = 0.05
# Apache's worker answers with their texts, and with its own for other exceptions
_CONNECT_ERRORS = "org.apache.kafka.connect.errors."
_BELOW_S = 30.0


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a connector's offsets. `entries` None resets all of them."""

    name: str
    entries: Sequence[OffsetEntry] | None

    @property
    def verb(self) -> str:
        """Returns "alter" or "reset"."""
        return "reset" if self.entries is None else "alter"


@dataclass(frozen=True, slots=True)
class _Fencing:
    """Producers to fence: of tasks 0..`tasks`-1, by the leader of `term`."""

    term: int
    tasks: int


class ConnectorOffsets:
    """Lists and changes the offsets of source and sink connectors."""

    def __init__(
        self,
        herder: Herder,
        settings: WorkerSettings,
        sources: SourceOffsets,
        groups: SinkGroups,
        providers: ConfigProviders,
    ) -> None:
        self._herder = herder
        self._settings = settings
        self._sources = sources
        self._groups = groups
        self._providers = providers
        self._kinds = ConnectorTypes()
        self._busy: set[str] = set()

    def busy(self, name: str) -> bool:
        """Returns whether the connector's offsets are being changed now."""
        return name in self._busy

    def list(self, name: str) -> Sequence[OffsetEntry]:
        """Lists offsets (GET offsets): in any state, on any runtime."""
        state = requests.find_connector(self._herder.view.config, name, NOT_FOUND)
        clients = self._clients(state, self._kind(state))
        if clients.kind == "sink":
            text = f"Failed to retrieve consumer group offsets for sink connector {name}"
            with _refused(text):
                offsets = self._groups.offsets(clients)
            return [sink_entry(key, offset) for key, offset in sorted(offsets.items())]
        with _refused(f"Failed to retrieve offsets for source connector {name}"):
            sources = self._sources.read(clients).merged.connectors.get(name, {})
        return [OffsetEntry(source.partition, source.offset) for source in sources.values()]

    def _kind(self, state: ConnectorState) -> Kind:
        """Returns the plugin's kind; if unknown, a connector that names topics to read is a
        sink."""
        kind = self._kinds.of(class_of(state))
        if kind == "unknown":
            return "sink" if {"topics", "topics.regex"} & state.config.keys() else "source"
        return "sink" if kind == "sink" else "source"

    def change(self, name: str, entries: Sequence[OffsetEntry] | None) -> str:
        """Alters offsets by `entries`, or resets them; returns Connect's success text."""
        change = Change(name, entries)
        if entries is not None and not entries:
            raise RequestError(
                400, "Partitions / offsets need to be provided for an alter offsets request"
            )
        # once the attempts of a connector that was just stopped have ended
        state = retry_while(
            _is_still_writing,
            lambda: self._herder.run_on_thread(lambda: self._begin(change)),
            self._settings.leaving_s,
            every_s=_RETRY_S,
        )
        try:
            if sides.is_java(state.config):
                resolved = Resolved(state.config, state.config, {})  # its JVM looks up references
            else:
                resolved = self._resolved(state.config)
            plugin = within(_IMPORT_S, lambda: sides.connector(resolved.config))
            clients = self._clients(state, "sink" if plugin.kind == "sink" else "source")
            if clients.kind == "sink":
                handled = self._change_sink(change, clients, resolved, plugin)
            else:
                handled = self._change_source(change, clients, resolved, plugin)
        except NotLeader as error:
            # the connector was asked already: the new leader must not repeat the change by itself
            raise RequestError(409, LEADER_CHANGED) from error
        finally:
            # also if the herder no longer answers: the connector must not stay busy
            self._busy.discard(name)
        done = "reset" if entries is None else "altered"
        if handled:
            return f"The offsets for this connector have been {done} successfully"
        return (
            f"The Connect framework-managed offsets for this connector have been {done} "
            "successfully. However, if this connector manages offsets externally, they will need "
            f"to be manually {done} in the system that the connector uses."
        )

    def _resolved(self, config: Mapping[str, str]) -> Resolved:
        try:
            return self._providers.resolve(config)
        except ConfigError as error:
            raise RequestError(500, str(error)) from error

    # --- on the herder's thread ---

    def _begin(self, change: Change) -> ConnectorState:
        if self.busy(change.name):
            raise RequestError(
                409, "Cannot complete request because of a conflicting operation on this connector"
            )
        state = self._checked(change)
        self._busy.add(change.name)
        return state

    def _checked(self, change: Change) -> ConnectorState:
        self._herder.must_lead()
        state = requests.find_connector(self._herder.view.config, change.name, NOT_FOUND)
        requests.check_stopped(state)
        view = self._herder.view
        assigned = (*view.assignments.tasks, *view.assignments.ending)
        candidates = (*view.runs, *assigned, *view.status.tasks)
        tasks = {task for task in candidates if task.connector == change.name}
        reason = still_writing(view, state, sorted(tasks))
        # Its consumer has left the group before the task has stopped
        stopping = any(task in view.runs and view.runs[task].active for task in tasks)
        if reason is None and stopping and kind_of(view, state) == "sink":
            reason = _still_active(change)
        if reason is not None:
            raise RequestError(500, reason, Refusal.STILL_WRITING)
        return state

    def _fencing(self, change: Change) -> _Fencing:
        """Returns which producers may still be alive (KIP-618); none if they are not
        transactional."""
        state = self._checked(change)
        if not self._herder.view.exactly_once:
            return _Fencing(self._herder.view.term, 0)
        # ends what is still assigned, before the fencing: an attempt that is about to make its
        # producer, which the fencing may miss, looks at its assignment after that.
        topic, assigned = self._settings.topics.assignments, self._herder.view.assignments.tasks
        ending = [task for task in assigned if task.connector == change.name]
        records = [assignment_record(topic, task, None) for task in ending]
        if records:
            self._herder.write(records)
        tasks = state.task_count_record if state.pending_fencing else None
        return _Fencing(self._herder.view.term, tasks or 0)

    def _prove(self, change: Change, fenced: _Fencing) -> None:
        """Records the fencing, if it is not, unless another leader ran the connector in between:
        its tasks are not fenced. Raises as `Herder.write` does."""
        self._checked(change)
        if self._herder.view.term != fenced.term:
            raise RequestError(
                409,
                "Failed to complete zombie fencing because a new set of task configs was generated",
            )
        state = self._herder.view.config.connectors[change.name]
        if self._herder.view.exactly_once and state.pending_fencing:
            record = config_topic.fencing_record(self._settings.topics.config, change.name, 0)
            self._herder.write([record])
        else:
            self._herder.prove_leading()

    # --- on the caller's thread ---

    def _clients(self, state: ConnectorState, kind: Kind) -> ConnectorClients:
        """Returns the connector's clients. Raises RequestError if an override is now forbidden."""
        try:
            clients = self._sources.clients(state.name, state.config, kind)
            clients.check()
            return clients
        except ConnectorError as error:
            raise RequestError(500, str(error)) from error

    def _change_source(
        self, change: Change, clients: ConnectorClients, resolved: Resolved, plugin: Plugin
    ) -> bool:
        fenced = self._herder.run_on_thread(lambda: self._fencing(change))
        with self._fencing_writer(clients, fenced) as writer:
            text = (
                "Timed out while trying to read to the end of the offsets topic prior to modifying "
                f"offsets for source connector {change.name}"
            )
            with _refused(text, Refusal.NOT_READ):
                stored = self._sources.read(clients)
            offsets: Sequence[tuple[Partition, Offset | None]]
            if change.entries is None:
                sources = stored.merged.connectors.get(change.name, {})
                offsets = [(source.partition, None) for source in sources.values()]
            else:
                offsets = parse_source_offsets(change.entries)
            hook = _source_hook(plugin, dict(resolved.config), offsets)
            handled = self._ask_hook(change, hook, "source", resolved)
            self._write_offsets(change, clients, fenced, writer, stored.writes(offsets))
        return handled

    @contextmanager
    def _fencing_writer(self, clients: ConnectorClients, fenced: _Fencing) -> Iterator[LogWriter]:
        """Fences the connector's producers, and opens the one that writes its offsets, which has
        the id of task 0. A task 0 that another leader starts later fences this writer."""
        text = "Failed to perform zombie fencing for source connector prior to modifying offsets"
        refusal = None
        if not fenced.tasks:
            text = f"Failed to modify offsets for source connector {clients.name}"
            refusal = Refusal.NOT_WRITTEN
        with self._sources.producer_logs(clients) as producers:
            with _refused(text, refusal):
                producers.logs.fence(
                    [clients.transactional_id(task) for task in range(1, fenced.tasks)]
                )
                writer = producers.logs.writer(clients.transactional_id(0))
            try:
                yield writer
            finally:
                writer.close()

    def _write_offsets(
        self,
        change: Change,
        clients: ConnectorClients,
        fenced: _Fencing,
        writer: LogWriter,
        writes: OffsetWrites,
    ) -> None:
        """Writes the offsets with the id of task 0 (KIP-875): another connector never waits for
        their partitions."""
        if writes.own:
            try:
                self._sources.prepare(clients)
            except ConnectError as error:
                raise RequestError(500, f"The offsets topic cannot be used: {error}") from error
        if writes.removed:
            self._write_below(change, fenced, writes.removed)
        if writes.own:
            # once a write of the leader proves that this process still leads and the connector is
            # stopped: a later leader fences the writer, which is already open
            self._herder.run_on_thread(lambda: self._prove(change, fenced))
            text = f"Failed to modify offsets for source connector {change.name}"
            with _refused(f"{text} in topic {writes.own[0].topic}", Refusal.NOT_WRITTEN):
                writer.write(writes.own)
        if writes.copies:
            try:
                self._write_below(change, fenced, writes.copies)
            except (RequestError, ConnectError) as error:
                text = "The offsets of %s are not copied: %s"
                _log.warning(text, change.name, error, extra={"connector": change.name})

    def _write_below(self, change: Change, fenced: _Fencing, records: Sequence[NewRecord]) -> None:
        """Writes to the worker's topic, which the connector's own lies over, as its tasks do: with
        the worker's login, and without transactions."""
        self._herder.run_on_thread(lambda: self._prove(change, fenced))
        writer = self._sources.worker.logs.background_writer()
        try:
            writer.write(records)
            if not writer.flush(_BELOW_S):
                text = f"Failed to modify offsets for source connector {change.name}"
                reason = writer.problem or f"{records[0].topic}: Kafka has not answered"
                raise RequestError(500, f"{text}: {reason}", Refusal.NOT_WRITTEN)
        finally:
            writer.close()

    def _change_sink(
        self, change: Change, clients: ConnectorClients, resolved: Resolved, plugin: Plugin
    ) -> bool:
        changes: Mapping[tuple[str, int], int | None]
        if change.entries is None:
            text = "Failed to list offsets prior to resetting offsets for sink connector"
            with _refused(f"{text} {change.name}"):
                changes = dict.fromkeys(self._groups.offsets(clients))
        else:
            changes = parse_sink_offsets(change.entries)
        hook = _sink_hook(plugin, dict(resolved.config), changes)
        handled = self._ask_hook(change, hook, "sink", resolved)
        if any(offset is not None and offset < 0 for offset in changes.values()):
            raise RequestError(500, f"Failed to modify offsets for sink connector {change.name}")
        self._herder.run_on_thread(lambda: self._checked(change))
        try:
            self._move_group(clients, None if change.entries is None else changes)
        except GroupActive as error:
            raise RequestError(500, _still_active(change), Refusal.GROUP_ACTIVE) from error
        except ConnectError as error:
            kind = "sink " if change.entries is None else ""
            text = (
                f"Failed to {change.verb} consumer group offsets for {kind}connector {change.name}"
            )
            raise RequestError(500, text) from error
        return handled

    def _ask_hook(
        self, change: Change, hook: Callable[[], bool], kind: str, resolved: Resolved
    ) -> bool:
        """Asks the connector and turns its refusals into Connect's answers, with secrets
        redacted."""
        try:
            return bool(within(_HOOK_S, hook))
        except TakesTooLong:
            text = f"alterOffsets of connector {change.name} has not returned in {_HOOK_S} s"
            raise RequestError(500, text) from None
        except NotImplementedError:
            text = (
                f"Failed to modify offsets for connector {change.name} because it doesn't support "
                "external modification of offsets"
            )
            raise RequestError(500, text) from None
        except JavaError as error:
            if error.type.startswith(_CONNECT_ERRORS):
                raise RequestError(500, error.text) from None
            raise self._thrown(change, kind, error, resolved) from None
        except ConnectorError as error:
            text = self._providers.redactor(resolved).redact(str(error))
            raise RequestError(500, text) from None
        except Exception as error:
            raise self._thrown(change, kind, error, resolved) from None

    def _thrown(
        self, change: Change, kind: str, error: Exception, resolved: Resolved
    ) -> RequestError:
        """Logs what a hook threw, and returns Connect's answer to it."""
        trace = trace_text(error, self._providers.redactor(resolved))
        text = "The alter_offsets method of connector %s threw: %s"
        _log.error(text, change.name, trace, extra={"connector": change.name})
        return RequestError(500, f"Failed to modify offsets for {kind} connector {change.name}")

    def _move_group(
        self, clients: ConnectorClients, changes: Mapping[tuple[str, int], int | None] | None
    ) -> None:
        if changes is None:
            self._groups.delete(clients)
            return
        altered = {key: offset for key, offset in changes.items() if offset is not None}
        if altered:
            self._groups.alter(clients, altered)
        forgotten = [key for key, offset in changes.items() if offset is None]
        if forgotten:
            self._groups.forget(clients, forgotten)


def _source_hook(
    plugin: Plugin,
    config: Mapping[str, str],
    offsets: Sequence[tuple[Partition, Offset | None]],
) -> Callable[[], bool]:
    """Returns the call of a source's own check of new offsets."""
    catalog = used_catalog()
    if plugin.java and catalog is not None:
        return lambda: catalog.alter_offsets(config, list(offsets))
    connector = cast(SourceConnector, plugin.cls())
    return lambda: connector.alter_offsets(config, offsets)


def _sink_hook(
    plugin: Plugin, config: Mapping[str, str], changes: Mapping[tuple[str, int], int | None]
) -> Callable[[], bool]:
    """Returns the call of a sink's own check of new offsets."""
    catalog = used_catalog()
    if plugin.java and catalog is not None:
        rows = [({"topic": t, "partition": p}, offset) for (t, p), offset in changes.items()]
        return lambda: catalog.alter_offsets(config, rows)
    connector = cast(SinkConnector, plugin.cls())
    by_partition = {TopicPartition(*key): offset for key, offset in changes.items()}
    return lambda: connector.alter_offsets(config, by_partition)


def _is_still_writing(error: Exception) -> bool:
    return isinstance(error, RequestError) and error.refusal is Refusal.STILL_WRITING


@contextmanager
def _refused(text: str, refusal: Refusal | None = None) -> Iterator[None]:
    """Turns errors of Kafka into Connect's answer, 500 with this text and the reason; keeps a
    RequestError, and what a standalone worker says of its file."""
    try:
        yield
    except (RequestError, OffsetsNotWritten):
        raise
    except ConnectError as error:
        raise RequestError(500, f"{text}: {error.explained}", refusal) from error


def _still_active(change: Change) -> str:
    return (
        f"Failed to {change.verb} consumer group offsets for connector {change.name} either "
        "because its tasks haven't stopped completely yet or the connector was resumed before the "
        f"request to {change.verb} its offsets could be successfully completed. If the connector "
        "is in a stopped state, this operation can be safely retried. If it doesn't eventually "
        "succeed, the Connect cluster may need to be restarted to get rid of the zombie sink tasks."
    )
