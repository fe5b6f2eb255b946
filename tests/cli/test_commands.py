"""Command lines and what they print: the cases of `commands/`, one table for all verbs.

A file of cases has `files` and `env` that each of its cases begins with, and texts that no output
of it `lacks`. A case is a list of runs in one folder, after one another, in this process unless it
says `process`. A run may `write` and `remove` files before, and says of its command line (or of
each of a list of them) what is expected: `code` (else 0), `out` and `err` to the letter, what they
have, how they begin and lack, how the first line of `out` ends, the number of `errors`, parts of
the `json` document, what `files` hold then (null: there is none) and lack, and which of them are
`private`; and `usage`, the parts of the error of a wrong command line.

Before a run, `env` may be set, files be `replace`d in part, `link`ed, or be the next `commit` of a
git repository, and configs be written to the cluster's topic by `hand`. `lists` says which files
folders hold then, and `writes nothing` that the topic of configs is as it was. `in` names the
folder that a run, or all of a file of cases, is in. With `same out` each of its command lines
prints the same.

A file of cases or a case with a `worker` has a Connect worker with these connectors, and `offsets`,
and nothing but its REST API. Their configs may name projects as `owners`, and `statuses` give the
states of connectors and then of their tasks; one that failed has the `trace`. The worker refuses to
create the connector `refused`, and adds the key `stamp` to each config. `changes` are the requests
that changed something since the case began, and `cluster` has parts of configs.

`$CLUSTER` stands for a cluster on the tests' Kafka, `$KAFKA` for its client properties, `$GROUP`
for its group, `$FOLDER` for the folder, `$PORT` for a free port, `$PLAN` for a saved plan, `$APPLY`
for the id of the newest apply; in `json` `$some` for anything but nothing.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from starlette.responses import JSONResponse, Response

from connect_reconciler.ledger.config_entry import Entry, dump_entry
from connect_reconciler.model.config_values import LEDGER_KEY
from connect_reconciler.model.ledger import Owned
from connect_reconciler.render.plan_file import dump_plan
from connect_runtime.kafka.local_processes import free_port
from connect_specs.desired import TargetState
from support.by_hand import ByHand
from support.command import Command, case_id
from support.fake_worker import FakeWorker, Stored
from support.plans import plan_with_everything
from support.served_worker import served_project

FILES = {
    file.stem: yaml.load(file.read_text(), yaml.CSafeLoader)
    for file in sorted((Path(__file__).parent / "commands").glob("*.yaml"))
}
CASES = [
    pytest.param(
        topic,
        case,
        id=case_id(topic, case["case"]),
        marks=[pytest.mark.long] if case.get("long") else [],
    )
    for topic, table in FILES.items()
    for case in table["cases"]
]
PLAN = dump_plan(plan_with_everything())
FIELDS = frozenset("run in stdin write remove code out err errors json files private".split()) | {
    *("usage", "within", "out has", "err has", "out lacks", "err lacks", "lacks", "err begins"),
    *("out begins", "first line ends", "files lack", "env", "replace", "link", "commit", "hand"),
    *("lists", "writes nothing", "same out", "has", "has once", "changes", "cluster"),
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
        "$APPLY": lambda: json.loads(Command(tmp_path)("history", "--json").stdout)["applies"][0][
            "apply_id"
        ],
        "$PLAN": lambda: PLAN,
    }

    def filled(text: str) -> str:
        for name, value in values.items():
            text = text.replace(name, str(value())) if name in text else text
        return text

    return filled


class Worker(FakeWorker):
    """Refuses to create the connector `refused`. The `case` may give statuses of others."""

    case: Mapping[str, Any]

    def _create(self, body: Mapping[str, Any]) -> httpx.Response:
        if body["name"] == "refused":
            return httpx.Response(400, json={"error_code": 400, "message": "no"})
        return super()._create(body)

    def _status(self, name: str) -> dict[str, Any]:
        found = super()._status(name)
        if name not in self.case.get("statuses", {}):
            return found
        states = self.case["statuses"][name]
        connector, *tasks = [{"state": state, "worker_id": "w:8083"} for state in states]
        for number, task in enumerate(tasks):
            trace = {"trace": self.case["trace"]} if task["state"] == "FAILED" else {}
            task |= {"id": number} | trace
        return found | {"connector": connector, "tasks": tasks}


def file_sinks(path: str) -> Response:
    plugin = {"class": "FileStreamSinkConnector", "type": "sink", "version": "1"}
    return JSONResponse([plugin] if path == "/connector-plugins" else [])


@contextmanager
def worker_of(case: Mapping[str, Any], folder: Path) -> Iterator[FakeWorker | None]:
    """The worker of a case that has one, and a project in the folder."""
    if "worker" not in case:
        yield None
        return
    stamp, owners = case.get("stamp", ""), case.get("owners", {})
    worker = Worker(stamp=stamp)
    worker.case = case
    for name, config in case["worker"].items():
        config = {**config, "name": name} | ({stamp: "7"} if stamp else {})
        if name in owners:
            config[LEDGER_KEY] = dump_entry(Entry(Owned(owners[name], {}, None), {}))
        worker.connectors[name] = Stored(config, TargetState.RUNNING)
        worker.set_offsets(name, case.get("offsets", {}).get(name, []))
    with served_project(worker, folder, file_sinks, asked=[]):
        yield worker


@pytest.mark.parametrize(("topic", "case"), CASES)
def test_commands(
    topic: str,
    case: dict[str, Any],
    connect: Command,
    fill: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    table = FILES[topic]
    command = Command(connect.folder) if case.get("process") else connect
    for name, value in ({**table.get("env", {}), **case.get("env", {})}).items():
        monkeypatch.setenv(name, fill(value))
    with worker_of({**table, **case}, command.folder) as worker:
        for name, text in ({**table.get("files", {}), **case.get("files", {})}).items():
            command.write(name, fill(text))
        for run in ({"in": table.get("in", "."), **run} for run in case["runs"]):
            assert run.keys() <= FIELDS, run.keys()
            is_by_hand = run.keys() & {"hand", "writes nothing"}
            hand: ByHand | None = request.getfixturevalue("by_hand") if is_by_hand else None
            arrange(run, command, fill, hand)
            with monkeypatch.context() as patch:
                for name, value in run.get("env", {}).items():
                    patch.setenv(name, value)
                before = hand.records(hand.topics.config) if hand else []
                lines, hidden = parts(run["run"]), parts(table.get("lacks", ()))
                outs = {check(run, line, command, fill, hidden) for line in lines}
            assert len(outs) == 1 or "same out" not in run, outs
            if hand and "writes nothing" in run:
                assert hand.records(hand.topics.config) == before, run
            if worker is not None:
                assert worker.asked == run.get("changes", worker.asked), run
                found = {name: each.config for name, each in worker.connectors.items()}
                assert holds(found, run.get("cluster", {})), run


def arrange(
    run: Mapping[str, Any], command: Command, fill: Callable[[str], str], hand: ByHand | None
) -> None:
    """Writes, changes and removes the files and configs that a run begins with."""
    for name, text in run.get("write", {}).items():
        command.write(name, fill(text))
    for name, texts in run.get("replace", {}).items():
        text = (command.folder / name).read_text()
        for part, other in texts.items():
            assert part in text, (name, part)
            text = text.replace(part, other)
        command.write(name, text)
    for name, target in run.get("link", {}).items():
        (command.folder / name).symlink_to(target)
    for name in run.get("remove", ()):
        file = command.folder / name
        file.rmdir() if file.is_dir() else file.unlink()
    if "commit" in run:
        command.commit(run["commit"])
    if hand is not None:
        hand.write()
        for name, config in run.get("hand", {}).items():
            hand.config(name, **config)


def check(
    run: dict[str, Any], line: str, command: Command, fill: Callable[[str], str], hidden: list[str]
) -> str:
    """Runs a command line, checks what is expected of it, and returns its stdout."""
    started = time.monotonic()
    inside = Command(command.folder / run["in"], capture=command.capture)
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
    for key, text in (("out has", out), ("err has", err), ("has", out + err)):
        assert all(fill(part) in text for part in parts(run.get(key, ()))), shown
    for key, text in (("out lacks", out), ("err lacks", err), ("lacks", out + err)):
        assert not any(part in text for part in parts(run.get(key, ()))), shown
    assert not any(part in out + err for part in hidden), shown
    assert all((out + err).count(part) == 1 for part in parts(run.get("has once", ()))), shown
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
    for name, patterns in run.get("lists", {}).items():
        files = sorted(file.name for file in (inside.folder / name).iterdir())
        assert len(files) == len(patterns) and all(map(fnmatchcase, files, patterns)), files
    return out


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
