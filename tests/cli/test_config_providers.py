"""A project whose connectors hold references, with real Spark: planned, applied and run."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.broker import BrokerAddress, read_to_end
from support.rig import Rig, committed_lines
from support.wait import wait_until

SECRET = "s3cret-t0pic"

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def rig(
    broker: BrokerAddress,
    tmp_path_factory: pytest.TempPathFactory,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Rig]:
    """A project on the tests' Kafka whose workers read files below its folder `secrets`."""
    folder = tmp_path_factory.mktemp("providers") / "project"
    rig = Rig(folder, unique[-20:].lstrip("-"), broker.kafka)
    monkeypatch.setenv("CONNECT_TEST_LINGER", "7")
    (rig.folder / "secrets").mkdir()
    file = rig.folder / "connect.yaml"
    provider = (
        "    config.providers: file,env\n"
        "    config.providers.env.class: EnvVarConfigProvider\n"
        "    producer.linger.ms: ${env:CONNECT_TEST_LINGER}\n"
        "    config.providers.file.class: FileConfigProvider\n"
        f"    config.providers.file.param.allowed.paths: {rig.folder / 'secrets'}\n"
    )
    file.write_text(file.read_text().replace("specs: [", f"{provider}specs: ["))
    yield rig
    assert rig.end() == []


def test_a_reference_from_the_plan_to_spark(rig: Rig, broker: BrokerAddress) -> None:
    secrets = rig.folder / "secrets" / "all.properties"
    topic = f"{rig.name}-{SECRET}"
    source = rig.source("lines", topic=f"${{file:{secrets}:topic}}")
    source.write_text("one\ntwo\n")

    # without a runtime nobody can tell
    plan = rig("plan")
    assert "references are not resolved here, so not checked: lines (topic)" in _words(plan.stdout)

    running = rig.up()
    refused = rig("plan", expect=2)
    assert f"Could not read properties from file {secrets}: No such file" in _words(
        refused.stdout + refused.stderr
    )

    secrets.write_text(f"topic={topic}\n")
    rig.apply()
    rig.assert_nothing_to_do()
    wait_until(
        lambda: list(committed_lines(broker.bootstrap_servers, topic)) == ["one", "two"],
        what="the lines to arrive",
    )
    shown = running.get("/connectors/lines/config"), running.get("/connectors/lines/tasks")
    assert SECRET not in json.dumps(shown)
    for log in (rig.folder / ".connect").rglob("*.log"):
        assert SECRET not in log.read_text(errors="replace"), log
    for own in (rig.topics.config, rig.topics.assignments, rig.topics.ledger):
        found = read_to_end(broker.bootstrap_servers, own)
        assert not [m for m in found if SECRET.encode() in (m.value() or b"")]


def _words(text: str) -> str:
    return " ".join(text.split())
