"""What verbs show while the cluster's plugins cannot be asked: no value whose type is not known."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from connect_reconciler.backend import backend as backends
from connect_reconciler.cli import entry
from connect_specs.desired import TargetState
from support.fake_worker import FakeWorker, Stored
from support.served_worker import served_project

# In the middle of each value that only its type tells to be secret
MARK = "zq9"
VAULT = "org.example.VaultSinkConnector"
CONFIG = {
    "connector.class": VAULT,
    "topics": "orders-in",
    "tasks.max": "1",
    "vendor.pin": f"{MARK}-live",
    "region": "eu",
    "transforms": "seal",
    "transforms.seal.type": "org.example.Seal",
    "transforms.seal.salt": f"{MARK}-salt",
}
LISTED = [
    {"class": VAULT, "type": "sink", "version": "1"},
    {"class": "org.example.Seal", "type": "transformation", "version": "1"},
]
REQUEST = re.compile("GET \\S*/connector-plugins")
FAULTS = ("list-500", "list-slow", "list-malformed", "keys-500", "keys-404", "keys-malformed")
READS = (
    ("plan",),
    ("plan", "--json"),
    ("plan", "--markdown"),
    ("plan", "--html", "plan.html"),
    ("drift",),
    ("drift", "--json"),
    ("drift", "--markdown"),
    ("status",),
    ("status", "--json"),
    ("history",),
    ("doctor",),
    ("rollback",),
)
FEW = (("plan", "--json"), ("drift",), ("status", "--json"))


class Plugins:
    """The cluster's plugins, which fail as `fault` says. `type` is that of their secrets."""

    def __init__(self) -> None:
        self.fault = ""
        self.listed = LISTED
        self.type = "PASSWORD"

    def answer(self, path: str) -> Response:
        if self.fault == "list-slow":
            time.sleep(0.5)
        about_keys = path.endswith("/config")
        name = path.split("/")[2] if about_keys else ""
        broken = self.fault.startswith("keys") and name == VAULT
        if broken or self.fault.startswith("list"):
            match self.fault.partition("-")[2]:
                case "500":
                    return JSONResponse({"error_code": 500, "message": "no"}, 500)
                case "404":
                    return JSONResponse({"error_code": 404, "message": "no"}, 404)
                case "malformed":
                    return JSONResponse([{"class": 7, "name": "x"}])
        if about_keys:
            return JSONResponse([_definition(*each) for each in self.keys(name)])
        return JSONResponse(self.listed)

    def keys(self, name: str) -> list[tuple[str, str]]:
        if name == VAULT:
            return [("vendor.pin", self.type), ("region", "STRING")]
        return [("salt", self.type)]


def _definition(key: str, type: str) -> dict[str, object]:
    return {
        "name": key,
        "type": type,
        "required": False,
        "default_value": None,
        "importance": "LOW",
        "dependents": [],
    }


@pytest.fixture
def plugins() -> Plugins:
    return Plugins()


@pytest.fixture
def worker() -> FakeWorker:
    config = {**CONFIG, "name": "vault"}
    return FakeWorker(connectors={"vault": Stored(config, TargetState.RUNNING)})


@pytest.fixture
def folder(
    worker: FakeWorker, plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A project over REST alone; the plugins answer as `plugins` says."""
    monkeypatch.setattr(backends, "_ANSWER_S", 0.2)
    monkeypatch.setenv("CONNECT_FINGERPRINT_KEY", "a key of this test")

    monkeypatch.chdir(tmp_path)

    def seen(path: str, body: Any) -> Any:
        if path.endswith("/status"):
            return _failed(worker)
        if path == "/connectors" and isinstance(body, dict):
            for each in body.values():
                if "status" in each:
                    each["status"] = _failed(worker)
        return body

    with served_project(worker, tmp_path, plugins.answer, seen):
        yield tmp_path


def _failed(worker: FakeWorker) -> dict[str, object]:
    pin = worker.connectors["vault"].config["vendor.pin"]
    trace = f"java.lang.Error: cannot open the vault with {pin}"
    part = {"state": "FAILED", "worker_id": "w", "trace": trace}
    # What runs with an error is shown in other places than what failed
    runs = {**part, "state": "RUNNING"}
    return {"name": "vault", "type": "sink", "connector": runs, "tasks": [{"id": 0, **part}]}


def spec(folder: Path, **changed: str) -> None:
    config = {**CONFIG, "vendor.pin": f"{MARK}-spec", **changed}
    text = json.dumps({"name": "vault", "config": config})
    (folder / "connectors" / "vault.yaml").write_text(text)


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    ours = ("--take-over", "vault") if words[0] in ("plan", "apply") else ()
    code = entry.run((*words, *ours, "--verbose", "--log-file", "asked.log"))
    said, told = capfd.readouterr()
    assert MARK not in said + told, words
    assert "error[internal]" not in told, (words, told)
    for file in Path.cwd().rglob("*"):
        if file.is_file() and file.parent.name != "connectors":
            assert MARK not in file.read_text(), (words, file)
    return code, said, told


@pytest.mark.parametrize("fault", FAULTS)
def test_no_output_shows_a_value_whose_type_could_not_be_asked_for(
    folder: Path,
    plugins: Plugins,
    worker: FakeWorker,
    fault: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    spec(folder)
    plugins.fault = fault
    for words in READS if fault in FAULTS[:1] else FEW:
        code, _, told = run(capfd, *words)
        assert words[0] in ("history", "rollback", "doctor") or code in (0, 4), (words, told)
    said = run(capfd, "plan")[1]
    assert "1 value hidden" in said, said
    assert REQUEST.search(said)
    # What only Connect itself reads is shown
    spec(folder, topics="orders-in,others", region="us")
    said = run(capfd, "plan")[1]
    assert "orders-in,others" in said
    assert "2 values hidden" in said, said


@pytest.mark.parametrize("fault", FAULTS)
def test_what_would_keep_values_is_refused_and_names_the_request(
    folder: Path,
    plugins: Plugins,
    worker: FakeWorker,
    fault: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    plugins.fault = fault
    for words in (("import", "vault"), ("import", "--all"), ("export", "--live")):
        code, _, told = run(capfd, *words)
        assert code == 3, (words, told)
        assert REQUEST.search(told), told
    assert not [*(folder / "connectors").iterdir()]
    spec(folder)
    code, _, told = run(capfd, "plan", "--out", "saved.plan")
    assert code == 3, told
    assert REQUEST.search(told), told
    assert not (folder / "saved.plan").exists()
    assert not worker.asked


def test_an_apply_keeps_no_value_in_clear_text_and_forgets_that_it_did_not_know(
    folder: Path, plugins: Plugins, worker: FakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    spec(folder, region="us")
    plugins.fault = "list-500"
    run(capfd, "apply", "--yes", "--healthy-for", "0", "--settle", "0")
    kept = worker.connectors["vault"].config
    assert kept["vendor.pin"] == f"{MARK}-spec"
    assert MARK not in kept["connect.ledger"]
    # Once it is known that `region` is no secret, it is shown again
    plugins.fault = ""
    spec(folder, region="asia")
    said = run(capfd, "plan")[1]
    assert "us" in said and "asia" in said
    assert run(capfd, "plan", "--out", "saved.plan")[0] == 0


def test_a_key_that_the_ledger_holds_as_a_fingerprint_is_secret_whatever_the_cluster_says(
    folder: Path, plugins: Plugins, worker: FakeWorker, capfd: pytest.CaptureFixture[str]
) -> None:
    spec(folder)
    run(capfd, "apply", "--yes", "--healthy-for", "0", "--settle", "0")
    assert MARK not in worker.connectors["vault"].config["connect.ledger"]
    # The plugin was replaced by one that calls its keys plain texts, and then removed
    for plugins.type, plugins.listed in (("STRING", LISTED), ("STRING", [])):
        spec(folder, **{"vendor.pin": f"{MARK}-next"})
        for words in READS:
            run(capfd, *words)
        assert run(capfd, "import", "vault", "--force")[0] == 0
        written = (folder / "connectors" / "vault.yaml").read_text()
        assert MARK not in written and "region: eu" in written
