"""The resources below /connector-plugins: installed plugins, and validation of configs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connect_runtime import plugins
from connect_runtime.api import ConfigKey, ConnectorError
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder.errors import RequestError
from connect_runtime.plugins import Plugin
from connect_runtime.rest import bodies
from connect_runtime.rest.exchange import Call, Reply, Resource
from connect_runtime.rest.wire import UNDEFINED_VERSION, Json
from connect_runtime.validation.infos import ConfigInfo, ConfigInfos
from connect_runtime.validation.validate import (
    connector_plugin,
    framework_definitions,
    validate,
)
from connect_runtime.worker_config import WorkerConfig

_BAD_REQUEST = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"


class ConnectorPlugins:
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
        return Reply(200, keys_json(call.path["plugin"]))

    def validate(self, call: Call) -> Reply:
        config = bodies.validate_request(call.body)
        included = config.get("connector.class")
        path = call.path["plugin"]
        if included is not None and not _same(included, path):
            raise RequestError(
                400,
                f"Included connector type {included} does not match request type {path}",
            )
        try:
            connector_plugin(config)
        except RequestError as error:
            # Connect does not unwrap the cause here
            text = f"{_BAD_REQUEST}: {error.message}"
            raise RequestError(500, text, error.refusal) from error
        return Reply(200, _infos_json(validate(config, self._worker, self._providers)))


def plugins_json(*, connectors_only: bool) -> list[Json]:
    """Returns the installed plugins, as `GET /connector-plugins` lists them."""
    found: Sequence[Plugin] = plugins.connectors()
    if not connectors_only:
        found = [*found, *plugins.converters()]
    return [_plugin_json(plugin) for plugin in found]


def keys_json(name: str) -> list[Json]:
    """Returns a plugin's keys (KIP-769): a connector's own, then those of every connector.

    Raises RequestError 404.
    """
    plugin = _plugin(name)
    own = plugin.cls().config()
    if plugin.kind == "converter":
        return [_key_json(key) for key in own]
    further = [key for key in framework_definitions(plugin) if key.name not in own.keys]
    return [_key_json(key) for key in (*own, *further)]


def _same(included: str, path: str) -> bool:
    return included.removesuffix("Connector").endswith(path.removesuffix("Connector"))


def _plugin(name: str) -> Plugin:
    try:
        return plugins.connector(name)
    except ConnectorError:
        pass
    try:
        return plugins.converter("plugin", name)
    except ConnectorError as error:
        raise RequestError(404, f"Unknown plugin {name}.") from error


def _plugin_json(plugin: Plugin) -> Json:
    found: Json = {"class": plugin.class_name, "type": plugin.kind}
    if plugin.version != UNDEFINED_VERSION:
        found["version"] = plugin.version
    return found


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
        "width": key.width.value,
        "display_name": key.display_name,
        "dependents": list(key.dependents),
        "order": key.order,
    }
