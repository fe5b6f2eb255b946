"""The resources below /connector-plugins: installed plugins, and validation of configs."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from connect_runtime.api import ConfigKey, ConnectorError
from connect_runtime.config_providers.built_in import BUILT_IN as CONFIG_PROVIDERS
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.engine.catalog import used_catalog
from connect_runtime.engine.jvm_connection import JvmEnded
from connect_runtime.herder.verbs import JVM_REASON_HEADER, Refusal, RequestError
from connect_runtime.plugins import registry, sides
from connect_runtime.plugins.definitions import NoDefinition, definition_of
from connect_runtime.plugins.registry import Plugin, PluginKind
from connect_runtime.plugins.versions import InvalidVersionRange, Version, required_versions
from connect_runtime.rest import request_bodies
from connect_runtime.rest.exchange import Call, Reply, Resource
from connect_runtime.rest.wire import UNDEFINED_VERSION, Json
from connect_runtime.settings.connector_clients import POLICY_CLASSES
from connect_runtime.settings.worker_config import WorkerConfig
from connect_runtime.traces import JavaError
from connect_runtime.validation.connector_keys import connector_definitions
from connect_runtime.validation.infos import ConfigInfo, ConfigInfos
from connect_runtime.validation.plugin_choice import choose, version_errors
from connect_runtime.validation.validate import (
    PATIENCE_S,
    validate,
)
from connect_runtime.waiting import TakesTooLong, within

# Kinds of plugins other than connectors, in the order in which Connect lists them
OTHER_KINDS: Final[tuple[PluginKind, ...]] = (
    "transformation",
    "predicate",
    "converter",
    "header_converter",
)
_POLICY: Final = "ConnectorClientConfigOverridePolicy"
# Kinds of plugins with keys, in the order in which Connect names them in an error
_WITH_KEYS: Final = "sink, source, converter, header_converter, transformation, predicate"


def _plugins_of_workers() -> frozenset[str]:
    """Returns the names of Apache's classes that only a worker's properties name."""
    names = set()
    for class_name in (*CONFIG_PROVIDERS, *POLICY_CLASSES):
        simple = class_name.rpartition(".")[2]
        alias = simple.removesuffix("ConfigProvider").removesuffix(_POLICY)
        names |= {class_name, simple, alias}
    return frozenset(names)


_PLUGINS_OF_WORKERS: Final = _plugins_of_workers()


class PluginResources:
    """The resources, by method and path."""

    def __init__(self, worker: WorkerConfig, providers: ConfigProviders | None = None) -> None:
        self._worker = worker
        self._providers = providers

    def routes(self) -> dict[tuple[str, str], Resource]:
        """Returns the resources; `{plugin}` is a class's name or alias."""
        return {
            ("GET", "/connector-plugins"): self.all,
            ("GET", "/connector-plugins/{plugin}/config"): self.definitions,
            ("PUT", "/connector-plugins/{plugin}/config/validate"): self.validate,
        }

    def all(self, call: Call) -> Reply:
        return Reply(200, plugins_json(connectors_only=call.flag("connectorsOnly", default=True)))

    def definitions(self, call: Call) -> Reply:
        versions = call.values("version")
        name, version = call.path["plugin"], versions[0] if versions else None
        try:
            return Reply(200, within(PATIENCE_S, lambda: keys_json(name, version)))
        except TakesTooLong:
            text = f"The config method of {name} has not returned in {PATIENCE_S} s"
            raise RequestError(500, text, Refusal.PLUGIN_FAILED) from None

    def validate(self, call: Call) -> Reply:
        config = request_bodies.validate_request(call.entity())
        included = config.get("connector.class")
        path = call.path["plugin"]
        if included is not None and not _short(included).endswith(_short(path)):
            raise RequestError(
                400,
                f"Included connector type {included} does not match request type {path}",
            )
        # Connect answers 500 to what is an error of the class or its version
        try:
            infos = _infos_json(validate(config, self._worker, self._providers))
        except RequestError as error:
            if isinstance(error.__cause__, JavaError):
                raise RequestError(500, str(error.__cause__), error.refusal) from None
            raise
        reason = sides.jvm_reason(config)
        return Reply(200, infos, {JVM_REASON_HEADER: quote(reason, " ")} if reason else {})


def plugins_json(*, connectors_only: bool) -> list[Json]:
    """Returns the installed plugins, as `GET /connector-plugins` lists them."""
    plugins = list(registry.connectors())
    if not connectors_only:
        plugins += [plugin for kind in OTHER_KINDS for plugin in registry.listed(kind)]
    return [_plugin_json(plugin) for plugin in plugins]


def keys_json(name: str, version: str | None = None) -> list[Json]:
    """Returns a plugin's keys (KIP-769): a connector's own, then those of every connector. Of
    several versions the newest that `version` allows, if it is both ours and Java's then ours.

    Raises RequestError 404 if there is no such plugin, 400 if `version` is invalid or does not
    allow one that is installed, 500 PLUGIN_FAILED if the plugin does not return its keys.
    """
    try:
        required = required_versions(version)
    except InvalidVersionRange as error:
        raise RequestError(400, f"Invalid version specification: {version}") from error
    versions = _versions(name)
    allowed = [p for p in versions if required is None or p.version in required]
    plugin = (allowed or versions)[-1]
    if plugin.java:
        return _java_keys(plugin, version)
    problem, _ = version_errors(plugin, version)
    if problem:
        raise RequestError(400, problem)
    return _own_keys(plugin)


def _java_keys(plugin: Plugin, version: str | None) -> list[Json]:
    catalog = used_catalog()
    assert catalog is not None, "it has named the class"
    try:
        return [dict(key) for key in catalog.definition(plugin.class_name, version)]
    except JavaError as error:
        raise RequestError(error.status, error.text, Refusal.PLUGIN_FAILED) from error
    except (JvmEnded, TakesTooLong) as error:
        text = str(error) or "Request timed out"
        raise RequestError(500, text, Refusal.PLUGIN_FAILED) from error


def _own_keys(plugin: Plugin) -> list[Json]:
    try:
        own = definition_of(plugin)
    except NoDefinition as error:
        raise RequestError(500, str(error), Refusal.PLUGIN_FAILED) from error
    if plugin.kind in OTHER_KINDS:
        return [_key_json(key) for key in own]
    further = [
        key
        for key in connector_definitions(plugin.kind, plugin.version)
        if key.name not in own.keys
    ]
    return [_key_json(key) for key in (*own, *further)]


def _short(name: str) -> str:
    return name.removesuffix("Connector") or name


def _versions(name: str) -> list[Plugin]:
    """Returns the versions of the class that a name means, the oldest first; of one that is both
    ours and Java's, ours is the later. Raises RequestError if there is none."""
    java, ours = registry.java_plugins(name), _own(name)
    if ours is not None:
        versions = [plugin for plugin in java if plugin.class_name == ours.class_name]
        return sorted(
            (*versions, ours), key=lambda plugin: (Version(plugin.version), not plugin.java)
        )
    if java:
        return list(java)
    if name in _PLUGINS_OF_WORKERS:
        raise RequestError(400, f"Invalid plugin class {name}. Valid types are {_WITH_KEYS}.")
    raise RequestError(404, f"Unknown plugin {name}.")


def _own(name: str) -> Plugin | None:
    try:
        plugin = registry.connector(name)
    except ConnectorError:
        plugins = (choose(kind, "plugin", name).plugin for kind in OTHER_KINDS)
        return next((plugin for plugin in plugins if plugin is not None), None)
    return None if plugin.java else plugin


def _plugin_json(plugin: Plugin) -> Json:
    version = {} if plugin.version == UNDEFINED_VERSION else {"version": plugin.version}
    return {"class": plugin.class_name, "type": plugin.kind, **version}


def _infos_json(infos: ConfigInfos) -> Json:
    return {
        "name": infos.name,
        "error_count": infos.error_count,
        "groups": list(infos.groups),
        "configs": [_info_json(info) for info in infos.configs],
    }


def _info_json(info: ConfigInfo) -> Json:
    value: Any = None
    if info.value is not None:
        value = {
            "name": info.value.name,
            "value": info.value.value,
            "recommended_values": list(info.value.recommended),
            "errors": list(info.value.errors),
            "visible": info.value.visible,
        }
    return {"definition": None if info.key is None else _key_json(info.key), "value": value}


def _key_json(key: ConfigKey) -> Json:
    return {
        "name": key.name,
        "type": key.type.value,
        "required": key.required,
        "default_value": key.default_text,
        "importance": key.importance.value,
        "documentation": key.doc,
        "group": key.group,
        "order_in_group": key.order,
        "width": key.width.value,
        "display_name": key.display_name,
        "dependents": list(key.dependents),
    }
