"""Reads the files of Apache's workers: worker.properties, and connector files (KIP-980).

A connector file is a JSON object, flat or with `name`, `config` and `initial_state` as in
`POST /connectors`, or Java properties. Its content decides, never its name. As in Connect, other
fields are ignored, so that an answer to `GET /connectors/NAME` is a connector file, too.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from connect_specs.connector_spec import read_config, read_initial_state, read_name
from connect_specs.desired import TargetState
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.documents import Map, Node
from connect_specs.json_documents import parse_json
from connect_specs.properties_documents import parse_properties
from connect_specs.text_files import decoded, read_bytes, read_text, relative_name


@dataclass(frozen=True, slots=True)
class WorkerFile:
    """The properties of one file, and where each of them is written."""

    file: str
    properties: Mapping[str, str] = field(repr=False)
    places: Mapping[str, Location]

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Adds to errors about a key its place in the file, or the file for a missing one."""
        try:
            yield
        except Invalid as invalid:
            raise Invalid(*map(self._placed, invalid.diagnostics)) from invalid

    def _placed(self, diagnostic: Diagnostic) -> Diagnostic:
        key = diagnostic.where
        if not diagnostic.code.startswith("worker.") or not isinstance(key, str):
            return diagnostic
        problem = diagnostic.what if key in diagnostic.what else f"{key}: {diagnostic.what}"
        return replace(diagnostic, what=problem, where=self.places.get(key, Location(self.file)))


def read_worker_file(path: Path, file: str) -> WorkerFile:
    """Reads the file, which errors call `file`. Raises Invalid."""
    parsed = parse_properties(read_text(path, file, latin1_fallback=True), file)
    problems = list(parsed.problems)
    (document,) = parsed.documents
    assert isinstance(document, Map), "a properties file is one map"
    config = read_config(document, problems)
    if problems:
        raise Invalid(*problems)
    return WorkerFile(file, config.values, config.places)


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
    connectors: dict[str, FirstConnector] = {}
    for path in files:
        try:
            connector = _read(path, relative_name(path, folder), problems)
        except Invalid as invalid:
            problems.extend(invalid.diagnostics)
            continue
        if connector is None:
            continue
        first = connectors.setdefault(connector.name, connector)
        if first is not connector:
            message = f"the connector {connector.name!r} is already specified"
            reason = f"its other file is {first.where.file}"
            hint = "name another file, or this one once"
            problems.append(
                Diagnostic("spec.duplicate-name", message, connector.where, reason, hint)
            )
    if problems:
        raise Invalid(*problems)
    return tuple(connectors.values())


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
        message = "a connector file holds one JSON object"
        hint = "write each connector into its own file"
        problems.append(Diagnostic("connector.not-one", message, node.location, hint=hint))
        return None
    config = node.get("config")
    if not isinstance(config, Map):
        return _connector(node.get("name"), node, None, file, problems)
    # the form of `POST /connectors`
    state_node = node.get("initial_state")
    state = None if state_node is None else read_initial_state(state_node, problems)
    return _connector(node.get("name"), config, state, file, problems)


def _connector(
    name_node: Node | None,
    config: Map,
    state: TargetState | None,
    file: str,
    problems: list[Diagnostic],
) -> FirstConnector | None:
    valid = len(problems)
    if name_node is None:
        message = (
            f"Connector configuration at '{file}' is missing the mandatory 'name' configuration"
        )
        hint = "add the name of the connector"
        problems.append(Diagnostic("connector.no-name", message, config.location, hint=hint))
        return None
    name = read_name(name_node, problems)
    values = read_config(config, problems).values
    if name is None or len(problems) > valid:
        return None
    code = message = ""
    if "/" in name.text:
        code = "connector.bad-name"
        message = (
            f"the name {name.text!r} holds a slash, which the paths of the REST API cannot carry"
        )
    elif values.get("name", name.text) != name.text:
        code = "connector.name-differs"
        message = (
            "Connector name configuration in 'config' doesn't match the one specified in 'name' "
            f"at '{file}'"
        )
    if code:
        problems.append(Diagnostic(code, message, name.location))
        return None
    return FirstConnector(name.text, {**values, "name": name.text}, state, name.location)
