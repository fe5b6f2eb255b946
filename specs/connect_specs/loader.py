"""A project's spec files to `Desired`, or every mistake in them at once.

Does not know what a cluster holds: whether a class exists or a pin was used before is the plan's
question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from connect_specs.consequence_rules import read_consequences
from connect_specs.desired import Desired, DesiredConnector, Project
from connect_specs.diagnostics import Diagnostic, Invalid, by_place
from connect_specs.json_documents import parse_json
from connect_specs.properties_documents import parse_properties
from connect_specs.renames import check_renames
from connect_specs.sources import Parse, filled_in
from connect_specs.spec_document import Format, read_document
from connect_specs.spec_files import find_policy_files, find_spec_files, relative_name
from connect_specs.text_files import read_text
from connect_specs.values import Values, load_values
from connect_specs.yaml_documents import parse_yaml

_PARSERS: Mapping[Format, Parse] = {
    Format.YAML: parse_yaml,
    Format.JSON: parse_json,
    Format.PROPERTIES: parse_properties,
}


def load_specs(project: Project) -> Desired:
    """All connectors of the project. Raises Invalid with every problem, sorted by place."""
    values = load_values(project.folder, project.env)
    problems: list[Diagnostic] = []
    files = find_spec_files(project, problems)
    find_policy_files(project, problems)
    connectors = _read_files(files, project.folder, problems, values)
    consequences = read_consequences(project.folder, problems)
    if problems:
        raise Invalid(*by_place(values.hide(problems) if values else problems))
    return Desired(project.name, connectors, consequences)


def load_connectors(files: Iterable[Path], folder: Path) -> dict[str, DesiredConnector]:
    """The connectors of some files, by name; diagnostics name them relative to `folder`.

    For `connect standalone`, which has no project. Raises Invalid as `load_specs` does.
    """
    problems: list[Diagnostic] = []
    connectors = _read_files(files, folder, problems)
    if problems:
        raise Invalid(*by_place(problems))
    return connectors


def _read_files(
    files: Iterable[Path], folder: Path, problems: list[Diagnostic], values: Values | None = None
) -> dict[str, DesiredConnector]:
    connectors: dict[str, DesiredConnector] = {}
    for path in files:
        for connector in _read_file(path, relative_name(path, folder), problems, values):
            other = connectors.setdefault(connector.name, connector)
            if other is not connector:
                what = f"the connector {connector.name!r} is already specified"
                why = f"its other spec is at {other.where}"
                hint = "rename one of them, or remove it"
                code = "spec.duplicate-name"
                problems.append(Diagnostic(code, what, connector.where, why=why, hint=hint))
    check_renames(connectors, problems)
    return dict(sorted(connectors.items()))


def _read_file(
    path: Path, file: str, problems: list[Diagnostic], values: Values | None
) -> list[DesiredConnector]:
    written = _format(path)
    try:
        text = read_text(path, file, latin1_fallback=written is Format.PROPERTIES)
        source = filled_in(text, file, values)
    except Invalid as invalid:
        problems.extend(invalid.diagnostics)
        return []
    # As Connect does (KIP-980): nearly any text is .properties, so JSON is tried first
    if written is Format.PROPERTIES and source.text.lstrip().startswith("{"):
        written = Format.JSON
    parsed = source.parsed(_PARSERS[written])
    problems.extend(parsed.problems)
    found = (read_document(node, written, problems) for node in parsed.documents)
    return [connector for connector in found if connector is not None]


def _format(path: Path) -> Format:
    ending = path.suffix.lower()
    if ending in (".yaml", ".yml"):
        return Format.YAML
    return Format.JSON if ending == ".json" else Format.PROPERTIES
