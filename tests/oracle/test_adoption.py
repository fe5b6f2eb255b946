"""A real Connect cluster taken over: imported, changed by hand through REST, and drifted."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from support import http
from support.broker import BrokerAddress
from support.command import Command
from support.oracle import Oracle
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.long]

CONFIG = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "tasks.max": "1",
    "file": "/dev/null",
    "topic": "lines",
    "k.odd": " 010\n# é: ",
    "db.password": "hunter2",
}


def test_import_then_drift(
    tmp_path: Path, oracle: Oracle, broker: BrokerAddress, unique: str
) -> None:
    connect = Command(tmp_path)
    url = f"{oracle.url}/connectors"
    created = http.post(url, json={"name": unique, "config": CONFIG}, timeout=60)
    assert created.status_code == 201, created.text
    address = f"{url}/{quote(unique)}"
    wait_until(
        lambda: http.get(f"{address}/status").status_code == 200, what="a status", timeout_s=60
    )
    cluster = {
        "group.id": oracle.group_id,
        "kafka": {"bootstrap.servers": broker.bootstrap_servers},
        "target": {"rest": oracle.url},
    }
    connect.write("connect.yaml", json.dumps({"project": unique, "cluster": cluster}))
    (connect.folder / "connectors").mkdir()

    done = connect("import", unique)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hunter2" not in (connect.folder / "connectors" / f"{unique}.yaml").read_text()
    planned = connect("plan", "--detailed-exitcode")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert connect("drift").returncode == 0

    changed = CONFIG | {"file": "/dev/zero", "db.password": "hunter3"}
    assert http.put(f"{address}/config", json=changed, timeout=60).status_code == 200
    assert http.put(f"{address}/pause", timeout=60).status_code == 202
    drifted = connect("drift", "--json")
    assert drifted.returncode == 4, drifted.stderr
    found = [json.loads(line) for line in drifted.stdout.splitlines()]
    ours = [(each["key"], each["whose"]) for each in found if each.get("connector") == unique]
    # db.password is left to the cluster, and nobody manages the state
    assert ours == [("file", "theirs")]
    assert "hunter" not in drifted.stdout

    applied = connect("apply", "--yes", "--healthy-for", "2s")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    config = http.get(f"{address}/config", timeout=60).json()
    assert config == CONFIG | {"name": unique, "db.password": "hunter3"}
    assert connect("drift").returncode == 0
    assert http.delete(address, timeout=60).status_code == 204
    gone = connect("drift", "--json")
    assert gone.returncode == 4
    *found, _ = map(json.loads, gone.stdout.splitlines())
    assert [each["what"] for each in found if each["connector"] == unique] == [
        "deleted outside connect"
    ]
