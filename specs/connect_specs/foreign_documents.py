"""Reads connectors written for other tools: Connect's flat configs and Strimzi's KafkaConnector.

A field that `connect` does not know is an error. Strimzi's orders to its operator, which a
KafkaConnector carries beside the connector, are reported, once for all files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from connect_specs.config_values import ConfigValues, read_config
from connect_specs.connector_parts import (
    VERSION_KEY,
    make_connector,
    read_class,
    read_name,
    read_state,
)
from connect_specs.counting import listed
from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import Diagnostic, Location, warning
from connect_specs.fields import as_bool, as_map, as_text, check_fields, place_of, required
from connect_specs.nodes import Map, Node, Scalar
from connect_specs.plugin_definitions import CLASS_KEY
from connect_specs.states import TargetState

_STRIMZI = "kafka.strimzi.io/"
_CODE = "strimzi"
_OPERATOR = "strimzi.operator-"
_OFFSETS = "`connect offsets NAME` lists and alters them; 'offsets' of a spec sets them once"
_RESTART = "`connect restart NAME` restarts it"
# Orders to Strimzi's operator, and what to do instead: fields of `spec`, and annotations
_FIELDS: Mapping[str, str] = {
    "autoRestart": "`connect restart --failed --watch` restarts what failed",
    "listOffsets": _OFFSETS,
    "alterOffsets": _OFFSETS,
}
_ANNOTATIONS: Mapping[str, str] = {
    "strimzi.io/pause-reconciliation": "it is planned and applied; --exclude leaves it out, and"
    " 'lifecycle.ignore' of a spec leaves keys and the state as they are",
    "strimzi.io/connector-offsets": _OFFSETS,
    "strimzi.io/restart": _RESTART,
    "strimzi.io/restart-task": _RESTART,
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
    annotations = metadata and metadata.get("annotations")
    if isinstance(annotations, Map):
        _report_orders(annotations, _ANNOTATIONS, "the annotation", problems)
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
    _report_orders(spec, _FIELDS, "the field", problems)
    rest = tuple(entry for entry in spec.entries if entry[0].text not in _FIELDS)
    check_fields(Map(rest, spec.where), known, _CODE, "the spec of a KafkaConnector", problems)
    config_node = spec.get("config")
    config_map = config_node and as_map(config_node, "config", _CODE, problems)
    config = read_config(config_map, problems) if config_map else ConfigValues({}, {})
    values: dict[str, str] = {}
    places: dict[str, Location] = {}
    for field, key in (("class", CLASS_KEY), ("tasksMax", "tasks.max"), ("version", VERSION_KEY)):
        value = spec.get(field)
        same = isinstance(value, Scalar) and value.text == config.values.get(key)
        # Like Strimzi, takes a version from the config if the field is missing
        if key in config.places and not same and not (value is None and key == VERSION_KEY):
            what = f"a KafkaConnector's config may not hold {key!r}"
            if value is not None:
                what += f" with another value than its {field!r}"
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


def _report_orders(
    node: Map, orders: Mapping[str, str], kind: str, problems: list[Diagnostic]
) -> None:
    """Reports the orders to Strimzi's operator, which `connect` does not carry out."""
    for name, value in node.entries:
        if name.text in orders and not _orders_nothing(value):
            what = f"{kind} {name.text!r} of a KafkaConnector has no effect here"
            code = _OPERATOR + name.text.removeprefix("strimzi.io/")
            problems.append(warning(code, what, name.where, hint=orders[name.text]))


def _orders_nothing(value: Node) -> bool:
    switch = value.get("enabled") if isinstance(value, Map) else value
    return isinstance(switch, Scalar) and switch.text == "false"


def orders_reported_once(warnings: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Returns the warnings, with one for each kind of order, which names its other places."""
    kept: list[Diagnostic] = []
    places: dict[str, list[str]] = {}
    for each in warnings:
        others = places.get(each.code)
        if others is None or not each.code.startswith(_OPERATOR):
            kept.append(each)
            places.setdefault(each.code, [])
        else:
            others.append(str(each.where))
    return [
        replace(each, why=f"also at {listed(places[each.code])}") if places[each.code] else each
        for each in kept
    ]
