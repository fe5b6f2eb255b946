"""What does moving a source's offset do, in a reviewer's units where its shape is known?"""

from __future__ import annotations

from connect_reconciler.plan.actions import Direction
from connect_reconciler.plan.source_measures import Step
from connect_reconciler.plan.source_shapes import Shape, label_of, measures_of, shape_of
from connect_specs.desired import Offset, Partition

_OPAQUE = "what that repeats or skips, only the connector knows"
_UNKNOWN = Shape((), frozenset(), ())


def partition_label(partition: Partition) -> str:
    """A short name of a source partition."""
    known = label_of(partition)
    return known or ", ".join(f"{key}={_text(partition[key])}" for key in sorted(partition))


def source_effect(
    partition: Partition, old: Offset | None, new: Offset | None
) -> tuple[str, Direction]:
    """What happens between two offsets of one source partition."""
    label = partition_label(partition)
    if new is None:
        if old is None:
            return f"{label} has no offset: nothing to forget", "same"
        start = (shape_of(partition, old) or _UNKNOWN).start
        return f"{label} {offset_text(old)} → none: offset is forgotten: {start}", "forgotten"
    if old is None:
        return f"{label} none → {offset_text(new)}: starts there", "start"
    if dict(old) == dict(new):
        return f"{label} stays at {offset_text(new)}", "same"
    head = f"{label} {offset_text(old)} → {offset_text(new)}"
    shape = shape_of(partition, old, new)
    if shape is not None:
        return _told(head, shape, _first(shape, old, new))
    changed = [key for key in new if old.get(key) != new[key]]
    if old.keys() != new.keys() or len(changed) != 1:
        return f"{head}: {_OPAQUE}", "unclear"
    for measure in measures_of(changed[0]):
        step = measure(old, new)
        if step is not None and step.direction != "same":
            return f"{head}: {changed[0]} {_moved(step)}", step.direction
    return f"{head}: {_OPAQUE}", "unclear"


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


def _told(head: str, shape: Shape, step: Step | None) -> tuple[str, Direction]:
    if step is None:
        return f"{head}: {_OPAQUE}", "unclear"
    if not step.size:
        return f"{head}: {_moved(step)}", step.direction
    words = shape.back if step.direction == "back" else shape.ahead
    place = (
        f", {'from' if step.direction == 'back' else 'up to'} {step.place}" if step.place else ""
    )
    return f"{head}: {words.format(step.size)}{place}", step.direction


def _moved(step: Step) -> str:
    """`goes back by 4`, of a position of which no more is known."""
    text = f"goes {step.direction}"
    if step.size:
        text += f" by {step.size}"
    return text + (f" to {step.place}" if step.place else "")


def _text(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower().replace("none", "null")
    return str(value)
