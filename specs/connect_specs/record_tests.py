"""Reads `*.test.yaml`: records for the connectors of the spec beside it, and the expected outcomes.

`connectors/orders.test.yaml` belongs to `connectors/orders.yaml` (or `.yml`, `.json`,
`.properties`). `connector` names one of several connectors in that file. The meaning of a
record's values depends on the connector: for a sink they are Kafka's, for a source those that the
connector returns. Here they stay as they were written, as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from connect_specs.desired import DesiredConnector, Project
from connect_specs.diagnostics import Diagnostic, Invalid, Location, by_place
from connect_specs.documents import (
    Map,
    Node,
    Sequence,
    is_null,
    rendered_source,
    typed,
)
from connect_specs.fields import Fields, did_you_mean, value_kind
from connect_specs.json_documents import parse_json
from connect_specs.spec_files import TEST_ENDINGS, find_spec_files, find_test_files
from connect_specs.text_files import read_text, relative_name
from connect_specs.values import Values, load_values
from connect_specs.yaml_documents import parse_yaml

# None, bool, int, float, str, list or dict
Json: TypeAlias = Any
HeaderValues: TypeAlias = tuple[tuple[str, Json], ...]

STAGES: Final = ("TRANSFORMATION", "KEY_CONVERTER", "VALUE_CONVERTER", "HEADER_CONVERTER")

_CODE: Final = "test"
_OUTCOMES: Final = ("expect", "dropped", "error")
_COUNTS: Final = ("partition", "offset", "timestamp")
_JSON: Final = ("key", "key_schema", "value", "value_schema")
_PARTS: Final = ("topic", *_COUNTS, *_JSON, "headers")
_PARTITION_MAX: Final = 2**31 - 1
_ONE_A_LINE: Final = 'each line is one record, such as {"key": "1", "value": {"id": 1}}'
# Keys at the top of a spec, which a test file never has
_SPEC_KEYS: Final = ("name", "config", "connector.class", "apiVersion")
_KEY: Final = r"""["']?(?:name|config|connector\.class|apiVersion)["']?\s*:"""
_AT_TOP: Final = re.compile(rf"^{_KEY}", re.MULTILINE)
_ANYWHERE: Final = re.compile(rf"(?:^|[{{,])\s*{_KEY}", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RecordInput:
    """A record. `timestamp` is in epoch milliseconds; fields that are None were not given."""

    where: Location
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    key: Json = None
    key_schema: Json = None
    value: Json = None
    value_schema: Json = None
    headers: HeaderValues = ()


@dataclass(frozen=True, slots=True)
class ExpectedRecord:
    """The fields of the resulting record that are listed, each in full."""

    parts: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ExpectedDrop:
    """A transformation drops the record."""


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The record fails: in `stage`, None for any, with an error whose text contains `message`."""

    stage: str | None
    message: str


Expected: TypeAlias = ExpectedRecord | ExpectedDrop | ExpectedError


@dataclass(frozen=True, slots=True)
class RecordTest:
    """One record of a test file."""

    name: str
    connector: str
    where: Location
    input: RecordInput
    expected: Expected


def load_tests(
    project: Project, connectors: Mapping[str, DesiredConnector]
) -> tuple[RecordTest, ...]:
    """Returns the tests of all test files, in their order. Raises Invalid with every problem."""
    tests, problems = read_tests(project, connectors)
    if problems:
        raise Invalid(*problems)
    return tests


def read_tests(
    project: Project, connectors: Mapping[str, DesiredConnector]
) -> tuple[tuple[RecordTest, ...], tuple[Diagnostic, ...]]:
    """Returns the tests without problems, and every problem of the others, by place.

    Those of a spec file that holds no connector, in this environment or because of a mistake, are
    left out.
    """
    problems: list[Diagnostic] = []
    values = load_values(project.folder, project.env, project.given)
    specs = {stem_of(relative_name(path, project.folder)) for path in find_spec_files(project, [])}
    tests: list[RecordTest] = []
    for path in find_test_files(project, problems):
        file = relative_name(path, project.folder)
        names = [
            name for name, spec in connectors.items() if stem_of(spec.where.file) == stem_of(file)
        ]
        if names or stem_of(file) not in specs:
            tests += _read_file(path, file, names, values, problems)
    return tuple(tests), tuple(by_place(problems))


def specs_named_as_tests(project: Project) -> tuple[Diagnostic, ...]:
    """Returns an error for each spec in a file that is named like a test: it would be ignored, and
    its connector would count as deleted."""
    problems = []
    for path in find_test_files(project, []):
        file = relative_name(path, project.folder)
        try:
            location = _spec_location(read_text(path, file), file)
        except Invalid:
            # Reported where tests are read
            continue
        if location is not None:
            message = "files named *.test.yaml hold tests, and this one holds a spec"
            hint = f"rename it, such as {file.replace('.test.', '-test.')}"
            problems.append(Diagnostic("spec.named-as-test", message, location, hint=hint))
    return tuple(problems)


def _spec_location(text: str, file: str) -> Location | None:
    """Returns the location of a spec's key at the top of the text, which may be a template."""
    if not _ANYWHERE.search(text):
        return None
    parsed = parse_yaml(text, file)
    keys = (key for node in parsed.documents if isinstance(node, Map) for key, _ in node.entries)
    location = next((key.location for key in keys if key.text in _SPEC_KEYS), None)
    if location is None and parsed.problems and (match := _AT_TOP.search(text)):
        return Location(file, text.count("\n", 0, match.start()) + 1, 1)
    return location


def stem_of(file: str) -> str:
    """Returns a file's name without its ending, which a spec and its tests share."""
    for ending in TEST_ENDINGS:
        if file.lower().endswith(ending):
            return file[: -len(ending)]
    return file.rpartition(".")[0]


def _read_file(
    path: Path,
    file: str,
    connectors: list[str],
    values: Values | None,
    problems: list[Diagnostic],
) -> Iterable[RecordTest]:
    try:
        text = read_text(path, file)
        if _spec_location(text, file) is not None:
            # Reported where specs are read
            return []
        source = rendered_source(text, file, values)
    except Invalid as invalid:
        problems.extend(invalid.diagnostics)
        return []
    parsed = source.parsed(parse_yaml)
    problems.extend(parsed.problems)
    tests: dict[tuple[str, str], RecordTest] = {}
    for node in parsed.documents:
        for test in _read_document(node, file, connectors, problems):
            first = tests.setdefault((test.connector, test.name), test)
            if first is not test:
                message = f"the name {test.name!r} is given twice"
                reason = f"the other record is at {first.where}"
                hint = "name each record by what is special about it"
                problems.append(
                    Diagnostic("test.duplicate-name", message, test.where, reason, hint)
                )
    return tests.values()


def _read_document(
    node: Node, file: str, connectors: list[str], problems: list[Diagnostic]
) -> list[RecordTest]:
    names = ("connector", "records")
    fields = Fields(node, names, problems, code=_CODE, noun="the test file")
    if fields.node is None:
        return []
    connector = _connector(fields, file, connectors)
    hint = "write records: and below it, for each record, - name: ..."
    records = fields.items("records", hint, required=True)
    if connector is None:
        return []
    tests = (_read_test(item, connector, problems) for item in records)
    return [test for test in tests if test is not None]


def _connector(fields: Fields, file: str, connectors: list[str]) -> str | None:
    """Returns the connector that the tests of a file are for, of those of the spec beside it."""
    name = fields.text("connector")
    if name is None and fields.get("connector") is not None:
        return None
    if not connectors:
        message = "there is no spec beside this test file"
        hint = f"a spec whose tests these are is {stem_of(file)}.yaml"
        fields.report("no-spec", Location(file, 1, 1), message, hint)
        return None
    if name is None and len(connectors) == 1:
        return connectors[0]
    if name in connectors:
        return name
    if name is None:
        message = "the spec beside it holds several connectors"
        hint = f"write connector: and one of {', '.join(connectors)}"
    else:
        message = f"the spec beside it has no connector {name!r}"
        hint = did_you_mean(name, connectors)
    fields.report("which-connector", "connector", message, hint)
    return None


def _read_test(node: Node, connector: str, problems: list[Diagnostic]) -> RecordTest | None:
    names = ("name", "input", *_OUTCOMES)
    fields = Fields(node, names, problems, code=_CODE, noun="the tested record")
    if fields.node is None:
        return None
    name = fields.text("name", required=True)
    record_input = fields.read("input", _read_input, required=True)
    expected = _expected(fields)
    if not name or record_input is None or expected is None:
        return None
    return RecordTest(name, connector, node.location, record_input, expected)


def _expected(fields: Fields) -> Expected | None:
    outcomes = [name for name in _OUTCOMES if fields.get(name) is not None]
    if len(outcomes) != 1:
        names = " and ".join(outcomes) or "none"
        message = f"a record needs one of {', '.join(_OUTCOMES)}, and has {names}"
        hint = "write expect: {value: ...}, dropped: true, or error: {stage: ..., message: ...}"
        fields.report("outcome", outcomes[-1] if outcomes else "expect", message, hint)
        return None
    if outcomes == ["dropped"]:
        drops = fields.flag("dropped", if_false="write expect: {} for a record that is kept")
        return ExpectedDrop() if drops else None
    if outcomes == ["error"]:
        return _error(fields)
    parts = fields.read("expect", _read_parts)
    return None if parts is None else ExpectedRecord(parts)


def _error(fields: Fields) -> ExpectedError | None:
    error = fields.inner("error", ("stage", "message"), noun="an error")
    stage = error.word("stage", STAGES)
    if error.node is None or (stage is None and error.get("stage") is not None):
        return None
    return ExpectedError(stage, error.text("message") or "")


# --- records: those of tests, and those of a file with one record a line ---


def read_lines(text: str, file: str, problems: list[Diagnostic]) -> tuple[RecordInput, ...]:
    """Returns the records of a file with one JSON object a line; empty lines are skipped."""
    records = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        parsed = parse_json(line, file, (number,))
        problems += (
            replace(problem, hint=_ONE_A_LINE) if problem.code == "file.syntax" else problem
            for problem in parsed.problems
        )
        records += [_read_input(node, problems) for node in parsed.documents]
    return tuple(record for record in records if record is not None)


def _read_input(node: Node, problems: list[Diagnostic]) -> RecordInput | None:
    """Returns the record of a map; None for anything else."""
    parts = _read_parts(node, problems)
    return None if parts is None else RecordInput(node.location, **parts)


def _read_parts(node: Node, problems: list[Diagnostic]) -> dict[str, Any] | None:
    """Returns the fields of a record that a map lists, by their names."""
    fields = Fields(node, _PARTS, problems, code=_CODE, noun="a record")
    if fields.node is None:
        return None
    parts: dict[str, Any] = {}
    for key, value in fields.node.entries:
        if key.text in _COUNTS:
            most = _PARTITION_MAX if key.text == "partition" else None
            parts[key.text] = None if is_null(value) else fields.count(key.text, most)
        elif key.text == "topic":
            parts[key.text] = fields.text("topic")
        elif key.text == "headers":
            parts[key.text] = _headers(value, problems)
        elif key.text in _JSON:
            parts[key.text] = _json_of(value, problems)
    return parts


def _json_of(node: Node, problems: list[Diagnostic]) -> Json:
    """Returns a node as JSON. Numbers that JSON does not know stay text."""
    if isinstance(node, Map):
        return {key.text: _json_of(value, problems) for key, value in node.entries}
    if isinstance(node, Sequence):
        return [_json_of(item, problems) for item in node.items]
    try:
        return typed(node)
    except ValueError as error:
        hint = "write the whole value as text, in quotes"
        problems.append(Diagnostic("test.bad-value", str(error), node.location, hint=hint))
        return None


def _headers(node: Node, problems: list[Diagnostic]) -> HeaderValues:
    """Returns headers in order: those of a map, or of a list of maps, where a name may repeat."""
    headers: list[tuple[str, Json]] = []
    for item in node.items if isinstance(node, Sequence) else (node,):
        if isinstance(item, Map):
            headers += [(key.text, _json_of(value, problems)) for key, value in item.entries]
        elif not is_null(item):
            message = f"'headers' must be a map, or a list of maps, and is {value_kind(item)}"
            hint = "write headers: {name: value}, or [{name: first}, {name: second}]"
            problems.append(Diagnostic("test.bad-value", message, item.location, hint=hint))
    return tuple(headers)
