"""Plugins: their names, their keys, and whether a config is valid for them.

`RestPlugins` lists those of a cluster, `InstalledPlugins` those of this installation. `Definitions`
come from either, from the lock, or from several. For our runtime,
installed plugins count first; for a Connect cluster, its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote

from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.answers import NotConnect, Refused
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest.shapes import ExpectedAnswer
from connect_runtime.api import ConnectorError
from connect_runtime.herder.verbs import JVM_REASON_HEADER, Refusal, RequestError
from connect_runtime.plugins import registry
from connect_runtime.plugins.modules import allow_modules
from connect_runtime.rest.plugin_resources import OTHER_KINDS, keys_json, plugins_json
from connect_runtime.validation.plugin_choice import choose
from connect_runtime.waiting import Exits, SharedCalls, TakesTooLong
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import ConnectError
from connect_specs.plugin_definitions import (
    CONNECTORS,
    Definitions,
    KeyDefinition,
    PluginDefinition,
    PluginSet,
    parts_of,
)
from connect_specs.plugins_lock import load_lock

Json: TypeAlias = Mapping[str, Any]


# All plugins of a plan together
_KEYS_S: Final = 30.0
_VALIDATED = ExpectedAnswer(
    (200,), lambda body: shapes.maps(shapes.a_map(body)["configs"]), JVM_REASON_HEADER
)
# Large packages take seconds on a busy machine
_IMPORT_S: Final = 60.0
_NO_PLUGINS: Final = PluginSet()
_imports: Final = SharedCalls[registry.Plugin | None](_IMPORT_S)


@dataclass(frozen=True, slots=True)
class KeyProblem:
    """An error or a slip of a key, and the values that the cluster would recommend."""

    key: str
    error: str
    hint: str = ""
    recommended: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Validation:
    """A cluster's answer about one config.

    `keys` are all keys of such a config. `values` are the config's, references resolved
    where the cluster could: they may be secret. `jvm_reason` says why our runtime runs a file
    connector in a JVM; empty for any other.
    """

    problems: tuple[KeyProblem, ...]
    keys: Mapping[str, KeyDefinition] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    jvm_reason: str = ""


class RestPlugins:
    """The plugins of a Connect cluster, in the shapes of its REST API. Raises the errors of
    RestClient."""

    def __init__(self, client: RestClient) -> None:
        self._client = client

    def listed(self) -> Sequence[Json]:
        """Returns class, type and, if known, version of every plugin."""
        return self._client.must("/connector-plugins?connectorsOnly=false", shapes.plugins)

    def keys(self, name: str) -> Sequence[Json] | None:
        """Returns the definitions of a plugin's keys, None if there is no such plugin."""
        return self._client.read(f"{_path(name)}/config", shapes.definitions)

    def validate(self, config: Mapping[str, str]) -> Validation:
        """Validates a config, which names its class."""
        path = f"{_path(config['connector.class'])}/config/validate"
        infos, reason = self._client.change("PUT", path, dict(config), expect=_VALIDATED)
        definitions = (_key(info["definition"]) for info in infos if info["definition"])
        values = (info["value"] for info in infos if info["value"])
        return Validation(
            tuple(_problems(infos)),
            {key.name: key for key in definitions},
            {entry["name"]: entry["value"] for entry in values if entry["value"] is not None},
            unquote(reason),
        )


class InstalledPlugins:
    """The plugins of this installation, in the same shapes."""

    def listed(self) -> Sequence[Json]:
        return plugins_json(connectors_only=False)

    def keys(self, name: str) -> Sequence[Json] | None:
        try:
            return keys_json(name)
        except RequestError as error:
            if error.refusal is Refusal.PLUGIN_FAILED:
                raise
            return None


PluginSource: TypeAlias = RestPlugins | InstalledPlugins


def locked(
    source: PluginSource,
    desired: Desired,
    earlier: PluginSet = _NO_PLUGINS,
    warn: Callable[[str], None] = lambda text: None,
) -> PluginSet:
    """Returns the plugins of a lock: all connectors, and the other plugins that the specs name.
    A plugin whose keys cannot be read keeps those of the `earlier` lock; `warn` gets a text
    about it."""
    cluster = _cluster_plugins(source)
    chosen = [plugin for plugin in cluster.plugins if plugin.type in CONNECTORS]
    for spec in desired.connectors.values():
        for plugin_ref in parts_of(spec.config):
            plugin = cluster.find(plugin_ref.name, plugin_ref.types)
            if plugin is not None and plugin not in chosen:
                chosen.append(plugin)
    plugins: list[PluginDefinition] = []
    for plugin in chosen:
        try:
            keys, reason = source.keys(plugin.class_name), "there is no answer"
        except RequestError as error:
            keys, reason = None, error.message
        if keys is not None:
            plugins.append(_with_keys(plugin, keys))
            continue
        # One without an answer must not count as known to have no keys
        locked_before = [
            entry for entry in earlier.plugins if entry.class_name == plugin.class_name
        ]
        plugins += locked_before
        end = "the lock keeps what it has" if locked_before else "it is not locked"
        warn(f"{plugin.class_name} does not tell its keys, so {end}: {reason}")
    return PluginSet(tuple(plugins))


def _cluster_plugins(source: PluginSource) -> PluginSet:
    """Returns the plugins of a cluster without keys. Of several versions the last counts, which is
    the highest."""
    plugins = {
        (entry["type"], entry["class"]): PluginDefinition(
            entry["class"], entry["type"], entry.get("version")
        )
        for entry in source.listed()
    }
    return PluginSet(tuple(plugins.values()))


def _with_keys(plugin: PluginDefinition, keys: Iterable[Json]) -> PluginDefinition:
    """Returns the plugin with keys as REST writes them."""
    return replace(plugin, keys={key["name"]: _key(key) for key in keys})


def _key(key: Json) -> KeyDefinition:
    return KeyDefinition(
        key["name"],
        key["type"],
        required=key["required"],
        default=key["default_value"],
        importance=key["importance"],
        dependents=tuple(key["dependents"]),
    )


def _problems(infos: Iterable[Json]) -> Iterator[KeyProblem]:
    for info in infos:
        value = info["value"]
        if value is not None:
            recommended = tuple(map(str, value["recommended_values"]))
            for error in value["errors"]:
                yield KeyProblem(value["name"], error, recommended=recommended)


def _path(name: str) -> str:
    return f"/connector-plugins/{quote(name, safe='')}"


class InstalledDefinitions:
    """Implements `Definitions` with the plugins of this installation."""

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        """Returns the plugin; None also if its keys cannot be read."""
        plugin = installed(name, types)
        if plugin is None:
            return None
        try:
            keys = keys_json(plugin.class_name)
        except RequestError:
            return None
        return _with_keys(PluginDefinition(plugin.class_name, plugin.kind, plugin.version), keys)

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        return frozenset(
            entry["class"] for entry in InstalledPlugins().listed() if entry["type"] in types
        )

    def unanswered(self, name: str, types: tuple[str, ...]) -> str:
        if types == CONNECTORS and why_not_loaded(name):
            return f"{name} is installed here and cannot be used"
        if installed(name, types) is not None and self.find(name, types) is None:
            return f"{name} is installed here and does not tell its keys"
        return ""


def installed(name: str, types: tuple[str, ...]) -> registry.Plugin | None:
    """Returns the plugin of this installation; None if there is none that can be used."""
    try:
        return _imported(name, types)
    except (ConnectorError, TakesTooLong, Exits):
        return None


def why_not_loaded(name: str) -> str:
    """Returns why a connector's class that is here cannot be used; empty if it can, or is not
    here."""
    try:
        _imported(name, CONNECTORS)
    except ConnectorError as error:
        # Only one that was found has broken with an error of its own
        return str(error) if error.__cause__ is not None else ""
    except TakesTooLong:
        return f"{name} has not been imported in {_IMPORT_S:.0f} s"
    except Exits as error:
        return f"the import of {name} raised {error}"
    return ""


def _imported(name: str, types: tuple[str, ...]) -> registry.Plugin | None:
    """Raises ConnectorError, TakesTooLong, Exits."""

    def find() -> registry.Plugin | None:
        for kind in OTHER_KINDS:
            if kind in types:
                return choose(kind, "plugin", name).plugin
        plugin = registry.connector(name)
        return plugin if plugin.kind in types else None

    return _imports.result((name, types), find)


class ChainedDefinitions:
    """Implements `Definitions` with several: the first that has a plugin counts. Cached."""

    def __init__(self, sources: Sequence[Definitions]) -> None:
        self._sources = sources
        self._found: dict[tuple[str, tuple[str, ...]], PluginDefinition | None] = {}

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        reference = (name, types)
        if not name:
            return None
        if reference not in self._found:
            answers = (source.find(name, types) for source in self._sources)
            self._found[reference] = next((entry for entry in answers if entry is not None), None)
        return self._found[reference]

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        return frozenset().union(*(source.class_names(types) for source in self._sources))

    def unanswered(self, name: str, types: tuple[str, ...]) -> str:
        if self.find(name, types) is not None:
            return ""
        return next(filter(None, (entry.unanswered(name, types) for entry in self._sources)), "")


class ClusterDefinitions:
    """Implements `Definitions` with a cluster, connected to when it is first needed, and asked for
    each plugin once. A plugin whose keys cannot be read is not found, and unanswered."""

    def __init__(
        self,
        connect: Callable[[], RestClient | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._deadline: float | None = None
        self._source: RestPlugins | None = None
        self._listed = PluginSet()
        self._keyed: dict[str, PluginDefinition | str] = {}
        # The reason, if nothing can be asked
        self._failure = ""

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        answer = self._definition(name, types)
        return None if isinstance(answer, str) else answer

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        self._open()
        return self._listed.class_names(types)

    def unanswered(self, name: str, types: tuple[str, ...]) -> str:
        answer = self._definition(name, types)
        return answer if isinstance(answer, str) else ""

    def listed(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        """Returns the plugin without its keys; None also while the cluster does not answer."""
        self._open()
        return self._listed.find(name, types)

    def _definition(self, name: str, types: tuple[str, ...]) -> PluginDefinition | str | None:
        """Returns the plugin, None if the cluster has none, or why its keys are not known."""
        source = self._open()
        if source is None:
            return self._failure
        plugin = self._listed.find(name, types)
        if plugin is None:
            return None
        definition = self._keyed.get(plugin.class_name)
        if definition is None:
            definition = self._keyed[plugin.class_name] = self._keys_of(plugin, source)
        return definition if isinstance(definition, str) else replace(definition, type=plugin.type)

    def _keys_of(self, plugin: PluginDefinition, source: RestPlugins) -> PluginDefinition | str:
        path = f"{_path(plugin.class_name)}/config"
        if self._deadline is not None and self._clock() > self._deadline:
            return f"GET {path} was not sent: the requests before it took over {_KEYS_S:.0f} s"
        try:
            keys = source.keys(plugin.class_name)
            if keys is not None:
                return _with_keys(plugin, keys)
        except ConnectError as error:
            return _failure_text(path, error)
        return f"GET {path} answered 404, although the plugin is listed"

    def _open(self) -> RestPlugins | None:
        if self._source is None and not self._failure:
            path = "/connector-plugins"
            try:
                client = self._connect()
                if client is None:
                    self._failure = f"GET {path} was not sent: no runtime is up"
                    return None
                source = RestPlugins(client)
                self._listed = _cluster_plugins(source)
                self._source = source
                self._deadline = self._clock() + _KEYS_S
            except ConnectError as error:
                self._failure = _failure_text(path, error)
        return self._source


def _failure_text(path: str, error: ConnectError) -> str:
    """Returns the request, and how it failed. Connect's own text is left out: it may quote
    anything."""
    match error:
        case Refused() | NotConnect() if error.exchange:
            return error.exchange
        case RequestError():
            return f"GET {path} answered {error.status}"
        case _:
            first = error.diagnostics[0]
            problem = f"{first.what} ({first.where})" if first.where else first.what
            return f"GET {path}: {problem}: {first.why}" if first.why else f"GET {path}: {problem}"


class LockedDefinitions:
    """Implements `Definitions` with the lock, but for plugins that the cluster has in another
    version: their keys may be others, also those of passwords."""

    def __init__(self, lock: PluginSet, cluster: ClusterDefinitions) -> None:
        self._lock = lock
        self._cluster = cluster

    def find(self, name: str, types: tuple[str, ...]) -> PluginDefinition | None:
        plugin = self._lock.find(name, types)
        if plugin is None:
            return None
        current = self._cluster.listed(name, types)
        return plugin if current is None or current.version == plugin.version else None

    def class_names(self, types: tuple[str, ...]) -> frozenset[str]:
        return self._lock.class_names(types)

    def unanswered(self, name: str, types: tuple[str, ...]) -> str:
        return ""


def local_definitions(project: Project, cluster: ClusterDefinitions | None = None) -> Definitions:
    """Returns the definitions of installed plugins and of the lock, as far as those are not of
    other versions than the cluster's. Classes of modules that connect.yaml lists count."""
    allow_modules(project.worker)
    installed_here, locked = InstalledDefinitions(), load_lock(project.folder) or PluginSet()
    lock: Definitions = locked if cluster is None else LockedDefinitions(locked, cluster)
    return ChainedDefinitions(
        (installed_here, lock) if project.uses_runtime else (lock, installed_here)
    )
