"""docs/json.md names the fields of what `--json` prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.apply.report import Health
from connect_reconciler.cli import entry

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "json.md").read_text()
ROWS = dict(re.findall(r"^\| (`[^|]*) \| (.*) \|$", PAGE, re.MULTILINE))
PLANS = sorted((ROOT / "tests/reconciler/render/data").rglob("*.json"))


def names(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", text))


def fields(value: Any) -> set[str]:
    """All names of fields, also those of the first item of a list."""
    if isinstance(value, list):
        return fields(value[0]) if value else set()
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(fields(each) for each in value.values()))


def test_fields_of_verbs_that_need_no_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*words: str, code: int = 0) -> Any:
        assert entry.run(["-C", str(tmp_path), *words, "--json"]) == code
        return json.loads(capsys.readouterr().out)

    assert set(run("init")) == names(ROWS["`init`"])
    assert set(run("validate")) <= names(ROWS["`validate`"])
    tests = "records: [{name: a, input: {value: x}, expect: {value: y}}]\n"
    (tmp_path / "connectors/example.test.yaml").write_text(tests)
    assert fields(run("test", code=1)) == names(ROWS["`test`"])
    (tmp_path / "r.jsonl").write_text('{"value": "x"}\n')
    shown = run("test", "example", "--records", "r.jsonl")
    parts = fields([{**shown["connectors"][0], "records": []}]) | set(shown)
    parts |= set(shown["connectors"][0]["records"][0])
    assert parts | {"error", "given"} == names(ROWS["`test --records`, `--last`"])
    assert fields(run("export")) | {"file"} == names(ROWS["`export`"])
    assert fields(run("version")) == names(ROWS["`version`"])
    assert fields(run("init", code=2)) - {"error"} == names(PAGE.partition("## Errors")[2]) & {
        *("exit_code", "diagnostics", "code", "what", "where", "why", "hint"),
        *("file", "line", "column"),
    }
    (plan, *_) = PLANS
    assert set(run("show", str(plan))) == names(ROWS["`plan`, `show`"].partition(": [")[0])


def test_each_health_is_named() -> None:
    (told,) = re.findall(r"`health` is one of ([^.]*)\.", PAGE)
    assert set(re.findall(r"`([a-z-]+)`", told)) == {each.value for each in Health}
