"""Asks a plugin's class which config keys it has. That is third-party code, which may throw, exit,
hang, or answer with something else; each is one error of that plugin.
"""

from __future__ import annotations

from typing import Final

from connect_runtime.api import ConfigDef, ConnectorError
from connect_runtime.herder.plugin_calls import SharedCalls, TakesTooLong
from connect_runtime.plugins.registry import Plugin

# What a class imports to answer takes seconds on a busy machine
_PATIENCE_S: Final = 20.0
_calls: Final = SharedCalls[ConfigDef](_PATIENCE_S)


class NoDefinition(ConnectorError):
    """A plugin does not tell its config keys. The text says why."""


class NotADefinition(NoDefinition):
    """It answers with something else, such as None."""


def definition_of(plugin: Plugin) -> ConfigDef:
    """Returns the keys of a plugin. Raises NoDefinition."""
    try:
        return _calls.result(plugin.cls, lambda: _asked(plugin))
    except TakesTooLong:
        text = f"{plugin.class_name}.config() has not returned in {_PATIENCE_S:.0f} s"
        raise NoDefinition(text) from None


def _asked(plugin: Plugin) -> ConfigDef:
    name = plugin.class_name
    try:
        instance = plugin.cls()
    except BaseException as error:  # a plugin may also call sys.exit
        raise NoDefinition(f"{name} cannot be instantiated: {_text(error)}") from error
    try:
        found = instance.config()
    except BaseException as error:
        raise NoDefinition(f"{name}.config() raised {_text(error)}") from error
    if found is None:
        raise NotADefinition(f"{name}.config() must return a ConfigDef that is not null.")
    if not isinstance(found, ConfigDef):
        kind = type(found).__name__
        raise NotADefinition(f"{name}.config() must return a ConfigDef, and returned a {kind}.")
    return found


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
