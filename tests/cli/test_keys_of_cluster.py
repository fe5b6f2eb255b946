"""A cluster that adds a key of its own to each config: no plan ever shows or writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_reconciler.cli import entry
from connect_specs.states import TargetState
from support.fake_worker import FakeWorker, Stored
from support.served_worker import project_of

KEY = "__internal.config.version"
CONFIG = {"connector.class": "FileStreamSink", "topics": "t", "file": "/a"}
QUICK = ("--healthy-for", "0", "--settle", "0")


@pytest.fixture
def worker() -> FakeWorker:
    there = Stored({**CONFIG, "name": "there", KEY: "7"}, TargetState.RUNNING)
    return FakeWorker(connectors={"there": there}, stamp=KEY)


@pytest.fixture
def folder(worker: FakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with project_of(worker, tmp_path):
        yield tmp_path


def spec(folder: Path, name: str, **changed: str) -> None:
    text = json.dumps({"name": name, "config": {**CONFIG, **changed}})
    (folder / "connectors" / f"{name}.json").write_text(text)


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = entry.run(words)
    said, told = capfd.readouterr()
    return code, said + told


def test_it_is_never_planned_and_doctor_lists_it_once(
    folder: Path, worker: FakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    spec(folder, "new")
    spec(folder, "there")
    code, said = run(capfd, "apply", "--yes", *QUICK)
    assert code == 0, said
    assert KEY in worker.connectors["new"].config
    written = len(worker.asked)
    for words in (("plan", "--detailed-exitcode"), ("apply", "--yes"), ("drift",)):
        code, said = run(capfd, *words)
        assert code == 0, said
        assert KEY not in said
    assert len(worker.asked) == written
    # A change of something else is that change alone, and waits for nothing
    spec(folder, "new", topics="t,u")
    code, said = run(capfd, "apply", "--yes", *QUICK)
    assert code == 0, said
    assert KEY not in said
    assert len([each for each in worker.asked if each.startswith("PUT")]) == 1
    code, said = run(capfd, "doctor")
    assert said.count(KEY) == 1
    assert "new, there" in said


def test_it_is_not_imported(
    folder: Path, worker: FakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    code, said = run(capfd, "import", "there")
    assert code == 0, said
    (file,) = (folder / "connectors").iterdir()
    assert KEY not in file.read_text()
    # A spec that names it all the same does not manage it
    file.unlink()
    spec(folder, "there", **{KEY: "1"})
    assert run(capfd, "plan", "--detailed-exitcode")[0] == 0
