"""Reads the connector files of `connect standalone` (KIP-980).

A file is a JSON object, flat or with `name`, `config` and `initial_state` as in `POST /connectors`,
or Java properties. Its content decides, never its name. As in Connect, other fields are ignored, so
that what `GET /connectors/NAME` answers is a file, too.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from connect_specs.config_values import read_config
from connect_specs.connector_parts import read_name, read_state
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.fields import as_map
from connect_specs.json_documents import parse_json
from connect_specs.nodes import Map, Node, is_null
from connect_specs.properties_documents import parse_properties
from connect_specs.spec_folders import relative_name
from connect_specs.states import TargetState
from connect_specs.text_files import decoded, read_bytes

_NAME = "name"
_CONFIG = "config"
_STATE = "initial_state"


@dataclass(frozen=True, slots=True)
class FirstConnector:
    """A connector to create. `config` holds its name; `initial_state` None means running."""

    name: str
    config: Mapping[str, str] = field(repr=False)
    initial_state: TargetState | None
    where: Location


def read_connector_files(files: Iterable[Path], folder: Path) -> tuple[FirstConnector, ...]:
    """Returns the connectors in the order of the files; diagnostics name files relative to
    `folder`. Raises Invalid with every problem."""
    problems: list[Diagnostic] = []
    found: dict[str, FirstConnector] = {}
    for path in files:
        try:
            connector = _read(path, relative_name(path, folder), problems)
        except Invalid as invalid:
            problems.extend(invalid.diagnostics)
            continue
        if connector is None:
            continue
        other = found.setdefault(connector.name, connector)
        if other is not connector:
            what = f"the connector {connector.name!r} is already specified"
            why, hint = (
                f"its other file is {other.where.file}",
                "name another file, or this one once",
            )
            where = connector.where
            problems.append(Diagnostic("spec.duplicate-name", what, where, why, hint))
    if problems:
        raise Invalid(*problems)
    return tuple(found.values())


def _read(path: Path, file: str, problems: list[Diagnostic]) -> FirstConnector | None:
    data = read_bytes(path, file)
    # nearly any text is Java properties, so JSON comes first
    is_json = data.removeprefix(codecs.BOM_UTF8).lstrip().startswith((b"{", b"["))
    text = decoded(data, file, latin1_fallback=not is_json)
    parsed = (parse_json if is_json else parse_properties)(text, file)
    problems.extend(parsed.problems)
    if parsed.problems:
        return None
    (node,) = parsed.documents
    if not isinstance(node, Map):
        what, hint = (
            "a connector file holds one JSON object",
            "write each connector into its own file",
        )
        problems.append(Diagnostic("connector.not-one", what, node.where, hint=hint))
        return None
    if isinstance(node.get(_CONFIG), Map):
        return _from_request(node, file, problems)
    return _connector(node.get(_NAME), node, None, file, problems)


def _from_request(node: Map, file: str, problems: list[Diagnostic]) -> FirstConnector | None:
    """Reads the form of `POST /connectors`."""
    config_node, state_node, name = node.get(_CONFIG), node.get(_STATE), node.get(_NAME)
    assert config_node is not None, "the caller saw it"
    config = as_map(config_node, _CONFIG, "connector", problems)
    state = None
    if state_node is not None and not is_null(state_node):
        state = read_state(state_node, problems, any_case=True)
    return None if config is None else _connector(name, config, state, file, problems)


def _connector(
    name: Node | None,
    config: Map,
    state: TargetState | None,
    file: str,
    problems: list[Diagnostic],
) -> FirstConnector | None:
    before = len(problems)
    if name is None:
        what = f"Connector configuration at '{file}' is missing the mandatory 'name' configuration"
        hint = "add the name of the connector"
        problems.append(Diagnostic("connector.no-name", what, config.where, hint=hint))
        return None
    read = read_name(name, problems)
    values = read_config(config, problems).values
    if read is None or len(problems) > before:
        return None
    if "/" in read.text:
        what = f"the name {read.text!r} holds a slash, which the paths of the REST API cannot carry"
        problems.append(Diagnostic("connector.bad-name", what, read.where))
        return None
    if values.get(_NAME, read.text) != read.text:
        what = (
            "Connector name configuration in 'config' doesn't match the one specified in 'name' "
            f"at '{file}'"
        )
        problems.append(Diagnostic("connector.name-differs", what, read.where))
        return None
    return FirstConnector(read.text, {**values, _NAME: read.text}, state, read.where)
