"""A secret that Strimzi's provider reads from the environment, in connectors that log it and that
throw it: it reaches the plugin, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.storage.snapshots import State
from connect_specs.secrets import MASK
from support import http
from support.broker import read_to_end
from support.connect_jars import add_plugin
from support.java_plugins import SOURCE, add_compiled
from support.rig import Rig, Up
from support.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

START_S = 180
SECRET = 'zq9 of the environment\\with "quotes"'
MARK = "zq9"
MODES = {"runs": "", "no-connector": "connector throws", "no-task": "task throws"}
QUESTIONS = (
    "/",
    "/connectors?expand=info&expand=status",
    "/connectors/runs/config",
    "/connectors/runs/tasks",
    "/connectors/runs/offsets",
    "/connectors/no-task/tasks/0/status",
    "/admin/loggers",
    "/metrics",
    "/runtime",
)
VERBS = (
    ("plan", "--json"),
    ("drift", "--json"),
    ("status",),
    ("status", "--json"),
    ("history", "--json"),
    ("doctor", "--json"),
    ("export", "runs", "--live"),
    ("plugins", "list"),
)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setenv("DB_PASSWORD", SECRET)
    project = Rig(tmp_path / "project")
    add_compiled("Differing", {SOURCE: "tests.Differing"}, project.folder / "plugins")
    add_plugin("strimzi-env", project.folder / "plugins")
    project.set_worker(
        {
            "plugin.path": str(project.folder / "plugins"),
            "config.providers": "env",
            "config.providers.env.class": "io.strimzi.kafka.EnvVarConfigProvider",
        }
    )
    for name, mode in MODES.items():
        config = {
            "connector.class": "tests.Differing",
            "topic": name,
            "value": "${env:DB_PASSWORD}",
            "reports": str(tmp_path / name),
            "mode": mode,
        }
        project.spec(name, config, state="running")
    return project


def trace(up: Up, name: str) -> str:
    """The trace of the connector or its task, once one has failed."""

    def failed() -> str | None:
        status = up.get(f"/connectors/{name}/status")
        parts = [] if status is None else [status["connector"], *status["tasks"]]
        return next((p["trace"] for p in parts if p["state"] == State.FAILED), None)

    return wait_until(failed, what=f"{name} to fail", timeout_s=START_S)


def test_a_secret_of_the_environment_reaches_the_plugin_and_nothing_else(
    rig: Rig, tmp_path: Path
) -> None:
    outputs: list[str] = []
    up = rig.up()
    try:
        applied = rig("apply", "--yes", "--json", expect=None, timeout_s=START_S)
        outputs += [applied.stdout, applied.stderr]
        wait_until(
            lambda: f"task starts with {SECRET}\n" in (tmp_path / "runs").read_text(),
            what="the secret in the plugin",
            timeout_s=START_S,
        )
        assert f"Cannot use {MASK}" in trace(up, "no-connector")
        assert f"value={MASK}" in trace(up, "no-task")
        outputs += [http.get(f"{up.url}{path}", timeout=60).text for path in QUESTIONS]
        for words in VERBS:
            done = rig(*words, "--verbose", expect=None, timeout_s=START_S)
            outputs += [done.stdout, done.stderr]
        topics = rig.topics
        for topic in (topics.config, topics.status, topics.offsets):
            records = read_to_end(up.kafka, topic)
            assert records
            outputs += [str((m.key(), m.value())) for m in records]
    finally:
        left = rig.end()
    assert left == []
    logs = [file for file in rig.folder.rglob("*") if file.is_file() and file.suffix != ".jar"]
    texts = {str(file): file.read_bytes().decode(errors="replace") for file in logs}
    assert any(f"task starts with {MASK}" in text for text in texts.values())
    assert [text for text in outputs if MARK in text] == []
    assert [file for file, text in texts.items() if MARK in text] == []
