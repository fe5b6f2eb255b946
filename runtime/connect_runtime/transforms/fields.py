"""Fields of structs and maps: paths to them, copies of them, and schemas that are made of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from connect_runtime.api import ConfigError, DataError, Field, OneOf, Schema, Struct, Type
from connect_runtime.api.schema import class_of, validate_value, wrong_class
from connect_runtime.transforms.transformation import options

T = TypeVar("T")

FIELD_SYNTAX: Final = "field.syntax.version"
FIELD_SYNTAX_OPTION: Final = options(FIELD_SYNTAX, {FIELD_SYNTAX: OneOf.any_case("V1", "V2")})
REPLACE_NULL: Final = "replace.null.with.default"
REPLACE_NULL_OPTION: Final = options(REPLACE_NULL)
# Connect's `LRUCache<>(16)`
_CACHE_SIZE: Final = 16


class SchemaCache(Generic[T]):
    """The results of `make` for the last 16 different schemas, mostly other schemas.

    Equal schemas give the same instance, because converters recognize schemas by identity. A schema
    is looked up by identity first; comparing schemas takes much longer.
    """

    def __init__(self, make: Callable[[Schema], T]) -> None:
        self._make = make
        # the schema is kept, so that no other gets its id
        self._by_id: OrderedDict[int, tuple[Schema, T]] = OrderedDict()
        self._by_value: OrderedDict[Schema, T] = OrderedDict()

    def __call__(self, schema: Schema) -> T:
        """Returns the result for `schema`. Raises the errors of `make`, each time."""
        cached = self._by_id.get(id(schema))
        return self._look_up(schema) if cached is None else cached[1]

    def _look_up(self, schema: Schema) -> T:
        result = self._by_value.pop(schema, None)
        if result is None:
            result = self._make(schema)
        self._by_value[schema] = result
        self._by_id[id(schema)] = (schema, result)
        for entries in (self._by_value, self._by_id):
            if len(entries) > _CACHE_SIZE:
                entries.popitem(last=False)
        return result


# paths to fields within fields (KIP-821): `a.b`, and with dots in names, `` `a.b`.c ``


def field_path(text: str, version: str) -> tuple[str, ...]:
    """Returns the names from the outermost field inwards. Raises `ConfigError`."""
    return (text,) if version.upper() == "V1" else _steps(text)


def _steps(path: str) -> tuple[str, ...]:
    steps: list[str] = []
    at = 0
    while 0 <= at < len(path):
        if path[at] == "`":
            step, at = _quoted(path, at)
        else:
            dot = path.find(".", at)
            step, at = (path[at:], -1) if dot < 0 else (path[at:dot], dot + 1)
        steps.append(step)
    if path.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted(path: str, start: int) -> tuple[str, int]:
    """Returns the step that begins with a backtick, and the start of the next one.

    A backtick ends the step only before a dot or at the end, and not after a backslash. That
    backslash is dropped before a dot; everything else is kept."""
    step, begin, at = "", start + 1, start + 1
    while True:
        at = path.find("`", at)
        if at < 0:
            raise _incomplete(path, start)
        escaped = path[at - 1] == "\\"
        if at == len(path) - 1:
            if escaped:
                raise _incomplete(path, start)
            return step + path[begin:at], at + 1
        if path[at + 1] == ".":
            if not escaped:
                return step + path[begin:at], at + 2
            step += path[begin : at - 1] + "`"
            begin = at + 1
        at += 1


def _incomplete(path: str, start: int) -> ConfigError:
    return ConfigError(
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick"
        f" at position {start} to escape it"
    )


# copies, with Connect's rules for nulls and defaults


def struct_fields(schema: Schema) -> tuple[Field, ...]:
    """Returns the fields of a struct. Raises `DataError` for any other schema."""
    if schema.type is not Type.STRUCT:
        raise DataError("Cannot list fields on non-struct type")
    return schema.fields


@dataclass(frozen=True, slots=True)
class CopiedField:
    """A field to copy: its name and schema in the source struct, and those in the target."""

    source: str
    target: str
    schema: Schema
    target_schema: Schema

    def read(self, values: dict[str, Any], *, with_default: bool) -> Any:
        """Returns the value to write. Raises `DataError` if it does not fit the target's schema.
        Under the same schema only null may not fit: others were checked when they were written."""
        value = values.get(self.source)
        if value is None and with_default:
            value = self.schema.default
        if value is None:
            if not self.target_schema.optional:
                validate_value(self.target_schema, value, field=self.target)
        elif self.target_schema.type is not self.schema.type:
            actual = class_of(value, self.schema)
            raise wrong_class(self.target_schema, actual, f'field: "{self.target}"')
        elif self.target_schema is not self.schema:
            validate_value(self.target_schema, value, field=self.target)
        return value


def copied_fields(schema: Schema) -> tuple[CopiedField, ...]:
    """Returns all fields of a struct, to copy under their names."""
    return tuple(CopiedField(f.name, f.name, f.schema, f.schema) for f in schema.fields)


def copy_values(
    fields: tuple[CopiedField, ...], struct: Struct, *, with_default: bool
) -> dict[str, Any]:
    """Returns values of the `fields` of a struct. Raises `DataError`."""
    values = struct.values
    return {f.target: f.read(values, with_default=with_default) for f in fields}


def convert_fields(
    struct: Struct,
    target: Schema,
    converters: Mapping[str, Callable[[Any, Schema], Any]],
    *,
    with_default: bool,
) -> Struct:
    """Returns a struct of `target` with the fields of another; `converters` by name get a field's
    value and schema. Raises `DataError` for null in a required field, and what they raise."""
    values = {}
    for field in struct.schema.fields:
        name, schema = field.name, field.schema
        value = struct.values.get(name)
        if value is None and with_default:
            value = schema.default
        convert = converters.get(name)
        if convert is not None:
            value = convert(value, schema)
        if value is None:
            validate_value(target.field(name) or schema, None, field=name)
        values[name] = value
    return Struct.unchecked(target, values)
