"""docs/compared.md: every row is there, and each has tests that exist and name it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml

from support.command import case_id

REPOSITORY = Path(__file__).parents[1]
TEXT = (REPOSITORY / "docs" / "compared.md").read_text()
ROWS = {
    "Authoring": (
        "typed YAML specs, many files",
        "templates and values per environment",
        "declared running, paused or stopped",
        "created directly stopped",
        "export from live to a spec",
        "offline check of a config's keys and types",
    ),
    "Plan": (
        "a diff for people, key by key",
        "a versioned plan for machines",
        "what was approved is what is applied",
        "a label for each change's effect",
        "configs validated by the cluster, in the plan",
        "target and exclude",
    ),
    "Apply": (
        "in the order stop, config, offsets, resume",
        "waits for healthy tasks",
        "rollback on failure",
        "rebalances, 409, and requests that took effect although they timed out",
        "one apply at a time",
    ),
    "Offsets": (
        "offsets can be read",
        "offsets altered and reset",
        "offsets in the spec and in its diff",
        "carried over on a rename",
    ),
    "Drift": (
        "an exit code for drift",
        "watching for drift",
        "rules for what to ignore",
    ),
    "In CI": (
        "one comment on a pull request, never too long",
        "policies as code, over changes",
        "CI without credentials for the cluster",
    ),
    "Safety": (
        "secrets masked in the diff, key by key",
        "protection against deletion",
        "a gate before automation changes things",
    ),
    "Operation": (
        "restart of failed tasks",
        "traces of tasks in the status",
    ),
    "What none of them was seen to have": (
        "offset plans in human units",
        "pins that are applied once",
        "a rename that carries the offsets",
        "a journalled apply, rollback and a health gate",
        "fingerprints of secrets, key by key",
        "plan and drift from topics, cross-checked with REST",
        "who caused drift, without a state file",
        "consequences of each changed key",
        "a lock file of plugins' keys",
        "records tested against a spec, offline",
    ),
    "What bkkt did better": (
        "the cluster is known before anything is written to it",
        "the first line names the target",
        "next steps after a failure",
        "a failure bundle with every exchange",
        "where each value comes from",
        "drift is counted",
        "completion of words in a shell",
    ),
    "What went wrong elsewhere": (
        "config and state change in one run",
        "pausing a FAILED connector has no effect",
        "a resume leaves failed tasks failed",
        "a name both in spec and config",
        'numbers against strings, 10 and "10"',
        "transient statuses shown as a difference",
        "validation needs a name",
        "validation sees an unresolved reference",
        "404 when deleting",
        "409 and 500 of a rebalance",
        "a request times out, but took effect",
        "exit codes of usage errors and of changes",
        "no diff where validation fails",
        "no changes on an apply",
        "deletes far down in a long plan",
        "GitHub's cap of 65,536 characters",
        "a new comment for each push",
        "secrets in saved plans and in JSON",
        "removing the spec removes its protection",
    ),
}


@dataclass(frozen=True)
class Row:
    what: str
    here: str
    tests: tuple[str, ...]


def tables() -> dict[str, list[Row]]:
    """The rows below each heading that has some."""
    found: dict[str, list[Row]] = {}
    heading = ""
    for line in TEXT.splitlines():
        if line.startswith("#"):
            heading = line.strip("# ")
        elif line.startswith("| ") and not line.startswith(("| what |", "| --- |")):
            what, here, tests = (cell.strip() for cell in line.strip("|").split(" | "))
            named = tuple(re.findall(r"`([^`]*)`", tests))
            assert tests == "<br>".join(f"`{test}`" for test in named), line
            found.setdefault(heading, []).append(Row(what, here, named))
    return found


EVERY = [row for rows in tables().values() for row in rows]


def test_all_rows_are_there() -> None:
    found = {heading: tuple(row.what for row in rows) for heading, rows in tables().items()}
    assert found == ROWS


@pytest.mark.parametrize("row", EVERY, ids=lambda row: row.what)
def test_a_row_has_tests_that_exist_and_name_it(row: Row) -> None:
    assert row.here
    assert row.tests
    said = [stems(said_by(test)) for test in row.tests]
    assert any(stems(row.what) & each for each in said), f"no test names: {row.what}"
    words = stems(f"{row.what} {row.here}")
    silent = [test for test, each in zip(row.tests, said, strict=True) if not words & each]
    assert silent == []


def said_by(test: str) -> str:
    """A test's name and docstring; for a case of it also that one's name and what it is about."""
    found = re.fullmatch(r"(tests/[\w/]+\.py)::(test_\w+)(?:\[([\w-]+)\])?", test)
    assert found, test
    file, name, case = found.groups()
    functions = functions_of(file)
    assert name in functions, f"{file} has no {name}"
    text = f"{name} {functions[name]}"
    if case is None:
        return text
    beside = (REPOSITORY / file).parent
    if case in cases_of(beside):
        return f"{text} {case}"
    files = [each for each in beside.glob(f"*/{case}*") if each.stem == case]
    assert files, f"{file} knows no {case}"
    about = "".join(each.read_text() for each in files[0].glob("expected.*"))
    if files[0].is_file():
        about = yaml.safe_load(files[0].read_text())["about"]
    return f"{text} {case} {about}"


@cache
def functions_of(file: str) -> dict[str, str]:
    """The tests of a file with their docstrings."""
    tree = ast.parse((REPOSITORY / file).read_text())
    return {
        each.name: ast.get_docstring(each) or ""
        for each in tree.body
        if isinstance(each, ast.FunctionDef)
    }


@cache
def cases_of(folder: Path) -> set[str]:
    """The ids of all cases of tables of commands."""
    cases = {
        file.stem: yaml.safe_load(file.read_text())["cases"]
        for file in folder.glob("commands/*.yaml")
    }
    return {case_id(topic, each["case"]) for topic, table in cases.items() for each in table}


def stems(text: str) -> set[str]:
    """The words that carry meaning, by how they begin: ignores and ignored are one."""
    words = re.findall(r"[a-z]{4,}|\d{2,}", text.lower())
    return {word[:5] for word in words} - _EMPTY


_EMPTY = {"test", "that", "this", "with", "from", "what", "each", "none", "they", "only"}
_EMPTY |= {"where", "there", "their", "than", "does", "have", "over", "into", "which"}
