"""Compares the outcome of a record with the expectation of its test, and the outcomes of the same
records under two configs, field by field. Pure.

A field has a path, a value, and its type in the schema. Its path is for the user's own terminal.
Its name is for others: it holds no keys of maps, which are data, and no position in a list. The
result of a comparison counts, and names fields; it holds no values, so that it may be published.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from connect_reconciler.testing.outcomes import (
    DeliveredRecord,
    DroppedRecord,
    FailedRecord,
    Outcome,
    RecordRun,
    ShownRecord,
    ShownValue,
    kafka_text,
    parsed_json,
)
from connect_specs.diagnostics import Location
from connect_specs.record_tests import Expected, ExpectedDrop, ExpectedError, ExpectedRecord, Json

_NAME: Final = re.compile(r"[A-Za-z_$@][\w$-]{0,63}")
_ANY: Final = "*"
_NOTHING: Final = "nothing"


# --- with the expectation of a test ---


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One difference, in texts: at `path`, or of the whole record if that is empty."""

    path: str
    expected: str
    actual: str

    def __str__(self) -> str:
        at = f"{self.path}: " if self.path else ""
        return f"{at}expected {self.expected}, found {self.actual}"


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test; without mismatches it passed. Texts are without secrets."""

    # for pytest, which takes every class of such a name for tests
    __test__ = False

    name: str
    connector: str
    location: Location
    mismatches: tuple[Mismatch, ...]


def check(expected: Expected, outcome: Outcome) -> tuple[Mismatch, ...]:
    """Returns the differences; none if the test passes."""
    match expected, outcome:
        case ExpectedRecord(parts=values), DeliveredRecord():
            return tuple(_record(values, outcome))
        case ExpectedDrop(), DroppedRecord():
            return ()
        case ExpectedError(stage=stage, message=message), FailedRecord():
            return tuple(_error(stage, message, outcome))
        case _:
            return (Mismatch("", _expected_text(expected), outcome_text(outcome)),)


def outcome_text(outcome: Outcome) -> str:
    """Returns an outcome in words."""
    match outcome:
        case DeliveredRecord():
            return "a record"
        case DroppedRecord():
            return "that it was dropped"
        case FailedRecord():
            owner = f" of {outcome.class_name}" if outcome.class_name else ""
            return f"an error in {outcome.stage}{owner}: {outcome.text}"


def _expected_text(expected: Expected) -> str:
    match expected:
        case ExpectedRecord():
            return "a record"
        case ExpectedDrop():
            return "that it is dropped"
        case ExpectedError(stage=stage):
            return f"an error in {stage}" if stage else "an error"


def _error(stage: str | None, message: str, failed: FailedRecord) -> Iterator[Mismatch]:
    if stage is not None and stage != failed.stage:
        yield Mismatch("error.stage", stage, failed.stage)
    if message not in failed.text:
        yield Mismatch("error.message", f"a text with {message!r}", repr(failed.text))


def _record(expected: Mapping[str, Json], outcome: DeliveredRecord) -> Iterator[Mismatch]:
    record = outcome.in_kafka or outcome.record
    in_kafka = outcome.in_kafka is not None
    for name, value in expected.items():
        match name:
            case "key" | "value":
                yield from _value(name, value, getattr(record, name), in_kafka=in_kafka)
            case "key_schema" | "value_schema":
                actual = getattr(outcome.record, name.removesuffix("_schema"))
                yield from differences(name, value, actual.schema)
            case "headers":
                yield from _headers(value, record.headers, in_kafka=in_kafka)
            case _:
                yield from differences(name, value, getattr(record, name))


def _headers(
    expected: tuple[tuple[str, Json], ...],
    headers: tuple[tuple[str, ShownValue], ...],
    *,
    in_kafka: bool,
) -> Iterator[Mismatch]:
    """Compares the headers of each name in their order; the order of different names is free."""
    for name in dict.fromkeys((*(key for key, _ in expected), *(key for key, _ in headers))):
        values = [value for key, value in expected if key == name]
        actual = [value for key, value in headers if key == name]
        for at in range(max(len(values), len(actual))):
            path = f"headers.{name}" + (f"[{at}]" if at else "")
            if at >= len(actual):
                yield Mismatch(path, _text(values[at]), _NOTHING)
            elif at >= len(values):
                yield Mismatch(path, _NOTHING, _text(actual[at].json))
            else:
                yield from _value(path, values[at], actual[at], in_kafka=in_kafka)


def _value(path: str, expected: Json, actual: ShownValue, *, in_kafka: bool) -> Iterator[Mismatch]:
    """Compares bytes of Kafka as text with a text, and as JSON with other values."""
    if not in_kafka or actual.raw is None or expected is None:
        yield from differences(path, expected, actual.json)
    elif isinstance(expected, str):
        yield from differences(path, expected, kafka_text(actual.raw))
    else:
        parsed = parsed_json(actual.raw)
        yield from differences(path, expected, actual.json if parsed is ... else parsed)


def differences(path: str, expected: Json, actual: Json) -> Iterator[Mismatch]:
    """Yields the differences of two JSON values. 1, 1.0 and true are not equal."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in dict.fromkeys((*expected, *actual)):
            member = f"{path}.{key}"
            if key not in actual:
                yield Mismatch(member, _text(expected[key]), _NOTHING)
            elif key not in expected:
                yield Mismatch(member, _NOTHING, _text(actual[key]))
            else:
                yield from differences(member, expected[key], actual[key])
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for at, (first, second) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(f"{path}[{at}]", first, second)
    elif type(expected) is not type(actual) or expected != actual:
        yield Mismatch(path, _text(expected), _text(actual))


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


# --- between two configs ---


@dataclass(frozen=True, slots=True)
class RecordField:
    """A scalar, or an empty map or list. `type` is empty without schema."""

    name: str
    json: Json
    type: str = ""

    @property
    def content(self) -> tuple[str, str, str]:
        """Returns a value that only equal fields share; 1, 1.0 and true are not equal."""
        return self.type, type(self.json).__name__, repr(self.json)


def fields_of(record: ShownRecord) -> dict[str, RecordField]:
    """Returns the fields of a record by path: `topic`, `value.items[0].price`, `headers.trace`."""
    names = ("topic", "partition", "timestamp")
    fields = {name: RecordField(name, getattr(record, name)) for name in names}
    fields |= _fields("key", "key", record.key.json, record.key.schema)
    fields |= _fields("value", "value", record.value.json, record.value.schema)
    numbers = Counter[str]()
    for name, header in record.headers:
        path = f"headers.{name}" + (f"[{numbers[name]}]" if numbers[name] else "")
        fields |= _fields(path, f"headers.{_public(name)}", header.json, header.schema)
        numbers[name] += 1
    return fields


def _fields(path: str, name: str, value: Json, schema: Json) -> Iterator[tuple[str, RecordField]]:
    if isinstance(value, dict) and value:
        of_fields, of_values = _schemas(schema)
        for key, member in value.items():
            public = _ANY if of_values is not None else _public(key)
            inner = of_fields.get(key, of_values)
            yield from _fields(f"{path}.{key}", f"{name}.{public}", member, inner)
    elif isinstance(value, list) and value:
        items = schema.get("items") if isinstance(schema, dict) else None
        for at, item in enumerate(value):
            yield from _fields(f"{path}[{at}]", f"{name}[]", item, items)
    else:
        yield path, RecordField(name, value, _type(schema))


def _schemas(schema: Json) -> tuple[Mapping[str, Json], Json]:
    """Returns the schemas of a struct's fields, and that of a map's values."""
    if not isinstance(schema, dict):
        return {}, None
    fields = {member["field"]: member for member in schema.get("fields", ())}
    return fields, schema.get("values")


def _type(schema: Json) -> str:
    if not isinstance(schema, dict):
        return ""
    name = schema.get("name")
    optional = "?" if schema.get("optional") else ""
    return f"{schema['type']}{optional}" + (f" {name}" if name else "")


def _public(name: str) -> str:
    """Returns a name that can be one of a field; others may be data, such as an address."""
    return name if _NAME.fullmatch(name) else _ANY


@dataclass(frozen=True, slots=True)
class Comparison:
    """Numbers of records: of `total`, `different` ones come out differently, by field in `fields`.

    `failing` are new failures, by stage and class; `recovered` no longer fail; `dropped` are newly
    dropped and `undropped` no longer are; `still_failing` fail under both configs.
    """

    total: int
    different: int = 0
    fields: Mapping[str, int] = field(default_factory=dict)
    failing: Mapping[str, int] = field(default_factory=dict)
    recovered: int = 0
    dropped: int = 0
    undropped: int = 0
    still_failing: int = 0

    @property
    def newly_failing(self) -> int:
        """Returns the number of new failures."""
        return sum(self.failing.values())


_Pairs: TypeAlias = Sequence[tuple[Outcome, Outcome]]


def compare(base: Sequence[RecordRun], changed: Sequence[RecordRun]) -> Comparison:
    """Compares two runs over the same records, in the same order."""
    pairs = [(a.outcome, b.outcome) for a, b in zip(base, changed, strict=True)]
    fields, failing = Counter[str](), Counter[str]()
    for a, b in pairs:
        if isinstance(a, DeliveredRecord) and isinstance(b, DeliveredRecord):
            fields.update(different_fields(a, b))
        elif isinstance(b, FailedRecord) and not isinstance(a, FailedRecord):
            failing[failure_name(b)] += 1
    return Comparison(
        total=len(pairs),
        different=sum(is_different(a, b) for a, b in pairs),
        fields=_most_first(fields),
        failing=_most_first(failing),
        recovered=_count(pairs, FailedRecord, (DeliveredRecord, DroppedRecord)),
        dropped=_count(pairs, DeliveredRecord, (DroppedRecord,)),
        undropped=_count(pairs, DroppedRecord, (DeliveredRecord,)),
        still_failing=_count(pairs, FailedRecord, (FailedRecord,)),
    )


def is_different(base: Outcome, changed: Outcome) -> bool:
    """Returns whether a record comes out differently. Failures of the same class are equal."""
    if isinstance(base, DeliveredRecord) and isinstance(changed, DeliveredRecord):
        return bool(different_fields(base, changed))
    if isinstance(base, FailedRecord) and isinstance(changed, FailedRecord):
        return failure_name(base) != failure_name(changed)
    return type(base) is not type(changed)


def different_fields(base: DeliveredRecord, changed: DeliveredRecord) -> set[str]:
    """Returns the names of fields that differ; `value (schema)` and `value (bytes)` if only the
    whole value's schema differs, or only its bytes in Kafka."""
    names = _different(base.record, changed.record)
    for name in ("key", "value"):
        a, b = getattr(base.record, name), getattr(changed.record, name)
        if a.schema != b.schema and not _has_any(name, names):
            names.add(f"{name} (schema)")
    if base.in_kafka is not None and changed.in_kafka is not None:
        a_bytes, b_bytes = _bytes(base.in_kafka), _bytes(changed.in_kafka)
        names |= {
            f"{name} (bytes)"
            for name, data in a_bytes.items()
            if data != b_bytes[name] and not _has_any(name, names)
        }
    return names


def failure_name(failed: FailedRecord) -> str:
    """Returns the place of a failure, without values: stage and class, if it is known."""
    return ", ".join(filter(None, (failed.stage, failed.class_name)))


def _different(base: ShownRecord, changed: ShownRecord) -> set[str]:
    a_fields, b_fields = fields_of(base), fields_of(changed)
    names: set[str] = set()
    for path in a_fields.keys() | b_fields.keys():
        a, b = a_fields.get(path), b_fields.get(path)
        if a is None or b is None or a.content != b.content:
            names.update(member.name for member in (a, b) if member is not None)
    return names


def _bytes(record: ShownRecord) -> Mapping[str, object]:
    headers = [(name, header.raw) for name, header in record.headers]
    return {"key": record.key.raw, "value": record.value.raw, "headers": headers}


def _has_any(root: str, names: Collection[str]) -> bool:
    """Returns whether one of the names is of the key, the value or the headers."""
    return any(re.split(r"[.\[ ]", name, maxsplit=1)[0] == root for name in names)


def _count(pairs: _Pairs, base: type[Outcome], changed: tuple[type[Outcome], ...]) -> int:
    return sum(isinstance(a, base) and isinstance(b, changed) for a, b in pairs)


def _most_first(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
