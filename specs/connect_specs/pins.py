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
from connect_specs.fields import Fields, as_map, as_text, value_kind
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
    offsets = as_map(node, "offsets", _CODE, problems)
    if offsets is None:
        return None
    fields = Fields(offsets, ("pin", *_WAYS), problems, code=_CODE, noun="offsets")
    pin = fields.get("pin")
    if pin is None:
        message = "offsets need a pin id: they are applied once, and recorded under it"
        hint = "add 'pin:' with an id of your choice, such as rewind-orders-1"
        fields.report("missing-pin", offsets.location, message, hint)
    name = fields.read("pin", _read_id)
    ways = [way for way in _WAYS if fields.get(way) is not None]
    if len(ways) != 1:
        words = " and ".join(f"'{way}'" for way in ways)
        message = f"{words} exclude each other" if ways else "offsets need 'set', 'reset' or 'to'"
        hint = "write set: [...] to move partitions, reset: true to start from nothing, or for a "
        hint += "sink to: earliest, latest or a time"
        fields.report("set-or-reset", offsets.location, message, hint)
    entries = fields.read("set", _read_entries) or ()
    fields.flag("reset", if_false="remove the offsets to leave them as they are")
    is_reset = fields.get("reset") is not None
    position: Position | None = fields.read("to", read_position)
    location = offsets.location if pin is None else pin.location
    return Pin(name, entries, is_reset, location, position) if name else None


def read_offsets_json(text: str, name: str) -> tuple[OffsetEntry, ...]:
    """Returns the entries of `{"offsets": [...]}`, by the rules of a pin; `name` is the file's.

    Raises Invalid with every mistake.
    """
    parsed = parse_json(text, name)
    problems = list(parsed.problems)
    document = parsed.documents[0] if parsed.documents else None
    node = document.get("offsets") if isinstance(document, Map) else None
    if node is None and not problems:
        message = "the field 'offsets' is missing"
        hint = 'write {"offsets": [{"partition": {...}, "offset": {...}}]}'
        location = Location(name, 1, 1)
        problems.append(Diagnostic("offsets.missing-field", message, location, hint=hint))
    entries = () if node is None or problems else _read_entries(node, problems)
    if problems:
        raise Invalid(*problems)
    return entries


def _read_id(node: Node, problems: list[Diagnostic]) -> str | None:
    name = as_text(node, "pin", _CODE, problems)
    prefix = next((prefix for prefix in RESERVED_PINS if name and name.startswith(prefix)), None)
    if prefix is not None:
        message = f"pin ids that begin with {prefix!r} are reserved, and this is {name!r}"
        hint = "choose another id; if these offsets were applied under this one, remove 'offsets'"
        hint += " instead: under another id they are applied again"
        reason = "renames and rollbacks are recorded under such ids"
        problems.append(Diagnostic("offsets.reserved-pin", message, node.location, reason, hint))
    return name


def _read_entries(node: Node, problems: list[Diagnostic]) -> tuple[OffsetEntry, ...]:
    if not isinstance(node, Sequence):
        message = f"'set' must be a list, and is {value_kind(node)}"
        hint = "write set: [{partition: {...}, offset: {...}}]"
        problems.append(Diagnostic("offsets.bad-value", message, node.location, hint=hint))
        return ()
    if not node.items:
        message, hint = "'set' is empty", "add an entry, or remove the offsets"
        problems.append(Diagnostic("offsets.empty-set", message, node.location, hint=hint))
    entries: list[OffsetEntry] = []
    first: tuple[bool, Location] | None = None
    locations: dict[PartitionKey, Location] = {}
    for item in node.items:
        fields = as_map(item, "set[]", _CODE, problems)
        if fields is None:
            continue
        is_sink = _is_sink(fields)
        first = first or (is_sink, fields.location)
        if is_sink is not first[0]:
            message = "the set mixes offsets of a sink and of a source"
            reason = f"the first entry, at {first[1]}, is of the other kind"
            hint = "a sink's entry is {partition: {kafka_topic, kafka_partition}, "
            hint += "offset: {kafka_offset}}"
            problems.append(Diagnostic("offsets.mixed", message, fields.location, reason, hint))
        entry = _read_entry(fields, problems, is_sink=is_sink)
        if entry is None:
            continue
        entries.append(entry)
        key = partition_key(entry.partition)
        if key in locations:
            message, hint = "this partition is already in the set", "remove one of the two"
            reason = f"it is first given at {locations[key]}"
            problems.append(
                Diagnostic("offsets.same-partition", message, fields.location, reason, hint)
            )
        locations.setdefault(key, fields.location)
    return tuple(entries)


def _is_sink(entry: Map) -> bool:
    """Returns True for an entry of a sink; one of a sink's keys is enough, so that typos are
    found."""
    partition, offset = entry.get("partition"), entry.get("offset")
    return (
        isinstance(partition, Map) and not SINK_PARTITION_KEYS.isdisjoint(partition.names())
    ) or (isinstance(offset, Map) and "kafka_offset" in offset.names())


def _read_entry(node: Map, problems: list[Diagnostic], *, is_sink: bool) -> OffsetEntry | None:
    valid = len(problems)
    names, noun = ("partition", "offset"), "an entry of 'set'"
    entry = Fields(node, names, problems, code=_CODE, noun=noun)
    partition = entry.map("partition", required=True)
    offset = entry.get("offset")
    if offset is None:
        hint = "write offset: null to reset this partition"
        entry.report("missing-field", node.location, f"{noun} has no 'offset'", hint)
    target = None if offset is None or is_null(offset) else entry.map("offset")
    if not partition:
        return None
    if is_sink:
        _check_sink_keys(partition, sorted(SINK_PARTITION_KEYS), "a sink's partition", problems)
        if target:
            _check_sink_keys(target, ["kafka_offset"], "a sink's offset", problems)
    values = _read_values(partition, problems, is_sink=is_sink)
    numbers = None if target is None else _read_values(target, problems, is_sink=is_sink)
    return OffsetEntry(values, numbers) if len(problems) == valid else None


def _check_sink_keys(node: Map, keys: list[str], noun: str, problems: list[Diagnostic]) -> None:
    fields = Fields(node, keys, problems, code=_CODE, noun=noun)
    for key in keys:
        fields.get(key, required=True)


def _read_values(node: Map, problems: list[Diagnostic], *, is_sink: bool) -> dict[str, JsonScalar]:
    values: dict[str, JsonScalar] = {}
    for key, value in node.entries:
        if is_sink and key.text == "kafka_topic":
            values[key.text] = as_text(value, key.text, _CODE, problems)
        elif is_sink:
            values[key.text] = _read_count(key.text, value, problems)
        elif not isinstance(value, Scalar):
            message = f"the value of {key.text!r} is {value_kind(value)}"
            reason = "Connect's offsets hold text, numbers, true, false and null"
            hint = "write one value, in quotes if it is text"
            problems.append(Diagnostic("offsets.nested", message, value.location, reason, hint))
        else:
            try:
                values[key.text] = typed(value)
            except ValueError as error:
                hint = "write a smaller number, or quote it if it is text"
                problems.append(
                    Diagnostic("offsets.bad-number", str(error), value.location, hint=hint)
                )
    return values


def _read_count(key: str, node: Node, problems: list[Diagnostic]) -> int | None:
    """Returns a whole number of at least 0 that Kafka can hold."""
    most = _PARTITION_MAX if key == "kafka_partition" else INT64_MAX
    number: JsonScalar = None
    if isinstance(node, Scalar):
        try:
            number = typed(node)
        except ValueError:
            number = None
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= most:
        return number
    message = f"{key!r} must be a whole number from 0 to {most}"
    hint = "write a whole number"
    if isinstance(node, Scalar) and not node.plain and node.text.isdecimal():
        hint = "remove the quotes"
    elif key == "kafka_offset":
        hint = "to reset the partition, write offset: null"
    problems.append(Diagnostic("offsets.bad-number", message, node.location, hint=hint))
    return None


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
