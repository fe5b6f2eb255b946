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
)
from connect_runtime.api.schema_builder import copy_basics
from connect_runtime.api.transforms import ConnectRecord
from connect_runtime.transforms.copying import (
    REPLACE_NULL,
    CopiedField,
    copy_values,
    define_replace_null,
)
from connect_runtime.transforms.java_strings import split
from connect_runtime.transforms.key_or_value import (
    Half,
    KeyOrValue,
    OfKey,
    OfValue,
    require_map,
    require_struct,
)
from connect_runtime.transforms.schema_cache import SchemaCache

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
        importance=Importance.MEDIUM,
        doc="Fields to exclude. This takes precedence over the fields to include.",
    )
    .define(
        "include",
        ConfigType.LIST,
        "",
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


class ReplaceField(KeyOrValue):
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

    def change(self, schema: Schema | None, value: Any, record: ConnectRecord) -> Half:
        """Drops and renames the fields; null stays null."""
        if value is None:
            return schema, None
        if schema is None:
            given = require_map(value, _PURPOSE)
            renames = self._renames
            return None, {renames.get(k, k): v for k, v in given.items() if self._keeps(k)}
        struct = require_struct(value, _PURPOSE, schema)
        made, copied = self._schemas(struct.schema)
        values = copy_values(copied, struct, with_default=self._with_default)
        return made, Struct.unchecked(made, values)

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
