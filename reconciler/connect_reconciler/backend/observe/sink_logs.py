"""Reads what a plan needs of the logs that sinks read: their ends, and the times of some records.

This comes after everything else was observed, so that Kafka is asked only for what the plan shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import partial

from connect_reconciler.backend.observe.connector_offsets import ConnectorClusters, attempt
from connect_reconciler.backend.observe.kafka_view import KafkaPort
from connect_reconciler.model.live import Live, RecordAt, TimeAt, TopicLogs
from connect_reconciler.model.offsets import TopicPartition, sink_offset, sink_partition
from connect_reconciler.plan.diff import ConnectorDiff, diff
from connect_reconciler.plan.offsets.sink_positions import sink_partitions
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_specs.desired import Desired, Position


def with_logs_elsewhere(
    live: Live,
    desired: Desired,
    clients: Mapping[str, ConnectorClients],
    clusters: ConnectorClusters,
) -> Live:
    """Returns `live` with the logs that sinks read, also those on other Kafka clusters. Each
    cluster is asked on its own; logs that cannot be read are unknown."""
    away = {n: sink for n, sink in clients.items() if sink.kind == "sink" and sink.own_login}
    live = replace(live, logs=_logs_of(live, desired, lambda name: name not in away, clusters.view))
    elsewhere: dict[str, TopicLogs] = {}
    unread = dict(live.unread_offsets)
    for name, sink in away.items():
        view = unread.get(name) or clusters.of(sink)
        spec = desired.connectors.get(name)
        of = {name, spec.renamed_from if spec else None}.__contains__
        logs = (
            view if isinstance(view, str) else attempt(partial(_logs_of, live, desired, of, view))
        )
        if isinstance(logs, str):
            unread[name] = logs
        else:
            elsewhere[name] = logs
    return replace(live, logs_elsewhere=elsewhere, unread_offsets=unread)


def _logs_of(live: Live, desired: Desired, of: Callable[[str], bool], view: KafkaPort) -> TopicLogs:
    """Returns the logs of the offsets and pins of some connectors that are sinks, and those that
    changed ones read, all on the cluster of `view`."""
    live = replace(
        live,
        connectors={name: state for name, state in live.connectors.items() if of(name)},
        orphan_offsets={n: state for n, state in live.orphan_offsets.items() if of(n)},
        offsets_after_change={n: state for n, state in live.offsets_after_change.items() if of(n)},
    )
    specs = {name: spec for name, spec in desired.connectors.items() if of(name)}
    desired = replace(desired, connectors=specs)
    sinks = [change for change in diff(desired, live) if change.kind == "sink" and change.written]
    changing = [
        change for change in sinks if change.existence == "create" or change.config or change.pin
    ]
    existing = view.topics() if changing else {}
    partitions = {
        at for change in changing for at in sink_partitions(change.written or {}, existing)
    }
    needed = partitions | named_partitions(live, desired)
    ranges = view.log_ranges(needed) if needed else {}
    topics = {topic: existing[topic] for topic, _ in sorted(partitions)}
    logs = TopicLogs(ranges, topics)
    times = (
        time
        for change in changing
        if change.pin and change.spec and change.spec.pin and change.spec.pin.to is not None
        for time in _times(change.spec.pin.to, change.written or {}, logs)
    )
    logs = replace(logs, first_since=_first_since(set(times), logs, view))
    if any(change.pin for change in sinks):
        # Pins at a time or at a log's end have their offsets by now
        records = set(_moved_over(diff(desired, replace(live, logs=logs)), logs))
        logs = replace(logs, timestamps=_timestamps(records, logs, view))
    return logs


def logs_of_sink(config: Mapping[str, str], to: Position, view: KafkaPort) -> TopicLogs:
    """Returns the logs that `to` is resolved with, in each partition that a sink reads."""
    existing = view.topics()
    partitions = sink_partitions(config, existing)
    logs = TopicLogs(
        view.log_ranges(partitions), {topic: existing[topic] for topic, _ in sorted(partitions)}
    )
    return replace(logs, first_since=_first_since(set(_times(to, config, logs)), logs, view))


def _times(to: Position, config: Mapping[str, str], logs: TopicLogs) -> Iterator[TimeAt]:
    """Yields the time of `to`, if it is one, in each partition that the sink reads."""
    if isinstance(to, int):
        partitions = sink_partitions(config, logs.topics)
        yield from (TimeAt(*at, to) for at in partitions if at in logs.ranges)


def _first_since(times: Set[TimeAt], logs: TopicLogs, view: KafkaPort) -> Mapping[TimeAt, int]:
    """Returns the offsets of the first records from these times on."""
    if not times:
        return {}
    # After the last record there is only the end
    ends = {time: logs.ranges[time.topic, time.partition].latest for time in times}
    offsets = view.offsets_at(times)
    # A record that came after the logs' ends were read has the end as its place
    return ends | {time: min(offset, ends[time]) for time, offset in offsets.items()}


def _timestamps(records: Set[RecordAt], logs: TopicLogs, view: KafkaPort) -> Mapping[RecordAt, int]:
    """Returns the times of these records, and of the newest of their partitions."""
    if not records:
        return {}
    newest = view.newest_times({(record.topic, record.partition) for record in records})
    at_ends = {RecordAt(*at, logs.ranges[at].latest): time_ms for at, time_ms in newest.items()}
    return {**at_ends, **view.timestamps(records)}


def named_partitions(live: Live, desired: Desired) -> set[TopicPartition]:
    """Returns topic partitions in sinks' offsets and in pins."""
    entries = [entry for offsets in live.connectors.values() for entry in offsets.offsets]
    elsewhere = (*live.orphan_offsets.values(), *live.offsets_after_change.values())
    entries += [entry for offsets in elsewhere for entry in offsets]
    for spec in desired.connectors.values():
        if spec.pin is not None:
            entries.extend(spec.pin.set)
    partitions = (sink_partition(entry.partition) for entry in entries)
    return {at for at in partitions if at is not None}


def _moved_over(changes: Iterable[ConnectorDiff], logs: TopicLogs) -> Iterator[RecordAt]:
    """Yields the records between which the pins of these changes move their sinks."""
    for change in changes:
        if change.kind != "sink" or change.pin is None:
            continue
        entries = change.offsets.removed() if change.pin.entries is None else change.pin.entries
        for entry in (*entries, *change.offsets):
            at = sink_partition(entry.partition)
            log = logs.ranges.get(at) if at is not None else None
            if at is None or log is None:
                continue
            first = max(sink_offset(entry.offset) or 0, log.earliest)
            if first < log.latest:
                yield RecordAt(*at, first)
