"""Which keys of a connector's config are passwords, by the definitions of the plugins it names?
Their values are kept out of traces, whatever their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from connect_runtime.api import ConfigType
from connect_runtime.api.java_text import java_list
from connect_runtime.plugins import registry
from connect_runtime.plugins.definitions import definition_of
from connect_runtime.plugins.registry import Plugin

_CHAINS = {"transforms": registry.transformation, "predicates": registry.predicate}
_CONVERTERS = {
    "key.converter": registry.converter,
    "value.converter": registry.converter,
    "header.converter": registry.header_converter,
}


def password_keys(config: Mapping[str, str]) -> frozenset[str]:
    """Returns the keys of type PASSWORD; none of a plugin whose definition is not available."""
    found: set[str] = set()
    for prefix, plugin in _plugins(config):
        try:
            definition = definition_of(plugin())
            found.update(prefix + each.name for each in definition if _is_password(each.type))
        except (Exception, SystemExit):  # of a plugin's code: the error must still be reported
            continue
    return frozenset(found)


def _plugins(config: Mapping[str, str]) -> Iterator[tuple[str, Callable[[], Plugin]]]:
    """Yields what the keys of each plugin start with, and what finds it."""
    if "connector.class" in config:
        yield "", partial(registry.connector, config["connector.class"])
    for chain, find in _CHAINS.items():
        for alias in java_list(config.get(chain) or ""):
            key = f"{chain}.{alias}.type"
            if key in config:
                yield f"{chain}.{alias}.", partial(find, key, config[key])
    for key, find in _CONVERTERS.items():
        if key in config:
            yield f"{key}.", partial(find, key, config[key])


def _is_password(kind: ConfigType) -> bool:
    return kind is ConfigType.PASSWORD
