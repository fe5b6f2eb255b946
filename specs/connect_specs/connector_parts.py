"""Reads the parts that all accepted formats of a connector share: its name, state and config.

The only place that makes a `DesiredConnector`. It makes one even if something is wrong with it, as
long as it has a name, so that two connectors of one name are found in the same pass.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from connect_specs.config_values import ConfigValues
from connect_specs.desired import DesiredConnector, Pin
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.nodes import Node, Scalar, is_null
from connect_specs.plugin_definitions import CLASS_KEY
from connect_specs.states import TargetState

# Of the class, for workers that have several (Connect 4.1)
VERSION_KEY = "connector.plugin.version"

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def read_name(node: Node, problems: list[Diagnostic]) -> Scalar | None:
    """Returns the name if Connect accepts it and stores it unchanged; else None."""
    hint = "give it a name without control characters, and without spaces at the ends"
    if not isinstance(node, Scalar) or is_null(node) or not node.text:
        what = "the name must be non-empty text"
    elif _CONTROL.search(node.text):
        what = "the name contains a control character"
    elif node.text != node.text.strip():
        # Connect's REST API trims names, so this one could never be found again
        what = "the name begins or ends with a space"
    elif node.text in (".", ".."):
        # In a URL these refer to another path
        what = f"the name is {node.text!r}, which cannot be part of a URL"
    else:
        return node
    problems.append(Diagnostic("spec.bad-name", what, node.where, hint=hint))
    return None


def read_state(node: Node, problems: list[Diagnostic], *, any_case: bool) -> TargetState | None:
    """Returns one of the three target states; `any_case` because Connect's fields ignore case."""
    text = node.text if isinstance(node, Scalar) else ""
    states = [state.value for state in TargetState]
    if (text.lower() if any_case else text) in states:
        return TargetState(text.lower())
    hint = f"write {', '.join(states[:-1])} or {states[-1]}"
    if is_null(node):
        hint += ", or leave the field out"
    elif text.lower() in states:
        hint = f"write {text.lower()}"
    elif near := get_close_matches(text.lower(), states, 1):
        hint = f"did you mean {near[0]!r}?"
    problems.append(
        Diagnostic("spec.bad-state", "this is not a target state", node.where, hint=hint)
    )
    return None


def read_class(config: ConfigValues, where: Location, problems: list[Diagnostic]) -> None:
    """Reports a config without a connector class. A class whose value could not be read is not
    missing.
    """
    if CLASS_KEY not in config.places:
        what = f"the config has no {CLASS_KEY!r}"
        hint = f"add '{CLASS_KEY}:' with the connector's class or its short name"
        if near := get_close_matches(CLASS_KEY, config.places, 1, 0.8):
            hint, where = f"write {CLASS_KEY!r} instead of {near[0]!r}", config.places[near[0]]
        problems.append(Diagnostic("spec.missing-class", what, where, hint=hint))
    elif not config.values.get(CLASS_KEY, " "):
        what = f"{CLASS_KEY!r} is empty"
        hint = "write the connector's class or its short name"
        where = config.places[CLASS_KEY]
        problems.append(Diagnostic("spec.missing-class", what, where, hint=hint))


def make_connector(
    name: Scalar,
    config: ConfigValues,
    problems: list[Diagnostic],
    *,
    state: TargetState | None = None,
    pin: Pin | None = None,
    prevent_delete: bool = False,
    ignore: tuple[str, ...] = (),
    sensitive: tuple[str, ...] = (),
    renamed_from: Scalar | None = None,
    allow_zero_tasks: bool = False,
) -> DesiredConnector:
    """Returns the connector, with its name in its config."""
    given = config.values.get("name", name.text)
    if given != name.text:
        problems.append(
            Diagnostic(
                "spec.name-differs",
                "'name' in the config is not the connector's name",
                config.places["name"],
                why=f"the connector is named at {name.where}",
                hint="remove it from the config: `connect` adds it",
            )
        )
    return DesiredConnector(
        name=name.text,
        config={"name": name.text} | config.values | {"name": name.text},
        where=name.where,
        state=state,
        pin=pin,
        prevent_delete=prevent_delete,
        ignore=ignore,
        sensitive=sensitive,
        key_locations={"name": name.where} | config.places,
        renamed_from=renamed_from.text if renamed_from else None,
        renamed_from_where=renamed_from.where if renamed_from else None,
        allow_zero_tasks=allow_zero_tasks,
    )
