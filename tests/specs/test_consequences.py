"""consequences.yaml: rules in their order, and every mistake with its place."""

from pathlib import Path

import pytest

from connect_specs.desired import ConsequenceRule
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.loader import load_specs
from connect_specs.project import load_project, read_consequences

RULES = """\
- match: {key: "acme.*", class: "com.acme.*", kind: sink}
  consequence: redelivery
  says: the queue is emptied again
- match: {key: batch.size}
  consequence: none
  says: only speed changes
"""


def read(folder: Path, text: str) -> tuple[tuple[ConsequenceRule, ...], list[Diagnostic]]:
    (folder / "consequences.yaml").write_text(text)
    problems: list[Diagnostic] = []
    return read_consequences(folder, problems), problems


def test_rules_in_their_order(tmp_path: Path) -> None:
    rules, problems = read(tmp_path, RULES)
    assert not problems
    assert rules == (
        ConsequenceRule("acme.*", "redelivery", "the queue is emptied again", "com.acme.*", "sink"),
        ConsequenceRule("batch.size", "none", "only speed changes"),
    )


def test_no_file_or_an_empty_one_is_no_rule(tmp_path: Path) -> None:
    problems: list[Diagnostic] = []
    assert read_consequences(tmp_path, problems) == ()
    assert read(tmp_path, "") == ((), [])
    assert read(tmp_path, "[]") == ((), [])
    assert not problems


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("a: 1", "not-a-list", "1:1"),
        ("- 7", "bad-value", "1:3"),
        ("- {match: {key: a}, consequence: none}", "missing-field", "1:3"),
        ("- {consequence: none, says: x}", "missing-field", "1:3"),
        ("- {match: {}, consequence: none, says: x}", "missing-field", "1:11"),
        (
            "- {match: {key: a}, consequence: none, says: x, b: 1}",
            "unknown-field",
            "1:49",
        ),
        (
            "- {match: {key: a, name: b}, consequence: none, says: x}",
            "unknown-field",
            "1:20",
        ),
        ("- match: {key: a}\n  says: x\n  consequence: restarts", "bad-value", "3:16"),
        (
            "- {match: {key: a, kind: both}, consequence: none, says: x}",
            "bad-value",
            "1:26",
        ),
        ("- {match: {key: a}, consequence: none, says: [x]}", "bad-value", "1:46"),
    ],
)
def test_a_mistake_has_its_place(tmp_path: Path, text: str, code: str, place: str) -> None:
    rules, (problem,) = read(tmp_path, text)
    assert rules == ()
    assert problem.code == f"consequences.{code}"
    assert str(problem.where) == f"consequences.yaml:{place}"


def test_a_near_miss_gets_a_hint(tmp_path: Path) -> None:
    _, (problem,) = read(tmp_path, "- {match: {key: a}, consequence: re-read, says: x}")
    assert problem.hint == "did you mean 'reread'?"


def test_they_come_with_the_specs_and_are_no_spec(tmp_path: Path) -> None:
    (tmp_path / "connect.yaml").write_text(
        "project: p\ncluster: {group.id: g, kafka: embedded}\nspecs: [.]\n"
    )
    (tmp_path / "consequences.yaml").write_text(RULES)
    project = load_project(tmp_path / "connect.yaml")
    assert len(load_specs(project).consequences) == 2
    (tmp_path / "consequences.yaml").write_text("- 7\n- 8\n")
    with pytest.raises(Invalid) as caught:
        load_specs(project)
    assert len(caught.value.diagnostics) == 2
