"""Creates the converters of a task's keys, values and headers.

The connector's own `key.converter`, `value.converter` and `header.converter` win, with options from
the connector alone; else the worker's, with the worker's options. Headers have a default:
SimpleHeaderConverter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from connect_runtime.api import ConfigError, Converter, HeaderConverter
from connect_runtime.data.simple_header_converter import SimpleHeaderConverter
from connect_runtime.plugins import registry

_HEADER: Final = "header.converter"


@dataclass(frozen=True, slots=True)
class Converters:
    """A task's converters, configured."""

    key: Converter
    value: Converter
    header: HeaderConverter


def converters_of(connector: Mapping[str, str], worker: Mapping[str, str]) -> Converters:
    """Returns the converters of a connector's tasks. Raises `ConfigError`."""
    return Converters(
        key=_configured("key.converter", connector, worker, is_key=True),
        value=_configured("value.converter", connector, worker, is_key=False),
        header=_header_converter(connector, worker),
    )


def _configured(
    key: str, connector: Mapping[str, str], worker: Mapping[str, str], *, is_key: bool
) -> Converter:
    config = connector if connector.get(key) else worker
    name = config.get(key)
    if not name:
        raise ConfigError.missing(key)
    converter: Converter = registry.plugin("converter", key, name).cls()
    options = _options(config, key) | {"converter.type": "key" if is_key else "value"}
    converter.config().parse(options)
    converter.configure(options, is_key=is_key)
    return converter


def _header_converter(connector: Mapping[str, str], worker: Mapping[str, str]) -> HeaderConverter:
    config = connector if connector.get(_HEADER) else worker
    name = config.get(_HEADER)
    cls = registry.plugin("header_converter", _HEADER, name).cls if name else SimpleHeaderConverter
    converter: HeaderConverter = cls()
    options = _options(config, _HEADER) | {"converter.type": "header"}
    converter.config().parse(options)
    converter.configure(options)
    return converter


def _options(config: Mapping[str, str], key: str) -> dict[str, str]:
    options = {k.removeprefix(f"{key}."): v for k, v in config.items() if k.startswith(f"{key}.")}
    options.pop("plugin.version", None)
    return options
