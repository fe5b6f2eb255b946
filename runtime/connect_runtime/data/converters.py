"""Creates the converters of a task's keys and values.

The connector's own `key.converter` and `value.converter` win, with options from the connector
alone; else the worker's, with the worker's options. Headers pass through unchanged, bytes or text:
SimpleHeaderConverter's type inference is not implemented.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime import plugins
from connect_runtime.api import ConfigError, Converter


@dataclass(frozen=True, slots=True)
class Converters:
    """A task's converters, configured."""

    key: Converter
    value: Converter


def converters_of(connector: Mapping[str, str], worker: Mapping[str, str]) -> Converters:
    """Returns the converters of a connector's tasks. Raises `ConfigError`."""
    return Converters(
        key=_configured("key.converter", connector, worker, is_key=True),
        value=_configured("value.converter", connector, worker, is_key=False),
    )


def _configured(
    key: str, connector: Mapping[str, str], worker: Mapping[str, str], *, is_key: bool
) -> Converter:
    config = connector if connector.get(key) else worker
    name = config.get(key)
    if not name:
        raise ConfigError(f'Missing required configuration "{key}" which has no default value.')
    converter: Converter = plugins.converter(key, name).cls()
    options = {k.removeprefix(f"{key}."): v for k, v in config.items() if k.startswith(f"{key}.")}
    options.pop("plugin.version", None)
    options["converter.type"] = "key" if is_key else "value"
    converter.config().parse(options)
    converter.configure(options, is_key=is_key)
    return converter
