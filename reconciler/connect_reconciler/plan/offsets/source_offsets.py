"""What does moving a source's offset do, in a reviewer's units where its shape is known?"""

from __future__ import annotations

from typing import TypeAlias

from connect_reconciler.plan.actions import Counts, Direction
from connect_reconciler.plan.offsets.source_measures import Step
from connect_reconciler.plan.offsets.source_shapes import Shape, label_of, measures_of, shape_of
from connect_specs.desired import Offset, Partition

_OPAQUE = "what that repeats or skips, only the connector knows"
_UNKNOWN = Shape((), frozenset(), ())
UNTIL_STOPPED = ": what it reads until it is stopped comes again"

# Counts are None where nobody can tell
Effect: TypeAlias = tuple[str, Direction, Counts | None]


def partition_label(partition: Partition) -> str:
    """A short name of a source partition."""
    known = label_of(partition)
    return known or ", ".join(f"{key}={_text(partition[key])}" for key in sorted(partition))


def source_effect(
    partition: Partition, old: Offset | None, new: Offset | None, *, reads_on: bool = False
) -> Effect:
    """What happens between two offsets of one source partition. If it `reads_on`, the old one is
    further by the time that it is stopped."""
    label = partition_label(partition)
    if new is None:
        if old is None:
            return f"{label} has no offset: nothing to forget", "same", Counts(exact=not reads_on)
        start = (shape_of(partition, old) or _UNKNOWN).start
        return f"{label} {offset_text(old)} → none: {start}", "forgotten", None
    if old is None:
        return f"{label} none → {offset_text(new)}: starts there", "start", None
    if dict(old) == dict(new):
        until = UNTIL_STOPPED if reads_on else ""
        text = f"{label} stays at {offset_text(new)}{until}"
        return text, "same", Counts(exact=not reads_on)
    head = f"{label} {offset_text(old)} → {offset_text(new)}"
    shape = shape_of(partition, old, new)
    if shape is not None:
        return _told(head, shape, _first(shape, old, new), reads_on=reads_on)
    changed = [key for key in new if old.get(key) != new[key]]
    if old.keys() != new.keys() or len(changed) != 1:
        return f"{head}: {_OPAQUE}", "unclear", None
    for measure in measures_of(changed[0]):
        step = measure(old, new)
        if step is not None and step.direction != "same":
            moved = _moved(step, reads_on=reads_on)
            counts = _counts(step, reads_on=reads_on)
            return f"{head}: {changed[0]} {moved}", step.direction, counts
    return f"{head}: {_OPAQUE}", "unclear", None


def offset_text(offset: Offset) -> str:
    """`position 6`, or several of them."""
    return ", ".join(f"{key} {_text(offset[key])}" for key in sorted(offset)) or "{}"


def _first(shape: Shape, old: Offset, new: Offset) -> Step | None:
    """The first difference; None where a measure cannot tell before one was found."""
    if not (shape.counts(old) and shape.counts(new)):
        return None
    for measure in shape.measures:
        step = measure(old, new)
        if step is None or step.direction != "same":
            return step
    return None


def _told(head: str, shape: Shape, step: Step | None, *, reads_on: bool) -> Effect:
    if step is None:
        return f"{head}: {_OPAQUE}", "unclear", None
    size, counts = _size(step, reads_on=reads_on), _counts(step, reads_on=reads_on)
    if not size:
        return f"{head}: {_moved(step, reads_on=reads_on)}", step.direction, counts
    words = shape.back if step.direction == "back" else shape.ahead
    place = (
        f", {'from' if step.direction == 'back' else 'up to'} {step.place}" if step.place else ""
    )
    return f"{head}: {words.replace('{}', size, 1)}{place}", step.direction, counts


def _moved(step: Step, *, reads_on: bool) -> str:
    """`goes back by 4`, of a position of which no more is known."""
    size = _size(step, reads_on=reads_on)
    by = f" by {size}" if size else ""
    return f"goes {step.direction}{by}" + (f" to {step.place}" if step.place else "")


def _size(step: Step, *, reads_on: bool) -> str:
    """`at least 4 bytes`, or nothing where that cannot be told."""
    if not step.size or not reads_on:
        return step.of.replace("{}", step.size, 1) if step.size else ""
    bound = "at least" if step.direction == "back" else "at most"
    # A part of a second has no number that could bound it
    return step.of.replace("{}", f"{bound} {step.size}", 1) if step.count else ""


def _counts(step: Step, *, reads_on: bool) -> Counts | None:
    if step.unit is None:
        return None
    again, skipped = (step.count, 0) if step.direction == "back" else (0, step.count)
    return Counts(again, skipped, unit=step.unit, exact=not reads_on)


def _text(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    return str(value)
