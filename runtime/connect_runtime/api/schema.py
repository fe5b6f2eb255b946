"""Connect's data model: schemas and structs (the manual's "Working with Schemas").

A record's value may come with a schema or without (None). Converters that write schemas, such as
JsonConverter with `schemas.enable`, need one; the others pass plain values through.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from typing import Any, ClassVar, Final

from connect_runtime.api.errors import DataError
from connect_runtime.java.scalars import java_class, java_text


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
        """Returns True if values of this type may be used in a source partition or offset."""
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
    _by_name: Mapping[str, Schema] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {f.name: f.schema for f in self.fields})

    @classmethod
    def array(cls, items: Schema, **more: Any) -> Schema:
        """Returns the schema of an array of `items`."""
        return cls(Type.ARRAY, items=items, **more)

    @classmethod
    def map(cls, keys: Schema, values: Schema, **more: Any) -> Schema:
        """Returns the schema of a map from `keys` to `values`."""
        return cls(Type.MAP, keys=keys, values=values, **more)

    @classmethod
    def struct(cls, fields: Mapping[str, Schema], **more: Any) -> Schema:
        """Returns the schema of a struct with `fields`, in this order."""
        return cls(Type.STRUCT, fields=tuple(Field(n, s) for n, s in fields.items()), **more)

    def as_optional(self) -> Schema:
        """Returns the same schema, allowing None."""
        return replace(self, optional=True)

    def field(self, name: str) -> Schema | None:
        """Returns the schema of a struct's field."""
        return self._by_name.get(name)

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

    def __eq__(self, value: object) -> bool:
        if self is value:
            return True
        if not isinstance(value, Schema):
            return NotImplemented
        return self._identity() == value._identity() and self.default == value.default

    def __hash__(self) -> int:
        # the default is left out: it may be a list or a map
        return hash(self._identity())

    def __str__(self) -> str:
        """Returns its form in Connect's error texts."""
        return (
            f"Schema{{{self.type.name if self.name is None else f'{self.name}:{self.type.name}'}}}"
        )


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
    """Returns the logical type of `decimal.Decimal` values with `scale` digits after the point."""
    return Schema(
        Type.BYTES,
        optional=optional,
        name=DECIMAL_NAME,
        version=1,
        parameters={"scale": str(scale)},
    )


class Struct:
    """A value of a struct schema. Reads and writes fields by name: `s["id"] = 1`.

    Writing checks the value, and raises `DataError` if it does not fit the field's schema. None is
    a value only of optional fields; a field that was never written has its schema's default.
    """

    __slots__ = ("schema", "values")

    java_class: ClassVar[str] = "org.apache.kafka.connect.data.Struct"

    schema: Schema
    values: dict[str, Any]

    def __init__(self, schema: Schema, values: Mapping[str, Any] | None = None) -> None:
        if schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema = schema
        self.values = {}
        for name, value in (values or {}).items():
            self[name] = value

    @classmethod
    def unchecked(cls, schema: Schema, values: dict[str, Any]) -> Struct:
        """Returns a struct that keeps `values` itself. For code that made them by `schema`, as
        converters do: nothing is checked."""
        struct = cls.__new__(cls)
        struct.schema = schema
        struct.values = values
        return struct

    def _schema_of(self, name: str) -> Schema:
        schema = self.schema.field(name)
        if schema is None:
            raise DataError(f"{name} is not a valid field name")
        return schema

    def __getitem__(self, name: str) -> Any:
        """Returns the field's value; its schema's default if it has none."""
        value = self.values.get(name)
        return self._schema_of(name).default if value is None else value

    def without_default(self, name: str) -> Any:
        """Returns the field's value; None if it has none."""
        self._schema_of(name)
        return self.values.get(name)

    def __setitem__(self, name: str, value: Any) -> None:
        validate_value(self._schema_of(name), value, field=name)
        self.values[name] = value

    def validate(self) -> None:
        """Raises `DataError` if a required field has neither a value nor a default, or a value does
        not fit its field's schema."""
        for member in self.schema.fields:
            schema, value = member.schema, self.values.get(member.name)
            if value is not None or (not schema.optional and schema.default is None):
                validate_value(schema, value, field=member.name)

    def __iter__(self) -> Iterator[str]:
        return (f.name for f in self.schema.fields)

    def __eq__(self, value: object) -> bool:
        if not isinstance(value, Struct):
            return NotImplemented
        return self.schema == value.schema and all(
            self.values.get(name) == value.values.get(name) for name in self
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Struct({self.schema!r}, {self.values!r})"

    def __str__(self) -> str:
        """Returns Java's form of a struct; fields without a value are left out."""
        fields = ((field, self.values.get(field.name)) for field in self.schema.fields)
        texts = (f"{f.name}={java_text(v, f.schema)}" for f, v in fields if v is not None)
        return "Struct{" + ",".join(texts) + "}"


def validate_value(schema: Schema, value: Any, *, field: str | None = None) -> None:
    """Raises `DataError` if `value` is not a value of `schema`, in Connect's words. `field` names
    the field that the value is for."""
    _validate(schema, value, "value" if field is None else f'field: "{field}"')


def _validate(schema: Schema, value: Any, place: str) -> None:
    if value is None:
        if not schema.optional:
            text = f"Invalid value: null used for required {place}, schema type: "
            raise DataError(text + schema.type.name)
        return
    if not _LOGICAL.get(schema.name or "", _FITS[schema.type])(value):
        raise wrong_class(schema, java_class(value, bits=_BITS.get(schema.type, 8)), place)
    match schema.type:
        case Type.STRUCT:
            if value.schema is not schema and value.schema != schema:
                raise DataError("Struct schemas do not match.")
            value.validate()
        case Type.ARRAY:
            place = f"element of array {place}"
            items = _defined(schema.items, place)
            for item in value:
                _validate(items, item, place)
        case Type.MAP:
            keys = _defined(schema.keys, f"key of map {place}")
            values = _defined(schema.values, f"value of map {place}")
            for key, entry in value.items():
                _validate(keys, key, f"key of map {place}")
                _validate(values, entry, f"value of map {place}")
        case _:
            pass


def wrong_class(schema: Schema, actual: str, place: str) -> DataError:
    """Returns the error for a value of the Java class `actual`, which is none of `schema`."""
    name = "" if schema.name is None else f' "{schema.name}"'
    return DataError(
        f"Invalid Java object for schema{name} with type {schema.type.name}: class {actual}"
        f" for {place}"
    )


def class_of(value: Any, schema: Schema | None) -> str:
    """Returns the name of the Java class of a value of `schema`, which can be None."""
    if schema is not None and value is not None and schema.name != DECIMAL_NAME:
        if schema.type is Type.FLOAT32:
            return "java.lang.Float"
        return java_class(value, bits=_BITS.get(schema.type, 64))
    return java_class(value)


def _defined(schema: Schema | None, place: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {place}")
    return schema


_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


def _integer(bits: int) -> Callable[[Any], bool]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return lambda value: type(value) is int and low <= value <= high


def _is_float32(value: Any) -> bool:
    if type(value) is not float:
        return False
    try:
        struct.pack(">f", value)
    except OverflowError:
        return False
    return True


def _is(*types: type[Any]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


_FITS: Final[Mapping[Type, Callable[[Any], bool]]] = {
    Type.BOOLEAN: _is(bool),
    **{type: _integer(bits) for type, bits in _BITS.items()},
    Type.FLOAT32: _is_float32,
    Type.FLOAT64: _is(float),
    Type.BYTES: _is(bytes, bytearray, memoryview),
    Type.STRING: _is(str),
    Type.ARRAY: _is(list, tuple),
    Type.MAP: _is(Mapping),
    Type.STRUCT: _is(Struct),
}
_LOGICAL: Final[Mapping[str, Callable[[Any], bool]]] = {
    DECIMAL_NAME: _is(Decimal),
    DATE_NAME: lambda value: isinstance(value, dt.date) and not isinstance(value, dt.datetime),
    TIME_NAME: _is(dt.time),
    TIMESTAMP_NAME: _is(dt.datetime),
}


# building schemas


class SchemaBuilderError(DataError):
    """A schema cannot be built like this."""

    java_class = "org.apache.kafka.connect.errors.SchemaBuilderException"


class SchemaBuilder:
    """Builds a schema with the rules of Connect's class of this name; `build` returns it.

        SchemaBuilder(Type.STRUCT).name("Order").field("id", INT64).optional().build()

    Each attribute can be set once. All but `build` return the builder, and raise
    `SchemaBuilderError`.
    """

    def __init__(
        self,
        type: Type,
        *,
        items: Schema | None = None,
        keys: Schema | None = None,
        values: Schema | None = None,
    ) -> None:
        self._type = type
        self._attributes: dict[str, Any] = {"items": items, "keys": keys, "values": values}
        self._fields: dict[str, Field] = {}

    @classmethod
    def array(cls, items: Schema) -> SchemaBuilder:
        """Starts an array of `items`."""
        return cls(Type.ARRAY, items=items)

    @classmethod
    def map(cls, keys: Schema, values: Schema) -> SchemaBuilder:
        """Starts a map from `keys` to `values`."""
        return cls(Type.MAP, keys=keys, values=values)

    def optional(self) -> SchemaBuilder:
        """Allows None."""
        return self._set("optional", True)

    def required(self) -> SchemaBuilder:
        """Refuses None, as schemas do by default."""
        return self._set("optional", False)

    def name(self, name: str | None) -> SchemaBuilder:
        """Names the logical type or record type."""
        return self._set("name", name)

    def version(self, version: int | None) -> SchemaBuilder:
        """Sets the version of the named type."""
        return self._set("version", version)

    def doc(self, doc: str | None) -> SchemaBuilder:
        """Sets the description for people."""
        return self._set("doc", doc)

    def default(self, value: Any) -> SchemaBuilder:
        """Sets the value that replaces None; it must fit the schema as built so far."""
        default = self._attributes.get("default")
        if default is not None and default is not value:
            raise _already_set("default")
        try:
            validate_value(self.build(), value)
        except DataError as error:
            raise SchemaBuilderError("Invalid default value") from error
        self._attributes["default"] = value
        return self

    def parameter(self, name: str, value: str) -> SchemaBuilder:
        """Adds a parameter of the logical type."""
        return self.parameters({name: value})

    def parameters(self, parameters: Mapping[str, str]) -> SchemaBuilder:
        """Adds parameters of the logical type."""
        if parameters:
            current = self._attributes.get("parameters") or {}
            self._attributes["parameters"] = {**current, **parameters}
        return self

    def field(self, name: str, schema: Schema) -> SchemaBuilder:
        """Adds a field to a struct. Names are unique and not empty."""
        if self._type is not Type.STRUCT:
            raise SchemaBuilderError(f"Cannot create fields on type {self._type.name}")
        if not name:
            raise SchemaBuilderError("fieldName cannot be null.")
        if name in self._fields:
            text = "Cannot create field because of field name duplication "
            raise SchemaBuilderError(text + name)
        self._fields[name] = Field(name, schema)
        return self

    def build(self) -> Schema:
        """Returns the schema."""
        present = {name: value for name, value in self._attributes.items() if value is not None}
        return Schema(self._type, fields=tuple(self._fields.values()), **present)

    def _set(self, attribute: str, value: Any) -> SchemaBuilder:
        current = self._attributes.get(attribute)
        if current is not None and current != value:
            raise _already_set(attribute)
        self._attributes[attribute] = value
        return self


def _already_set(attribute: str) -> SchemaBuilderError:
    return SchemaBuilderError(f"Invalid SchemaBuilder call: {attribute} has already been set.")


def copy_basics(schema: Schema, type: Type | None = None) -> SchemaBuilder:
    """Starts a schema with name, version, doc and parameters of another, and its element type if it
    is an array. Fields, default and whether it is optional are not copied."""
    items = schema.items if type is None else None
    builder = SchemaBuilder(type or schema.type, items=items)
    builder.name(schema.name).version(schema.version).doc(schema.doc)
    return builder.parameters(schema.parameters or {})
