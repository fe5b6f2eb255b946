"""Asks the classes of plugins for their kinds and their config keys, and finds those that are
passwords, whose values are kept out of traces.

That is third-party code, which may throw, exit, hang, or answer with something else; each is one
error of that plugin.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from connect_runtime.api import ConfigDef, ConfigKey, ConfigType, ConnectorError
from connect_runtime.api.configdef import NO_DEFAULT, Importance, Width
from connect_runtime.engine.catalog import used_catalog
from connect_runtime.plugins import registry, sides
from connect_runtime.plugins.registry import Plugin
from connect_runtime.waiting import SharedCalls, TakesTooLong, refuse_on_event_loop

# A class may import modules to answer, which takes seconds on a busy machine
_PATIENCE_S: Final = 20.0
# A request waits no longer for the kind of a class
_KIND_PATIENCE_S: Final = 10.0
_UNKNOWN: Final = "unknown"
_calls: Final = SharedCalls[ConfigDef](_PATIENCE_S)


class NoDefinition(ConnectorError):
    """A plugin without a definition of its config keys. The text has the reason."""


class NotADefinition(NoDefinition):
    """An answer that is something else, such as None."""


def definition_of(plugin: Plugin) -> ConfigDef:
    """Returns the keys of a plugin. Raises NoDefinition."""
    try:
        key = plugin.class_name if plugin.java else plugin.cls
        return _calls.result(key, lambda: _definition(plugin))
    except TakesTooLong:
        text = f"{plugin.class_name}.config() has not returned in {_PATIENCE_S:.0f} s"
        raise NoDefinition(text) from None


def _definition(plugin: Plugin) -> ConfigDef:
    name = plugin.class_name
    if plugin.java:
        return _java_definition(plugin)
    try:
        instance = plugin.cls()
    except BaseException as error:  # a plugin may also call sys.exit
        raise NoDefinition(f"{name} cannot be instantiated: {_text(error)}") from error
    try:
        definition = instance.config()
    except BaseException as error:
        raise NoDefinition(f"{name}.config() raised {_text(error)}") from error
    if definition is None:
        raise NotADefinition(f"{name}.config() must return a ConfigDef that is not null.")
    if not isinstance(definition, ConfigDef):
        kind = type(definition).__name__
        raise NotADefinition(f"{name}.config() must return a ConfigDef, and returned a {kind}.")
    return definition


def _java_definition(plugin: Plugin) -> ConfigDef:
    """Returns the keys of a Java class, with those that each plugin of its kind has."""
    catalog = used_catalog()
    assert catalog is not None, "it has named the class"
    try:
        keys = catalog.definition(plugin.class_name)
    except ConnectorError as error:
        raise NoDefinition(f"{plugin.class_name}.config() threw {error}") from error
    return ConfigDef().embed(java_key(key) for key in keys)


def java_key(key: Mapping[str, Any]) -> ConfigKey:
    """Returns a key as a JVM describes it."""
    return JavaKey(
        key["name"],
        ConfigType(key["type"]),
        NO_DEFAULT if key["required"] else key["default_value"],
        None,
        Importance(key["importance"]),
        key["documentation"],
        key["group"],
        key["order_in_group"],
        Width(key["width"]),
        key["display_name"],
        tuple(key["dependents"]),
        None,
    )


class JavaKey(ConfigKey):
    """A key of a Java class, whose default is the text that Java writes for it."""

    @property
    def default_text(self) -> str | None:
        """Returns the default, None if there is none."""
        return None if self.required else self.default


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def password_keys(config: Mapping[str, str]) -> frozenset[str]:
    """Returns the keys of type PASSWORD; none of a plugin whose definition is not available."""
    keys: set[str] = set()
    for prefix, find in _plugins(config):
        try:
            definition = definition_of(find())
            keys.update(prefix + key.name for key in definition if key.type is ConfigType.PASSWORD)
        except (Exception, SystemExit):  # of a plugin's code: the error must still be reported
            continue
    return frozenset(keys)


def _plugins(config: Mapping[str, str]) -> Iterator[tuple[str, Callable[[], Plugin]]]:
    """Yields the prefix of the keys of each plugin, and a function that finds it, on the side on
    which the connector runs."""
    java = sides.is_java(config)
    if "connector.class" in config:
        yield "", partial(sides.connector, config)
    for kind, key in registry.class_keys(config):
        if key in config:
            # a converter's key is the prefix, of a chain's member it is that of the key
            prefix = f"{key.removesuffix('.type')}."
            find = registry.java_member if java else registry.plugin
            yield prefix, partial(find, kind, key, config[key])


class ConnectorTypes:
    """Remembers the kinds of classes; of those that cannot be used, for `wait_s`. Used from any
    thread."""

    def __init__(self, wait_s: float = _KIND_PATIENCE_S) -> None:
        self._wait_s = wait_s
        self._lookups = SharedCalls[str](wait_s)
        # and until when it counts (monotonic seconds), if the class cannot be used
        self._kinds: dict[str, tuple[str, float]] = {}

    def of(self, class_name: str) -> str:
        """Returns "source" or "sink"; "unknown" for a class that cannot be used, or not yet.
        Raises WouldWait on the thread of an event loop instead of waiting."""
        kind, until = self._kinds.get(class_name, (_UNKNOWN, 0.0))
        if kind != _UNKNOWN or time.monotonic() < until:
            return kind
        refuse_on_event_loop()
        try:
            return self._lookups.result(class_name, lambda: self._look_up(class_name))
        except TakesTooLong:
            return _UNKNOWN

    def _look_up(self, class_name: str) -> str:
        kind, until = _UNKNOWN, time.monotonic() + self._wait_s
        # importing it runs third-party code, on a thread of its own
        with suppress(BaseException):
            kind = registry.connector(class_name).kind
        self._kinds[class_name] = kind, until
        return kind
