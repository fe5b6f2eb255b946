"""Converts values of one schema to another, compatible one (Connect's `SchemaProjector`)."""

from __future__ import annotations

from typing import Any, Final

from connect_runtime.api.errors import DataError
from connect_runtime.api.schema import Schema, Struct, Type
from connect_runtime.java.scalars import java_text, to_double, to_float, to_integer

_WIDENING: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


class SchemaProjectorError(DataError):
    """Values of one schema cannot be read as values of another."""

    java_class = "org.apache.kafka.connect.errors.SchemaProjectorException"


def project_value(source: Schema, value: Any, target: Schema) -> Any:
    """Returns a value of `source` as a value of `target`.

    Names and parameters have to be the same; numbers may get wider. Fields of structs that `target`
    lacks are dropped, and those that `source` lacks get their defaults. Raises
    `SchemaProjectorError`.
    """
    _check_compatible(source, target)
    if source.optional and not target.optional:
        if target.default is None:
            raise SchemaProjectorError(
                "Writer schema is optional, however, target schema does not provide a default"
                " value."
            )
        return target.default if value is None else _project(source, value, target)
    return None if value is None else _project(source, value, target)


def _check_compatible(source: Schema, target: Schema) -> None:
    if source.type is not target.type and not _promotable(source.type, target.type):
        raise SchemaProjectorError(
            f"Schema type mismatch. source type: {source.type.name}"
            f" and target type: {target.type.name}"
        )
    if source.name != target.name:
        raise SchemaProjectorError(
            f"Schema name mismatch. source name: {java_text(source.name)}"
            f" and target name: {java_text(target.name)}"
        )
    if source.parameters != target.parameters:
        raise SchemaProjectorError(
            f"Schema parameters not equal. source parameters: {java_text(source.parameters)}"
            f" and target parameters: {java_text(target.parameters)}"
        )


def _promotable(source: Type, target: Type) -> bool:
    are_numbers = source in _WIDENING and target in _WIDENING
    return are_numbers and _WIDENING.index(source) <= _WIDENING.index(target)


def _project(source: Schema, value: Any, target: Schema) -> Any:
    match target.type:
        case Type.STRUCT:
            return _struct(source, value, target)
        case Type.ARRAY:
            items, target_items = _element(source.items), _element(target.items)
            return [project_value(items, item, target_items) for item in value]
        case Type.MAP:
            return {
                project_value(_element(source.keys), key, _element(target.keys)): project_value(
                    _element(source.values), entry, _element(target.values)
                )
                for key, entry in value.items()
            }
        case type:
            return _number(value, type) if _is_number(value, source.type, type) else value


def _element(schema: Schema | None) -> Schema:
    if schema is None:
        raise SchemaProjectorError("Array and map schemas need the schemas of their elements")
    return schema


def _is_number(value: Any, source: Type, target: Type) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and _promotable(source, target)


def _number(value: int | float, type: Type) -> int | float:
    if type is Type.FLOAT32:
        return to_float(value)
    return to_double(value) if type is Type.FLOAT64 else to_integer(value, _BITS[type])


def _struct(source: Schema, value: Struct, target: Schema) -> Struct:
    struct = Struct(target)
    for field in target.fields:
        own = source.field(field.name)
        if own is not None:
            try:
                struct[field.name] = project_value(own, value[field.name], field.schema)
            except SchemaProjectorError as error:
                raise SchemaProjectorError(f"Error projecting {field.name}") from error
        elif field.schema.optional:
            continue
        elif field.schema.default is not None:
            struct[field.name] = field.schema.default
        else:
            raise SchemaProjectorError(
                f"Required field `{field.name}` is missing from source schema: {source}"
            )
    return struct
