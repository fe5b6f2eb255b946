"""Builds schemas step by step, with the rules of Connect's `SchemaBuilder`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import Field, Schema, Type, validate_value


class SchemaBuilderError(DataError):
    """A schema cannot be built like this."""

    java_class = "org.apache.kafka.connect.errors.SchemaBuilderException"


class SchemaBuilder:
    """Collects the parts of a schema; `build` returns it.

        SchemaBuilder(Type.STRUCT).name("Order").field("id", INT64).optional().build()

    Each part can be set once. All but `build` return the builder, and raise `SchemaBuilderError`.
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
        self._parts: dict[str, Any] = {"items": items, "keys": keys, "values": values}
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
        """Refuses None, which is how schemas are unless something else is said."""
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
        """Sets what replaces None. It has to be a value of the schema as built so far."""
        before = self._parts.get("default")
        if before is not None and before is not value:
            raise _already_set("default")
        try:
            validate_value(self.build(), value)
        except DataError as error:
            raise SchemaBuilderError("Invalid default value") from error
        self._parts["default"] = value
        return self

    def parameter(self, name: str, value: str) -> SchemaBuilder:
        """Adds a parameter of the logical type."""
        return self.parameters({name: value})

    def parameters(self, given: Mapping[str, str]) -> SchemaBuilder:
        """Adds parameters of the logical type."""
        if given:
            self._parts["parameters"] = {**(self._parts.get("parameters") or {}), **given}
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
        parts = {name: value for name, value in self._parts.items() if value is not None}
        return Schema(self._type, fields=tuple(self._fields.values()), **parts)

    def _set(self, part: str, value: Any) -> SchemaBuilder:
        before = self._parts.get(part)
        if before is not None and before != value:
            raise _already_set(part)
        self._parts[part] = value
        return self


def _already_set(part: str) -> SchemaBuilderError:
    return SchemaBuilderError(f"Invalid SchemaBuilder call: {part} has already been set.")


def copy_basics(schema: Schema, type: Type | None = None) -> SchemaBuilder:
    """Starts a schema with name, version, doc and parameters of another, and its element type if it
    is an array. Fields, default and whether it is optional are not copied."""
    items = schema.items if type is None else None
    builder = SchemaBuilder(type or schema.type, items=items)
    builder.name(schema.name).version(schema.version).doc(schema.doc)
    return builder.parameters(schema.parameters or {})
