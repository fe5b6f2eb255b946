"""Reads a connector's spec: its name, state, config, offsets and settings of `connect`.

The same reader takes JSON bodies of `POST /connectors` (KIP-980), which differ by `initial_state`
only. The only place that makes a `DesiredConnector`. It makes one even if something is wrong with
it, as long as it has a name, so that two connectors of one name are found in the same pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final

from connect_specs.desired import DesiredConnector, TargetState
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.documents import Map, Node, Scalar, Sequence, is_null
from connect_specs.fields import Fields, did_you_mean, typo_of
from connect_specs.pins import read_pin
from connect_specs.plugin_definitions import CLASS_KEY

# Of the class, for workers that have several (Connect 4.1)
VERSION_KEY: Final = "connector.plugin.version"

_CODE: Final = "spec"
_CONFIG: Final = "config."
_FIELDS: Final = (
    "name",
    "state",
    "config",
    "offsets",
    "lifecycle",
    "health",
    "sensitive",
    "renamed_from",
)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class ConfigValues:
    """A config in file order, with the location of each key."""

    values: dict[str, str] = field(default_factory=dict)
    places: dict[str, Location] = field(default_factory=dict)


def read_spec(node: Map, problems: list[Diagnostic], *, is_json: bool) -> DesiredConnector | None:
    """Returns the connector of a spec; None if it does not even have a name."""
    names = (*_FIELDS, "initial_state") if is_json else _FIELDS
    spec = Fields(node, names, problems, code=_CODE, noun="the spec")
    name = spec.read("name", read_name, required=True)
    config_map = spec.inner("config", None, required=True).node
    config = read_config(config_map, problems)
    if config_map is not None:
        read_class(config, config_map.location, problems)
    state = _state(spec, is_json=is_json)
    pin = spec.read("offsets", read_pin)
    lifecycle = spec.inner("lifecycle", ("prevent_delete", "ignore"))
    ignore = lifecycle.texts("ignore")
    for glob in ignore:
        if not _can_match(glob.text):
            message = f"{glob.text!r} matches no field that can be ignored"
            hint = f"write {_CONFIG}{glob.text}, or state"
            spec.report("bad-ignore", glob.location, message, hint)
    prevent_delete = lifecycle.flag("prevent_delete")
    allow_zero_tasks = spec.inner("health", ("allow_zero_tasks",)).flag("allow_zero_tasks")
    sensitive = spec.texts("sensitive")
    renamed_from = spec.read("renamed_from", read_name)
    if not name:
        return None
    return replace(
        make_connector(name, config, problems, state),
        pin=pin,
        prevent_delete=bool(prevent_delete),
        ignore=tuple(glob.text for glob in ignore),
        sensitive=tuple(key.text for key in sensitive),
        renamed_from=renamed_from.text if renamed_from else None,
        renamed_from_where=renamed_from.location if renamed_from else None,
        allow_zero_tasks=bool(allow_zero_tasks),
    )


def read_name(node: Node, problems: list[Diagnostic]) -> Scalar | None:
    """Returns the name if Connect accepts it and stores it unchanged; else None."""
    if not isinstance(node, Scalar) or is_null(node) or not node.text:
        message = "the name must be non-empty text"
    elif _CONTROL.search(node.text):
        message = "the name contains a control character"
    elif node.text != node.text.strip():
        # Connect's REST API trims names, so this one could never be found again
        message = "the name begins or ends with a space"
    elif node.text in (".", ".."):
        # In a URL these refer to another path
        message = f"the name is {node.text!r}, which cannot be part of a URL"
    else:
        return node
    hint = "give it a name without control characters, and without spaces at the ends"
    problems.append(Diagnostic("spec.bad-name", message, node.location, hint=hint))
    return None


def read_state(
    node: Node, problems: list[Diagnostic], *, any_case: bool = False
) -> TargetState | None:
    """Returns one of the three target states; `any_case` because Connect's fields ignore case."""
    text = node.text if isinstance(node, Scalar) else ""
    states = [state.value for state in TargetState]
    if (text.lower() if any_case else text) in states:
        return TargetState(text.lower())
    message, hint = "this is not a target state", did_you_mean(text, states)
    problems.append(Diagnostic("spec.bad-state", message, node.location, hint=hint))
    return None


def read_initial_state(node: Node, problems: list[Diagnostic]) -> TargetState | None:
    """Returns the state of a new connector (KIP-980); None for null, which Connect treats like a
    missing field."""
    return None if is_null(node) else read_state(node, problems, any_case=True)


def _state(spec: Fields, *, is_json: bool) -> TargetState | None:
    initial = spec.get("initial_state") if is_json else None
    if spec.get("state") is None:
        return None if initial is None else read_initial_state(initial, spec.problems)
    if initial is not None:
        message = "'state' and 'initial_state' exclude each other"
        spec.report("two-states", initial.location, message, "keep 'state'")
    return spec.read("state", read_state)


def _can_match(glob: str) -> bool:
    """Returns True if this could be a glob for `state` or `config.<key>`."""
    literal = re.split(r"[*?\[]", glob, maxsplit=1)[0]
    is_glob = len(literal) < len(glob)
    is_config = literal.startswith(_CONFIG) or (is_glob and _CONFIG.startswith(literal))
    return is_config or fnmatchcase("state", glob)


def make_connector(
    name: Scalar,
    config: ConfigValues,
    problems: list[Diagnostic],
    state: TargetState | None = None,
) -> DesiredConnector:
    """Returns the connector, with its name in its config."""
    if config.values.get("name", name.text) != name.text:
        problems.append(
            Diagnostic(
                "spec.name-differs",
                "'name' in the config is not the connector's name",
                config.places["name"],
                why=f"the connector is named at {name.location}",
                hint="remove it from the config: `connect` adds it",
            )
        )
    return DesiredConnector(
        name=name.text,
        config={"name": name.text} | config.values | {"name": name.text},
        where=name.location,
        state=state,
        key_locations={"name": name.location} | config.places,
    )


# --- configs: Connect's are strings, so a scalar is taken as written: `on`, `010`, `1.0`. A list of
# scalars becomes what Connect calls a LIST, joined by commas. Diagnostics name keys, never values,
# which may be secret ---


def read_config(node: Map | None, problems: list[Diagnostic]) -> ConfigValues:
    """Returns the strings of a flat config; adds the mistakes in other values to `problems`."""
    values: dict[str, str] = {}
    places: dict[str, Location] = {}
    for key, value in node.entries if node else ():
        if not key.text.strip():
            message, hint = "a config key is empty", "write the key, or remove the line"
            problems.append(Diagnostic("config.empty-key", message, key.location, hint=hint))
            continue
        places[key.text] = key.location
        text = _config_text(key.text, value, problems)
        if text is not None:
            values[key.text] = text
    return ConfigValues(values, places)


def _config_text(key: str, value: Node, problems: list[Diagnostic]) -> str | None:
    if isinstance(value, Sequence):
        return _list_text(key, value, problems)
    if isinstance(value, Map):
        code, hint = "config.nested", f"write flat keys: {key}.<name>: <value>"
        message = f"the value of {key!r} is a map; Connect's configs are flat"
    elif is_null(value):
        code = "config.null"
        hint = 'write "" for an empty string, "null" for that word, or remove the key'
        message = f"the value of {key!r} is null; Connect's configs are strings"
    else:
        return value.text
    problems.append(Diagnostic(code, message, value.location, hint=hint))
    return None


def _list_text(key: str, value: Sequence, problems: list[Diagnostic]) -> str | None:
    elements: list[str] = []
    for item in value.items:
        if not isinstance(item, Scalar) or is_null(item):
            code, message = "config.nested", f"the list {key!r} may hold only text and numbers"
            hint = "quote an element that is to be read as text"
        elif not item.text.strip():
            code, message = "config.list-element", f"an element of the list {key!r} is empty"
            hint = "remove it"
        elif "," in item.text:
            code, message = "config.list-element", f"an element of the list {key!r} holds a comma"
            hint = "Connect separates elements by commas and knows no escape; make two elements"
        else:
            elements.append(item.text)
            continue
        problems.append(Diagnostic(code, message, item.location, hint=hint))
    return ",".join(elements) if len(elements) == len(value.items) else None


def read_class(config: ConfigValues, location: Location, problems: list[Diagnostic]) -> None:
    """Reports a config without a connector class. A class whose value could not be read is not
    missing.
    """
    if CLASS_KEY not in config.places:
        message = f"the config has no {CLASS_KEY!r}"
        hint = f"add '{CLASS_KEY}:' with the connector's class or its short name"
        if typo := typo_of(CLASS_KEY, config.places):
            hint, location = f"write {CLASS_KEY!r} instead of {typo!r}", config.places[typo]
    elif not config.values.get(CLASS_KEY, " "):
        message = f"{CLASS_KEY!r} is empty"
        hint = "write the connector's class or its short name"
        location = config.places[CLASS_KEY]
    else:
        return
    problems.append(Diagnostic("spec.missing-class", message, location, hint=hint))
