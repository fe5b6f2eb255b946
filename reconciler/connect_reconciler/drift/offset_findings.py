"""Offsets that were moved outside connect, pins that are not applied yet, and offsets of deleted
connectors. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from connect_reconciler.drift.model import ChangedIn, Detail, Finding, FindingKind, Seen
from connect_reconciler.drift.topic_history import Mark
from connect_reconciler.model.config_values import Plain
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.plan.diff import recorded_pin
from connect_reconciler.plan.offsets.moves import label_of, place_of
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry
from connect_specs.partitions import partition_key
from connect_specs.states import TargetState


def held_offsets(
    connector: LiveConnector, spec: DesiredConnector | None, seen: Seen
) -> Iterator[Finding]:
    """Offsets of a stopped connector that are no longer those of its pin. A running connector's
    offsets never drift: they are its progress."""
    name, history = connector.name, seen.history
    pins = [
        (pin, applied) for pin, applied in seen.live.ledger.pins_of(name).items() if applied.held
    ]
    unseen = seen.groups_hidden and connector.kind != "source"
    if not pins or unseen or connector.target is not TargetState.STOPPED:
        return
    pin, applied = max(pins, key=lambda each: (each[1].applied_ms, each[0]))
    unknown = seen.live.unread_offsets.get(name)
    if unknown is not None:
        yield Finding(
            FindingKind.OFFSETS,
            name,
            ChangedIn.UNKNOWN,
            key=pin,
            applied=Plain(_texts(applied.resolved or ())),
            detail=Detail("offsets-unread", unknown),
        )
        return
    moved = applied.moved(connector.offsets)
    if not moved:
        return
    asked = None if spec is None or spec.pin is None else spec.pin.id
    here = [OffsetEntry(each.partition, connector.offsets.at(each.partition)) for each in moved]
    keys = [(name, partition_key(each.partition)) for each in moved]
    yield Finding(
        FindingKind.OFFSETS,
        name,
        ChangedIn.BOTH if asked not in (None, pin) else ChangedIn.CLUSTER,
        key=pin,
        applied=Plain(_texts(moved)),
        desired=None if asked is None else Plain(f"pin {asked}"),
        live=Plain(_texts(here)),
        since=_newest(history.offsets[key] for key in keys if key in history.offsets),
    )


def pending_offsets(spec: DesiredConnector, live: Live) -> Iterator[Finding]:
    """A pin that is not applied yet."""
    if spec.pin is not None and recorded_pin(spec, live) is None:
        pin = spec.pin.id
        yield Finding(
            FindingKind.OFFSETS, spec.name, ChangedIn.SPECS, key=pin, desired=Plain(f"pin {pin}")
        )


def left_offsets(desired: Desired, seen: Seen) -> Iterator[Finding]:
    """Offsets of deleted connectors that have no spec, and that no project owns."""
    live, history = seen.live, seen.history
    known = {*desired.connectors, *live.connectors, *live.ledger.connectors}
    known |= {spec.renamed_from or "" for spec in desired.connectors.values()}
    for name, entries in sorted(live.orphan_offsets.items()):
        if name in known:
            continue
        yield Finding(
            FindingKind.LEFT_OFFSETS,
            name,
            live=Plain(_texts(entries)),
            detail=Detail("source-offsets", numbers=(len(entries),)),
            since=_newest(mark for (of, _), mark in history.offsets.items() if of == name),
        )
    for name, count in sorted(seen.left_groups.items()):
        if name not in known and name not in live.orphan_offsets:
            detail = Detail("group-offsets", f"connect-{name}", (count,))
            yield Finding(FindingKind.LEFT_OFFSETS, name, detail=detail)


def _newest(marks: Iterable[Mark]) -> Mark | None:
    return max(marks, key=lambda mark: mark.timestamp_ms, default=None)


def _texts(entries: Iterable[OffsetEntry]) -> str:
    """`orders-0 at 98000`, or the fields of a source's partition and offset, for each."""
    return ", ".join(
        f"{label_of(each.partition)} at {'none' if each.offset is None else place_of(each)}"
        for each in entries
    )
