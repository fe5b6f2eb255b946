"""A ledger that an earlier version wrote, on a real broker, as the verbs read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.broker import BrokerAddress, create_topic, produce
from support.command import Command

DATA = Path(__file__).parents[1] / "reconciler" / "ledger" / "data"


@pytest.mark.parametrize("version", sorted(each.name for each in DATA.iterdir()))
def test_verbs_read_the_ledger_of_an_earlier_version(
    connect: Command, broker: BrokerAddress, unique: str, version: str
) -> None:
    kafka = broker.bootstrap_servers
    create_topic(kafka, f"{unique}-ledger")
    file = DATA / version / "topic-rename-carried.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    produce(
        kafka,
        f"{unique}-ledger",
        ((each["key"].encode(), each["value"] and each["value"].encode()) for each in records),
    )
    connect.write("connect.yaml", f"project: orders\ncluster: {broker.cluster(unique)}\n")
    (connect.folder / "connectors").mkdir()
    wanted = json.loads(file.with_suffix(".means.json").read_text())
    told = connect("history", "--json")
    assert told.returncode == 0, told.stderr
    applies = json.loads(told.stdout)["applies"]
    assert {each["apply_id"] for each in applies} == {each["id"] for each in wanted["applies"]}
    planned = connect("plan", "--allow-empty", "--json")
    assert planned.returncode == 0, planned.stderr
    forgotten = {each["connector"] for each in json.loads(planned.stdout)["plan"]["actions"]}
    assert forgotten == wanted["connectors"].keys()

    produce(kafka, f"{unique}-ledger", [(b"connector/a", b'{"v":99}')])
    refused = connect("plan")
    assert refused.returncode != 0
    assert "error[ledger.unreadable]" in refused.stderr
    assert "at least as new" in refused.stderr


@pytest.mark.parametrize("pin", ["renamed_from:x", "rollback-2026"])
def test_ids_of_renames_and_rollbacks_are_no_pins(
    on_kafka: Command, broker: BrokerAddress, unique: str, pin: str
) -> None:
    """Also where an earlier version applied one: without it in the spec there is nothing to do."""
    spec = (
        "name: a\nstate: stopped\nconfig: {connector.class: FileStreamSource, topic: t, file: f}\n"
    )
    on_kafka.write("connectors/a.yaml", spec)
    assert on_kafka("apply", "--yes").returncode == 0
    applied = {"v": 1, "content_hash": "ab" * 32, "resolved": None, "applied_ms": 1, "held": True}
    record = (f"pin/a/{pin}".encode(), json.dumps(applied).encode())
    produce(broker.bootstrap_servers, f"{unique}-ledger", [record])
    on_kafka.write("connectors/a.yaml", f"{spec}offsets: {{pin: '{pin}', reset: true}}\n")
    for words in (["validate"], ["plan"], ["apply", "--yes"]):
        refused = on_kafka(*words)
        assert refused.returncode == 2
        assert "error[offsets.reserved-pin]: connectors/a.yaml:4:16" in refused.stderr
        assert "hint: choose another id" in refused.stderr
    on_kafka.write("connectors/a.yaml", spec)
    assert ": no changes, " in on_kafka("apply", "--yes").stdout
    assert ": no changes, " in on_kafka("apply", "--yes").stdout
