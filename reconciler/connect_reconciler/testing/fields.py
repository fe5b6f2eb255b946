"""Takes records apart into fields: each with a path, a value, and its type in the schema. Pure.

A path is for the user's own terminal. A name is for others: it holds no keys of maps, which are
data, and no position in a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from connect_reconciler.testing.outcomes import Part, ShownRecord
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
