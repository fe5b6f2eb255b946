"""`--take-over` and `--change-env`: what is not done without them, whatever --yes says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_reconciler.cli import entry
from connect_specs.states import TargetState
from support.fake_worker import FakeWorker, Stored
from support.served_worker import project_of

CONFIG = {"connector.class": "FileStreamSink", "topics": "t", "file": "/a"}
QUICK = ("--healthy-for", "0", "--settle", "0")


@pytest.fixture
def worker() -> FakeWorker:
    return FakeWorker(connectors={"a": Stored({**CONFIG, "name": "a"}, TargetState.RUNNING)})


@pytest.fixture
def folder(worker: FakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with project_of(worker, tmp_path):
        yield tmp_path


def spec(folder: Path, **changed: str) -> None:
    text = json.dumps({"name": "a", "config": {**CONFIG, **changed}})
    (folder / "connectors" / "a.json").write_text(text)


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = entry.run(words)
    said, told = capfd.readouterr()
    return code, said + told


def test_what_nothing_calls_ours_is_changed_only_by_its_name(
    folder: Path, worker: FakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    spec(folder, file="/b")
    for words in (("plan",), ("apply", "--yes"), ("plan", "--out", "saved.plan")):
        code, said = run(capfd, *words)
        assert code == 2, said
        assert "owners cannot be seen without cluster.kafka" in said
        assert "no project owns it" not in said
    assert not worker.asked
    code, said = run(capfd, "plan", "--out", "saved.plan", "--take-over", "a")
    assert "apply saved.plan --take-over a" in said
    assert run(capfd, "apply", "saved.plan", "--yes")[0] == 2
    assert not worker.asked
    code, said = run(capfd, "apply", "saved.plan", "--yes", "--take-over", "a", *QUICK)
    assert code == 0, said
    assert worker.connectors["a"].config["file"] == "/b"
    # From now on it is marked as ours
    spec(folder, file="/c")
    assert run(capfd, "apply", "--yes", *QUICK)[0] == 0


def test_a_pin_that_may_have_been_applied_is_not_applied_again(
    folder: Path, worker: FakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    """The trap: the ledger was lost, and what the pin rewinds to is delivered once more."""
    partition = {"kafka_topic": "t", "kafka_partition": 0}
    worker.set_offsets("a", [{"partition": partition, "offset": {"kafka_offset": 30}}])
    back = [{"partition": partition, "offset": {"kafka_offset": 10}}]
    body = {"name": "a", "config": CONFIG, "offsets": {"pin": "back", "set": back}}
    (folder / "connectors" / "a.yaml").write_text(json.dumps(body))
    code, said = run(capfd, "apply", "--yes", "--take-over", "a", *QUICK)
    assert code == 2
    assert "run this again with --apply-pin a" in said
    assert not worker.asked
    words = ("--take-over", "a", "--apply-pin", "a")
    code, said = run(capfd, "plan", "--out", "saved.plan", *words)
    assert "apply saved.plan --take-over a --apply-pin a" in said
    code, said = run(capfd, "apply", "saved.plan", "--yes", *words, *QUICK)
    assert code == 0, said
    assert [each[1] for each in worker.offsets["a"].values()] == [{"kafka_offset": 10}]
    # Recorded by now
    assert run(capfd, "apply", "--yes", *QUICK)[0] == 0


def test_what_nothing_calls_ours_is_deleted_only_by_force(
    folder: Path, worker: FakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    code, said = run(capfd, "delete", "a", "--yes")
    assert code == 2
    assert "owners cannot be seen without cluster.kafka" in said
    assert "a" in worker.connectors
    assert run(capfd, "delete", "a", "--yes", "--force")[0] == 0


def test_a_forgotten_environment_changes_nothing(
    folder: Path, worker: FakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "values").mkdir()
    (folder / "values" / "default.yaml").write_text("file: /default\n")
    (folder / "values" / "prod.yaml").write_text("file: /prod\n")
    spec(folder, file="{{ file }}")
    code, said = run(capfd, "apply", "--yes", "--env", "prod", "--take-over", "a", *QUICK)
    assert code == 0, said
    for words in (("plan",), ("apply", "--yes"), ("apply", "--yes", "--take-over", "a")):
        code, said = run(capfd, *words)
        assert code == 2, said
        assert "with --env prod last" in said
        assert "without an environment" in said
    assert worker.connectors["a"].config["file"] == "/prod"
    code, said = run(capfd, "apply", "--yes", "--change-env", *QUICK)
    assert code == 0, said
    assert worker.connectors["a"].config["file"] == "/default"
    # That is the last one now
    assert run(capfd, "plan")[0] == 0
    assert run(capfd, "plan", "--env", "prod")[0] == 2
