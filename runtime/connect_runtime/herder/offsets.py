"""Altering and resetting offsets as KIP-875 describes: only while stopped, zombies fenced first,
the connector's `alter_offsets` asked before anything moves.

The plugin's hook runs on the asker's thread, between two visits to the herder's; a connector that
is being altered takes no other change meanwhile. Source offsets are written by the leader's own
transaction, so that a leader that was replaced cannot move them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from connect_runtime import plugins
from connect_runtime.api import (
    ConfigError,
    ConnectorError,
    SinkConnector,
    SourceConnector,
    TopicPartition,
)
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.config_providers.resolved import Resolved
from connect_runtime.herder import requests
from connect_runtime.herder.calls import within
from connect_runtime.herder.errors import RequestError
from connect_runtime.herder.herder import Herder
from connect_runtime.herder.offsets_body import parse_sink_offsets, parse_source_offsets
from connect_runtime.herder.reads import NOT_FOUND
from connect_runtime.herder.source_offsets import SourceOffsets
from connect_runtime.herder.succession import still_writing
from connect_runtime.herder.worker import FenceTasks
from connect_runtime.kafka.groups import GroupActive
from connect_runtime.plugins import Plugin
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import ConnectorState
from connect_runtime.traces import trace_text
from connect_specs.desired import Offset, OffsetEntry, Partition
from connect_specs.diagnostics import ConnectError
from connect_specs.names import GROUP_KEY, ClusterTopics, sink_group

_log = logging.getLogger(__name__)

# As long as a request may take
_HOOK_S = 90

Group = Mapping[tuple[str, int], int]


class Groups(Protocol):
    """Offsets of consumer groups. Moving them raises GroupActive while the group has members."""

    def offsets(self, group: str) -> Group: ...
    def alter(self, group: str, offsets: Group) -> None: ...
    def forget(self, group: str, partitions: Sequence[tuple[str, int]]) -> None: ...
    def delete(self, group: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Change:
    """What is being done to a connector's offsets. `entries` None resets all of them."""

    verb: str
    name: str
    entries: Sequence[OffsetEntry] | None


@dataclass(frozen=True, slots=True)
class _Fencing:
    """How many of a connector's producers are to be fenced in which of the leader's terms, and what
    is to be recorded of it."""

    count: int
    term: int
    records: tuple[NewRecord, ...]


class ConnectorOffsets:
    """The offsets of connectors, source and sink."""

    def __init__(
        self,
        herder: Herder,
        topics: ClusterTopics,
        sources: SourceOffsets,
        groups: Groups,
        providers: ConfigProviders,
        fence: FenceTasks,
    ) -> None:
        self._herder = herder
        self._topics = topics
        self._sources = sources
        self._groups = groups
        self._providers = providers
        self._fence = fence
        self._busy: set[str] = set()

    def busy(self, name: str) -> bool:
        """Whether the connector's offsets are being changed right now."""
        return name in self._busy

    def list(self, name: str) -> Sequence[OffsetEntry]:
        """GET offsets: in any state, by any runtime."""
        state = requests.known(self._herder.view.config, name, NOT_FOUND)
        if _kind(state) == "sink":
            # of the references only one in the group's name matters
            group = self._group(name, self._resolved(_group_keys(state.config)))
            try:
                found = self._groups.offsets(group)
            except ConnectError as error:
                text = f"Failed to retrieve consumer group offsets for sink connector {name}"
                raise RequestError(500, text) from error
            return [_sink_entry(key, offset) for key, offset in sorted(found.items())]
        try:
            sources = self._sources.read().connectors.get(name, {})
        except ConnectError as error:
            text = f"Failed to retrieve offsets for source connector {name}"
            raise RequestError(500, text) from error
        return [OffsetEntry(found.partition, found.offset) for found in sources.values()]

    def change(self, name: str, entries: Sequence[OffsetEntry] | None) -> str:
        """Alters by `entries`, or resets; returns Connect's success text."""
        change = Change("reset" if entries is None else "alter", name, entries)
        if entries is not None and not entries:
            raise RequestError(
                400, "Partitions / offsets need to be provided for an alter offsets request"
            )
        state = self._herder.ask(lambda: self._begin(change))
        try:
            resolved = self._resolved(state.config)
            plugin = _plugin(resolved.config)
            if plugin.kind == "sink":
                handled = self._change_sink(change, resolved, plugin)
            else:
                handled = self._change_source(change, resolved, plugin)
        finally:
            # also where the herder answers no more: the connector must not stay busy
            self._busy.discard(name)
        done = "reset" if entries is None else "altered"
        if handled:
            return f"The offsets for this connector have been {done} successfully"
        return (
            f"The Connect framework-managed offsets for this connector have been {done} "
            "successfully. However, if this connector manages offsets externally, they will need "
            f"to be manually {done} in the system that the connector uses."
        )

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
        state = requests.known(self._herder.view.config, change.name, NOT_FOUND)
        requests.stopped(state)
        view = self._herder.view
        tasks = {t for t in (*view.runs, *view.status.tasks) if t.connector == change.name}
        why = still_writing(view, state, sorted(tasks))
        if why is not None:
            raise RequestError(500, why)
        return state

    def _to_fence(self, change: Change) -> _Fencing:
        """Every producer that may still be about (KIP-618). The record that says so is written
        with the offsets."""
        state = self._checked(change)
        if not state.pending_fencing:
            return _Fencing(0, self._herder.view.term, ())
        record = config_topic.fencing_record(self._topics.config, change.name, 0)
        return _Fencing(state.task_count_record or 0, self._herder.view.term, (record,))

    def _write(self, change: Change, fenced: _Fencing, records: Sequence[NewRecord]) -> None:
        """Not where another leader ran the connector meanwhile: its tasks are not fenced."""
        self._checked(change)
        if self._herder.view.term != fenced.term:
            raise RequestError(
                409,
                "Failed to complete zombie fencing because a new set of task configs was generated",
            )
        self._herder.write([*fenced.records, *records])

    # --- on the asker's thread ---

    def _change_source(self, change: Change, resolved: Resolved, plugin: Plugin) -> bool:
        try:
            fenced = self._herder.ask(lambda: self._to_fence(change))
            if fenced.count:
                self._fence(change.name, resolved.config, fenced.count)
        except RequestError:
            raise
        except ConnectError as error:
            text = (
                "Failed to perform zombie fencing for source connector prior to modifying offsets"
            )
            raise RequestError(500, text) from error
        try:
            snapshot = self._sources.read()
        except ConnectError as error:
            text = (
                "Timed out while trying to read to the end of the offsets topic prior to modifying "
                f"offsets for source connector {change.name}"
            )
            raise RequestError(500, text) from error
        wanted: Sequence[tuple[Partition, Offset | None]]
        if change.entries is None:
            known = snapshot.connectors.get(change.name, {})
            wanted = [(found.partition, None) for found in known.values()]
        else:
            wanted = parse_source_offsets(change.entries)
        connector = cast(SourceConnector, plugin.cls())
        config = dict(resolved.config)
        handled = self._ask_hook(
            change, lambda: connector.alter_offsets(config, wanted), "source", resolved
        )
        records = offsets_topic.offset_records(self._topics.offsets, change.name, wanted, snapshot)
        if fenced.records or records:
            self._herder.ask(lambda: self._write(change, fenced, records))
        return handled

    def _change_sink(self, change: Change, resolved: Resolved, plugin: Plugin) -> bool:
        group = self._group(change.name, resolved)
        wanted: Mapping[tuple[str, int], int | None]
        if change.entries is None:
            wanted = dict.fromkeys(self._offsets_before_reset(change, group))
        else:
            wanted = parse_sink_offsets(change.entries)
        connector = cast(SinkConnector, plugin.cls())
        config = dict(resolved.config)
        named = {TopicPartition(*key): offset for key, offset in wanted.items()}
        handled = self._ask_hook(
            change, lambda: connector.alter_offsets(config, named), "sink", resolved
        )
        if any(offset is not None and offset < 0 for offset in wanted.values()):
            raise RequestError(500, f"Failed to modify offsets for sink connector {change.name}")
        self._herder.ask(lambda: self._checked(change))
        try:
            self._move_group(group, None if change.entries is None else wanted)
        except GroupActive as error:
            raise RequestError(500, _still_active(change)) from error
        except ConnectError as error:
            what = "alter" if change.entries is not None else "reset"
            kind = "" if change.entries is not None else "sink "
            text = f"Failed to {what} consumer group offsets for {kind}connector {change.name}"
            raise RequestError(500, text) from error
        return handled

    def _resolved(self, config: Mapping[str, str]) -> Resolved:
        """The config that the connector's own code gets. Raises RequestError."""
        try:
            return self._providers.resolve(config)
        except ConfigError as error:
            raise RequestError(500, str(error)) from error

    def _group(self, name: str, resolved: Resolved) -> str:
        return sink_group(name, resolved.config, self._providers.worker.config)

    def _ask_hook(
        self, change: Change, hook: Callable[[], bool], kind: str, resolved: Resolved
    ) -> bool:
        """Asks the connector; its refusals become Connect's answers, without secrets."""
        try:
            return bool(within(_HOOK_S, hook))
        except TimeoutError:
            text = f"alterOffsets of connector {change.name} has not returned in {_HOOK_S} s"
            raise RequestError(500, text) from None
        except NotImplementedError:
            text = (
                f"Failed to modify offsets for connector {change.name} because it doesn't support "
                "external modification of offsets"
            )
            raise RequestError(500, text) from None
        except ConnectorError as error:
            text = self._providers.redactor(resolved).redact(str(error))
            raise RequestError(500, text) from None
        except Exception as error:
            trace = trace_text(error, self._providers.redactor(resolved))
            _log.error("The alter_offsets method of connector %s threw: %s", change.name, trace)
            text = f"Failed to modify offsets for {kind} connector {change.name}"
            raise RequestError(500, text) from None

    def _offsets_before_reset(self, change: Change, group: str) -> Group:
        try:
            return self._groups.offsets(group)
        except ConnectError as error:
            text = (
                "Failed to list offsets prior to resetting offsets for sink connector "
                f"{change.name}"
            )
            raise RequestError(500, text) from error

    def _move_group(self, group: str, wanted: Mapping[tuple[str, int], int | None] | None) -> None:
        if wanted is None:
            self._groups.delete(group)
            return
        given = {key: offset for key, offset in wanted.items() if offset is not None}
        if given:
            self._groups.alter(group, given)
        forgotten = [key for key, offset in wanted.items() if offset is None]
        if forgotten:
            self._groups.forget(group, forgotten)


def _group_keys(config: Mapping[str, str]) -> Mapping[str, str]:
    return {key: value for key, value in config.items() if key == GROUP_KEY}


def _plugin(config: Mapping[str, str]) -> Plugin:
    return plugins.connector(config.get("connector.class", ""))


def _kind(state: ConnectorState) -> str:
    """What the plugin says; without it, sinks are those that name topics to read."""
    try:
        return _plugin(state.config).kind
    except ConnectorError:
        return "sink" if {"topics", "topics.regex"} & state.config.keys() else "source"


def _sink_entry(key: tuple[str, int], offset: int) -> OffsetEntry:
    partition: Partition = {"kafka_topic": key[0], "kafka_partition": key[1]}
    return OffsetEntry(partition, {"kafka_offset": offset})


def _still_active(change: Change) -> str:
    what, request = (
        ("reset consumer group offsets", "reset")
        if change.entries is None
        else ("alter consumer group offsets", "alter")
    )
    return (
        f"Failed to {what} for connector {change.name} either because its tasks haven't stopped "
        f"completely yet or the connector was resumed before the request to {request} its offsets "
        "could be successfully completed. If the connector is in a stopped state, this operation "
        "can be safely retried. If it doesn't eventually succeed, the Connect cluster may need to "
        "be restarted to get rid of the zombie sink tasks."
    )
