"""Definitions of plugins and their keys: of installed ones, of the lock, and of the cluster.

For our runtime, installed plugins count first; for a Connect cluster, its own. A cluster that does
not answer is not asked again, and its plugins are then unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from connect_reconciler.backend.plugins import (
    RestPlugins,
    SourceDefinitions,
    definition_of,
)
from connect_reconciler.backend.rest.client import RestClient
from connect_runtime import plugins
from connect_runtime.api import ConfigError, ConnectorError
from connect_runtime.herder.errors import RequestError
from connect_runtime.rest.plugins import keys_json
from connect_specs.desired import Project
from connect_specs.diagnostics import ConnectError
from connect_specs.plugin_definitions import CONNECTORS, Definitions, PluginDefinition, PluginSet
from connect_specs.plugins_lock import load_lock

T = TypeVar("T")


class InstalledDefinitions:
    """Implements `Definitions` with the plugins of this installation."""

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        try:
            if set(types) & set(CONNECTORS):
                plugin = plugins.connector(name)
            else:
                plugin = plugins.converter("plugin", name)
        except (ConnectorError, ConfigError):
            return None
        if plugin.kind not in types:
            return None
        return definition_of(plugin.class_name, plugin.kind, plugin.version, keys_json(name))

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        known = (*plugins.connectors(), *plugins.converters())
        return frozenset(each.class_name for each in known if each.kind in types)


class ChainedDefinitions:
    """Implements `Definitions` with several: the first that knows a plugin counts. Cached."""

    def __init__(self, sources: Sequence[Definitions]) -> None:
        self._sources = sources
        self._found: dict[tuple[str, tuple[str, ...]], PluginDefinition | None] = {}

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        asked = (name, types)
        if not name:
            return None
        if asked not in self._found:
            answers = (source.find(name, types) for source in self._sources)
            self._found[asked] = next((each for each in answers if each is not None), None)
        return self._found[asked]

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        return frozenset().union(*(source.class_names(types) for source in self._sources))


class ClusterDefinitions:
    """Implements `Definitions` with a cluster, connected to when it is first needed."""

    def __init__(self, connect: Callable[[], RestClient | None]) -> None:
        self._connect = connect
        self._cluster: SourceDefinitions | None = None
        self._gone = False

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        return self._asked(lambda cluster: cluster.find(name, types), None)

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        return self._asked(lambda cluster: cluster.class_names(types), frozenset[str]())

    def _asked(self, ask: Callable[[SourceDefinitions], T], otherwise: T) -> T:
        if self._gone:
            return otherwise
        try:
            if self._cluster is None:
                client = self._connect()
                self._gone = client is None
                if client is None:
                    return otherwise
                self._cluster = SourceDefinitions(RestPlugins(client))
            return ask(self._cluster)
        except (ConnectError, RequestError):
            self._gone = True
            return otherwise


def local_definitions(project: Project) -> Definitions:
    """Of installed plugins and of the lock. Classes of modules that connect.yaml lists count."""
    plugins.allow_modules(project.worker)
    here, lock = InstalledDefinitions(), load_lock(project.folder) or PluginSet()
    return ChainedDefinitions((here, lock) if project.uses_runtime else (lock, here))


@contextmanager
def known_plugins(project: Project, rest: Callable[[], RestClient | None]) -> Iterator[Definitions]:
    """All that is known, the cluster included, which `rest` leads to when it is asked.

    Raises Invalid for a lock that cannot be read.
    """
    with ExitStack() as stack:

        def connect() -> RestClient | None:
            found = rest()
            if found is not None:
                stack.callback(found.close)
            return found

        cluster, near = ClusterDefinitions(connect), local_definitions(project)
        yield ChainedDefinitions((near, cluster) if project.uses_runtime else (cluster, near))
