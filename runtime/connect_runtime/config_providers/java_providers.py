"""Asks Java config providers, in a JVM, for values that this process itself needs.

Those are references in the worker's file, in client overrides, and of Python connectors. A Java
connector's are resolved in its own JVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from connect_runtime.api import ConfigData, ConfigError, ConfigProvider, ConnectorError
from connect_runtime.engine import scan
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_on_demand import JvmOnDemand
from connect_runtime.engine.scan import JavaPlugin
from connect_runtime.waiting import TakesTooLong
from connect_specs.diagnostics import ConnectError
from connect_specs.secrets import secrets_in

# The values of a config are asked for at once
_IDLE_S: Final = 10.0


class JavaConfigProvider(ConfigProvider):
    """A provider of a Java class on the plugin.path of a worker with these properties. Its JVM runs
    while it is asked."""

    def __init__(self, worker: Mapping[str, str], class_name: str) -> None:
        self._worker = worker
        self._class_name = class_name
        self._params: Mapping[str, str] = {}
        self._every: Sequence[JavaPlugin] = ()
        self._plugins: list[JavaPlugin] = []
        self._jvm = JvmOnDemand(self._start, idle_s=_IDLE_S)

    def configure(self, params: Mapping[str, str]) -> None:
        """Raises ConfigError if there is no such class on plugin.path."""
        self._params = params
        try:
            self._every = scan.scan(self._worker).plugins
        except (ConnectError, ConnectorError, TakesTooLong, OSError) as error:
            raise ConfigError(f"Java plugins cannot be used: {error}") from None
        self._plugins = [
            plugin
            for plugin in self._every
            if plugin.kind == scan.PROVIDER and self._class_name in plugin.names
        ]
        if not self._plugins:
            text = (
                f"Class {self._class_name} could not be found, neither in Python nor on plugin.path"
            )
            raise ConfigError(text)

    def get(self, path: str, keys: frozenset[str]) -> ConfigData:
        def ask(jvm: PluginJvm, left_s: float) -> ConfigData:
            answer = jvm.call(
                "provide",
                left_s,
                plugin=self._plugins[-1].class_name,
                params=dict(self._params),
                path=path,
                keys=sorted(keys),
            )
            return ConfigData(answer["values"], answer["ttlMs"])

        try:
            return self._jvm.ask(ask)
        except TakesTooLong:
            raise ConfigError(f"{self._class_name} does not answer") from None

    def close(self) -> None:
        self._jvm.close()

    def _start(self) -> PluginJvm:
        settings = scan.settings(self._worker, self._every, self._plugins)
        jvm = PluginJvm({**self._worker, **settings}, "")
        jvm.hide(secrets_in(self._params))
        return jvm
