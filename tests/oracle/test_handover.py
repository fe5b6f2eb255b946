"""A cluster is handed over from Apache's worker to `connect distributed`, and back.

Both are started with the same worker.properties, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from support import http
from support.broker import BrokerAddress, create_topic, read_to_end
from support.distributed import distributed
from support.oracle import Oracle
from support.rig import Rig
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.spark, pytest.mark.long]

# Spark starts meanwhile
_START_S = 120
_STRING = "org.apache.kafka.connect.storage.StringConverter"


@dataclass(frozen=True, slots=True)
class Handover:
    """One cluster, its topic and files; `url` is that of whichever worker runs."""

    rig: Rig
    kafka: str
    topic: str
    url: str = ""

    @property
    def folder(self) -> Path:
        return self.rig.folder

    def source(self, file: str, **more: str) -> dict[str, str]:
        return {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(self.folder / file),
            "topic": self.topic,
            "value.converter": _STRING,
            **more,
        }

    @property
    def sink(self) -> dict[str, str]:
        return {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "topics": self.topic,
            "file": str(self.folder / "out.txt"),
            "value.converter": _STRING,
        }

    def add(self, *lines: str, file: str = "lines.txt") -> None:
        with (self.folder / file).open("a") as text:
            text.writelines(f"{line}\n" for line in lines)

    def rest(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return http.request(method, f"{self.url}{path}", json=body, timeout=60)

    def done(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Repeats what a rebalance turns away."""

        def answer() -> httpx.Response | None:
            found = self.rest(method, path, body)
            return None if found.status_code == 409 or "rebalance" in found.text else found

        found = wait_until(answer, what=f"{method} {path}", timeout_s=_START_S)
        assert found is not None
        assert found.is_success, found.text
        return found

    def wait_for(self, **states: str) -> None:
        """Until exactly these connectors have their states, and their tasks, too."""

        def reached() -> bool:
            try:
                found = self.rest("GET", "/connectors?expand=status")
            except httpx.TransportError:  # the worker only starts
                return False
            if not found.is_success or found.json().keys() != states.keys():
                return False
            return all(
                self._is(each["status"], states[name]) for name, each in found.json().items()
            )

        wait_until(reached, what=f"{states}", timeout_s=_START_S)

    def _is(self, status: dict[str, Any], state: str) -> bool:
        connector, tasks = status["connector"], status["tasks"]
        # one that was created paused has no task yet
        count = {"RUNNING": (1,), "PAUSED": (0, 1), "STOPPED": (0,)}[state]
        here = self.url.removeprefix("http://")
        parts = {(part["state"], part["worker_id"]) for part in (connector, *tasks)}
        return parts == {(state, here)} and len(tasks) in count

    def wait_for_lines(self, *lines: str) -> None:
        """Until the sink has written these lines; then it and the topic hold nothing else."""
        out = self.folder / "out.txt"

        def written() -> bool:
            return out.exists() and len(out.read_text().splitlines()) >= len(lines)

        wait_until(written, what=f"{lines[-1]} in the sink's file", timeout_s=_START_S)
        assert out.read_text().splitlines() == list(lines)
        found = read_to_end(self.kafka, self.topic)
        assert [message.value().decode() for message in found] == list(lines)

    def offsets(self) -> dict[str, Any]:
        names = self.rest("GET", "/connectors").json()
        return {name: self.rest("GET", f"/connectors/{name}/offsets").json() for name in names}


@pytest.fixture
def handover(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Handover]:
    rig = Rig(tmp_path / "rig")
    create_topic(broker.bootstrap_servers, unique)
    yield Handover(rig, broker.bootstrap_servers, unique)
    assert rig.end() == []


@pytest.mark.parametrize("own_topic", [False, True], ids=["worker's offsets", "own offsets topic"])
def test_each_continues_where_the_other_stopped(
    handover: Handover, unique: str, *, own_topic: bool
) -> None:
    """Lines arrive once and in order; states, offsets and configs stay what they were."""
    routed = {
        "transforms": "mark",
        "transforms.mark.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.mark.header": "by",
        "transforms.mark.value.literal": "source",
    } | ({"offsets.storage.topic": f"{unique}-its-offsets"} if own_topic else {})
    states = {"source": "RUNNING", "sink": "RUNNING", "paused": "PAUSED", "stopped": "STOPPED"}
    # the first sink starts with the topic's first record
    apaches = Oracle.start(
        handover.folder / "apache",
        handover.kafka,
        group_id=unique,
        settings={"consumer.auto.offset.reset": "earliest"},
    )
    handover = replace(handover, url=apaches.url)
    try:
        handover.done("PUT", "/connectors/source/config", handover.source("lines.txt", **routed))
        handover.done("PUT", "/connectors/sink/config", handover.sink)
        for name in ("paused", "stopped"):
            body = {"name": name, "config": handover.source(f"{name}.txt"), "initial_state": name}
            handover.done("POST", "/connectors", body)
        handover.add("a", "b")
        handover.wait_for(**states)
        handover.wait_for_lines("a", "b")
        moved = {"partition": {"filename": str(handover.folder / "stopped.txt")}}
        moved |= {"offset": {"position": 2}}
        handover.done("PATCH", "/connectors/stopped/offsets", {"offsets": [moved]})
        configs = handover.rest("GET", "/connectors?expand=info").json()
        wait_for_offsets(handover, 4, 2)
    finally:
        apaches.stop()
    handover.add("c")
    handover.add("p", file="paused.txt")
    handover.add("1", "d", file="stopped.txt")

    with distributed(handover.rig, apaches.folder / "worker.properties"):
        handover.wait_for(**states)
        assert handover.rest("GET", "/connectors?expand=info").json() == configs
        handover.wait_for_lines("a", "b", "c")
        handover.done("PUT", "/connectors/stopped/resume")
        handover.wait_for_lines("a", "b", "c", "d")
        handover.done("PUT", "/connectors/source/stop")
        handover.wait_for(**states | {"source": "STOPPED", "stopped": "RUNNING"})
        [entry] = handover.offsets()["source"]["offsets"]
        entry["offset"]["position"] = 4
        handover.done("PATCH", "/connectors/source/offsets", {"offsets": [entry]})
        handover.done("PUT", "/connectors/stopped/pause")
        handover.done("DELETE", "/connectors/paused")
        states = {"source": "STOPPED", "sink": "RUNNING", "stopped": "PAUSED"}
        handover.wait_for(**states)
        wait_for_offsets(handover, 4, 4)
        configs = handover.rest("GET", "/connectors?expand=info").json()

    again = apaches.again()
    try:
        handover.wait_for(**states)
        assert handover.rest("GET", "/connectors?expand=info").json() == configs
        wait_for_offsets(handover, 4, 4)
        handover.done("PUT", "/connectors/source/resume")
        handover.wait_for_lines("a", "b", "c", "d", "c")
        handover.add("e")
        handover.wait_for_lines("a", "b", "c", "d", "c", "e")
    finally:
        again.stop()


def wait_for_offsets(handover: Handover, source: int, stopped: int) -> None:
    """Until both sources have these positions, and the sink has read all records."""
    total = len(read_to_end(handover.kafka, handover.topic))

    def reached() -> bool:
        found = handover.offsets()
        positions = [found[name]["offsets"] for name in ("source", "stopped", "sink")]
        if not all(positions):
            return False
        texts = json.dumps([each[0]["offset"] for each in positions])
        wanted = [{"position": source}, {"position": stopped}]
        read = positions[2][0]["offset"]["kafka_offset"]
        return texts == json.dumps([*wanted, {"kafka_offset": read}]) and read >= total

    wait_until(reached, what="the offsets to be committed", timeout_s=_START_S)
