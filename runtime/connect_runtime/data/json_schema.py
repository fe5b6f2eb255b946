"""Encodes schemas in JSON, the `schema` half of an envelope, and reads them.

Field order is that of Jackson in Connect, because some consumers compare the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connect_runtime.api import DataError, Schema, Type
from connect_runtime.api.schema_builder import SchemaBuilder, SchemaBuilderError
from connect_runtime.data.json_text import Options, encoder, json_string
from connect_runtime.data.json_values import decoder

_TYPES: Final = {t.value: t for t in Type}
# Of elements, which may have no schema
_PARTS: Final = {Type.ARRAY: ("items",), Type.MAP: ("keys", "values")}
_INT32: Final = range(-(1 << 31), 1 << 31)


def schema_json(schema: Schema, options: Options) -> str:
    """Returns a schema as Connect writes it."""
    return "{" + ",".join(_members(schema, options)) + "}"


def _members(schema: Schema, options: Options) -> list[str]:
    members = [f'"type":"{schema.type.value}"']
    for name in _PARTS.get(schema.type, ()):
        part = getattr(schema, name)
        members.append(f'"{name}":{"null" if part is None else schema_json(part, options)}')
    if schema.type is Type.STRUCT:
        fields = (
            "{" + ",".join([*_members(f.schema, options), f'"field":{json_string(f.name)}']) + "}"
            for f in schema.fields
        )
        members.append(f'"fields":[{",".join(fields)}]')
    members.append(f'"optional":{"true" if schema.optional else "false"}')
    if schema.name is not None:
        members.append(f'"name":{json_string(schema.name)}')
    if schema.version is not None:
        members.append(f'"version":{schema.version}')
    if schema.doc is not None:
        members.append(f'"doc":{json_string(schema.doc)}')
    if schema.parameters is not None:
        members.append(f'"parameters":{json_string(dict(schema.parameters))}')
    if schema.default is not None:
        members.append(f'"default":{encoder(schema, options)(schema.default)}')
    return members


def schema_of(found: Any, options: Options) -> Schema | None:
    """Returns the schema that the parsed JSON describes; None for null. Raises `DataError`.

    Name, version, doc and parameters of other types are ignored, as in Connect.
    """
    if found is None:
        return None
    name = found.get("type") if isinstance(found, dict) else None
    if not isinstance(name, str):
        raise DataError("Schema must contain 'type' field")
    if name not in _TYPES:
        raise DataError(f"Unknown schema type: {name}")
    builder = _builder(_TYPES[name], found, options)
    if found.get("optional") is True:
        builder.optional()
    builder.name(_text_in(found, "name")).doc(_text_in(found, "doc"))
    version = found.get("version")
    if isinstance(version, int) and not isinstance(version, bool) and version in _INT32:
        builder.version(version)
    parameters = found.get("parameters")
    if isinstance(parameters, dict):
        if not all(isinstance(value, str) for value in parameters.values()):
            raise DataError("Schema parameters must have string values.")
        builder.parameters(parameters)
    if "default" in found:
        # it can be read only once the rest of the schema is known
        builder.default(decoder(builder.build(), options)(found["default"]))
    return builder.build()


def _builder(type_: Type, found: Mapping[str, Any], options: Options) -> SchemaBuilder:
    match type_:
        case Type.ARRAY:
            items = schema_of(found.get("items"), options)
            if items is None:
                raise DataError("Array schema did not specify the element type")
            return SchemaBuilder.array(items)
        case Type.MAP:
            for name, half in (("keys", "key"), ("values", "value")):
                if name not in found:
                    raise DataError(f"Map schema did not specify the {half} type")
            return SchemaBuilder.map(
                _half_of_map(found["keys"], "key", options),
                _half_of_map(found["values"], "value", options),
            )
        case Type.STRUCT:
            return _struct(found, options)
        case _:
            return SchemaBuilder(type_)


def _half_of_map(found: Any, half: str, options: Options) -> Schema:
    schema = schema_of(found, options)
    if schema is None:
        raise SchemaBuilderError(f"{half}Schema cannot be null.")
    return schema


def _struct(found: Mapping[str, Any], options: Options) -> SchemaBuilder:
    listed = found.get("fields")
    if not isinstance(listed, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    builder = SchemaBuilder(Type.STRUCT)
    for each in listed:
        name = _text_in(each, "field") if isinstance(each, dict) else None
        if name is None:
            raise DataError("Struct schema's field name not specified properly")
        schema = schema_of(each, options)
        assert schema is not None
        builder.field(name, schema)
    return builder


def _text_in(found: Mapping[str, Any], name: str) -> str | None:
    value = found.get(name)
    return value if isinstance(value, str) else None
