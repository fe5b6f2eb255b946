"""A project over REST alone: changes that need an option, and what its cluster is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse, Response

from connect_reconciler.cli import entry
from connect_specs.states import TargetState
from support.fake_worker import FakeWorker, Stored
from support.served_worker import served_project

CLASS = "FileStreamSinkConnector"
CONFIG = {"connector.class": CLASS, "topics": "t", "file": "/a"}
QUICK = ("--healthy-for", "0", "--settle", "0")
# A key that some clusters add to each config that is written
KEY = "__internal.config.version"


class Picky(FakeWorker):
    """Refuses to create `refused`."""

    def _create(self, body: Mapping[str, Any]) -> httpx.Response:
        if body["name"] == "refused":
            return httpx.Response(400, json={"error_code": 400, "message": "no"})
        return super()._create(body)


def a_sink(path: str) -> Response:
    plugin = {"class": CLASS, "type": "sink", "version": "1"}
    return JSONResponse([plugin] if path == "/connector-plugins" else [])


@pytest.fixture
def worker() -> FakeWorker:
    return Picky(connectors={"a": Stored({**CONFIG, "name": "a"}, TargetState.RUNNING)})


@pytest.fixture
def asked() -> list[str]:
    """What the cluster is asked."""
    return []


@pytest.fixture
def folder(
    worker: FakeWorker, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    with served_project(worker, tmp_path, a_sink, asked=asked):
        yield tmp_path


def spec(folder: Path, name: str = "a", *, state: str | None = None, **changed: str) -> None:
    more = {} if state is None else {"state": state}
    text = json.dumps({"name": name, "config": {**CONFIG, **changed}} | more)
    (folder / "connectors" / f"{name}.json").write_text(text)


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


def stamped(worker: FakeWorker) -> None:
    worker.stamp = KEY
    worker.connectors["a"].config[KEY] = "7"


def test_a_key_that_the_cluster_adds_is_never_planned_and_doctor_lists_it_once(
    folder: Path, worker: FakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    stamped(worker)
    spec(folder, "new")
    spec(folder)
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
    assert "a, new" in said


def test_a_key_that_the_cluster_adds_is_not_imported(
    folder: Path, worker: FakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    stamped(worker)
    code, said = run(capfd, "import", "a")
    assert code == 0, said
    (file,) = (folder / "connectors").iterdir()
    assert KEY not in file.read_text()
    # A spec that names it all the same does not manage it
    file.unlink()
    spec(folder, **{KEY: "1"})
    assert run(capfd, "plan", "--detailed-exitcode")[0] == 0


@pytest.mark.parametrize(
    ("options", "created"), [((), ["a", "b", "z"]), (("--fail-fast",), ["a", "b"])]
)
def test_no_connector_is_started_after_the_first_failure_if_that_is_wanted(
    folder: Path, worker: FakeWorker, options: tuple[str, ...], created: list[str]
) -> None:
    for name in ("b", "refused", "z"):
        spec(folder, name, state="stopped")
    words = ("apply", "--yes", "--parallelism", "1", *QUICK)
    assert entry.run((*words, *options)) == 1
    assert sorted(worker.connectors) == created


def test_a_plan_of_300_connectors_asks_ten_times_at_most(
    folder: Path, worker: FakeWorker, asked: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    for name in (f"c{number}" for number in range(300)):
        worker.connectors[name] = Stored({**CONFIG, "name": name}, TargetState.RUNNING)
        spec(folder, name, topics="t,u" if name == "c7" else "t")
    assert run(capfd, "plan", "--json", "--take-over", "c7")[0] in (0, 4)
    assert asked.count("GET /connectors/c7/offsets") == 1
    assert asked.count(f"PUT /connector-plugins/{CLASS}/config/validate") == 1
    assert len(asked) <= 10, asked
