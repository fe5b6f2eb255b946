"""Reads connectors written for other tools: Connect's flat configs and Strimzi's KafkaConnector.

A field that `connect` cannot carry out is an error, never silently dropped.
"""

from __future__ import annotations

from connect_specs.config_values import ConfigValues, read_config
from connect_specs.connector_parts import (
    VERSION_KEY,
    make_connector,
    read_class,
    read_name,
    read_state,
)
from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.fields import as_bool, as_map, as_text, check_fields, place_of, required
from connect_specs.nodes import Map, Node, Scalar
from connect_specs.plugin_definitions import CLASS_KEY
from connect_specs.states import TargetState

_STRIMZI = "kafka.strimzi.io/"
_CODE = "strimzi"
_OURS = "specs have their own fields for this; write the connector as a spec of `connect`"
_UNSUPPORTED = {
    "autoRestart": "remove it; `connect restart --failed --watch` restarts what failed",
    "listOffsets": _OURS,
    "alterOffsets": _OURS,
}


def read_flat(node: Map, problems: list[Diagnostic]) -> DesiredConnector | None:
    """Reads a flat config with its `name`: .properties, or the body of `PUT …/config`."""
    name_node = required(node, "name", "spec", "the config", problems)
    name = name_node and read_name(name_node, problems)
    entries = tuple(entry for entry in node.entries if entry[0].text != "name")
    config = read_config(Map(entries, node.where), problems)
    read_class(config, node.where, problems)
    return make_connector(name, config, problems) if name else None


def read_strimzi(node: Map, problems: list[Diagnostic]) -> DesiredConnector | None:
    """Reads a KafkaConnector resource, without its status and its metadata except the name."""
    version, kind = node.get("apiVersion"), node.get("kind")
    if (
        not isinstance(version, Scalar)
        or not version.text.startswith(_STRIMZI)
        or not isinstance(kind, Scalar)
        or kind.text != "KafkaConnector"
    ):
        what = "the only Kubernetes resource that can be read is Strimzi's KafkaConnector"
        hint = "move other resources out of the folders that 'specs' names"
        where = place_of(node, "kind")
        problems.append(Diagnostic("strimzi.kind", what, where, hint=hint))
        return None
    known = ("apiVersion", "kind", "metadata", "spec", "status")
    check_fields(node, known, _CODE, "a KafkaConnector", problems)
    metadata_node = required(node, "metadata", _CODE, "the KafkaConnector", problems)
    metadata = metadata_node and as_map(metadata_node, "metadata", _CODE, problems)
    name_node = metadata and required(metadata, "name", _CODE, "the metadata", problems)
    name = name_node and read_name(name_node, problems)
    spec_node = required(node, "spec", _CODE, "the KafkaConnector", problems)
    spec = spec_node and as_map(spec_node, "spec", _CODE, problems)
    if not spec:
        return None
    config = _strimzi_config(spec, problems)
    state = _strimzi_state(spec, problems)
    return make_connector(name, config, problems, state=state) if name else None


def _strimzi_state(spec: Map, problems: list[Diagnostic]) -> TargetState | None:
    """Returns its state, or what `pause` means, which older resources have instead."""
    state_node, pause_node = spec.get("state"), spec.get("pause")
    state = None if state_node is None else read_state(state_node, problems, any_case=False)
    if pause_node is None:
        return state
    pause = as_bool(pause_node, "pause", _CODE, problems)
    if state_node is not None:
        what, where = "'state' and 'pause' exclude each other", place_of(spec, "pause")
        problems.append(Diagnostic("strimzi.state-twice", what, where, hint="remove 'pause'"))
    return TargetState.PAUSED if pause else TargetState.RUNNING


def _strimzi_config(spec: Map, problems: list[Diagnostic]) -> ConfigValues:
    known = ("class", "tasksMax", "version", "config", "state", "pause")
    for name, given in spec.entries:
        if name.text in _UNSUPPORTED and not _restarts_nothing(name, given):
            what = f"{name.text!r} of a KafkaConnector is not supported"
            hint = _UNSUPPORTED[name.text]
            problems.append(Diagnostic("strimzi.unsupported-field", what, name.where, hint=hint))
    rest = tuple(entry for entry in spec.entries if entry[0].text not in _UNSUPPORTED)
    check_fields(Map(rest, spec.where), known, _CODE, "the spec of a KafkaConnector", problems)
    config_node = spec.get("config")
    config_map = config_node and as_map(config_node, "config", _CODE, problems)
    config = read_config(config_map, problems) if config_map else ConfigValues({}, {})
    values: dict[str, str] = {}
    places: dict[str, Location] = {}
    for field, key in (("class", CLASS_KEY), ("tasksMax", "tasks.max"), ("version", VERSION_KEY)):
        value = spec.get(field)
        # Like Strimzi, takes a version from the config if the field is missing
        if key in config.places and not (value is None and key == VERSION_KEY):
            what = f"a KafkaConnector's config may not hold {key!r}"
            hint = f"write it as spec.{field}"
            where = config.places[key]
            problems.append(Diagnostic("strimzi.forbidden-key", what, where, hint=hint))
        if value is None:
            continue
        places[key] = place_of(spec, field)
        text = as_text(value, field, _CODE, problems)
        if text is not None:
            values[key] = text
    required(spec, "class", _CODE, "the spec of a KafkaConnector", problems)
    return ConfigValues(values | config.values, places | config.places)


def _restarts_nothing(name: Scalar, value: Node) -> bool:
    if name.text != "autoRestart" or not isinstance(value, Map):
        return False
    enabled = value.get("enabled")
    return isinstance(enabled, Scalar) and enabled.plain and enabled.text == "false"
