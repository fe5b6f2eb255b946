"""What must be known of the logs that sinks read: their ends, and the times of some records.

Asked of Kafka once everything else is known, so that only what a plan will speak of is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from connect_reconciler.observe.homes import Homes, attempt
from connect_reconciler.observe.kafka_view import Moment, View
from connect_reconciler.plan.diff import Changes, diff
from connect_reconciler.plan.live import ClusterLogs, Live, TopicPartition
from connect_reconciler.plan.offsets.moves import sink_offset, sink_partition
from connect_reconciler.plan.offsets.positions import sink_partitions
from connect_runtime.connector_clients import ConnectorClients
from connect_specs.desired import Desired, OffsetEntry


def with_logs_elsewhere(
    live: Live, desired: Desired, clients: Mapping[str, ConnectorClients], homes: Homes
) -> Live:
    """`with_logs`, where sinks may read other Kafka clusters: each is asked on its own. What cannot
    be asked is unknown."""
    away = {n: each for n, each in clients.items() if each.kind == "sink" and each.own_login}
    live = _logs_of(live, desired, lambda name: name not in away, homes.view)
    elsewhere: dict[str, ClusterLogs] = {}
    unknown = dict(live.unknown)
    for name, each in away.items():
        reached = homes.of(each)
        view = reached.view
        if name in unknown or view is None:
            unknown.setdefault(name, reached.reason)
            continue
        spec = desired.connectors.get(name)
        names = {name, spec.renamed_from if spec else None}
        found = attempt(partial(_logs_of, live, desired, names.__contains__, view))
        if isinstance(found, str):
            unknown[name] = found
        else:
            elsewhere[name] = ClusterLogs(found.logs, found.topics, found.record_times, found.times)
    return replace(live, elsewhere=elsewhere, unknown=unknown)


def _logs_of(live: Live, desired: Desired, of: Callable[[str], bool], view: View) -> Live:
    """`live` with the logs of some connectors only."""
    part = replace(
        live,
        connectors={name: each for name, each in live.connectors.items() if of(name)},
        orphan_offsets={n: each for n, each in live.orphan_offsets.items() if of(n)},
        new_offsets={n: each for n, each in live.new_offsets.items() if of(n)},
    )
    specs = {name: spec for name, spec in desired.connectors.items() if of(name)}
    found = with_logs(part, replace(desired, connectors=specs), view)
    return replace(
        live,
        logs=found.logs,
        topics=found.topics,
        record_times=found.record_times,
        times=found.times,
    )


def with_logs(live: Live, desired: Desired, view: View) -> Live:
    """`live` with the logs of every sink's offsets and pins, and of what changed sinks read."""
    sinks = [each for each in diff(desired, live) if each.kind == "sink" and each.written]
    changing = [each for each in sinks if each.existence == "create" or each.config or each.pin]
    existing = view.topics() if changing else {}
    read = {at for each in changing for at in sink_partitions(each.written or {}, existing)}
    wanted = read | named_partitions(live, desired)
    logs = view.log_ranges(wanted) if wanted else {}
    topics = {topic: existing[topic] for topic, _ in sorted(read)}
    live = replace(live, logs=logs, topics=topics)
    times = {
        (*at, each.spec.pin.to)
        for each in changing
        if each.pin and each.spec and each.spec.pin and isinstance(each.spec.pin.to, int)
        for at in sink_partitions(each.written or {}, topics)
        if at in logs
    }
    if times:
        # After the last record there is only the end
        ends = {moment: logs[moment[:2]].latest for moment in times}
        found = dict(view.offsets_at(times))
        # A record that came after the logs' ends were read has the end as its place
        inside = {moment: min(offset, ends[moment]) for moment, offset in found.items()}
        live = replace(live, times=ends | inside)
    if not any(each.pin for each in sinks):
        return live
    moments = set(_moments(diff(desired, live), live))
    if not moments:
        return live
    newest = view.newest_times({moment[:2] for moment in moments})
    at_ends = {(*at, logs[at].latest): time_ms for at, time_ms in newest.items()}
    return replace(live, record_times={**at_ends, **view.record_times(moments)})


def named_partitions(live: Live, desired: Desired) -> set[TopicPartition]:
    """Topic partitions in sinks' offsets and in pins."""
    entries = [entry for each in live.connectors.values() for entry in each.offsets]
    elsewhere = (*live.orphan_offsets.values(), *live.new_offsets.values())
    entries += [entry for each in elsewhere for entry in each]
    for spec in desired.connectors.values():
        if spec.pin is not None:
            entries.extend(spec.pin.set)
    found = (sink_partition(entry.partition) for entry in entries)
    return {at for at in found if at is not None}


def _moments(changes: Iterable[Changes], live: Live) -> Iterator[Moment]:
    """The records between which the pins of these changes move their sinks."""
    for each in changes:
        if each.kind != "sink" or each.pin is None:
            continue
        forgotten = each.offsets if each.pin.entries is None else ()
        starts = (OffsetEntry(entry.partition, None) for entry in forgotten)
        for entry in (*(each.pin.entries or ()), *starts, *each.offsets):
            at = sink_partition(entry.partition)
            log = live.logs.get(at) if at is not None else None
            if at is None or log is None:
                continue
            first = max(sink_offset(entry.offset) or 0, log.earliest)
            if first < log.latest:
                yield (*at, first)
