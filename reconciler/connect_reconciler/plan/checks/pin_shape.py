"""Is a pin one for this kind of connector, a source or a sink? Pure; no cluster is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from connect_reconciler.plan.live import Kind
from connect_reconciler.plan.offsets.positions import Problem, may_read
from connect_specs.desired import OffsetEntry, Partition, Pin
from connect_specs.offsets import canonical_partition, is_sink_partition

_CODE = "plan.pin-shape"


def shape_problem(pin: Pin, kind: Kind) -> Problem | None:
    """Why the pin does not fit: a code, what is wrong and a hint. A spec mixes no shapes."""
    if kind == "unknown":
        return None
    if pin.to is not None and kind == "source":
        what = "'to' names a place in topics, and a source has offsets of its own"
        return _CODE, what, "write set: as `connect offsets list` shows them, or reset: true"
    if all(is_sink_partition(entry.partition) is (kind == "sink") for entry in pin.set):
        return None
    if kind == "sink":
        hint = "write partition: {kafka_topic, kafka_partition}, offset: {kafka_offset}"
        return _CODE, "a sink's offsets are those of topic partitions", hint
    hint = "write partition and offset as `connect offsets list` shows them"
    return _CODE, "a source has offsets of its own, not those of topics", hint


def mistyped_partitions(
    entries: Iterable[OffsetEntry], held: Iterable[OffsetEntry]
) -> Iterator[tuple[str, str]]:
    """The partitions among `entries` that a source has only with values of other types, each with
    the one that it has, as JSON."""
    there = {canonical_partition(each.partition): each.partition for each in held if each.offset}
    alike = {_untyped(partition): text for text, partition in there.items()}
    for entry in entries:
        text, other = canonical_partition(entry.partition), alike.get(_untyped(entry.partition))
        if other is not None and text not in there:
            yield text, other


def _untyped(partition: Partition) -> str:
    texts = {key: str(value).lower().removesuffix(".0") for key, value in partition.items()}
    return canonical_partition(texts)


def unread_topics(pin: Pin, config: Mapping[str, str]) -> Iterator[str]:
    """The topics that the pin names and a sink of this config does not read, each once."""
    named = dict.fromkeys(str(entry.partition.get("kafka_topic")) for entry in pin.set)
    yield from (topic for topic in named if not may_read(config, topic))
