"""Drops, keeps or renames fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connect_runtime.api import (
    ConfigDef,
    ConfigError,
    ConfigType,
    DataError,
    Described,
    Importance,
    Schema,
    Struct,
    Type,
    ValidList,
)
from connect_runtime.api.field_columns import StructColumn
from connect_runtime.api.schema_builder import copy_basics
from connect_runtime.transforms.columns import Columns
from connect_runtime.transforms.copying import (
    REPLACE_NULL,
    CopiedField,
    copy_values,
    define_replace_null,
)
from connect_runtime.transforms.java_strings import split
from connect_runtime.transforms.key_or_value import (
    Half,
    OfKey,
    OfValue,
    OneHalf,
    require_map,
    require_struct,
)
from connect_runtime.transforms.schema_cache import SchemaCache

_MOST_SHAPES: Final = 256
_PURPOSE: Final = "field replacement"


def parse_renames(mappings: list[str]) -> dict[str, str]:
    """Returns new names by old ones. Raises `ConfigError`."""
    found = {}
    for mapping in mappings:
        parts = split(mapping, ":")
        if len(parts) != 2:
            raise ConfigError.invalid("renames", mappings, f"Invalid rename mapping: {mapping}")
        found[parts[0]] = parts[1]
    return found


def _check_renames(name: str, value: list[str] | None) -> None:
    parse_renames(value or [])


_CONFIG: Final = define_replace_null(
    ConfigDef()
    .define(
        "exclude",
        ConfigType.LIST,
        "",
        validator=ValidList(),
        importance=Importance.MEDIUM,
        doc="Fields to exclude. This takes precedence over the fields to include.",
    )
    .define(
        "include",
        ConfigType.LIST,
        "",
        validator=ValidList(),
        importance=Importance.MEDIUM,
        doc="Fields to include. If specified, only these fields will be used.",
    )
    .define(
        "renames",
        ConfigType.LIST,
        "",
        validator=Described(
            _check_renames, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"
        ),
        importance=Importance.MEDIUM,
        doc="Field rename mappings.",
    )
)


class ReplaceField(OneHalf):
    """Drops and renames fields."""

    def config(self) -> ConfigDef:
        """The options."""
        return _CONFIG

    def configure(self, options: Mapping[str, str]) -> None:
        """Reads the options."""
        parsed = _CONFIG.parse(options)
        self._exclude = frozenset(parsed["exclude"])
        self._include = frozenset(parsed["include"])
        self._renames = parse_renames(parsed["renames"])
        # of several fields with the same new name, the last one counts
        self._sources = {new: old for old, new in self._renames.items()}
        self._with_default: bool = parsed[REPLACE_NULL]
        self._schemas = SchemaCache(self._made)
        # by the names of a map's fields: the new names and the old ones of those that are kept
        self._shapes: dict[tuple[str, ...], tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def change(self, schema: Schema | None, value: Any) -> Half:
        """Drops and renames the fields; null stays null."""
        if value is None:
            return schema, None
        if schema is None:
            given = require_map(value, _PURPOSE)
            return None, self._replaced(given)
        struct = require_struct(value, _PURPOSE, schema)
        made, copied = self._schemas(struct.schema)
        values = copy_values(copied, struct, with_default=self._with_default)
        return made, Struct.unchecked(made, values)

    def apply_columns(self, columns: Columns) -> None:
        """Drops and renames the fields."""
        fields = columns.fields(self.part)
        if fields is not None:
            kept = {name: column for name, column in fields.items() if self._keeps(name)}
            renamed = {self._renames.get(name, name): column for name, column in kept.items()}
            columns.set_fields(self.part, renamed)
            return
        given = columns.given_maps(self.part)
        if given is not None:
            replaced = [None if each is None else self._replaced(each) for each in given]
            columns.set_maps(self.part, replaced)
        elif not self._replaced_in_structs(columns):
            super().apply_columns(columns)

    def _replaced_in_structs(self, columns: Columns) -> bool:
        """Drops and renames the fields if all are structs of one schema, and no field gets values
        of another schema."""
        structs = columns.structs(self.part, with_default=self._with_default)
        if structs is None:
            return False
        made, copied = self._schemas(structs.schema)
        if not copied or any(each.new_schema is not each.schema for each in copied):
            return False
        fields = {each.target: structs.fields[each.source] for each in copied}
        columns.set_structs(self.part, StructColumn(made, fields))
        return True

    def _replaced(self, given: Mapping[str, Any]) -> dict[str, Any]:
        names, kept = self._shape(tuple(given))
        return {name: given[old] for name, old in zip(names, kept, strict=True)}

    def _shape(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        found = self._shapes.get(names)
        if found is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            kept = tuple(filter(self._keeps, names))
            found = self._shapes[names] = tuple(self._renames.get(n, n) for n in kept), kept
        return found

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _made(self, schema: Schema) -> tuple[Schema, tuple[CopiedField, ...]]:
        builder = copy_basics(schema, Type.STRUCT)
        for field in schema.fields:
            if self._keeps(field.name):
                builder.field(self._renames.get(field.name, field.name), field.schema)
        made = builder.build()
        copied = []
        for field in made.fields:
            # As in Connect, by the new name alone: with `renames=a:b`, a field that was named b
            # before and is kept while a is dropped gets the value of a.
            source = self._sources.get(field.name, field.name)
            found = schema.field(source)
            if found is None:
                raise DataError(f"{source} is not a valid field name")
            copied.append(CopiedField(source, field.name, found, field.schema))
        return made, tuple(copied)


class ReplaceFieldKey(OfKey, ReplaceField):
    """ReplaceField of keys."""


class ReplaceFieldValue(OfValue, ReplaceField):
    """ReplaceField of values."""
