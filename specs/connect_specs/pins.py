"""Reads the `offsets` field of a spec as a pin.

Source offsets keep the types that they are written with, because Connect compares and stores them
by type. Sink offsets (KIP-875) must be a topic, a partition and a number; `to` is one position in
every partition of a sink's topics.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from connect_specs.desired import (
    RESERVED_PINS,
    SINK_PARTITION_KEYS,
    JsonScalar,
    OffsetEntry,
    PartitionKey,
    Pin,
    Position,
    partition_key,
)
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.documents import INT64_MAX, Map, Node, Scalar, Sequence, is_null, typed
from connect_specs.fields import Fields, value_kind
from connect_specs.json_documents import parse_json

_CODE: Final = "offsets"
_WAYS: Final = ("set", "reset", "to")
_PARTITION_MAX: Final = 2**31 - 1
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(?:\.(\d+))?(Z|[+-]\d\d:\d\d)?)?", re.ASCII
)
_TIME_HINT: Final = "write earliest, latest or a time such as 2026-11-20T10:00:00Z"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_pin(node: Node, problems: list[Diagnostic]) -> Pin | None:
    """Returns the pin; None if it has no id."""
    if isinstance(node, Sequence):
        message = "'offsets' must be a map, and is a list"
        hint = "put the entries under set, and name them: offsets: {pin: <id>, set: [...]}"
        problems.append(Diagnostic("offsets.bad-value", message, node.location, hint=hint))
        return None
    fields = Fields(node, ("pin", *_WAYS), problems, code=_CODE, noun="'offsets'")
    offsets, pin = fields.node, fields.get("pin")
    if offsets is None:
        return None
    if pin is None:
        message = "offsets need a pin id: they are applied once, and recorded under it"
        hint = "add 'pin:' with an id of your choice, such as rewind-orders-1"
        fields.report("missing-pin", offsets.location, message, hint)
    name = fields.text("pin")
    location = offsets.location if pin is None else pin.location
    _check_id(name, location, problems)
    ways = [way for way in _WAYS if fields.get(way) is not None]
    if len(ways) != 1:
        words = " and ".join(f"'{way}'" for way in ways)
        message = f"{words} exclude each other" if ways else "offsets need 'set', 'reset' or 'to'"
        hint = "write set: [...] to move partitions, reset: true to start from nothing, or for a "
        hint += "sink to: earliest, latest or a time"
        fields.report("set-or-reset", offsets.location, message, hint)
    entries = _read_entries("set", fields)
    fields.flag("reset", if_false="remove the offsets to leave them as they are")
    is_reset = fields.get("reset") is not None
    position: Position | None = fields.read("to", read_position)
    return Pin(name, entries, is_reset, location, position) if name else None


def read_offsets_json(text: str, name: str) -> tuple[OffsetEntry, ...]:
    """Returns the entries of `{"offsets": [...]}`, by the rules of a pin; `name` is the file's.

    Raises Invalid with every mistake.
    """
    parsed = parse_json(text, name)
    problems = list(parsed.problems)
    document = parsed.documents[0] if parsed.documents else None
    if not problems and not (isinstance(document, Map) and document.get("offsets")):
        message = "the field 'offsets' is missing"
        hint = 'write {"offsets": [{"partition": {...}, "offset": {...}}]}'
        location = Location(name, 1, 1)
        problems.append(Diagnostic("offsets.missing-field", message, location, hint=hint))
    if problems:
        raise Invalid(*problems)
    fields = Fields(document, None, problems, code=_CODE, noun="the file")
    entries = _read_entries("offsets", fields)
    if problems:
        raise Invalid(*problems)
    return entries


def _check_id(name: str | None, location: Location, problems: list[Diagnostic]) -> None:
    prefix = next((prefix for prefix in RESERVED_PINS if name and name.startswith(prefix)), None)
    if prefix is not None:
        message = f"pin ids that begin with {prefix!r} are reserved, and this is {name!r}"
        hint = "choose another id; if these offsets were applied under this one, remove 'offsets'"
        hint += " instead: under another id they are applied again"
        reason = "renames and rollbacks are recorded under such ids"
        problems.append(Diagnostic("offsets.reserved-pin", message, location, reason, hint))


def _read_entries(field: str, fields: Fields) -> tuple[OffsetEntry, ...]:
    node = fields.get(field)
    items = fields.items(field, f"write {field}: [{{partition: {{...}}, offset: {{...}}}}]")
    if isinstance(node, Sequence) and not items:
        message, hint = f"{field!r} is empty", "add an entry, or remove the offsets"
        fields.report("empty-set", node.location, message, hint)
    entries: list[OffsetEntry] = []
    first: tuple[bool, Location] | None = None
    locations: dict[PartitionKey, Location] = {}
    for item in items:
        noun = f"an entry of {field!r}"
        entry_fields = Fields(item, ("partition", "offset"), fields.problems, code=_CODE, noun=noun)
        if entry_fields.node is None:
            continue
        is_sink = _is_sink(entry_fields.node)
        first = first or (is_sink, item.location)
        if is_sink is not first[0]:
            message = "the set mixes offsets of a sink and of a source"
            reason = f"the first entry, at {first[1]}, is of the other kind"
            hint = "a sink's entry is {partition: {kafka_topic, kafka_partition}, "
            hint += "offset: {kafka_offset}}"
            fields.report("mixed", item.location, message, hint, why=reason)
        entry = _read_entry(entry_fields, is_sink=is_sink)
        if entry is None:
            continue
        entries.append(entry)
        key = partition_key(entry.partition)
        if key in locations:
            message, hint = "this partition is already in the set", "remove one of the two"
            reason = f"it is first given at {locations[key]}"
            fields.report("same-partition", item.location, message, hint, why=reason)
        locations.setdefault(key, item.location)
    return tuple(entries)


def _is_sink(entry: Map) -> bool:
    """Returns True for an entry of a sink; one of a sink's keys is enough, so that typos are
    found."""
    partition, offset = entry.get("partition"), entry.get("offset")
    return (
        isinstance(partition, Map) and not SINK_PARTITION_KEYS.isdisjoint(partition.names())
    ) or (isinstance(offset, Map) and "kafka_offset" in offset.names())


def _read_entry(entry: Fields, *, is_sink: bool) -> OffsetEntry | None:
    valid = len(entry.problems)
    keys = tuple(sorted(SINK_PARTITION_KEYS)) if is_sink else ()
    partition = _read_values("partition", entry, keys)
    node = entry.get("offset")
    if node is None:
        hint = "write offset: null to reset this partition"
        entry.report("missing-field", "offset", "an entry has no 'offset'", hint)
    is_reset = node is None or is_null(node)
    offset = (
        None if is_reset else _read_values("offset", entry, ("kafka_offset",) if is_sink else ())
    )
    return OffsetEntry(partition, offset) if len(entry.problems) == valid else None


def _read_values(field: str, entry: Fields, sink_keys: tuple[str, ...]) -> dict[str, JsonScalar]:
    """Returns the values of a partition or an offset, those of a sink by their types."""
    noun = f"a sink's {field}" if sink_keys else field
    fields = entry.inner(field, sink_keys or None, noun=noun, required=True)
    for sink_key in sink_keys:
        fields.get(sink_key, required=True)
    values: dict[str, JsonScalar] = {}
    for key, value in fields.node.entries if fields.node else ():
        if sink_keys and key.text == "kafka_topic":
            values[key.text] = fields.text(key.text)
        elif sink_keys:
            most = _PARTITION_MAX if key.text == "kafka_partition" else INT64_MAX
            hint = "to reset the partition, write offset: null" if field == "offset" else ""
            values[key.text] = fields.count(key.text, most, code="bad-number", hint=hint)
        elif not isinstance(value, Scalar):
            message = f"the value of {key.text!r} is {value_kind(value)}"
            reason = "Connect's offsets hold text, numbers, true, false and null"
            hint = "write one value, in quotes if it is text"
            fields.report("nested", value.location, message, hint, why=reason)
        else:
            try:
                values[key.text] = typed(value)
            except ValueError as error:
                hint = "write a smaller number, or quote it if it is text"
                fields.report("bad-number", value.location, str(error), hint)
    return values


def read_position(node: Node, problems: list[Diagnostic]) -> Position | None:
    """Returns `earliest`, `latest`, or a time in ms since 1970."""
    text = node.text if isinstance(node, Scalar) else ""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    milliseconds = _milliseconds(text)
    if isinstance(milliseconds, int):
        return milliseconds
    message, hint = milliseconds
    problems.append(Diagnostic("offsets.bad-position", message, node.location, hint=hint))
    return None


def _milliseconds(text: str) -> int | tuple[str, str]:
    """Returns milliseconds since 1970, as Kafka counts; or the mistake, and a hint."""
    match = _TIME.fullmatch(text)
    if not match:
        return "'to' is not a position in a topic", _TIME_HINT
    day, minute, second, fraction, zone = match.groups()
    if minute is None:
        return "'to' is a day without a time", f"write its start: {day}T00:00:00Z"
    if zone is None:
        hint = f"append Z for UTC, or an offset: {day}T{minute}{second or ':00'}+02:00"
        return "'to' is a time without a time zone", hint
    try:
        time = datetime.fromisoformat(f"{day}T{minute}{second or ':00'}{zone}")
    except ValueError:
        return "'to' is a time that does not exist", _TIME_HINT
    # Kafka stores milliseconds; negative ones have special meanings
    number = (time - _EPOCH) // timedelta(milliseconds=1) + int((fraction or "0")[:3].ljust(3, "0"))
    return number if number >= 0 else ("'to' is a time before 1970", _TIME_HINT)
