"""Reads connectors written for other tools: Connect's flat configs and Strimzi's KafkaConnector.

A field that `connect` does not know is an error. Strimzi's orders to its operator, which a
KafkaConnector carries beside the connector, are reported, once for all files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from connect_specs.connector_spec import (
    VERSION_KEY,
    ConfigValues,
    make_connector,
    read_class,
    read_config,
    read_name,
    read_state,
)
from connect_specs.desired import DesiredConnector, TargetState
from connect_specs.diagnostics import Diagnostic, Location, warning
from connect_specs.documents import Map, Node, Scalar
from connect_specs.fields import Fields
from connect_specs.plain_text import listed
from connect_specs.plugin_definitions import CLASS_KEY

_STRIMZI: Final = "kafka.strimzi.io/"
_CODE: Final = "strimzi"
_OPERATOR: Final = "strimzi.operator-"
_SPEC: Final = ("class", "tasksMax", "version", "config", "state", "pause")
_OFFSETS = (
    "`connect offsets list NAME` shows and `connect offsets alter NAME FILE` sets them; 'offsets' "
    "of a spec sets them once"
)
_RESTART = "`connect restart NAME` restarts it"
# Orders to Strimzi's operator, fields of `spec` and annotations, each with its counterpart here
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
    fields = Fields(node, None, problems, code="spec", noun="the config")
    name = fields.read("name", read_name, required=True)
    entries = tuple(entry for entry in node.entries if entry[0].text != "name")
    config = read_config(Map(entries, node.location), problems)
    read_class(config, node.location, problems)
    return make_connector(name, config, problems) if name else None


def read_strimzi(node: Map, problems: list[Diagnostic]) -> DesiredConnector | None:
    """Reads a KafkaConnector resource, without its status and its metadata except the name."""
    names = ("apiVersion", "kind", "metadata", "spec", "status")
    if not _is_kafka_connector(node):
        resource = Fields(node, None, problems, code=_CODE, noun="a resource")
        message = "the only Kubernetes resource that can be read is Strimzi's KafkaConnector"
        hint = "move other resources out of the folders that 'specs' names"
        resource.report("kind", "kind", message, hint)
        return None
    resource = Fields(node, names, problems, code=_CODE, noun="the KafkaConnector")
    metadata = resource.inner("metadata", None, noun="the metadata", required=True)
    name = metadata.read("name", read_name, required=True)
    annotations = metadata.get("annotations")
    if isinstance(annotations, Map):
        _report_orders(annotations, _ANNOTATIONS, "the annotation", problems)
    spec_map = resource.inner("spec", None, required=True).node
    if spec_map is None:
        return None
    _report_orders(spec_map, _FIELDS, "the field", problems)
    entries = tuple(entry for entry in spec_map.entries if entry[0].text not in _FIELDS)
    own, noun = Map(entries, spec_map.location), "the spec of a KafkaConnector"
    spec = Fields(own, _SPEC, problems, code=_CODE, noun=noun)
    config = _strimzi_config(spec)
    state = _strimzi_state(spec)
    return make_connector(name, config, problems, state) if name else None


def _is_kafka_connector(node: Map) -> bool:
    version, kind = node.get("apiVersion"), node.get("kind")
    return (
        isinstance(version, Scalar)
        and version.text.startswith(_STRIMZI)
        and isinstance(kind, Scalar)
        and kind.text == "KafkaConnector"
    )


def _strimzi_state(spec: Fields) -> TargetState | None:
    """Returns its state, or the meaning of `pause`, which older resources have instead."""
    state = spec.read("state", read_state)
    if spec.get("pause") is None:
        return state
    pause = spec.flag("pause")
    if spec.get("state") is not None:
        message = "'state' and 'pause' exclude each other"
        spec.report("state-twice", "pause", message, "remove 'pause'")
    return TargetState.PAUSED if pause else TargetState.RUNNING


def _strimzi_config(spec: Fields) -> ConfigValues:
    config = read_config(spec.inner("config", None).node, spec.problems)
    values: dict[str, str] = {}
    places: dict[str, Location] = {}
    for field, key in (("class", CLASS_KEY), ("tasksMax", "tasks.max"), ("version", VERSION_KEY)):
        value = spec.get(field)
        is_equal = isinstance(value, Scalar) and value.text == config.values.get(key)
        # Like Strimzi, takes a version from the config if the field is missing
        if key in config.places and not is_equal and not (value is None and key == VERSION_KEY):
            message = f"a KafkaConnector's config may not hold {key!r}"
            if value is not None:
                message += f" with another value than its {field!r}"
            hint = f"write it as spec.{field}"
            spec.report("forbidden-key", config.places[key], message, hint)
        if value is None:
            continue
        places[key] = spec.location(field)
        text = spec.text(field)
        if text is not None:
            values[key] = text
    spec.get("class", required=True)
    return ConfigValues(values | config.values, places | config.places)


def _report_orders(
    node: Map, orders: Mapping[str, str], kind: str, problems: list[Diagnostic]
) -> None:
    """Reports the orders to Strimzi's operator, which `connect` does not carry out."""
    for name, value in node.entries:
        if name.text in orders and not _orders_nothing(value):
            message = f"{kind} {name.text!r} of a KafkaConnector has no effect here"
            code = _OPERATOR + name.text.removeprefix("strimzi.io/")
            problems.append(warning(code, message, name.location, hint=orders[name.text]))


def _orders_nothing(value: Node) -> bool:
    switch = value.get("enabled") if isinstance(value, Map) else value
    return isinstance(switch, Scalar) and switch.text == "false"


def orders_reported_once(warnings: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Returns the warnings, with one for each kind of order, which names its other places."""
    reported: list[Diagnostic] = []
    places: dict[str, list[str]] = {}
    for order in warnings:
        further = places.get(order.code)
        if further is None or not order.code.startswith(_OPERATOR):
            reported.append(order)
            places.setdefault(order.code, [])
        else:
            further.append(str(order.where))
    return [
        replace(order, why=f"also at {listed(places[order.code])}") if places[order.code] else order
        for order in reported
    ]
