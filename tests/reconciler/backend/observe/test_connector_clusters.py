"""Connectors on another Kafka cluster, planned and applied with two real brokers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect_reconciler.cli import entry
from connect_runtime.java.offset_bytes import offset_key_bytes
from connect_runtime.kafka import groups
from support.broker import BrokerAddress, create_topic, produce, read_to_end

PARTITION = {"filename": "/dev/null"}


@dataclass
class Site:
    """A project on `here`, whose connectors work on `there`."""

    here: BrokerAddress
    there: BrokerAddress
    group: str
    folder: Path
    capture: pytest.CaptureFixture[str]

    @property
    def topic(self) -> str:
        return f"{self.group}.lines"

    @property
    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.there.bootstrap_servers}

    def want(self, name: str, config: dict[str, str], **more: object) -> None:
        """The spec of a stopped connector."""
        spec = {"name": self.name(name), "state": "stopped", "config": config, **more}
        (self.folder / "connectors" / "one.yaml").write_text(json.dumps(spec))

    def name(self, short: str) -> str:
        """The brokers are shared with other tests, and so are the groups there."""
        return f"{self.group}-{short}"

    def sink(self, servers: str | None = None) -> dict[str, str]:
        return {
            "connector.class": "FileStreamSink",
            "file": "/dev/null",
            "topics": self.topic,
            "consumer.override.bootstrap.servers": servers or self.there.bootstrap_servers,
        }

    def source(self) -> dict[str, str]:
        return {
            "connector.class": "FileStreamSource",
            "file": "/dev/null",
            "topic": self.topic,
            "producer.override.bootstrap.servers": self.there.bootstrap_servers,
        }

    def run(self, *words: str) -> tuple[int, str, str]:
        self.capture.readouterr()
        code = entry.run(["-C", str(self.folder), *words])
        shown = self.capture.readouterr()
        return code, shown.out, shown.err

    def apply(self) -> str:
        code, out, errors = self.run("apply", "--yes")
        assert code == 0, out + errors
        return out

    def has_nothing_to_do(self) -> None:
        code, out, errors = self.run("plan", "--detailed-exitcode")
        assert code == 0, out + errors

    def committed(self, name: str, broker: BrokerAddress) -> dict[tuple[str, int], int]:
        client = {"bootstrap.servers": broker.bootstrap_servers}
        return groups.list_group_offsets(client, f"connect-{self.name(name)}")


@pytest.fixture
def site(
    broker: BrokerAddress,
    other_broker: BrokerAddress,
    unique: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Site:
    group = f"e{unique[-8:]}"
    here = Site(broker, other_broker, group, tmp_path, capsys)
    (tmp_path / "connectors").mkdir()
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    project = {"project": "p", "cluster": {"group.id": group, "kafka": kafka}}
    (tmp_path / "connect.yaml").write_text(json.dumps(project))
    # one log here and another there: a plan that measured the wrong one would show it
    create_topic(broker.bootstrap_servers, here.topic)
    create_topic(other_broker.bootstrap_servers, here.topic, partitions=2)
    produce(other_broker.bootstrap_servers, here.topic, [(None, b"line")] * 7)
    return here


def test_the_pin_of_a_sink_is_resolved_and_applied_there(site: Site) -> None:
    site.want("out", site.sink(), offsets={"pin": "one", "to": "latest"})
    plan = site.run("plan")[1]
    assert f"{site.topic}-0" in plan and "7" in plan
    site.apply()
    assert site.committed("out", site.there) == {(site.topic, 0): 7, (site.topic, 1): 0}
    assert site.committed("out", site.here) == {}
    site.has_nothing_to_do()

    # what somebody moves there is seen, and set back
    groups.alter_group_offsets(site.client, f"connect-{site.name('out')}", {(site.topic, 0): 2})
    code, out, _ = site.run("drift")
    assert code == 4 and f"{site.topic}-0 at 2" in out, out
    assert f"{site.topic}-0 2 → 7" in site.run("plan")[1]
    site.apply()
    assert site.committed("out", site.there)[site.topic, 0] == 7
    assert site.run("doctor")[0] == 0


def test_a_sink_is_renamed_there(site: Site) -> None:
    site.want("out", site.sink(), offsets={"pin": "one", "to": "latest"})
    site.apply()
    site.want("new", site.sink(), renamed_from=site.name("out"))
    assert f"{site.topic}-0 goes on at 7" in site.run("plan")[1]
    site.apply()
    assert site.committed("new", site.there) == {(site.topic, 0): 7, (site.topic, 1): 0}
    site.has_nothing_to_do()


def test_a_source_goes_on_from_the_workers_topic_and_is_moved_there(site: Site) -> None:
    site.want("in", {k: v for k, v in site.source().items() if "override" not in k})
    site.apply()
    offsets, key = f"{site.group}-offsets", offset_key_bytes(site.name("in"), PARTITION)
    produce(site.here.bootstrap_servers, offsets, [(key, b'{"position":5}')])
    site.want("in", site.source())
    out = site.run("plan")[1]
    assert "keeps its offsets there" in out
    site.apply()
    assert "position" in site.run("offsets", "list", site.name("in"))[1]

    entry_ = {"partition": PARTITION, "offset": {"position": 9}}
    site.want("in", site.source(), offsets={"pin": "nine", "set": [entry_]})
    assert "position 5 → position 9" in site.run("plan")[1]
    site.apply()
    (record,) = read_to_end(site.there.bootstrap_servers, offsets)
    assert (record.key(), record.value()) == (key, b'{"position":9}')
    site.has_nothing_to_do()


def test_a_source_gets_a_topic_of_its_own(site: Site) -> None:
    config = {k: v for k, v in site.source().items() if "override" not in k}
    site.want("in", config)
    site.apply()
    offsets, key = f"{site.group}-offsets", offset_key_bytes(site.name("in"), PARTITION)
    produce(site.here.bootstrap_servers, offsets, [(key, b'{"position":5}')])
    site.want("in", {**config, "offsets.storage.topic": f"{site.group}-own"})
    assert "looked for in the cluster's offsets topic" in site.run("plan")[1]
    site.apply()
    site.want(
        "in",
        {**config, "offsets.storage.topic": f"{site.group}-own"},
        offsets={"pin": "gone", "reset": True},
    )
    assert "position 5 → none" in site.run("plan")[1]
    site.apply()
    assert "no offsets" in "".join(map(str, site.run("offsets", "list", site.name("in"))))
    site.has_nothing_to_do()


@pytest.mark.long
def test_a_cluster_that_does_not_answer_is_unknown_and_holds_up_nobody(site: Site) -> None:
    site.want("out", site.sink("127.0.0.1:1"))
    other = {"name": site.name("near"), "state": "stopped", "config": {**site.source()}}
    (site.folder / "connectors" / "two.yaml").write_text(json.dumps(other))
    code, out, errors = site.run("plan")
    assert code == 0, errors
    assert "plan.offsets-unknown" in out + errors
    assert f"offsets of {site.name('out')} could not be read" in out + errors
    site.apply()

    site.want("out", site.sink("127.0.0.1:1"), offsets={"pin": "one", "to": "earliest"})
    code, out, errors = site.run("plan")
    assert code == 2
    assert "plan.log-unknown" in out + errors

    # numbers need no measuring
    entry_ = {
        "partition": {"kafka_topic": site.topic, "kafka_partition": 0},
        "offset": {"kafka_offset": 3},
    }
    site.want("out", site.sink("127.0.0.1:1"), offsets={"pin": "one", "set": [entry_]})
    code, out, errors = site.run("plan")
    assert code == 0, errors
    assert "where it is now is not known" in out
