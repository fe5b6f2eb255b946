"""The converters of a task's keys, values and headers, and the base of Connect's own ones, which
convert keys, values and headers alike, and depend on neither topic nor headers.

The connector's own `key.converter`, `value.converter` and `header.converter` win, with options from
the connector alone; else the worker's, with the worker's options. Headers have a default:
SimpleHeaderConverter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from connect_runtime import KAFKA_VERSION
from connect_runtime.api import (
    Column,
    ConfigDef,
    ConfigError,
    Converter,
    DataError,
    HeaderConverter,
    OneOf,
    Read,
    Schema,
    Validator,
    Write,
)
from connect_runtime.data.simple_header_converter import SimpleHeaderConverter
from connect_runtime.option_tables import option_table
from connect_runtime.plugins import registry
from connect_runtime.plugins.registry import PluginKind

_TABLE: Final = Path(__file__).with_name("options.txt")


def converter_options(
    section: str = "", validators: Mapping[str, Validator] | None = None
) -> ConfigDef:
    """Returns `converter.type`, then the options in a section of options.txt, if there is one."""
    types = {"converter.type": OneOf.strings("key", "value", "header")}
    options = option_table(_TABLE, "converter", types)
    return options.embed(option_table(_TABLE, section, validators)) if section else options


class AnyPartConverter(Converter, HeaderConverter):
    """A converter whose headers are written and read as its values are. `configure` gets no
    `is_key` for headers.
    """

    OPTIONS: ClassVar[ConfigDef] = converter_options()

    def config(self) -> ConfigDef:
        return self.OPTIONS

    def configure(self, options: Mapping[str, str], *, is_key: bool = False) -> None:
        """Does nothing: without options there is nothing to set."""

    def version(self) -> str:
        return KAFKA_VERSION

    @property
    def ignores_context(self) -> bool:
        return True

    def from_connect(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self._write(topic, None, schema, [value])[0]

    def to_connect(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        column = self._read(topic, None, [data])
        return column.each_schema()[0], column.values[0]

    @cached_property
    def _write(self) -> Write:
        return self.writer()

    @cached_property
    def _read(self) -> Read:
        return self.reader()


T = TypeVar("T")


class UnreadableRows(DataError):
    """Raised if some of several records cannot be read. `errors` has their errors by row, in order;
    `readable` has the other records.

    An error refers to the frame that caught it, and so to its variables. Raise this with the dict
    of errors deleted, or the records stay in memory until the garbage collector comes.
    """

    def __init__(self, errors: dict[int, DataError], readable: Column) -> None:
        super().__init__(f"{len(errors)} records cannot be read")
        self.errors = errors
        self.readable = readable


def read_each(
    column: Sequence[bytes | None],
    decode: Callable[[bytes], T],
    column_of: Callable[[list[T | None]], Column],
) -> Column:
    """Reads records one by one; null stays null. Raises the error of `decode` for a single record,
    UnreadableRows for several."""
    if len(column) == 1:
        return column_of([None if data is None else decode(data) for data in column])
    values: list[T | None] = []
    failing: dict[int, DataError] = {}
    for row, data in enumerate(column):
        try:
            values.append(None if data is None else decode(data))
        except DataError as error:
            failing[row] = error
    result = column_of(values)
    if failing:
        try:
            raise UnreadableRows(failing, result)
        finally:
            del failing
    return result


@dataclass(frozen=True, slots=True)
class Converters:
    """A task's converters, configured."""

    key: Converter
    value: Converter
    header: HeaderConverter


def converters_of(connector: Mapping[str, str], worker: Mapping[str, str]) -> Converters:
    """Returns the converters of a connector's tasks. Raises `ConfigError`."""
    return Converters(
        key=_configured("converter", "key.converter", connector, worker, is_key=True),
        value=_configured("converter", "value.converter", connector, worker, is_key=False),
        header=_configured("header_converter", "header.converter", connector, worker),
    )


def _configured(
    kind: PluginKind,
    key: str,
    connector: Mapping[str, str],
    worker: Mapping[str, str],
    **is_key: bool,
) -> Any:
    config = connector if connector.get(key) else worker
    name = config.get(key)
    if name:
        converter = registry.plugin(kind, key, name).cls()
    elif kind == "header_converter":
        converter = SimpleHeaderConverter()
    else:
        raise ConfigError.missing(key)
    options = _options(config, key) | {"converter.type": key.partition(".")[0]}
    converter.config().parse(options)
    converter.configure(options, **is_key)
    return converter


def _options(config: Mapping[str, str], key: str) -> dict[str, str]:
    options = {k.removeprefix(f"{key}."): v for k, v in config.items() if k.startswith(f"{key}.")}
    options.pop("plugin.version", None)
    return options
