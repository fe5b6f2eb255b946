"""Reads the `offsets` field of a spec as a pin.

Source offsets keep the types that they are written with, because Connect compares and stores them
by type. Sink offsets (KIP-875) must be a topic, a partition and a number.
"""

from __future__ import annotations

from connect_specs.desired import JsonScalar, OffsetEntry, Pin
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.fields import as_bool, as_map, as_text, check_fields, required, value_kind
from connect_specs.json_documents import parse_json
from connect_specs.nodes import INT64_MAX, Map, Node, Scalar, Sequence, is_null, typed
from connect_specs.partitions import RESERVED_PINS, SINK_PARTITION_KEYS, PartitionKey, partition_key
from connect_specs.positions import read_position

_CODE = "offsets"
_WAYS = ("set", "reset", "to")
_PARTITION_MAX = 2**31 - 1


def read_pin(node: Node, problems: list[Diagnostic]) -> Pin | None:
    """Returns the pin; None if it is invalid, and then `problems` says why."""
    if isinstance(node, Sequence):
        what = "'offsets' must be a map, and is a list"
        hint = "put the entries under set, and name them: offsets: {pin: <id>, set: [...]}"
        problems.append(Diagnostic("offsets.bad-value", what, node.where, hint=hint))
        return None
    fields = as_map(node, "offsets", _CODE, problems)
    if fields is None:
        return None
    check_fields(fields, ("pin", *_WAYS), _CODE, "offsets", problems)
    pin = fields.get("pin")
    if pin is None:
        what = "offsets need a pin id: they are applied once, and recorded under it"
        hint = "add 'pin:' with an id of your choice, such as rewind-orders-1"
        problems.append(Diagnostic("offsets.missing-pin", what, fields.where, hint=hint))
        name = None
    else:
        name = as_text(pin, "pin", _CODE, problems)
        if name is not None:
            _check_not_reserved(name, pin.where, problems)
    given = {way: value for way in _WAYS if (value := fields.get(way)) is not None}
    if len(given) != 1:
        words = " and ".join(f"'{way}'" for way in given)
        what = f"{words} exclude each other" if given else "offsets need 'set', 'reset' or 'to'"
        hint = "write set: [...] to move partitions, reset: true to start from nothing, or for a "
        hint += "sink to: earliest, latest or a time"
        problems.append(Diagnostic("offsets.set-or-reset", what, fields.where, hint=hint))
    entries, reset, to = (given.get(way) for way in _WAYS)
    found = () if entries is None else _read_entries(entries, problems)
    if reset is not None and as_bool(reset, "reset", _CODE, problems) is False:
        hint = "remove the offsets to leave them as they are"
        problems.append(
            Diagnostic("offsets.bad-value", "'reset' can only be true", reset.where, hint=hint)
        )
    position = None if to is None else read_position(to, problems)
    where = pin.where if pin is not None else fields.where
    return Pin(name, found, reset is not None, where, position) if name else None


def read_offsets_json(text: str, name: str) -> tuple[OffsetEntry, ...]:
    """Returns the entries of `{"offsets": [...]}`, by the rules of a pin; `name` is the file's.

    Raises Invalid with every mistake.
    """
    parsed = parse_json(text, name)
    problems = list(parsed.problems)
    document = parsed.documents[0] if parsed.documents else None
    entries = document.get("offsets") if isinstance(document, Map) else None
    if entries is None and not problems:
        what = "the field 'offsets' is missing"
        hint = 'write {"offsets": [{"partition": {...}, "offset": {...}}]}'
        problems.append(Diagnostic("offsets.missing-field", what, Location(name, 1, 1), hint=hint))
    if entries is None or problems:
        raise Invalid(*problems)
    found = _read_entries(entries, problems)
    if problems:
        raise Invalid(*problems)
    return found


def _check_not_reserved(name: str, where: Location, problems: list[Diagnostic]) -> None:
    prefix = next((each for each in RESERVED_PINS if name.startswith(each)), None)
    if prefix is None:
        return
    what = f"pin ids that begin with {prefix!r} are reserved, and this is {name!r}"
    hint = "choose another id; if these offsets were applied under this one, remove 'offsets'"
    hint += " instead: under another id they are applied again"
    why = "renames and rollbacks are recorded under such ids"
    problems.append(Diagnostic("offsets.reserved-pin", what, where, why=why, hint=hint))


def _read_entries(node: Node, problems: list[Diagnostic]) -> tuple[OffsetEntry, ...]:
    if not isinstance(node, Sequence):
        what = f"'set' must be a list, and is {value_kind(node)}"
        hint = "write set: [{partition: {...}, offset: {...}}]"
        problems.append(Diagnostic("offsets.bad-value", what, node.where, hint=hint))
        return ()
    if not node.items:
        what, hint = "'set' is empty", "add an entry, or remove the offsets"
        problems.append(Diagnostic("offsets.empty-set", what, node.where, hint=hint))
    found: list[OffsetEntry] = []
    first_kind: tuple[bool, Location] | None = None
    seen: dict[PartitionKey, Location] = {}
    for item in node.items:
        fields = as_map(item, "set[]", _CODE, problems)
        if fields is None:
            continue
        is_sink = _is_sink(fields)
        first_kind = first_kind or (is_sink, fields.where)
        if is_sink is not first_kind[0]:
            problems.append(_mixed(fields.where, first_kind[1]))
        entry = _read_entry(fields, problems, is_sink=is_sink)
        if entry is None:
            continue
        found.append(entry)
        key = partition_key(entry.partition)
        if key in seen:
            what = "this partition is already in the set"
            why = f"it is first given at {seen[key]}"
            hint = "remove one of the two"
            problems.append(Diagnostic("offsets.same-partition", what, fields.where, why, hint))
        seen.setdefault(key, fields.where)
    return tuple(found)


def _mixed(where: Location, first: Location) -> Diagnostic:
    return Diagnostic(
        "offsets.mixed",
        "the set mixes offsets of a sink and of a source",
        where,
        why=f"the first entry, at {first}, is of the other kind",
        hint="a sink's entry is {partition: {kafka_topic, kafka_partition}, "
        "offset: {kafka_offset}}",
    )


def _is_sink(fields: Map) -> bool:
    """Whether the entry is for a sink; one of a sink's keys is enough, so that typos are found."""
    partition, offset = fields.get("partition"), fields.get("offset")
    return (
        isinstance(partition, Map) and not SINK_PARTITION_KEYS.isdisjoint(partition.names())
    ) or (isinstance(offset, Map) and "kafka_offset" in offset.names())


def _read_entry(fields: Map, problems: list[Diagnostic], *, is_sink: bool) -> OffsetEntry | None:
    before = len(problems)
    check_fields(fields, ("partition", "offset"), _CODE, "an entry of 'set'", problems)
    partition = required(fields, "partition", _CODE, "an entry of 'set'", problems)
    offset = fields.get("offset")
    if offset is None:
        hint = "write offset: null to reset this partition"
        what = "an entry of 'set' has no 'offset'"
        problems.append(Diagnostic("offsets.missing-field", what, fields.where, hint=hint))
    partition_map = partition and as_map(partition, "partition", _CODE, problems)
    offset_map = None
    if offset is not None and not is_null(offset):
        offset_map = as_map(offset, "offset", _CODE, problems)
    if not partition_map:
        return None
    if is_sink:
        _check_sink_keys(partition_map, sorted(SINK_PARTITION_KEYS), "a sink's partition", problems)
        if offset_map:
            _check_sink_keys(offset_map, ["kafka_offset"], "a sink's offset", problems)
    values = _read_values(partition_map, problems, is_sink=is_sink)
    target = None if offset_map is None else _read_values(offset_map, problems, is_sink=is_sink)
    return OffsetEntry(values, target) if len(problems) == before else None


def _check_sink_keys(node: Map, keys: list[str], what: str, problems: list[Diagnostic]) -> None:
    check_fields(node, keys, _CODE, what, problems)
    for key in keys:
        required(node, key, _CODE, what, problems)


def _read_values(node: Map, problems: list[Diagnostic], *, is_sink: bool) -> dict[str, JsonScalar]:
    values: dict[str, JsonScalar] = {}
    for key, value in node.entries:
        if is_sink and key.text == "kafka_topic":
            values[key.text] = as_text(value, key.text, _CODE, problems)
        elif is_sink:
            values[key.text] = _read_count(key.text, value, problems)
        elif not isinstance(value, Scalar):
            what = f"the value of {key.text!r} is {value_kind(value)}"
            why = "Connect's offsets hold text, numbers, true, false and null"
            hint = "write one value, in quotes if it is text"
            problems.append(Diagnostic("offsets.nested", what, value.where, why, hint))
        else:
            try:
                values[key.text] = typed(value)
            except ValueError as error:
                what, hint = str(error), "write a smaller number, or quote it if it is text"
                problems.append(Diagnostic("offsets.bad-number", what, value.where, hint=hint))
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
    what = f"{key!r} must be a whole number from 0 to {most}"
    hint = "write a whole number"
    if isinstance(node, Scalar) and not node.plain and node.text.isdecimal():
        hint = "remove the quotes"
    elif key == "kafka_offset":
        hint = "to reset the partition, write offset: null"
    problems.append(Diagnostic("offsets.bad-number", what, node.where, hint=hint))
    return None
