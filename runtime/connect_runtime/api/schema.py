"""Connect's data model: schemas and structs (the manual's "Working with Schemas").

A record's value may come with a schema or without (None). Converters that write schemas, such as
JsonConverter with `schemas.enable`, need one; the others pass plain values through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from connect_runtime.api.errors import DataError
from connect_runtime.api.java_text import java_text


class Type(Enum):
    """The types of Connect's data model. The value is the name that JSON schemas use."""

    BOOLEAN = "boolean"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BYTES = "bytes"
    STRING = "string"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def primitive(self) -> bool:
        """Whether a value of this type may be used in a source partition or offset."""
        return self not in {Type.ARRAY, Type.MAP, Type.STRUCT}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct schema."""

    name: str
    schema: Schema


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The type of a value.

    `items` is set for arrays, `keys` and `values` for maps, `fields` for structs. `name` and
    `version` identify a logical type or a record type; `parameters` belong to it. A value may be
    None if the schema is `optional`, or if it has a default, which then replaces None.
    """

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    default: Any = None
    items: Schema | None = None
    keys: Schema | None = None
    values: Schema | None = None
    fields: tuple[Field, ...] = ()

    @classmethod
    def array(cls, items: Schema, **more: Any) -> Schema:
        """An array of `items`."""
        return cls(Type.ARRAY, items=items, **more)

    @classmethod
    def map(cls, keys: Schema, values: Schema, **more: Any) -> Schema:
        """A map from `keys` to `values`."""
        return cls(Type.MAP, keys=keys, values=values, **more)

    @classmethod
    def struct(cls, fields: Mapping[str, Schema], **more: Any) -> Schema:
        """A struct with `fields`, in this order."""
        return cls(Type.STRUCT, fields=tuple(Field(n, s) for n, s in fields.items()), **more)

    def as_optional(self) -> Schema:
        """The same schema, allowing None."""
        return replace(self, optional=True)

    def field(self, name: str) -> Schema | None:
        """The schema of a struct's field."""
        return next((f.schema for f in self.fields if f.name == name), None)

    def _identity(self) -> tuple[Any, ...]:
        parameters = None if self.parameters is None else tuple(sorted(self.parameters.items()))
        return (
            self.type,
            self.optional,
            self.name,
            self.version,
            self.doc,
            parameters,
            self.items,
            self.keys,
            self.values,
            self.fields,
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        return self._identity() == other._identity() and self.default == other.default

    def __hash__(self) -> int:
        # the default is left out: it may be a list or a map
        return hash(self._identity())


BOOLEAN: Final = Schema(Type.BOOLEAN)
INT8: Final = Schema(Type.INT8)
INT16: Final = Schema(Type.INT16)
INT32: Final = Schema(Type.INT32)
INT64: Final = Schema(Type.INT64)
FLOAT32: Final = Schema(Type.FLOAT32)
FLOAT64: Final = Schema(Type.FLOAT64)
BYTES: Final = Schema(Type.BYTES)
STRING: Final = Schema(Type.STRING)
OPTIONAL_BOOLEAN: Final = BOOLEAN.as_optional()
OPTIONAL_INT8: Final = INT8.as_optional()
OPTIONAL_INT16: Final = INT16.as_optional()
OPTIONAL_INT32: Final = INT32.as_optional()
OPTIONAL_INT64: Final = INT64.as_optional()
OPTIONAL_FLOAT32: Final = FLOAT32.as_optional()
OPTIONAL_FLOAT64: Final = FLOAT64.as_optional()
OPTIONAL_BYTES: Final = BYTES.as_optional()
OPTIONAL_STRING: Final = STRING.as_optional()

DECIMAL_NAME: Final = "org.apache.kafka.connect.data.Decimal"
DATE_NAME: Final = "org.apache.kafka.connect.data.Date"
TIME_NAME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP_NAME: Final = "org.apache.kafka.connect.data.Timestamp"

DATE: Final = Schema(Type.INT32, name=DATE_NAME, version=1)
TIME: Final = Schema(Type.INT32, name=TIME_NAME, version=1)
TIMESTAMP: Final = Schema(Type.INT64, name=TIMESTAMP_NAME, version=1)


def decimal(scale: int, *, optional: bool = False) -> Schema:
    """The logical type of `decimal.Decimal` values with `scale` digits after the point."""
    return Schema(
        Type.BYTES,
        optional=optional,
        name=DECIMAL_NAME,
        version=1,
        parameters={"scale": str(scale)},
    )


@dataclass(slots=True)
class Struct:
    """A value of a struct schema. Reads and writes fields by name: `s["id"] = 1`."""

    schema: Schema
    values: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {self.schema.type.name}")
        for name in self.values:
            self._schema_of(name)

    def _schema_of(self, name: str) -> Schema:
        schema = self.schema.field(name)
        if schema is None:
            raise DataError(f"{name} is not a valid field name")
        return schema

    def __getitem__(self, name: str) -> Any:
        """Returns the field's value; its schema's default if none was set."""
        value = self.values.get(name)
        return self._schema_of(name).default if value is None else value

    def __setitem__(self, name: str, value: Any) -> None:
        self._schema_of(name)
        self.values[name] = value

    def __iter__(self) -> Iterator[str]:
        return (f.name for f in self.schema.fields)

    def __str__(self) -> str:
        """Returns Java's form of a struct; fields without a value are left out."""
        shown = ((f.name, self[f.name]) for f in self.schema.fields)
        return "Struct{" + ",".join(f"{n}={java_text(v)}" for n, v in shown if v is not None) + "}"
