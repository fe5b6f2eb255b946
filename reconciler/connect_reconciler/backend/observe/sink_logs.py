"""Reads what a plan needs of the logs that sinks read: their ends, and the times of some records.

This comes after everything else was observed, so that Kafka is asked only for what the plan shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import partial

from connect_reconciler.backend.observe.connector_clusters import ConnectorClusters, attempt
from connect_reconciler.backend.observe.kafka_view import View
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
    """`live` with the logs that sinks read, also those on other Kafka clusters. Each cluster is
    asked on its own. What cannot be asked is unknown."""
    away = {n: each for n, each in clients.items() if each.kind == "sink" and each.own_login}
    live = replace(live, logs=_logs_of(live, desired, lambda name: name not in away, clusters.view))
    elsewhere: dict[str, TopicLogs] = {}
    unread = dict(live.unread_offsets)
    for name, each in away.items():
        reached = clusters.of(each)
        view = reached.view
        if name in unread or view is None:
            unread.setdefault(name, reached.reason)
            continue
        spec = desired.connectors.get(name)
        names = {name, spec.renamed_from if spec else None}
        found = attempt(partial(_logs_of, live, desired, names.__contains__, view))
        if isinstance(found, str):
            unread[name] = found
        else:
            elsewhere[name] = found
    return replace(live, logs_elsewhere=elsewhere, unread_offsets=unread)


def _logs_of(live: Live, desired: Desired, of: Callable[[str], bool], view: View) -> TopicLogs:
    """The logs that some connectors read."""
    part = replace(
        live,
        connectors={name: each for name, each in live.connectors.items() if of(name)},
        orphan_offsets={n: each for n, each in live.orphan_offsets.items() if of(n)},
        offsets_after_change={n: each for n, each in live.offsets_after_change.items() if of(n)},
    )
    specs = {name: spec for name, spec in desired.connectors.items() if of(name)}
    return with_logs(part, replace(desired, connectors=specs), view).logs


def with_logs(live: Live, desired: Desired, view: View) -> Live:
    """`live` with the logs of every sink's offsets and pins, and of what changed sinks read, all on
    the cluster of `view`."""
    sinks = [each for each in diff(desired, live) if each.kind == "sink" and each.written]
    changing = [each for each in sinks if each.existence == "create" or each.config or each.pin]
    existing = view.topics() if changing else {}
    read = {at for each in changing for at in sink_partitions(each.written or {}, existing)}
    wanted = read | named_partitions(live, desired)
    ranges = view.log_ranges(wanted) if wanted else {}
    topics = {topic: existing[topic] for topic, _ in sorted(read)}
    logs = TopicLogs(ranges, topics)
    times = (
        time
        for each in changing
        if each.pin and each.spec and each.spec.pin and each.spec.pin.to is not None
        for time in _times(each.spec.pin.to, each.written or {}, logs)
    )
    logs = replace(logs, first_since=_first_since(set(times), logs, view))
    live = replace(live, logs=logs)
    if any(each.pin for each in sinks):
        # Pins at a time or at a log's end have their offsets by now
        records = set(_moved_over(diff(desired, live), logs))
        live = replace(live, logs=replace(logs, timestamps=_timestamps(records, logs, view)))
    return live


def logs_of_sink(config: Mapping[str, str], to: Position, view: View) -> TopicLogs:
    """The logs that tell where `to` is now in each partition that a sink reads."""
    existing = view.topics()
    read = sink_partitions(config, existing)
    logs = TopicLogs(view.log_ranges(read), {topic: existing[topic] for topic, _ in sorted(read)})
    return replace(logs, first_since=_first_since(set(_times(to, config, logs)), logs, view))


def _times(to: Position, config: Mapping[str, str], logs: TopicLogs) -> Iterator[TimeAt]:
    """The time of `to`, if it is one, in each partition that the sink reads."""
    if isinstance(to, int):
        read = sink_partitions(config, logs.topics)
        yield from (TimeAt(*at, to) for at in read if at in logs.ranges)


def _first_since(times: Set[TimeAt], logs: TopicLogs, view: View) -> Mapping[TimeAt, int]:
    """The offsets of the first records from these times on."""
    if not times:
        return {}
    # After the last record there is only the end
    ends = {each: logs.ranges[each.topic, each.partition].latest for each in times}
    found = view.offsets_at(times)
    # A record that came after the logs' ends were read has the end as its place
    return ends | {each: min(offset, ends[each]) for each, offset in found.items()}


def _timestamps(records: Set[RecordAt], logs: TopicLogs, view: View) -> Mapping[RecordAt, int]:
    """When these records were written, and the newest of their partitions."""
    if not records:
        return {}
    newest = view.newest_times({(each.topic, each.partition) for each in records})
    at_ends = {RecordAt(*at, logs.ranges[at].latest): time_ms for at, time_ms in newest.items()}
    return {**at_ends, **view.timestamps(records)}


def named_partitions(live: Live, desired: Desired) -> set[TopicPartition]:
    """Topic partitions in sinks' offsets and in pins."""
    entries = [entry for each in live.connectors.values() for entry in each.offsets]
    elsewhere = (*live.orphan_offsets.values(), *live.offsets_after_change.values())
    entries += [entry for each in elsewhere for entry in each]
    for spec in desired.connectors.values():
        if spec.pin is not None:
            entries.extend(spec.pin.set)
    found = (sink_partition(entry.partition) for entry in entries)
    return {at for at in found if at is not None}


def _moved_over(changes: Iterable[ConnectorDiff], logs: TopicLogs) -> Iterator[RecordAt]:
    """The records between which the pins of these changes move their sinks."""
    for each in changes:
        if each.kind != "sink" or each.pin is None:
            continue
        entries = each.offsets.removed() if each.pin.entries is None else each.pin.entries
        for entry in (*entries, *each.offsets):
            at = sink_partition(entry.partition)
            log = logs.ranges.get(at) if at is not None else None
            if at is None or log is None:
                continue
            first = max(sink_offset(entry.offset) or 0, log.earliest)
            if first < log.latest:
                yield RecordAt(*at, first)
