"""Compares the outcomes of the same records under two configs, field by field. Pure.

A field has a path, a value, and its type in the schema. Its path is for the user's own terminal.
Its name is for others: it holds no keys of maps, which are data, and no position in a list. The
result of a comparison counts, and names fields; it holds no values, so that it may be published.
"""

from __future__ import annotations

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
)
from connect_specs.record_tests import Json

_NAME: Final = re.compile(r"[A-Za-z_$@][\w$-]{0,63}")
_ANY: Final = "*"


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


# --- the comparison ---


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
