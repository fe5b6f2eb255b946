"""Names, values and texts of others never steer a terminal, and never keep a result from it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from connect_reconciler.actions import Delete
from connect_reconciler.apply.report import (
    ActionResult,
    ApplyReport,
    ConnectorReport,
    Health,
    Outcome,
)
from connect_reconciler.cli.apply_report import render_report
from connect_reconciler.cli.output import progress
from connect_specs.diagnostics import Diagnostic, ExitCode, Location
from connect_specs.plain_text import render_diagnostics, table
from support.command import CONNECT, Command

ODD = "a\x1b]0;b\x07\x9b31m\r"
SPEC = "name: {name}\nconfig: {{connector.class: FileStreamSource, file: x, topic: t}}\n"


def test_diagnostics_show_them_escaped() -> None:
    found = Diagnostic("c", f"{ODD}\nwarning[x]: y", Location(ODD, 1, 1), f"{ODD}\n{ODD}", ODD)
    shown = render_diagnostics([found])
    assert all(line.isprintable() for line in shown.splitlines()), shown
    first, *others = shown.splitlines()
    assert first.startswith("error[c]: ")
    # what looks like another diagnostic is part of the text of this one
    assert len(others) == 4
    assert all(line.startswith("  ") for line in others)


def test_reports_tables_and_progress_show_them_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    done = ActionResult(Delete(connector=ODD), Outcome.FAILED, f"{ODD}\nsecond")
    connector = ConnectorReport(ODD, (done,), health=Health.FAILED, health_detail=ODD)
    report = ApplyReport("a1", (connector,), False, (), ExitCode.FAILED)
    progress(f"{ODD}\nsecond")
    shown = render_report(report) + table(("A",), [(ODD,)]) + capsys.readouterr().err
    assert all(line.isprintable() for line in shown.split("\n")), shown


def test_files_and_values_show_them_escaped(on_kafka: Command) -> None:
    on_kafka.write("values/default.yaml", 'a: "x\\e]0;y\\a\\nz"\nb: ["\\e[1m"]\n')
    on_kafka.write("connectors/c\x1b[31m.yaml", SPEC.format(name="c") + "foo: 1\n")
    on_kafka.write("connectors/d\n.yaml", SPEC.format(name="d"))
    for words in (["validate", "--explain-vars"], ["validate"]):
        done = on_kafka(*words)
        assert done.returncode == 2
        assert "\x1b" not in done.stdout + done.stderr
    (on_kafka.folder / "connectors/c\x1b[31m.yaml").unlink()
    done = on_kafka("validate")
    assert "d\\n.yaml" in done.stdout, done.stdout


def test_a_file_whose_name_is_no_text(on_kafka: Command) -> None:
    name = os.fsdecode(b"connectors/\xff.yaml")
    file = Path(on_kafka.folder, name)
    file.parent.mkdir()
    file.write_text(SPEC.format(name="b"))
    planned = on_kafka("plan", "--json", "--out", "p.json")
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["plan"]["places"]["b"]["file"] == "connectors/\\xff.yaml"
    assert (on_kafka.folder / "p.json").exists()
    assert "internal" not in on_kafka("validate").stderr


@pytest.mark.parametrize(
    "encoding",
    ["ascii", *(pytest.param(each, marks=pytest.mark.long) for each in ("latin1", "utf-8:strict"))],
)
def test_a_terminal_that_cannot_show_all(
    on_kafka: Command, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    on_kafka.write("connectors/a.yaml", SPEC.format(name="\U0001f600→"))
    connect = Command(on_kafka.folder)
    planned = connect("plan")
    assert planned.returncode == 0, planned.stderr
    assert "1 to create" in planned.stdout
    shown = json.loads(connect("validate", "--json").stdout)
    assert shown["connectors"] == ["\U0001f600→"]


def test_stdin_that_is_no_text(on_kafka: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8:strict")
    done = subprocess.run(
        [*CONNECT, "offsets", "alter", "a"],
        cwd=on_kafka.folder,
        input=b'{"offsets":\n \xff',
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert b"error[file.encoding]: stdin:2:2: " in done.stderr
