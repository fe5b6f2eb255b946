"""Reads one document as one connector: recognizes its format, and reads the spec format.

A spec has name, state, config, offsets, lifecycle, health, sensitive and renamed_from. The same
reader takes JSON bodies of `POST /connectors` (KIP-980), which differ by `initial_state` only.
"""

from __future__ import annotations

import re
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import PurePath

from connect_specs.config_values import ConfigValues, read_config
from connect_specs.connector_parts import make_connector, read_class, read_name, read_state
from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import Diagnostic
from connect_specs.fields import as_bool, as_map, as_texts, check_fields, required, value_kind
from connect_specs.foreign_documents import read_flat, read_strimzi
from connect_specs.nodes import Map, Node, Scalar, is_null
from connect_specs.spec_offsets import read_pin
from connect_specs.states import TargetState

_CODE = "spec"
_CONFIG = "config."
_FIELDS = (
    "name",
    "state",
    "config",
    "offsets",
    "lifecycle",
    "health",
    "sensitive",
    "renamed_from",
)


class Format(Enum):
    """A file's format, by the end of its name."""

    YAML = "yaml"
    JSON = "json"
    PROPERTIES = "properties"


def read_document(
    node: Node, written: Format, problems: list[Diagnostic]
) -> DesiredConnector | None:
    """Returns the connector of one document; None if it does not even have a name."""
    if not isinstance(node, Map):
        what = f"a spec must be a map, and this is {value_kind(node)}"
        hint = "one connector is one document; in YAML, separate them by a line of ---"
        problems.append(Diagnostic("spec.not-a-map", what, node.where, hint=hint))
        return None
    if written is Format.PROPERTIES:
        return read_flat(node, problems)
    if _is_resource(node):
        return read_strimzi(node, problems)
    dotted = next((key for key, _ in node.entries if "." in key.text), None)
    if dotted and not isinstance(node.get("config"), Map):
        if written is Format.JSON:
            return read_flat(node, problems)
        what = "this is a flat Connect config, not a spec"
        hint = "put these keys under 'config:', and 'name:' beside it"
        problems.append(Diagnostic("spec.flat-config", what, dotted.where, hint=hint))
        return None
    return _read_spec(node, written, problems)


def named_by_file(body: Map) -> Map:
    """Returns a JSON body with a name: its own, that in its config, or that of its file."""
    if "name" in body.names() or _is_resource(body):
        return body
    config = body.get("config")
    name = config.get("name") if isinstance(config, Map) else None
    stem = Scalar(PurePath(body.where.file).stem, body.where)
    return Map(((Scalar("name", body.where), name or stem), *body.entries), body.where)


def _is_resource(node: Map) -> bool:
    """Whether the document is a resource of Kubernetes."""
    return {"apiVersion", "kind"} <= node.names()


def _read_spec(node: Map, written: Format, problems: list[Diagnostic]) -> DesiredConnector | None:
    fields = (*_FIELDS, "initial_state") if written is Format.JSON else _FIELDS
    check_fields(node, fields, _CODE, "a spec", problems)
    name_node = required(node, "name", _CODE, "the spec", problems)
    name = name_node and read_name(name_node, problems)
    config_node = required(node, "config", _CODE, "the spec", problems)
    config_map = config_node and as_map(config_node, "config", _CODE, problems)
    config = ConfigValues({}, {})
    if config_map:
        config = read_config(config_map, problems)
        read_class(config, config_map.where, problems)
    state = _state(node, written, problems)
    offsets = node.get("offsets")
    pin = None if offsets is None else read_pin(offsets, problems)
    prevent_delete, ignore = _lifecycle(node, problems)
    allow_zero_tasks = _allows_zero_tasks(node, problems)
    sensitive = node.get("sensitive")
    secrets = () if sensitive is None else as_texts(sensitive, "sensitive", _CODE, problems)
    old = node.get("renamed_from")
    renamed_from = None if old is None else read_name(old, problems)
    if not name:
        return None
    return make_connector(
        name,
        config,
        problems,
        state=state,
        pin=pin,
        prevent_delete=prevent_delete,
        ignore=ignore,
        sensitive=tuple(scalar.text for scalar in secrets),
        renamed_from=renamed_from,
        allow_zero_tasks=allow_zero_tasks,
    )


def _state(node: Map, written: Format, problems: list[Diagnostic]) -> TargetState | None:
    state = node.get("state")
    initial = node.get("initial_state") if written is Format.JSON else None
    if state is not None and initial is not None:
        what = "'state' and 'initial_state' exclude each other"
        hint = "keep 'state'"
        problems.append(Diagnostic("spec.two-states", what, initial.where, hint=hint))
    if state is not None:
        return read_state(state, problems, any_case=False)
    # Connect treats null like a missing field
    if initial is not None and not is_null(initial):
        return read_state(initial, problems, any_case=True)
    return None


def _lifecycle(node: Map, problems: list[Diagnostic]) -> tuple[bool, tuple[str, ...]]:
    lifecycle = node.get("lifecycle")
    if lifecycle is None:
        return False, ()
    fields = as_map(lifecycle, "lifecycle", _CODE, problems)
    if fields is None:
        return False, ()
    check_fields(fields, ("prevent_delete", "ignore"), _CODE, "lifecycle", problems)
    prevent = fields.get("prevent_delete")
    ignore = fields.get("ignore")
    globs = () if ignore is None else as_texts(ignore, "ignore", _CODE, problems)
    for glob in globs:
        if not _can_match(glob.text):
            what = f"{glob.text!r} matches no field that can be ignored"
            hint = f"write {_CONFIG}{glob.text}, or state"
            problems.append(Diagnostic("spec.bad-ignore", what, glob.where, hint=hint))
    return (
        prevent is not None and bool(as_bool(prevent, "prevent_delete", _CODE, problems)),
        tuple(glob.text for glob in globs),
    )


def _allows_zero_tasks(node: Map, problems: list[Diagnostic]) -> bool:
    health = node.get("health")
    fields = None if health is None else as_map(health, "health", _CODE, problems)
    if fields is None:
        return False
    check_fields(fields, ("allow_zero_tasks",), _CODE, "health", problems)
    allowed = fields.get("allow_zero_tasks")
    return allowed is not None and bool(as_bool(allowed, "allow_zero_tasks", _CODE, problems))


def _can_match(glob: str) -> bool:
    """Whether it could be a glob for `state` or `config.<key>`."""
    literal = re.split(r"[*?\[]", glob, maxsplit=1)[0]
    whole = len(literal) == len(glob)
    is_config = literal.startswith(_CONFIG) or (not whole and _CONFIG.startswith(literal))
    return is_config or fnmatchcase("state", glob)
