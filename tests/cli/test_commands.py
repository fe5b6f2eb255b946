"""Command lines and what they print: the cases of `commands/`, one table for all verbs.

A file of cases has `files` and `env` that each of its cases begins with, and texts that no output
of it `lacks`. A case is a list of runs in one folder, after one another, in this process unless it
says `process`. A run may `write` and `remove` files before, and says of its command line (or of
each of a list of them) what is expected: `code` (else 0), `out` and `err` to the letter, what they
have, how they begin and lack, how the first line of `out` ends, the number of `errors`, parts of
the `json` document, what `files` hold then (null: there is none) and lack, and which of them are
`private`; and `usage`, the parts of the error of a wrong command line.

`$CLUSTER` stands for a cluster on the tests' Kafka, `$KAFKA` for its client properties, `$GROUP`
for its group, `$FOLDER` for the folder, `$PORT` for a free port, `$PLAN` for a saved plan; in
`json` `$some` for anything but nothing.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_reconciler.render.plan_file import dump_plan
from connect_runtime.kafka.local_processes import free_port
from support.command import Command, case_id
from support.plans import plan_with_everything

FILES = {
    file.stem: yaml.load(file.read_text(), yaml.CSafeLoader)
    for file in sorted((Path(__file__).parent / "commands").glob("*.yaml"))
}
CASES = [
    pytest.param(topic, case, id=case_id(topic, case["case"]))
    for topic, table in FILES.items()
    for case in table["cases"]
]
PLAN = dump_plan(plan_with_everything())
FIELDS = frozenset("run in stdin write remove code out err errors json files private".split()) | {
    *("usage", "within", "out has", "err has", "out lacks", "err lacks", "lacks", "err begins"),
    *("out begins", "first line ends", "files lack"),
}


@pytest.fixture
def fill(request: pytest.FixtureRequest, tmp_path: Path, unique: str) -> Callable[[str], str]:
    """Puts the values in place of their names."""
    values: Mapping[str, Callable[[], object]] = {
        "$CLUSTER": lambda: request.getfixturevalue("broker").cluster(unique),
        "$KAFKA": lambda: request.getfixturevalue("broker").kafka,
        "$GROUP": lambda: unique,
        "$FOLDER": lambda: tmp_path,
        "$PORT": free_port,
        "$PLAN": lambda: PLAN,
    }

    def filled(text: str) -> str:
        for name, value in values.items():
            text = text.replace(name, str(value())) if name in text else text
        return text

    return filled


@pytest.mark.parametrize(("topic", "case"), CASES)
def test_commands(
    topic: str,
    case: dict[str, Any],
    connect: Command,
    fill: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = FILES[topic]
    command = Command(connect.folder) if case.get("process") else connect
    for name, value in ({**table.get("env", {}), **case.get("env", {})}).items():
        monkeypatch.setenv(name, fill(value))
    for name, text in ({**table.get("files", {}), **case.get("files", {})}).items():
        command.write(name, fill(text))
    for run in case["runs"]:
        assert run.keys() <= FIELDS, run.keys()
        for name, text in run.get("write", {}).items():
            command.write(name, fill(text))
        for name in run.get("remove", ()):
            (command.folder / name).unlink()
        for line in parts(run["run"]):
            check(run, line, command, fill, parts(table.get("lacks", ())))


def check(
    run: dict[str, Any], line: str, command: Command, fill: Callable[[str], str], hidden: list[str]
) -> None:
    started = time.monotonic()
    inside = Command(command.folder / run.get("in", "."), capture=command.capture)
    done = inside(*shlex.split(fill(line)), given=run.get("stdin", ""))
    out, err = done.stdout, done.stderr
    shown = f"{line}: {done.returncode}\n{out}\n{err}"
    assert time.monotonic() - started < run.get("within", 60), line
    if "usage" in run:
        what, *why, hint = run["usage"]
        reason = "".join(f"  why: {text}\n" for text in why)
        run = {"code": 2, "out": "", "err": f"error[usage]: {what}\n{reason}  hint: {hint}\n"}
    assert done.returncode == run.get("code", 0), shown
    assert out == fill(run.get("out", out)), shown
    assert err == fill(run.get("err", err)), shown
    assert err.startswith(fill(run.get("err begins", ""))), shown
    assert out.startswith(fill(run.get("out begins", ""))), shown
    assert out.partition("\n")[0].endswith(fill(run.get("first line ends", ""))), shown
    assert (out + err).count("error[") == run.get("errors", (out + err).count("error[")), shown
    for key, text in (("out has", out), ("err has", err)):
        assert all(fill(part) in text for part in parts(run.get(key, ()))), shown
    for key, text in (("out lacks", out), ("err lacks", err), ("lacks", out + err)):
        assert not any(part in text for part in parts(run.get(key, ()))), shown
    assert not any(part in out + err for part in hidden), shown
    assert "json" not in run or holds(json.loads(out), run["json"]), shown
    for name, text in run.get("files", {}).items():
        file = inside.folder / name
        kept = file.read_text() if file.exists() else None
        assert (kept is None) == (text is None), kept
        assert kept is None or all(fill(part) in kept for part in parts(text)), kept
    for name, text in run.get("files lack", {}).items():
        assert text not in (inside.folder / name).read_text(), name
    for name in run.get("private", ()):
        assert (inside.folder / name).stat().st_mode & 0o077 == 0, name


def parts(text: Any) -> list[str]:
    return [text] if isinstance(text, str) else list(text)


def holds(found: Any, expected: Any) -> bool:
    """Whether JSON has at least what is expected; lists are whole."""
    if isinstance(expected, dict):
        return isinstance(found, dict) and all(
            holds(found.get(key), value) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(holds, found, expected))
    if expected == "$some":
        return bool(found)
    return bool(found == (json.loads(PLAN) if expected == "$PLAN" else expected))
