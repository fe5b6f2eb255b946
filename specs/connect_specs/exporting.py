"""Converts a connector to other tools' formats: Connect's JSON, .properties, Strimzi's resource.

Pure. Reading the result gives the same connector, except for the fields that the format lacks:
`lost_in`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias, assert_never, get_args

from connect_specs.connector_spec import VERSION_KEY
from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.plugin_definitions import CLASS_KEY
from connect_specs.writing import in_reading_order, json_text, map_lines, scalar

ExportFormat: TypeAlias = Literal["json", "properties", "strimzi"]
FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
StrimziVersion: TypeAlias = Literal["v1", "v1beta2"]
ENDINGS: Mapping[ExportFormat, str] = {
    "json": ".json",
    "properties": ".properties",
    "strimzi": ".yaml",
}

_TASKS_KEY = "tasks.max"
_WHOLE = re.compile(r"[1-9][0-9]{0,8}")
_RESOURCE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_RESOURCE_NAME_MAX = 253
# A spec can be a template, and a value must not begin one
_TEMPLATES = ("{{", "{%", "{#")
_PROPERTY_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def export_text(
    connector: DesiredConnector,
    export_format: ExportFormat,
    *,
    strimzi_cluster: str | None = None,
    strimzi_version: StrimziVersion = "v1",
) -> str:
    """Returns the connector in that format. Raises Invalid for one that it cannot express.

    `strimzi_cluster` is the KafkaConnect resource that a KafkaConnector belongs to, and
    `strimzi_version` the version of Strimzi's API.
    """
    match export_format:
        case "json":
            return _json_document(connector)
        case "properties":
            return _properties_text(connector)
        case "strimzi":
            return _strimzi_text(connector, strimzi_cluster, strimzi_version)
        case _:
            assert_never(export_format)


def lost_in(connector: DesiredConnector, export_format: ExportFormat) -> tuple[str, ...]:
    """Returns the spec's fields that the format has no equivalent for."""
    fields = {
        "renamed_from": connector.renamed_from is not None,
        "state": connector.state is not None and export_format == "properties",
        "offsets": connector.pin is not None,
        "lifecycle": connector.prevent_delete or bool(connector.ignore),
        "health": connector.allow_zero_tasks,
        "sensitive": bool(connector.sensitive),
    }
    return tuple(field for field, lost in fields.items() if lost)


def _json_document(connector: DesiredConnector) -> str:
    """Returns the body of `POST /connectors` (KIP-980)."""
    config = {"name": connector.name} | in_reading_order(connector.config)
    document: dict[str, object] = {"name": connector.name, "config": config}
    if connector.state is not None:
        document["initial_state"] = connector.state.value.upper()
    return json_text(document, indent=2) + "\n"


def _properties_text(connector: DesiredConnector) -> str:
    config = {"name": connector.name} | in_reading_order(connector.config)
    lines = (f"{_property(key, True)}={_property(text, False)}\n" for key, text in config.items())
    return "".join(lines)


def _property(text: str, is_key: bool) -> str:
    """Returns the text as java.util.Properties stores it: ASCII, other characters as UTF-16 units
    that Java reads.
    """
    escaped: list[str] = []
    for at, character in enumerate(text):
        if character in _PROPERTY_ESCAPES:
            escaped.append(_PROPERTY_ESCAPES[character])
        elif character in "\\=:#!" or (character == " " and (is_key or at == 0)):
            escaped.append(f"\\{character}")
        elif " " <= character <= "~" and text[at : at + 2] not in _TEMPLATES:
            escaped.append(character)
        else:
            units = character.encode("utf-16-be").hex().upper()
            escaped += [f"\\u{units[unit : unit + 4]}" for unit in range(0, len(units), 4)]
    return "".join(escaped)


def _strimzi_text(connector: DesiredConnector, cluster: str | None, version: StrimziVersion) -> str:
    problems = tuple(_not_for_strimzi(connector))
    if problems:
        raise Invalid(*problems)
    return "".join(f"{line}\n" for line in _strimzi_lines(connector, cluster, version))


def _not_for_strimzi(connector: DesiredConnector) -> Iterator[Diagnostic]:
    name, tasks = connector.name, connector.config.get(_TASKS_KEY)
    if not _RESOURCE_NAME.fullmatch(name) or len(name) > _RESOURCE_NAME_MAX:
        message = "the connector's name is not a valid name of a Kubernetes resource"
        hint = "Kubernetes accepts lowercase letters, digits, '-' and '.'"
        yield Diagnostic("export.strimzi-name", message, name, hint=hint)
    if tasks is not None and not _WHOLE.fullmatch(tasks):
        message = f"{_TASKS_KEY!r} is not a whole number, as tasksMax must be"
        yield Diagnostic("export.strimzi-tasks", message, name, hint="write a whole number")


def _strimzi_lines(
    connector: DesiredConnector, cluster: str | None, version: StrimziVersion
) -> Iterator[str]:
    yield f"apiVersion: kafka.strimzi.io/{version}"
    yield "kind: KafkaConnector"
    yield "metadata:"
    yield f"  name: {scalar(connector.name)}"
    if cluster is not None:
        yield "  labels:"
        yield f"    strimzi.io/cluster: {scalar(cluster)}"
    yield "spec:"
    yield f"  class: {scalar(connector.config.get(CLASS_KEY, ''))}"
    if _TASKS_KEY in connector.config:
        yield f"  tasksMax: {connector.config[_TASKS_KEY]}"
    if VERSION_KEY in connector.config:
        yield f"  version: {scalar(connector.config[VERSION_KEY])}"
    if connector.state is not None:
        yield f"  state: {connector.state.value}"
    config = {
        key: text
        for key, text in in_reading_order(connector.config).items()
        if key not in (CLASS_KEY, _TASKS_KEY, VERSION_KEY)
    }
    yield "  config:" if config else "  config: {}"
    yield from map_lines(config, "    ")
