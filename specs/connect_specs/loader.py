"""Loads a project's spec files into `Desired`, or reports every mistake in them at once.

It does not know what a cluster holds: whether a class exists or a pin was applied before is checked
by the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from connect_specs.consequence_rules import read_consequences
from connect_specs.desired import Desired, DesiredConnector, Project
from connect_specs.diagnostics import (
    Diagnostic,
    Invalid,
    Location,
    by_place,
    by_severity,
    warning,
)
from connect_specs.foreign_documents import orders_reported_once
from connect_specs.json_documents import parse_json
from connect_specs.nodes import Map, Node, Parsed, Sequence
from connect_specs.properties_documents import parse_properties
from connect_specs.record_tests import specs_named_as_tests
from connect_specs.renames import check_renames
from connect_specs.sources import Parse, Source, rendered_source
from connect_specs.spec_document import Format, named_by_file, read_document
from connect_specs.spec_files import find_policy_files, find_spec_files
from connect_specs.spec_folders import relative_name
from connect_specs.text_files import read_text
from connect_specs.value_secrets import (
    redacted,
    secret_texts,
    with_secrets_marked,
    with_stand_ins,
)
from connect_specs.values import Values, load_values
from connect_specs.yaml_documents import parse_yaml

NO_SPECS = "project.no-specs"

_PARSERS: Mapping[Format, Parse] = {
    Format.YAML: parse_yaml,
    Format.JSON: parse_json,
    Format.PROPERTIES: parse_properties,
}


def load_specs(project: Project) -> Desired:
    """Returns all connectors of the project. Raises Invalid with every problem, sorted by place."""
    desired, problems = read_specs(project)
    if problems:
        raise Invalid(*problems)
    return desired


def read_specs(project: Project) -> tuple[Desired, tuple[Diagnostic, ...]]:
    """Returns the connectors without problems, and every problem of the others, by place."""
    problems: list[Diagnostic] = []
    values = load_values(project.folder, project.env, project.given)
    files = find_spec_files(project, problems)
    find_policy_files(project, problems)
    found = FoundSpecs(values, problems)
    found.warnings += values.warnings if values else ()
    if not files and not problems:
        found.warnings.append(_none(project))
    for path in files:
        found.read(path, relative_name(path, project.folder))
    problems.extend(specs_named_as_tests(project))
    check_renames(found.connectors, problems)
    consequences = read_consequences(project.folder, problems)
    whole = {name: each for name, each in found.connectors.items() if name not in found.wrong}
    desired = Desired(
        project.name,
        dict(sorted(whole.items())),
        consequences,
        tuple(orders_reported_once(found.warnings)),
        () if values is None else values.environments,
        project.secrets,
    )
    return desired, tuple(by_place(redacted(problems, values) if values else problems))


class FoundSpecs:
    """The contents of the files read so far. `wrong` names connectors whose spec has problems."""

    def __init__(self, values: Values | None, problems: list[Diagnostic]) -> None:
        self.connectors: dict[str, DesiredConnector] = {}
        self.wrong: set[str] = set()
        self.warnings: list[Diagnostic] = []
        self.problems = problems
        self._values = values
        self._stand_ins = None if values is None else with_stand_ins(values)
        self._secrets = () if values is None else secret_texts(values)

    def read(self, path: Path, file: str) -> None:
        """Reads one file."""
        written = _format(path)
        try:
            text = read_text(path, file, latin1_fallback=written is Format.PROPERTIES)
            source = rendered_source(text, file, self._values)
        except Invalid as invalid:
            self.problems.extend(invalid.diagnostics)
            return
        # As Connect does (KIP-980): nearly any text is .properties, so JSON is tried first
        if written is Format.PROPERTIES and source.text.lstrip().startswith("{"):
            written = Format.JSON
        parsed = source.parsed(_PARSERS[written])
        documents = _documents(parsed, written)
        self.problems.extend(parsed.problems)
        if not parsed.problems and not any(map(_holds_something, documents)):
            # Templates leave connectors out on purpose
            if not source.is_rendered:
                self.warnings.append(_empty(file))
            return
        others = self._with_stand_ins(text, source, written) if source.is_rendered else None
        for at, node in enumerate(documents):
            found: list[Diagnostic] = []
            connector = read_document(node, written, found)
            if connector is not None and others is not None:
                other = others[at] if len(others) == len(documents) else None
                connector = with_secrets_marked(connector, other, self._secrets, found)
            errors, warnings = by_severity(found)
            self.problems += errors
            self.warnings += warnings
            if connector is not None:
                self._add(connector, is_wrong=bool(parsed.problems or errors))

    def _with_stand_ins(
        self, text: str, source: Source, written: Format
    ) -> tuple[DesiredConnector | None, ...] | None:
        """Returns each document of a template, rendered with stand-ins for secret values; none if
        that fails. None: the file uses no secret value.
        """
        if self._stand_ins is None:
            return None
        try:
            other = rendered_source(text, source.file, self._stand_ins)
        except Invalid:
            return ()
        if other.text == source.text:
            return None
        documents = _documents(other.parsed(_PARSERS[written]), written)
        return tuple(read_document(node, written, []) for node in documents)

    def _add(self, connector: DesiredConnector, *, is_wrong: bool) -> None:
        other = self.connectors.setdefault(connector.name, connector)
        if is_wrong:
            self.wrong.add(connector.name)
        if other is connector:
            return
        what = f"the connector {connector.name!r} is already specified"
        why = f"its other spec is at {other.where}"
        hint = "rename one of them, or remove it"
        code = "spec.duplicate-name"
        self.problems.append(Diagnostic(code, what, connector.where, why=why, hint=hint))


def _documents(parsed: Parsed, written: Format) -> tuple[Node, ...]:
    """Returns the file's documents. A JSON file holds one, or a list of them, as `connect export`
    writes it."""
    if written is not Format.JSON:
        return parsed.documents
    match parsed.documents:
        case (Sequence(items=items),):
            return items
        case (Map(entries=entries) as body,) if entries:
            return (named_by_file(body),)
        case documents:
            return documents


def _holds_something(node: Node) -> bool:
    """Whether the document is not empty; a .properties file without properties is an empty map."""
    return not isinstance(node, Map) or bool(node.entries)


def _none(project: Project) -> Diagnostic:
    named = (
        project.specs_locations[each] for each in project.specs if each in project.specs_locations
    )
    where = next(named, Location(project.file.name))
    hint = "specs are files named *.yaml, *.yml, *.json or *.properties"
    what = "'specs' leads to no spec file"
    return warning(NO_SPECS, what, where, hint=hint)


def _empty(file: str) -> Diagnostic:
    what = "the file contains no spec"
    hint = (
        "`connect` deletes a connector whose spec is gone; remove the file if that is what you want"
    )
    return warning("spec.empty-file", what, Location(file, 1, 1), hint=hint)


def _format(path: Path) -> Format:
    ending = path.suffix.lower()
    if ending in (".yaml", ".yml"):
        return Format.YAML
    return Format.JSON if ending == ".json" else Format.PROPERTIES
