"""What is known of plugins, from the nearest that knows: what is installed, the lock, the cluster.

Our runtime runs what is installed; a Connect cluster is asked first. One that does not answer is
not asked again: what it would have said is then not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from connect_reconciler.cluster.choose import rest_client
from connect_reconciler.cluster.plugins import (
    AskedDefinitions,
    RestPlugins,
    definition_of,
)
from connect_reconciler.cluster.rest_client import RestClient
from connect_runtime import plugins
from connect_runtime.api import ConfigError, ConnectorError
from connect_runtime.herder.errors import RequestError
from connect_runtime.rest.plugins import keys_json
from connect_specs.desired import Project
from connect_specs.diagnostics import ConnectError
from connect_specs.plugin_definitions import CONNECTORS, Definitions, PluginDefinition, PluginSet
from connect_specs.plugins_lock import load_lock

T = TypeVar("T")


class Installed:
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


class FirstThatKnows:
    """Implements `Definitions` with several, asked in turn, and once about each plugin."""

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


class WhileItAnswers:
    """Implements `Definitions` with a cluster that `connect` leads to, when it is asked."""

    def __init__(self, connect: Callable[[], RestClient | None]) -> None:
        self._connect = connect
        self._cluster: AskedDefinitions | None = None
        self._gone = False

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        return self._asked(lambda cluster: cluster.find(name, types), None)

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        return self._asked(lambda cluster: cluster.class_names(types), frozenset[str]())

    def _asked(self, ask: Callable[[AskedDefinitions], T], otherwise: T) -> T:
        if self._gone:
            return otherwise
        try:
            if self._cluster is None:
                client = self._connect()
                self._gone = client is None
                if client is None:
                    return otherwise
                self._cluster = AskedDefinitions(RestPlugins(client))
            return ask(self._cluster)
        except (ConnectError, RequestError):
            self._gone = True
            return otherwise


def at_hand(project: Project) -> Definitions:
    """What is known without asking anybody. Classes of modules that connect.yaml lists count."""
    plugins.allow_modules(project.worker)
    here, lock = Installed(), load_lock(project.folder) or PluginSet()
    return FirstThatKnows((here, lock) if project.target is None else (lock, here))


@contextmanager
def known_plugins(project: Project, client: Mapping[str, str]) -> Iterator[Definitions]:
    """All that is known, the cluster included. Raises Invalid for a lock that cannot be read."""
    with ExitStack() as stack:

        def connect() -> RestClient | None:
            found = rest_client(project, client)
            if found is not None:
                stack.callback(found.close)
            return found

        cluster, near = WhileItAnswers(connect), at_hand(project)
        yield FirstThatKnows((near, cluster) if project.target is None else (cluster, near))
