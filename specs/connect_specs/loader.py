"""Loads a project's spec files into `Desired`, or reports every mistake in them at once.

It does not know the cluster: whether a class exists or a pin was applied before is checked by the
plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path, PurePath
from typing import Final

from connect_specs.connector_spec import read_spec
from connect_specs.desired import Desired, DesiredConnector, Project
from connect_specs.diagnostics import (
    Diagnostic,
    Invalid,
    Location,
    by_place,
    by_severity,
    warning,
)
from connect_specs.documents import (
    Map,
    Node,
    Parse,
    Parsed,
    Scalar,
    Sequence,
    Source,
    rendered_source,
)
from connect_specs.fields import value_kind
from connect_specs.foreign_documents import orders_reported_once, read_flat, read_strimzi
from connect_specs.json_documents import parse_json
from connect_specs.project import read_consequences
from connect_specs.properties_documents import parse_properties
from connect_specs.record_tests import specs_named_as_tests
from connect_specs.spec_files import find_policy_files, find_spec_files
from connect_specs.text_files import read_text, relative_name
from connect_specs.value_secrets import (
    redacted,
    secret_texts,
    with_secrets_marked,
    with_stand_ins,
)
from connect_specs.values import Values, load_values
from connect_specs.yaml_documents import parse_yaml

NO_SPECS: Final = "project.no-specs"


class FileFormat(Enum):
    """A file's format, by the end of its name."""

    YAML = "yaml"
    JSON = "json"
    PROPERTIES = "properties"


_FORMATS: Final[Mapping[str, FileFormat]] = {
    ".yaml": FileFormat.YAML,
    ".yml": FileFormat.YAML,
    ".json": FileFormat.JSON,
}
_PARSERS: Final[Mapping[FileFormat, Parse]] = {
    FileFormat.YAML: parse_yaml,
    FileFormat.JSON: parse_json,
    FileFormat.PROPERTIES: parse_properties,
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
    specs = SpecReader(values, problems)
    specs.warnings += values.warnings if values else ()
    if not files and not problems:
        specs.warnings.append(_no_specs(project))
    for path in files:
        specs.read(path, relative_name(path, project.folder))
    problems.extend(specs_named_as_tests(project))
    _check_renames(specs.connectors, problems)
    consequences = read_consequences(project.folder, problems)
    valid = {name: spec for name, spec in specs.connectors.items() if name not in specs.invalid}
    desired = Desired(
        project.name,
        dict(sorted(valid.items())),
        consequences,
        tuple(orders_reported_once(specs.warnings)),
        () if values is None else values.environments,
        project.secrets,
    )
    return desired, tuple(by_place(redacted(problems, values) if values else problems))


class SpecReader:
    """The contents of the files read so far. `invalid` names connectors whose spec has problems."""

    def __init__(self, values: Values | None, problems: list[Diagnostic]) -> None:
        self.connectors: dict[str, DesiredConnector] = {}
        self.invalid: set[str] = set()
        self.warnings: list[Diagnostic] = []
        self.problems = problems
        self._values = values
        self._stand_ins = None if values is None else with_stand_ins(values)
        self._secrets = () if values is None else secret_texts(values)

    def read(self, path: Path, file: str) -> None:
        """Reads one file."""
        file_format = _FORMATS.get(path.suffix.lower(), FileFormat.PROPERTIES)
        try:
            text = read_text(path, file, latin1_fallback=file_format is FileFormat.PROPERTIES)
            source = rendered_source(text, file, self._values)
        except Invalid as invalid:
            self.problems.extend(invalid.diagnostics)
            return
        # As Connect does (KIP-980): nearly any text is .properties, so JSON is tried first
        if file_format is FileFormat.PROPERTIES and source.text.lstrip().startswith("{"):
            file_format = FileFormat.JSON
        parsed = source.parsed(_PARSERS[file_format])
        documents = _documents(parsed, file_format)
        self.problems.extend(parsed.problems)
        # a .properties file without properties is an empty map
        is_empty = all(isinstance(node, Map) and not node.entries for node in documents)
        if is_empty and not parsed.problems:
            # Templates leave connectors out on purpose
            if not source.is_rendered:
                self.warnings.append(_empty(file))
            return
        stand_ins = self._with_stand_ins(text, source, file_format) if source.is_rendered else None
        for at, node in enumerate(documents):
            findings: list[Diagnostic] = []
            connector = read_document(node, file_format, findings)
            if connector is not None and stand_ins is not None:
                stand_in = stand_ins[at] if len(stand_ins) == len(documents) else None
                connector = with_secrets_marked(connector, stand_in, self._secrets, findings)
            errors, warnings = by_severity(findings)
            self.problems += errors
            self.warnings += warnings
            if connector is not None:
                self._add(connector, is_invalid=bool(parsed.problems or errors))

    def _with_stand_ins(
        self, text: str, source: Source, file_format: FileFormat
    ) -> tuple[DesiredConnector | None, ...] | None:
        """Returns each document of a template, rendered with stand-ins for secret values; none if
        that fails. None: the file uses no secret value.
        """
        if self._stand_ins is None:
            return None
        try:
            rendered = rendered_source(text, source.file, self._stand_ins)
        except Invalid:
            return ()
        if rendered.text == source.text:
            return None
        documents = _documents(rendered.parsed(_PARSERS[file_format]), file_format)
        return tuple(read_document(node, file_format, []) for node in documents)

    def _add(self, connector: DesiredConnector, *, is_invalid: bool) -> None:
        first = self.connectors.setdefault(connector.name, connector)
        if is_invalid:
            self.invalid.add(connector.name)
        if first is connector:
            return
        message = f"the connector {connector.name!r} is already specified"
        reason = f"its other spec is at {first.where}"
        hint = "rename one of them, or remove it"
        self.problems.append(
            Diagnostic("spec.duplicate-name", message, connector.where, why=reason, hint=hint)
        )


def _documents(parsed: Parsed, file_format: FileFormat) -> tuple[Node, ...]:
    """Returns the file's documents. A JSON file holds one, or a list of them, as `connect export`
    writes it."""
    if file_format is not FileFormat.JSON:
        return parsed.documents
    match parsed.documents:
        case (Sequence(items=items),):
            return items
        case (Map(entries=entries) as body,) if entries:
            return (_named_by_file(body),)
        case documents:
            return documents


def _named_by_file(body: Map) -> Map:
    """Returns a JSON body with a name: its own, that in its config, or that of its file."""
    if "name" in body.names() or _is_resource(body):
        return body
    config = body.get("config")
    name = config.get("name") if isinstance(config, Map) else None
    stem = Scalar(PurePath(body.location.file).stem, body.location)
    key = Scalar("name", body.location)
    return Map(((key, name or stem), *body.entries), body.location)


def read_document(
    node: Node, file_format: FileFormat, problems: list[Diagnostic]
) -> DesiredConnector | None:
    """Returns the connector of one document, whose format it recognizes; None if it does not even
    have a name."""
    if not isinstance(node, Map):
        message = f"a spec must be a map, and this is {value_kind(node)}"
        hint = "one connector is one document; in YAML, separate them by a line of ---"
        problems.append(Diagnostic("spec.not-a-map", message, node.location, hint=hint))
        return None
    if file_format is FileFormat.PROPERTIES:
        return read_flat(node, problems)
    if _is_resource(node):
        return read_strimzi(node, problems)
    dotted = next((key for key, _ in node.entries if "." in key.text), None)
    if dotted and not isinstance(node.get("config"), Map):
        if file_format is FileFormat.JSON:
            return read_flat(node, problems)
        message = "this is a flat Connect config, not a spec"
        hint = "put these keys under 'config:', and 'name:' beside it"
        problems.append(Diagnostic("spec.flat-config", message, dotted.location, hint=hint))
        return None
    return read_spec(node, problems, is_json=file_format is FileFormat.JSON)


def _is_resource(node: Map) -> bool:
    """Returns True if the document is a resource of Kubernetes."""
    return {"apiVersion", "kind"} <= node.names()


def _check_renames(connectors: Mapping[str, DesiredConnector], problems: list[Diagnostic]) -> None:
    """Reports renames that cannot be carried out together: an old name has one successor, and two
    specs do not exchange their names. The plan checks the rest, which depends on the cluster."""
    successors: dict[str, DesiredConnector] = {}
    for connector in connectors.values():
        previous, reason = connector.renamed_from, ""
        if previous is None:
            continue
        if previous == connector.name:
            message = "a connector cannot be renamed from its own name"
            hint = "write the connector's old name, or remove 'renamed_from'"
        elif previous in connectors and connectors[previous].renamed_from == connector.name:
            message = f"{previous!r} and {connector.name!r} cannot be renamed to each other"
            reason = f"the spec of {previous!r} is at {connectors[previous].where}"
            hint = "rename one of them to a third name first"
        elif (first := successors.setdefault(previous, connector)) is not connector:
            message = f"{previous!r} cannot be renamed to two connectors"
            reason = f"{first.name!r} at {first.where} is renamed from it, too"
            hint = "keep 'renamed_from' in the spec that gets its offsets"
        else:
            continue
        location = connector.renamed_from_where
        problems.append(Diagnostic("spec.bad-rename", message, location, why=reason, hint=hint))


def _no_specs(project: Project) -> Diagnostic:
    locations = project.specs_locations
    entries = (locations[entry] for entry in project.specs if entry in locations)
    location = next(entries, Location(project.file.name))
    hint = "specs are files named *.yaml, *.yml, *.json or *.properties"
    return warning(NO_SPECS, "'specs' leads to no spec file", location, hint=hint)


def _empty(file: str) -> Diagnostic:
    message = "the file contains no spec"
    hint = (
        "`connect` deletes a connector whose spec is gone; remove the file if that is what you want"
    )
    return warning("spec.empty-file", message, Location(file, 1, 1), hint=hint)
