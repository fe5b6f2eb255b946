"""ReplaceField drops, keeps or renames fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connect_runtime.api import (
    ConfigError,
    DataError,
    Described,
    Schema,
    Struct,
    Type,
    ValidList,
)
from connect_runtime.api.schema import copy_basics
from connect_runtime.data.field_columns import StructColumn
from connect_runtime.java.text import java_split
from connect_runtime.transforms.columns import Columns, options
from connect_runtime.transforms.fields import (
    REPLACE_NULL,
    REPLACE_NULL_OPTION,
    CopiedField,
    SchemaCache,
    copy_values,
)
from connect_runtime.transforms.key_or_value import (
    Half,
    OneHalf,
    key_and_value,
    require_map,
    require_struct,
)

_MOST_SHAPES: Final = 256
_PURPOSE: Final = "field replacement"


def parse_renames(mappings: list[str]) -> dict[str, str]:
    """Returns the names of renamed fields by their original ones. Raises `ConfigError`."""
    renames = {}
    for mapping in mappings:
        names = java_split(mapping, ":")
        if len(names) != 2:
            raise ConfigError.invalid("renames", mappings, f"Invalid rename mapping: {mapping}")
        renames[names[0]] = names[1]
    return renames


def _check_renames(name: str, value: list[str] | None) -> None:
    parse_renames(value or [])


class ReplaceField(OneHalf):
    """Drops and renames fields."""

    OPTIONS = options(
        "ReplaceField",
        {
            "exclude": ValidList(),
            "include": ValidList(),
            "renames": Described(
                _check_renames, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"
            ),
        },
    ).embed(REPLACE_NULL_OPTION)

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Sets the fields to drop, to keep and to rename."""
        self._exclude = frozenset(options["exclude"])
        self._include = frozenset(options["include"])
        self._renames = parse_renames(options["renames"])
        # of several fields that get one name, the last one counts
        self._sources = {target: source for source, target in self._renames.items()}
        self._with_default: bool = options[REPLACE_NULL]
        self._schemas = SchemaCache(self._target_schema)
        # by the names of a map's fields: names after and before of those that are kept
        self._shapes: dict[tuple[str, ...], tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Drops and renames the fields; null stays null."""
        if value is None:
            return schema, None
        if schema is None:
            return None, self._replaced(require_map(value, _PURPOSE))
        struct = require_struct(value, _PURPOSE, schema)
        target, copied = self._schemas(struct.schema)
        values = copy_values(copied, struct, with_default=self._with_default)
        return target, Struct.unchecked(target, values)

    def apply_columns(self, columns: Columns) -> None:
        """Drops and renames the fields."""
        fields = columns.fields(self.half_name)
        if fields is not None:
            renamed = {
                self._renames.get(name, name): column
                for name, column in fields.items()
                if self._keeps(name)
            }
            columns.set_fields(self.half_name, renamed)
            return
        maps = columns.given_maps(self.half_name)
        if maps is not None:
            replaced = [None if fields is None else self._replaced(fields) for fields in maps]
            columns.set_maps(self.half_name, replaced)
        elif not self._replaced_in_structs(columns):
            super().apply_columns(columns)

    def _replaced_in_structs(self, columns: Columns) -> bool:
        """Drops and renames the fields if all are structs of one schema, and no field gets values
        of another schema."""
        structs = columns.structs(self.half_name, with_default=self._with_default)
        if structs is None:
            return False
        target, copied = self._schemas(structs.schema)
        if not copied or any(field.target_schema is not field.schema for field in copied):
            return False
        fields = {field.target: structs.fields[field.source] for field in copied}
        columns.set_structs(self.half_name, StructColumn(target, fields))
        return True

    def _replaced(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        targets, sources = self._shape(tuple(fields))
        return {target: fields[source] for target, source in zip(targets, sources, strict=True)}

    def _shape(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        shape = self._shapes.get(names)
        if shape is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            sources = tuple(filter(self._keeps, names))
            targets = tuple(self._renames.get(name, name) for name in sources)
            shape = self._shapes[names] = targets, sources
        return shape

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _target_schema(self, schema: Schema) -> tuple[Schema, tuple[CopiedField, ...]]:
        builder = copy_basics(schema, Type.STRUCT)
        for field in schema.fields:
            if self._keeps(field.name):
                builder.field(self._renames.get(field.name, field.name), field.schema)
        target = builder.build()
        copied = []
        for field in target.fields:
            # As in Connect, by the target's name alone: with `renames=a:b`, a field b of the source
            # that is kept while a is dropped gets the value of a.
            source = self._sources.get(field.name, field.name)
            source_schema = schema.field(source)
            if source_schema is None:
                raise DataError(f"{source} is not a valid field name")
            copied.append(CopiedField(source, field.name, source_schema, field.schema))
        return target, tuple(copied)


ReplaceFieldKey, ReplaceFieldValue = key_and_value(ReplaceField)
