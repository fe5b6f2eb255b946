"""`connect doctor` on a project as `init` writes it, before anything ran and after an apply."""

from __future__ import annotations

import json
from pathlib import Path

from support.broker import BrokerAddress
from support.command import Command


def test_before_and_after_an_apply(tmp_path: Path, broker: BrokerAddress, unique: str) -> None:
    # `init` names the cluster after the folder
    folder = tmp_path / unique
    folder.mkdir()
    connect = Command(folder)
    assert connect("init").returncode == 0
    file = folder / "connect.yaml"
    kafka = f"kafka: {{bootstrap.servers: '{broker.bootstrap_servers}'}}"
    assert "kafka: embedded\n" in file.read_text()
    file.write_text(file.read_text().replace("kafka: embedded", kafka))
    new = connect("doctor")
    assert (new.returncode, "warning[doctor.new-cluster]" in new.stdout) == (0, True)
    assert connect("apply", "--yes").returncode == 0
    done = connect("doctor", "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert (report["healthy"], report["findings"]) == (True, [])
    assert "1 connector" in report["looked_at"][0]

    # what workers of Kafka 5.0 would refuse is named beforehand
    (spec,) = (folder / "connectors").iterdir()
    spec.write_text(f"{spec.read_text().rstrip()}\n  producer.override.linger.ms: 5\n")
    applied = connect("apply", "--yes")
    assert applied.returncode == 0
    assert "config.override-allowlist" in applied.stdout, applied.stdout + applied.stderr
    coming = json.loads(connect("doctor", "--json").stdout)
    (finding,) = coming["findings"]
    assert (coming["healthy"], finding["code"]) == (True, "doctor.override-allowlist")
    assert "(producer.override.linger.ms)" in finding["what"]
    assert "connector.client.config.override.allowlist: linger.ms" in finding["hint"]
