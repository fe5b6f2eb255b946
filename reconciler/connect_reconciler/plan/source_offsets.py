"""How source connectors write offsets, as far as it is known: which field counts, and in what.

A table; whatever it does not hold is opaque: only the connector knows what comes before what.
"""

from __future__ import annotations

from dataclasses import dataclass

from connect_reconciler.plan.actions import Direction
from connect_specs.desired import Offset, Partition


@dataclass(frozen=True, slots=True)
class Shape:
    """Partitions with these keys, and offsets with this field, count in `unit`.

    `label` names the partition key that a reader knows the partition by.
    """

    partition_keys: frozenset[str]
    field: str
    unit: str
    label: str


SOURCE_SHAPES = (
    Shape(frozenset({"filename"}), "position", "byte", "filename"),
    Shape(frozenset({"cluster", "topic", "partition"}), "offset", "record", "topic"),
)


def partition_label(partition: Partition) -> str:
    """A short name of a source partition."""
    for shape in SOURCE_SHAPES:
        if partition.keys() == shape.partition_keys:
            label = str(partition[shape.label])
            number = partition.get("partition")
            return label if number is None else f"{label}-{number}"
    return ", ".join(f"{key}={_text(partition[key])}" for key in sorted(partition))


def source_effect(
    partition: Partition, old: Offset | None, new: Offset | None
) -> tuple[str, Direction]:
    """What happens between two offsets of one source partition."""
    label = partition_label(partition)
    if new is None:
        if old is None:
            return f"{label} has no offset: nothing to forget", "same"
        text = f"{label} {offset_text(old)} → none: offset is forgotten: reads from its start"
        return text, "forgotten"
    if old is None:
        return f"{label} none → {offset_text(new)}: starts there", "start"
    if dict(old) == dict(new):
        return f"{label} stays at {offset_text(new)}", "same"
    head = f"{label} {offset_text(old)} → {offset_text(new)}"
    changed = [key for key in new if old.get(key) != new[key]]
    if old.keys() != new.keys() or len(changed) != 1:
        return f"{head}: what that repeats or skips, only the connector knows", "unclear"
    return _one_field(head, partition, changed[0], old, new)


def offset_text(offset: Offset) -> str:
    """`position 6`, or several of them."""
    return ", ".join(f"{key} {_text(offset[key])}" for key in sorted(offset)) or "{}"


def _one_field(
    head: str, partition: Partition, field: str, old: Offset, new: Offset
) -> tuple[str, Direction]:
    before, after = old[field], new[field]
    if not (_is_whole(before) and _is_whole(after)):
        return f"{head}: what that repeats or skips, only the connector knows", "unclear"
    difference = int(str(after)) - int(str(before))
    direction: Direction = "back" if difference < 0 else "ahead"
    amount = abs(difference)
    for shape in SOURCE_SHAPES:
        if partition.keys() == shape.partition_keys and shape.field == field:
            units = f"{amount} {shape.unit}{'' if amount == 1 else 's'}"
            text = f"reads {units} again" if direction == "back" else f"skips {units}"
            return f"{head}: {text}", direction
    return f"{head}: {field} goes {direction} by {amount}", direction


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    return str(value)
