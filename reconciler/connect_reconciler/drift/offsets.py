"""Offsets that were moved by hand, are still to be moved, or belong to nobody any more. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from connect_reconciler.drift.history import Mark
from connect_reconciler.drift.model import Finding, Kind, Seen, Whose
from connect_reconciler.plan.diff import offsets_drifted
from connect_reconciler.plan.live import AppliedPin, Live, LiveConnector
from connect_reconciler.plan.offsets.moves import sink_offset, sink_partition
from connect_reconciler.plan.offsets.source_offsets import offset_text, partition_label
from connect_reconciler.plan.renames.rename import pins_of, recorded_pin
from connect_reconciler.plan.values import Plain
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry
from connect_specs.offsets import canonical_partition
from connect_specs.states import TargetState


def held_offsets(
    connector: LiveConnector, spec: DesiredConnector | None, seen: Seen
) -> Iterator[Finding]:
    """Offsets of a stopped connector that are no longer where its pin put them.

    Of one that runs never: its progress is its work.
    """
    name, history = connector.name, seen.history
    pins = [
        (pin, applied) for pin, applied in pins_of(seen.live.ledger, name).items() if applied.held
    ]
    unseen = seen.groups_hidden and connector.kind != "source"
    if not pins or unseen or connector.target is not TargetState.STOPPED:
        return
    pin, applied = max(pins, key=lambda each: (each[1].applied_ms, each[0]))
    unknown = seen.live.unknown.get(name)
    if unknown is not None:
        yield Finding(
            Kind.OFFSETS,
            name,
            Whose.UNKNOWN,
            key=pin,
            applied=Plain(_texts(applied.resolved or ())),
            detail=f"its offsets could not be read: {unknown}",
        )
        return
    if not offsets_drifted(applied, connector.offsets):
        return
    asked = None if spec is None or spec.pin is None else spec.pin.id
    moved = _moved(applied, connector.offsets)
    keys = [(name, canonical_partition(then.partition)) for then, _ in moved]
    yield Finding(
        Kind.OFFSETS,
        name,
        Whose.BOTH if asked not in (None, pin) else Whose.THEIRS,
        key=pin,
        applied=Plain(_texts(then for then, _ in moved)),
        desired=None if asked is None else Plain(f"pin {asked}"),
        live=Plain(_texts(now for _, now in moved)),
        since=_newest(history.offsets[key] for key in keys if key in history.offsets),
    )


def pending_offsets(spec: DesiredConnector, live: Live) -> Iterator[Finding]:
    """A pin that no apply has set yet."""
    if spec.pin is not None and recorded_pin(spec, live) is None:
        pin = spec.pin.id
        yield Finding(Kind.OFFSETS, spec.name, Whose.OURS, key=pin, desired=Plain(f"pin {pin}"))


def left_offsets(desired: Desired, seen: Seen) -> Iterator[Finding]:
    """Offsets of connectors that are gone, and that no spec and no project knows."""
    live, history = seen.live, seen.history
    known = {*desired.connectors, *live.connectors, *live.ledger.connectors}
    known |= {spec.renamed_from or "" for spec in desired.connectors.values()}
    for name, entries in sorted(live.orphan_offsets.items()):
        if name in known:
            continue
        yield Finding(
            Kind.LEFT_OFFSETS,
            name,
            live=Plain(_texts(entries)),
            detail=f"source offsets of {_partitions(len(entries))}",
            since=_newest(mark for (of, _), mark in history.offsets.items() if of == name),
        )
    for name, count in sorted(seen.left_groups.items()):
        if name not in known and name not in live.orphan_offsets:
            detail = f"the consumer group connect-{name} holds {_partitions(count)}"
            yield Finding(Kind.LEFT_OFFSETS, name, detail=detail)


def _moved(
    applied: AppliedPin, offsets: Iterable[OffsetEntry]
) -> list[tuple[OffsetEntry, OffsetEntry]]:
    """Each partition that is not where the pin put it: as it was then, and now."""
    now = {canonical_partition(each.partition): each for each in offsets}
    resolved = applied.resolved
    if resolved is None:
        resolved = tuple(OffsetEntry(each.partition, None) for each in now.values())
    found = []
    for then in resolved:
        here = now.get(canonical_partition(then.partition), OffsetEntry(then.partition, None))
        if here.offset != then.offset:
            found.append((then, here))
    return found


def _newest(marks: Iterable[Mark]) -> Mark | None:
    return max(marks, key=lambda mark: mark.timestamp_ms, default=None)


def _texts(entries: Iterable[OffsetEntry]) -> str:
    return ", ".join(_text(each) for each in entries)


def _text(entry: OffsetEntry) -> str:
    """`orders-0 at 98000`, or a source's own words."""
    partition = sink_partition(entry.partition)
    label = partition_label(entry.partition) if partition is None else "{}-{}".format(*partition)
    if entry.offset is None:
        return f"{label} at none"
    offset = sink_offset(entry.offset) if partition is not None else None
    return f"{label} at {offset_text(entry.offset) if offset is None else offset}"


def _partitions(count: int) -> str:
    return f"{count} partition{'' if count == 1 else 's'}"
