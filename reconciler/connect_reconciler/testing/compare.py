"""Compares what two configs make of the same records, field by field. Pure.

A field has a path, a value, and its type in the schema. Its path is for the user's own terminal.
Its name is for others: it holds no keys of maps, which are data, and no position in a list. The
result of a comparison counts, and names fields; it holds no values, so that it may be published.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from connect_reconciler.testing.outcomes import (
    Delivered,
    Dropped,
    Failed,
    Outcome,
    Part,
    Run,
    ShownRecord,
)
from connect_specs.record_input import Json

_NAME: Final = re.compile(r"[A-Za-z_$@][\w$-]{0,63}")
_ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Field:
    """A value without parts: a scalar, or an empty map or list. `type` is empty without schema."""

    name: str
    json: Json
    type: str = ""

    @property
    def content(self) -> tuple[str, str, str]:
        """What two equal fields have in common; 1, 1.0 and true are not equal."""
        return self.type, type(self.json).__name__, repr(self.json)


def fields_of(record: ShownRecord) -> dict[str, Field]:
    """Returns the fields of a record by path: `topic`, `value.items[0].price`, `headers.trace`."""
    found = {
        name: Field(name, getattr(record, name)) for name in ("topic", "partition", "timestamp")
    }
    found |= part_fields("key", record.key)
    found |= part_fields("value", record.value)
    seen: dict[str, int] = {}
    for name, part in record.headers:
        seen[name] = number = seen.get(name, -1) + 1
        path = f"headers.{name}" + (f"[{number}]" if number else "")
        found |= _fields(path, f"headers.{_public(name)}", part.json, part.schema)
    return found


def part_fields(name: str, part: Part) -> dict[str, Field]:
    """Returns the fields of a key or a value."""
    return dict(_fields(name, name, part.json, part.schema))


def _fields(path: str, name: str, value: Json, schema: Json) -> Iterator[tuple[str, Field]]:
    if isinstance(value, dict) and value:
        of_fields, of_values = _schemas(schema)
        for key, each in value.items():
            shown = _ANY if of_values is not None else _public(key)
            inner = of_fields.get(key, of_values)
            yield from _fields(f"{path}.{key}", f"{name}.{shown}", each, inner)
    elif isinstance(value, list) and value:
        items = schema.get("items") if isinstance(schema, dict) else None
        for at, each in enumerate(value):
            yield from _fields(f"{path}[{at}]", f"{name}[]", each, items)
    else:
        yield path, Field(name, value, _type(schema))


def _schemas(schema: Json) -> tuple[Mapping[str, Json], Json]:
    """Returns the schemas of a struct's fields, and that of a map's values."""
    if not isinstance(schema, dict):
        return {}, None
    fields = {each["field"]: each for each in schema.get("fields", ())}
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
    """How many of `total` records come out differently, and by field in how many.

    `failing` fail and did not, by stage and class; `recovered` no longer fail; `dropped` are now
    dropped and `kept` no longer are; `still_failing` fail in both.
    """

    total: int
    different: int = 0
    fields: Mapping[str, int] = field(default_factory=dict)
    failing: Mapping[str, int] = field(default_factory=dict)
    recovered: int = 0
    dropped: int = 0
    kept: int = 0
    still_failing: int = 0

    @property
    def newly_failing(self) -> int:
        """How many records fail that did not."""
        return sum(self.failing.values())


def compare(old: Sequence[Run], new: Sequence[Run]) -> Comparison:
    """Compares two runs over the same records, in the same order."""
    pairs = [(a.outcome, b.outcome) for a, b in zip(old, new, strict=True)]
    counted = Counter[str]()
    for a, b in pairs:
        if isinstance(a, Delivered) and isinstance(b, Delivered):
            counted.update(different_fields(a, b))
    failing = Counter(
        failure_name(b) for a, b in pairs if isinstance(b, Failed) and not isinstance(a, Failed)
    )
    return Comparison(
        total=len(pairs),
        different=sum(is_different(a, b) for a, b in pairs),
        fields=dict(_most_first(counted)),
        failing=dict(_most_first(failing)),
        recovered=_count(pairs, Failed, (Delivered, Dropped)),
        dropped=_count(pairs, Delivered, (Dropped,)),
        kept=_count(pairs, Dropped, (Delivered,)),
        still_failing=_count(pairs, Failed, (Failed,)),
    )


def is_different(old: Outcome, new: Outcome) -> bool:
    """Whether a record comes out differently. Two failures are one, if the same class fails."""
    if isinstance(old, Delivered) and isinstance(new, Delivered):
        return bool(different_fields(old, new))
    if isinstance(old, Failed) and isinstance(new, Failed):
        return failure_name(old) != failure_name(new)
    return type(old) is not type(new)


def different_fields(old: Delivered, new: Delivered) -> set[str]:
    """Returns the names of fields that differ; `value (schema)` and `value (bytes)` where it is
    only the whole value's schema, or only how it is written."""
    found = _different(old.record, new.record)
    for name in ("key", "value"):
        a, b = getattr(old.record, name), getattr(new.record, name)
        if a.schema != b.schema and not _any_of(name, found):
            found.add(f"{name} (schema)")
    if old.written is not None and new.written is not None:
        found |= _written_differently(old.written, new.written, found)
    return found


def failure_name(failed: Failed) -> str:
    """Returns where a record failed, without values: stage and class, if it is known."""
    return ", ".join(filter(None, (failed.stage, failed.class_name)))


def _different(old: ShownRecord, new: ShownRecord) -> set[str]:
    before, after = fields_of(old), fields_of(new)
    names: set[str] = set()
    for path in before.keys() | after.keys():
        a, b = before.get(path), after.get(path)
        if a is None or b is None or a.content != b.content:
            names.update(each.name for each in (a, b) if each is not None)
    return names


def _written_differently(old: ShownRecord, new: ShownRecord, known: set[str]) -> set[str]:
    parts: list[tuple[str, Part, Part]] = [
        ("key", old.key, new.key),
        ("value", old.value, new.value),
    ]
    found = {
        f"{name} (bytes)" for name, a, b in parts if a.raw != b.raw and not _any_of(name, known)
    }
    headers_differ = [(n, p.raw) for n, p in old.headers] != [(n, p.raw) for n, p in new.headers]
    if headers_differ and not _any_of("headers", known):
        found.add("headers (bytes)")
    return found


def _any_of(part: str, names: Iterable[str]) -> bool:
    return any(name.partition(".")[0].partition("[")[0].partition(" ")[0] == part for name in names)


def _count(
    pairs: Iterable[tuple[Outcome, Outcome]], old: type[Outcome], new: tuple[type[Outcome], ...]
) -> int:
    return sum(isinstance(a, old) and isinstance(b, new) for a, b in pairs)


def _most_first(counted: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counted.items(), key=lambda each: (-each[1], each[0]))
