"""Reads one record as a test, or a line of a file of records, declares it.

What a value means depends on the connector: for a sink it is what Kafka holds, for a source what
the connector returns. Here it stays as it was written, as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.fields import as_count, as_map, as_text, check_fields, value_kind
from connect_specs.json_documents import ONE_VALUE, parse_json
from connect_specs.nodes import Map, Node, Scalar, Sequence, is_null, typed

# None, bool, int, float, str, list or dict
Json: TypeAlias = Any
HeaderValues: TypeAlias = tuple[tuple[str, Json], ...]

CODE: Final = "test"
PARTS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
    "key_schema",
    "value",
    "value_schema",
    "headers",
)
_COUNTS: Final = ("partition", "offset", "timestamp")
_PARTITION_MAX: Final = 2**31 - 1
_ONE_A_LINE: Final = 'each line is one record, such as {"key": "1", "value": {"id": 1}}'


@dataclass(frozen=True, slots=True)
class RecordInput:
    """A record. `timestamp` is in epoch milliseconds; what is None was not given."""

    where: Location
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    key: Json = None
    key_schema: Json = None
    value: Json = None
    value_schema: Json = None
    headers: HeaderValues = ()


def read_input(node: Node, problems: list[Diagnostic], field: str = "input") -> RecordInput | None:
    """Returns the record of a map; None if it is none. `field` names it in problems."""
    found = read_parts(node, field, problems)
    if found is None:
        return None
    if found.get("topic", "") is None:
        del found["topic"]
    return RecordInput(node.where, **found)


def read_lines(text: str, file: str, problems: list[Diagnostic]) -> tuple[RecordInput, ...]:
    """Returns the records of a file with one JSON object a line; empty lines are skipped."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        parsed = parse_json(line, file, (number,))
        problems += (
            replace(each, hint=_ONE_A_LINE) if each.hint == ONE_VALUE else each
            for each in parsed.problems
        )
        found += [read_input(node, problems, "the line") for node in parsed.documents]
    return tuple(each for each in found if each is not None)


def read_parts(node: Node, field: str, problems: list[Diagnostic]) -> dict[str, Any] | None:
    """Returns the parts of a record that a map lists, by their names."""
    parts = as_map(node, field, CODE, problems)
    if parts is None:
        return None
    check_fields(parts, PARTS, CODE, "a record", problems)
    found: dict[str, Any] = {}
    for key, each in parts.entries:
        if key.text in _COUNTS:
            found[key.text] = None if is_null(each) else _count(each, key.text, problems)
        elif key.text == "topic":
            found[key.text] = as_text(each, "topic", CODE, problems)
        elif key.text == "headers":
            found[key.text] = _headers(each, problems)
        elif key.text in PARTS:
            found[key.text] = json_of(each, problems)
    return found


def _count(node: Node, field: str, problems: list[Diagnostic]) -> int | None:
    count = as_count(node, field, CODE, problems)
    if field == "partition" and count is not None and count > _PARTITION_MAX:
        what, hint = "Kafka has no partition of this number", f"the largest is {_PARTITION_MAX}"
        problems.append(Diagnostic(f"{CODE}.bad-value", what, node.where, hint=hint))
        return None
    return count


def json_of(node: Node, problems: list[Diagnostic]) -> Json:
    """Returns a node as JSON. Numbers that JSON does not know stay text."""
    if isinstance(node, Map):
        return {key.text: json_of(each, problems) for key, each in node.entries}
    if isinstance(node, Sequence):
        return [json_of(each, problems) for each in node.items]
    try:
        return typed(node)
    except ValueError as error:
        hint = "write the whole value as text, in quotes"
        problems.append(Diagnostic(f"{CODE}.bad-value", str(error), node.where, hint=hint))
        return None


def _headers(node: Node, problems: list[Diagnostic]) -> HeaderValues:
    """Returns headers in order: those of a map, or of a list of maps, where a name may repeat."""
    maps = node.items if isinstance(node, Sequence) else (node,)
    found: list[tuple[str, Json]] = []
    for each in maps:
        if isinstance(each, Map):
            found += [(key.text, json_of(value, problems)) for key, value in each.entries]
        elif not (isinstance(each, Scalar) and is_null(each)):
            what = f"'headers' must be a map, or a list of maps, and is {value_kind(each)}"
            hint = "write headers: {name: value}, or [{name: first}, {name: second}]"
            problems.append(Diagnostic(f"{CODE}.bad-value", what, each.where, hint=hint))
    return tuple(found)
