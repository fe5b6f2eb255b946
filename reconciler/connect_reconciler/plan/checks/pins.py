"""Can the offsets of a spec's pin be set, and would they have an effect? Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import orjson

from connect_reconciler.model.config_values import LEDGER_KEY
from connect_reconciler.model.live import Kind, Live, LiveConnector, TopicLogs
from connect_reconciler.model.offsets import sink_offset, sink_partition
from connect_reconciler.plan.diff import ConnectorDiff, Context, PinChange, recorded_pin
from connect_reconciler.plan.offsets.moves import label_of
from connect_reconciler.plan.offsets.sink_positions import may_read, position_problem
from connect_specs.desired import (
    OffsetEntry,
    Partition,
    Pin,
    TargetState,
    content_hash,
    is_sink_partition,
    partition_key,
)
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.plain_text import counted

_SHAPE = "plan.pin-shape"
# Of a record that Kafka takes by default, which over REST alone is a config with all else in it
_PIN_BYTES = 700_000
# `{"partition":` and `"offset":` of each entry
_ENTRY_BYTES = 26


def reused_id(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses other offsets for a pin that was applied."""
    spec = diff.spec
    if spec is None or spec.pin is None:
        return
    applied = recorded_pin(spec, context.live)
    if applied is not None and applied.content_hash != content_hash(spec.pin):
        yield Diagnostic(
            "plan.pin-reused",
            f"pin {spec.pin.id} of {diff.name} was applied before with other offsets",
            diff.pin_place,
            why="a pin is applied once, and its id says which one it was",
            hint="give the new offsets a new id",
            blocks="offsets",
        )


def unknown_kind(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses a pin of a connector that is not known to be a source or a sink."""
    if diff.pin is None or diff.kind != "unknown":
        return
    name = diff.redactor.shown(diff.written or {}).get("connector.class", "(none)")
    yield Diagnostic(
        "plan.unknown-kind",
        f"whether {diff.name} is a source or a sink is not known, so its offsets are not",
        diff.pin_place,
        why=f"no class {name} is known here",
        hint="check connector.class, or make the plan where the plugin is installed",
        blocks="offsets",
    )


def wrong_offsets(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses offsets that are not of the connector's kind, and a sink's that its topics lack."""
    pin = diff.spec.pin if diff.spec else None
    if pin is None or diff.pin is None or diff.kind == "unknown":
        return
    for problem in _problems(diff, diff.pin, pin, context.live):
        message = f"pin {pin.id} of {diff.name}: {problem.what}"
        yield replace(problem, what=message, where=diff.pin_place)


def too_large(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses a pin that does not fit into one record of the ledger: it would be applied and never
    recorded, and its connector stay stopped."""
    if diff.pin is None:
        return
    entries = diff.pin.entries or ()
    size = sum(
        len(partition_key(entry.partition)) + len(orjson.dumps(entry.offset)) + _ENTRY_BYTES
        for entry in entries
    )
    if size > _PIN_BYTES:
        yield Diagnostic(
            "plan.pin-too-large",
            f"pin {diff.pin.pin} of {diff.name} sets the offsets of"
            f" {counted(len(entries), 'partition')}, more than the ledger can keep",
            diff.pin_place,
            why=f"they take {size:,} bytes in one record, and {_PIN_BYTES:,} fit",
            hint="set them with several pins of fewer partitions, applied one after another",
            blocks="offsets",
        )


def ledger_lost(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses a pin of a connector that runs if no ledger is left that would show whether it was
    applied before."""
    connector, overrides = _unrecorded(diff), context.overrides
    if connector is None or overrides is None or diff.name in overrides.apply_pin:
        return
    live, ledger = context.live, context.whole.ledger
    lost = live.rest_alone or not (ledger.connectors or ledger.pins)
    has_offsets = bool(connector.offsets) or connector.name in live.unread_offsets
    if lost and has_offsets and connector.target is not TargetState.STOPPED:
        message, reason = _perhaps_applied(diff, connector, context)
        hint = "take the pin out of the spec if it was applied; if not, run this again with"
        hint += f" --apply-pin {shlex.quote(diff.name)}"
        code = "plan.pin-perhaps-applied"
        yield Diagnostic(code, message, diff.pin_place, reason, hint, blocks="offsets")


def perhaps_applied(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Warns of the pin of a live connector if nothing shows whether it was applied before."""
    connector = _unrecorded(diff)
    if connector is not None:
        message, reason = _perhaps_applied(diff, connector, context)
        hint = "take the pin out of the spec if it was applied"
        yield warning("plan.pin-perhaps-applied", message, diff.pin_place, reason, hint)


def other_type(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Warns of a source's partition that differs from one it has only in a value's type."""
    if diff.kind != "source" or diff.pin is None:
        return
    for text, existing in _mistyped_partitions(diff.pin.entries or (), diff.offsets):
        yield warning(
            "plan.pin-other-type",
            f"pin {diff.pin.pin} of {diff.name}: it has no offset of partition {text}, but"
            f" one of {existing}, which stays as it is",
            diff.pin_place,
            why="Connect compares partitions with the types of their values",
            hint="write the partition as `connect offsets list` shows it",
        )


def without_effect(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Warns of a sink's offsets whose records are gone, or whose topic it does not read."""
    spec = diff.spec
    if spec is None or spec.pin is None or diff.pin is None or diff.kind != "sink":
        return
    logs = context.live.logs_of(diff.name).ranges
    unread = set(unread_topics(spec.pin, diff.written or {}))
    for entry in diff.pin.entries or ():
        partition, offset = sink_partition(entry.partition), sink_offset(entry.offset)
        if partition is None:
            continue
        label, log = f"{partition[0]}-{partition[1]}", logs.get(partition)
        if log is not None and offset is not None and offset < log.earliest:
            gone = log.earliest - offset
            verb = "is" if gone == 1 else "are"
            yield warning(
                "plan.below-start",
                f"pin {diff.pin.pin} of {diff.name}: {label} starts at {log.earliest} by now,"
                f" so {counted(gone, 'offset')} that the pin asks for {verb} gone",
                diff.pin_place,
            )
        if partition[0] in unread:
            message = f"pin {diff.pin.pin} of {diff.name}: the sink does not read topic"
            message += f" {partition[0]}"
            yield warning("plan.pin-not-read", message, diff.pin_place)


# --- without a cluster ---


def shape_problem(pin: Pin, kind: Kind) -> Diagnostic | None:
    """Returns why the pin does not fit this kind of connector. A spec mixes no shapes."""
    if kind == "unknown":
        return None
    if pin.to is not None and kind == "source":
        message = "'to' names a place in topics, and a source has offsets of its own"
        hint = "write set: as `connect offsets list` shows them, or reset: true"
        return _problem(_SHAPE, message, hint)
    if all(is_sink_partition(entry.partition) is (kind == "sink") for entry in pin.set):
        return None
    if kind == "sink":
        hint = "write partition: {kafka_topic, kafka_partition}, offset: {kafka_offset}"
        return _problem(_SHAPE, "a sink's offsets are those of topic partitions", hint)
    hint = "write partition and offset as `connect offsets list` shows them"
    return _problem(_SHAPE, "a source has offsets of its own, not those of topics", hint)


def unread_topics(pin: Pin, config: Mapping[str, str]) -> Iterator[str]:
    """Returns the topics that the pin names and a sink of this config does not read, each once."""
    topics = dict.fromkeys(str(entry.partition.get("kafka_topic")) for entry in pin.set)
    yield from (topic for topic in topics if not may_read(config, topic))


# --- details ---


def _problems(diff: ConnectorDiff, change: PinChange, pin: Pin, live: Live) -> Iterator[Diagnostic]:
    misfit = shape_problem(pin, diff.kind)
    if misfit is not None:
        yield misfit
        return
    if pin.to is not None and not change.drifted:
        config = diff.written or {}
        shown_config = diff.redactor.shown(config)
        problem = position_problem(pin.to, config, live, diff.name)
        if any(shown_config.get(key) != config.get(key) for key in ("topics", "topics.regex")):
            message = "the sink's topics are sensitive, and the offsets of 'to' would name them"
            hint = "take them out of 'sensitive', or reset: true"
            problem = _problem("plan.hidden-topics", message, hint)
        if problem is not None:
            yield problem
            return
    logs = live.logs_of(diff.name)
    for entry in change.entries or ():
        problem = _log_error(entry, logs) if diff.kind == "sink" else None
        if problem is not None:
            yield problem


def _log_error(entry: OffsetEntry, logs: TopicLogs) -> Diagnostic | None:
    partition = sink_partition(entry.partition)
    log = None if partition is None else logs.ranges.get(partition)
    if partition is None or (log is None and logs.complete):
        message = f"{label_of(entry.partition)} does not exist"
        return _problem("plan.no-partition", message, "check topic and partition")
    offset = sink_offset(entry.offset)
    label = f"{partition[0]}-{partition[1]}"
    if entry.offset is not None and (offset is None or offset < 0):
        return _problem("plan.bad-offset", f"{label} needs a whole number of at least 0 as offset")
    if log is not None and offset is not None and offset > log.latest:
        message = f"{label} ends at {log.latest}, and {offset} lies {offset - log.latest} beyond"
        hint = f"write {log.latest} to jump over everything in the log"
        return _problem("plan.beyond-end", message, hint)
    return None


def _unrecorded(diff: ConnectorDiff) -> LiveConnector | None:
    """Returns the connector whose offsets a pin is to move, if the ledger does not know it."""
    rename = diff.rename
    connector = diff.live or (rename.live if rename else None)
    owned = diff.owned or (rename.owned if rename else None)
    return connector if diff.pin is not None and owned is None else None


def _perhaps_applied(
    diff: ConnectorDiff, connector: LiveConnector, context: Context
) -> tuple[str, str]:
    """Returns the message and the reason of both diagnostics of such a pin."""
    assert diff.pin is not None
    text = f"pin {diff.pin.pin} of {diff.name} is applied once more if it was before: no"
    reason = "the ledger does not know the connector: it was never applied, or the ledger was lost"
    if LEDGER_KEY in connector.config:
        reason = f"what its config says under {LEDGER_KEY} cannot be read, or is of another"
        reason += " connector"
    elif context.live.rest_alone:
        reason = "whoever writes the whole config takes the ledger in it away"
    return f"{text} ledger says", reason


def _problem(code: str, message: str, hint: str = "") -> Diagnostic:
    return Diagnostic(code, message, hint=hint, blocks="offsets")


def _mistyped_partitions(
    entries: Iterable[OffsetEntry], existing: Iterable[OffsetEntry]
) -> Iterator[tuple[str, str]]:
    """Returns the partitions among `entries` that a source has only with values of other types,
    each with the one that it has, as JSON."""
    present = {
        partition_key(stored.partition): stored.partition for stored in existing if stored.offset
    }
    alike = {_untyped(partition): text for text, partition in present.items()}
    for entry in entries:
        text, twin = partition_key(entry.partition), alike.get(_untyped(entry.partition))
        if twin is not None and text not in present:
            yield text, twin


def _untyped(partition: Partition) -> str:
    texts = {key: str(value).lower().removesuffix(".0") for key, value in partition.items()}
    return partition_key(texts)
