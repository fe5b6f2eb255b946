"""`connect status` of clusters on Kafka; those over REST are in commands/status.yaml."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import yaml

from connect_reconciler.model.ledger import Owned
from connect_reconciler.model.ledger_records import owned_record
from connect_specs.names import ClusterTopics
from support.broker import BrokerAddress, produce
from support.by_hand import ByHand
from support.command import CONNECT, Command
from support.rig import Rig


def test_the_type_is_that_of_an_installed_class(on_kafka: Command, by_hand: ByHand) -> None:
    """No runtime is up, and the class's name does not tell."""
    file = on_kafka.folder / "connect.yaml"
    project = yaml.safe_load(file.read_text())
    project["cluster"]["worker"] |= {"plugin.modules": "support.gated"}
    file.write_text(yaml.safe_dump(project))
    by_hand.config("a", **{"connector.class": "support.gated:SlowToStart"})
    done = on_kafka("status", "--all")
    assert done.stdout, done.stderr
    assert done.stdout.splitlines()[1].split()[:3] == ["a", "running", "source"]


def test_a_narrow_terminal(on_kafka: Command) -> None:
    on_kafka.write("connectors/a.yaml", "name: a\nconfig: {connector.class: FileStreamSink}\n")
    ours, its = pty.openpty()
    shown = subprocess.Popen(
        [*CONNECT, "status"],
        cwd=on_kafka.folder,
        env=os.environ | {"COLUMNS": "50"},
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=subprocess.DEVNULL,
    )
    os.close(its)
    assert shown.wait(60) == 0
    text = os.read(ours, 65536).decode().replace("\r\n", "\n")
    os.close(ours)
    assert "a          running  -     MISSING  -\n    not applied yet\n" in text
    assert max(map(len, text.splitlines())) <= 50


def test_what_never_was_there_is_not_said_to_be_gone(
    broker: BrokerAddress, tmp_path: Path, unique: str
) -> None:
    """The ledger names its owner before it is created, and the cluster refuses it then."""
    rig = Rig(tmp_path / "project", f"status-{unique[-8:]}", broker.kafka)
    rig.source("a", state="stopped")
    rig.apply()
    rig("delete", "a", "--yes")
    rig.source("b", state="stopped")
    topic = ClusterTopics.of(rig.name).ledger
    begun = owned_record(topic, "b", Owned(rig.name, {}, None, applied_ms=0))
    produce(broker.bootstrap_servers, topic, [(begun.key, begun.value)])
    shown = rig("status").stdout
    assert re.search(r"^a .* no longer on the cluster$", shown, re.MULTILINE), shown
    assert re.search(r"^b .* an apply began to create it", shown, re.MULTILINE), shown
    assert list(rig.leftovers()) == []
