"""Test files: which files they are, whose they are, and what is wrong in them, with places."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.loader import load_specs
from connect_specs.record_tests import (
    ExpectedDrop,
    ExpectedError,
    ExpectedRecord,
    RecordInput,
    RecordTest,
    load_tests,
    read_lines,
)
from support.projects import project_of

SPEC = "name: {}\nconfig: {{connector.class: X}}\n"
TESTS = """\
records:
  - name: the amount is a number
    input: {key: "1", value: {id: 1, amount: "10.00"}, headers: {trace: abc}}
    expect: {topic: orders, value: {id: 1, amount: 10.0}}
  - name: tombstones are dropped
    input: {value: null}
    dropped: true
  - name: broken JSON fails
    input: {value: "{", partition: 1, offset: 2, timestamp: 3}
    error: {stage: VALUE_CONVERTER, message: broken}
"""


def project(folder: Path, *specs: str) -> Project:
    return project_of("p", name="p", folder=folder, specs=specs or ("connectors",))


def write(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def loaded(folder: Path, *specs: str) -> tuple[RecordTest, ...]:
    found = project(folder, *specs)
    return load_tests(found, load_specs(found).connectors)


def problems_of(folder: Path, text: str) -> list[str]:
    write(folder, "connectors/a.yaml", SPEC.format("a"))
    write(folder, "connectors/a.test.yaml", text)
    with pytest.raises(Invalid) as caught:
        loaded(folder)
    return [f"{each.code} {each.where}" for each in caught.value.diagnostics]


def test_a_test_file_beside_a_spec_is_read_and_is_no_spec(tmp_path: Path) -> None:
    write(tmp_path, "connectors/orders.json", '{"name": "o", "config": {"connector.class": "X"}}')
    write(tmp_path, "connectors/orders.test.yaml", TESTS)
    found = loaded(tmp_path)
    assert [(each.name, each.connector) for each in found] == [
        ("the amount is a number", "o"),
        ("tombstones are dropped", "o"),
        ("broken JSON fails", "o"),
    ]
    assert [each.expected for each in found] == [
        ExpectedRecord({"topic": "orders", "value": {"id": 1, "amount": 10.0}}),
        ExpectedDrop(),
        ExpectedError("VALUE_CONVERTER", "broken"),
    ]
    assert found[0].input == RecordInput(
        found[0].input.where,
        key="1",
        value={"id": 1, "amount": "10.00"},
        headers=(("trace", "abc"),),
    )
    last = found[2].input
    assert (last.partition, last.offset, last.timestamp) == (1, 2, 3)


def test_tests_are_found_beside_specs_that_are_named_one_by_one(tmp_path: Path) -> None:
    write(tmp_path, "here/a.yaml", SPEC.format("a"))
    write(tmp_path, "here/a.test.yml", TESTS)
    write(tmp_path, "here/b.test.yml", TESTS)
    assert {each.where.file for each in loaded(tmp_path, "here/a.yaml")} == {"here/a.test.yml"}


def test_a_file_of_several_connectors_needs_a_name(tmp_path: Path) -> None:
    both = SPEC.format("a") + "---\n" + SPEC.format("b")
    write(tmp_path, "connectors/both.yaml", both)
    write(tmp_path, "connectors/both.test.yaml", f"connector: b\n{TESTS}")
    assert {each.connector for each in loaded(tmp_path)} == {"b"}
    for text in (TESTS, f"connector: c\n{TESTS}"):
        write(tmp_path, "connectors/both.test.yaml", text)
        with pytest.raises(Invalid) as caught:
            loaded(tmp_path)
        assert [each.code for each in caught.value.diagnostics] == ["test.which-connector"]


def test_a_spec_named_like_a_test_is_never_ignored(tmp_path: Path) -> None:
    """The trap: a spec of the environment test, in orders.test.yaml, would count as deleted."""
    write(tmp_path, "connectors/orders.test.yaml", "# a comment\n" + SPEC.format("orders"))
    with pytest.raises(Invalid) as caught:
        load_specs(project(tmp_path))
    (problem,) = caught.value.diagnostics
    assert (problem.code, str(problem.where)) == (
        "spec.named-as-test",
        "connectors/orders.test.yaml:2:1",
    )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"name": "a", "config": {"connector.class": "X"}}', 1),
        ("# no spec yet\n---\n{config: {connector.class: X}}\n", 3),
        ("{% for n in names %}\nname: {{ n }}\nconfig: {connector.class: X}\n{% endfor %}\n", 2),
        ('"connector.class": X\n', 1),
    ],
)
def test_a_spec_is_recognized_however_it_is_written(tmp_path: Path, text: str, line: int) -> None:
    write(tmp_path, "connectors/orders.test.yaml", text)
    with pytest.raises(Invalid) as caught:
        load_specs(project(tmp_path))
    found = [(each.code, getattr(each.where, "line", 0)) for each in caught.value.diagnostics]
    assert found == [("spec.named-as-test", line)]


def test_tests_are_no_specs_whatever_their_records_hold(tmp_path: Path) -> None:
    write(tmp_path, "connectors/a.yaml", SPEC.format("a"))
    text = "records: [{name: a, input: {value: {config: 1, name: 2}}, dropped: true}]\n"
    write(tmp_path, "connectors/a.test.yaml", text)
    assert len(loaded(tmp_path)) == 1


def test_every_mistake_has_its_place(tmp_path: Path) -> None:
    assert problems_of(tmp_path, "record: []\n") == [
        "test.missing-field connectors/a.test.yaml:1:1",
        "test.unknown-field connectors/a.test.yaml:1:1",
    ]
    text = """\
records:
  - name: twice
    input: {valeu: 1}
    dropped: true
  - name: twice
    input: {partition: -1, headers: x}
    dropped: true
    expect: {}
  - name: twice
    input: {}
    dropped: true
  - name: a wrong stage
    input: {value: 123456789012345678901234567890}
    error: {stage: CONVERTER}
  - input: {}
    dropped: false
  - name: without
"""
    assert problems_of(tmp_path, text) == [
        "test.unknown-field connectors/a.test.yaml:3:13",
        "test.bad-value connectors/a.test.yaml:6:24",
        "test.bad-value connectors/a.test.yaml:6:37",
        "test.outcome connectors/a.test.yaml:7:5",
        "test.duplicate-name connectors/a.test.yaml:9:5",
        "test.bad-value connectors/a.test.yaml:13:20",
        "test.bad-value connectors/a.test.yaml:14:20",
        "test.missing-field connectors/a.test.yaml:15:5",
        "test.bad-value connectors/a.test.yaml:16:14",
        "test.missing-field connectors/a.test.yaml:17:5",
        "test.outcome connectors/a.test.yaml:17:5",
    ]


def test_a_name_is_given_once_in_all_documents_of_a_file(tmp_path: Path) -> None:
    """The trap: results in JUnit's form are told apart by connector and name alone."""
    text = "records: [{name: a, input: {}, dropped: true}]\n"
    assert problems_of(tmp_path, f"{text}---\n{text}") == [
        "test.duplicate-name connectors/a.test.yaml:3:11"
    ]


def test_tests_without_a_spec_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, "connectors/a.yaml", SPEC.format("a"))
    write(tmp_path, "connectors/b.test.yaml", TESTS)
    with pytest.raises(Invalid) as caught:
        loaded(tmp_path)
    assert [each.code for each in caught.value.diagnostics] == ["test.no-spec"]


def test_tests_of_a_spec_that_is_not_in_this_environment_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "values/default.yaml", "wanted: false\n")
    only = "{% if wanted %}\n" + SPEC.format("a") + "{% endif %}\n"
    write(tmp_path, "connectors/a.yaml", only)
    write(tmp_path, "connectors/a.test.yaml", TESTS)
    assert loaded(tmp_path) == ()
    write(tmp_path, "values/default.yaml", "wanted: true\n")
    assert len(loaded(tmp_path)) == 3


def test_test_files_are_templates(tmp_path: Path) -> None:
    write(tmp_path, "values/default.yaml", "region: eu\n")
    write(tmp_path, "connectors/a.yaml", SPEC.format("a"))
    text = TESTS.replace("topic: orders", "topic: '{{ region }}-orders'")
    write(tmp_path, "connectors/a.test.yaml", text)
    expected = loaded(tmp_path)[0].expected
    assert isinstance(expected, ExpectedRecord)
    assert expected.parts["topic"] == "eu-orders"


def test_lines_of_a_file_of_records() -> None:
    problems: list[Diagnostic] = []
    text = '{"key": "a", "value": {"x": 1.0}}\n\n{"value": null, "headers": [{"h": 1}, {"h": 2}]}\n'
    first, second = read_lines(text, "r.jsonl", problems)
    assert problems == []
    assert (first.key, first.value, str(first.where)) == ("a", {"x": 1.0}, "r.jsonl:1:1")
    assert (second.value, second.headers, second.where.line) == (None, (("h", 1), ("h", 2)), 3)
    read_lines('{}\n{"value": tru}\n[1]\n[\n{"partition": 2147483648}\n', "r.jsonl", problems)
    places = ["r.jsonl:2:11", "r.jsonl:3:1", "r.jsonl:4:2", "r.jsonl:5:15"]
    assert [str(each.where) for each in problems] == places
    assert problems[2].hint.startswith("each line is one record")
