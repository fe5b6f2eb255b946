"""Reads `*.test.yaml`: records for the connectors of the spec beside it, and what becomes of them.

`connectors/orders.test.yaml` belongs to `connectors/orders.yaml` (or `.yml`, `.json`,
`.properties`). Where that file holds several connectors, `connector` names one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from connect_specs.desired import DesiredConnector, Project
from connect_specs.diagnostics import Diagnostic, Invalid, Location, by_place
from connect_specs.fields import (
    as_bool,
    as_map,
    as_text,
    check_fields,
    did_you_mean,
    place_of,
    required,
    value_kind,
)
from connect_specs.nodes import Map, Node, Scalar, Sequence
from connect_specs.record_input import CODE, Json, RecordInput, read_input, read_parts
from connect_specs.sources import rendered_source
from connect_specs.spec_files import TEST_ENDINGS, find_spec_files, find_test_files
from connect_specs.spec_folders import relative_name
from connect_specs.text_files import read_text
from connect_specs.values import Values, load_values
from connect_specs.yaml_documents import parse_yaml

STAGES: Final = ("TRANSFORMATION", "KEY_CONVERTER", "VALUE_CONVERTER", "HEADER_CONVERTER")
_OUTCOMES: Final = ("expect", "dropped", "error")
# What a test file never holds at its top, and where it could be
_OF_A_SPEC: Final = ("name", "config", "connector.class", "apiVersion")
_KEY: Final = r"""["']?(?:name|config|connector\.class|apiVersion)["']?\s*:"""
_AT_TOP: Final = re.compile(rf"^{_KEY}", re.MULTILINE)
_ANYWHERE: Final = re.compile(rf"(?:^|[{{,])\s*{_KEY}", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ExpectedRecord:
    """What the record is afterwards: the parts that are listed, each as a whole."""

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
    found, problems = read_tests(project, connectors)
    if problems:
        raise Invalid(*problems)
    return found


def read_tests(
    project: Project, connectors: Mapping[str, DesiredConnector]
) -> tuple[tuple[RecordTest, ...], tuple[Diagnostic, ...]]:
    """Returns the tests without problems, and every problem of the others, by place.

    Those of a spec file that holds no connector, in this environment or because of a mistake, are
    left out.
    """
    problems: list[Diagnostic] = []
    values = load_values(project.folder, project.env, project.given)
    specs = {stem_of(relative_name(each, project.folder)) for each in find_spec_files(project, [])}
    found: list[RecordTest] = []
    for path in find_test_files(project, problems):
        file = relative_name(path, project.folder)
        beside = _beside(file, connectors)
        if beside or stem_of(file) not in specs:
            found += _read_file(path, file, beside, values, problems)
    return tuple(found), tuple(by_place(problems))


def specs_named_as_tests(project: Project) -> tuple[Diagnostic, ...]:
    """Returns an error for each spec in a file that is named like a test: it would be ignored, and
    its connector would count as deleted."""
    problems = []
    for path in find_test_files(project, []):
        file = relative_name(path, project.folder)
        try:
            text = read_text(path, file)
        except Invalid:
            # Told where tests are read
            continue
        where = _place_of_a_spec(text, file)
        if where is not None:
            what = "files named *.test.yaml hold tests, and this one holds a spec"
            hint = f"rename it, such as {file.replace('.test.', '-test.')}"
            problems.append(Diagnostic("spec.named-as-test", what, where, hint=hint))
    return tuple(problems)


def _place_of_a_spec(text: str, file: str) -> Location | None:
    """Returns where a key of a spec is at the top of the text, which may be a template."""
    if not _ANYWHERE.search(text):
        return None
    parsed = parse_yaml(text, file)
    keys = (key for node in parsed.documents if isinstance(node, Map) for key, _ in node.entries)
    found = next((key.where for key in keys if key.text in _OF_A_SPEC), None)
    if found is None and parsed.problems and (at := _AT_TOP.search(text)):
        return Location(file, text.count("\n", 0, at.start()) + 1, 1)
    return found


def stem_of(file: str) -> str:
    """Returns a file's name without its ending: what a spec and its tests have in common."""
    for ending in TEST_ENDINGS:
        if file.lower().endswith(ending):
            return file[: -len(ending)]
    return file.rpartition(".")[0]


def _beside(file: str, connectors: Mapping[str, DesiredConnector]) -> list[str]:
    stem = stem_of(file)
    return [name for name, spec in connectors.items() if stem_of(spec.where.file) == stem]


def _read_file(
    path: Path,
    file: str,
    beside: list[str],
    values: Values | None,
    problems: list[Diagnostic],
) -> Iterable[RecordTest]:
    try:
        text = read_text(path, file)
        if _place_of_a_spec(text, file) is not None:
            # Told where specs are read
            return []
        source = rendered_source(text, file, values)
    except Invalid as invalid:
        problems.extend(invalid.diagnostics)
        return []
    parsed = source.parsed(parse_yaml)
    problems.extend(parsed.problems)
    found: dict[tuple[str, str], RecordTest] = {}
    for node in parsed.documents:
        for test in _read_document(node, file, beside, problems):
            first = found.setdefault((test.connector, test.name), test)
            if first is not test:
                what = f"the name {test.name!r} is given twice"
                why = f"the other record is at {first.where}"
                hint = "name each record by what is special about it"
                problem = Diagnostic(f"{CODE}.duplicate-name", what, test.where, why, hint)
                problems.append(problem)
    return found.values()


def _read_document(
    node: Node, file: str, beside: list[str], problems: list[Diagnostic]
) -> list[RecordTest]:
    tests = as_map(node, "the file", CODE, problems)
    if tests is None:
        return []
    check_fields(tests, ("connector", "records"), CODE, "a test file", problems)
    connector = _connector(tests, file, beside, problems)
    listed = required(tests, "records", CODE, "the test file", problems)
    if listed is None or connector is None:
        return []
    if not isinstance(listed, Sequence):
        what = f"'records' must be a list, and is {value_kind(listed)}"
        hint = "write records: and below it, for each record, - name: ..."
        problems.append(Diagnostic(f"{CODE}.bad-value", what, listed.where, hint=hint))
        return []
    found = (_read_test(item, connector, problems) for item in listed.items)
    return [test for test in found if test is not None]


def _connector(tests: Map, file: str, beside: list[str], problems: list[Diagnostic]) -> str | None:
    named = tests.get("connector")
    name = None if named is None else as_text(named, "connector", CODE, problems)
    if named is not None and name is None:
        return None
    if not beside:
        what = "there is no spec beside this test file"
        hint = f"a spec whose tests these are is {stem_of(file)}.yaml"
        problems.append(Diagnostic(f"{CODE}.no-spec", what, Location(file, 1, 1), hint=hint))
        return None
    if name is None and len(beside) == 1:
        return beside[0]
    if name in beside:
        return name
    if name is None:
        what = "the spec beside it holds several connectors"
        hint = f"write connector: and one of {', '.join(beside)}"
    else:
        what, hint = f"the spec beside it has no connector {name!r}", did_you_mean(name, beside)
    where = place_of(tests, "connector")
    problems.append(Diagnostic(f"{CODE}.which-connector", what, where, hint=hint))
    return None


def _read_test(node: Node, connector: str, problems: list[Diagnostic]) -> RecordTest | None:
    test = as_map(node, "records[]", CODE, problems)
    if test is None:
        return None
    check_fields(test, ("name", "input", *_OUTCOMES), CODE, "a tested record", problems)
    name_node = required(test, "name", CODE, "the record", problems)
    name = name_node and as_text(name_node, "name", CODE, problems)
    input_node = required(test, "input", CODE, "the record", problems)
    given = None if input_node is None else read_input(input_node, problems)
    expected = _expected(test, problems)
    if not name or given is None or expected is None:
        return None
    return RecordTest(name, connector, test.where, given, expected)


def _expected(test: Map, problems: list[Diagnostic]) -> Expected | None:
    given = [name for name in _OUTCOMES if test.get(name) is not None]
    if len(given) != 1:
        what = (
            f"a record needs one of {', '.join(_OUTCOMES)}, and has {' and '.join(given) or 'none'}"
        )
        hint = "write expect: {value: ...}, dropped: true, or error: {stage: ..., message: ...}"
        where = place_of(test, given[-1]) if given else test.where
        problems.append(Diagnostic(f"{CODE}.outcome", what, where, hint=hint))
        return None
    node = test.get(given[0])
    assert node is not None, "it was just found"
    match given[0]:
        case "expect":
            parts = read_parts(node, "expect", problems)
            return None if parts is None else ExpectedRecord(parts)
        case "dropped":
            return _drop(node, problems)
        case _:
            return _error(node, problems)


def _drop(node: Node, problems: list[Diagnostic]) -> ExpectedDrop | None:
    dropped = as_bool(node, "dropped", CODE, problems)
    if dropped is False:
        what, hint = "'dropped' can only be true", "write expect: {} for a record that is kept"
        problems.append(Diagnostic(f"{CODE}.bad-value", what, node.where, hint=hint))
    return ExpectedDrop() if dropped else None


def _error(node: Node, problems: list[Diagnostic]) -> ExpectedError | None:
    error = as_map(node, "error", CODE, problems)
    if error is None:
        return None
    check_fields(error, ("stage", "message"), CODE, "an error", problems)
    stage, message = error.get("stage"), error.get("message")
    if isinstance(stage, Scalar) and stage.text not in STAGES:
        what, hint = f"there is no stage {stage.text!r}", did_you_mean(stage.text, STAGES)
        problems.append(Diagnostic(f"{CODE}.bad-value", what, stage.where, hint=hint))
        return None
    return ExpectedError(
        None if stage is None else as_text(stage, "stage", CODE, problems),
        "" if message is None else as_text(message, "message", CODE, problems) or "",
    )
