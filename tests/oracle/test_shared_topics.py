"""One cluster's topics, run by Apache's worker and by our herder in turn; and the same operations
on both, record by record."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from connect_runtime import KAFKA_VERSION
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage import config_topic, offsets_topic, status_topic
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    OffsetSnapshot,
    State,
    StatusSnapshot,
)
from connect_specs.desired import OffsetEntry, TargetState
from support import http
from support.broker import BrokerAddress, create_topic, read_to_end
from support.connect_jars import VERSIONS
from support.oracle import Oracle
from support.thread_cluster import ThreadCluster, thread_cluster
from support.wait import wait_until

pytestmark = pytest.mark.oracle

JSON = "org.apache.kafka.connect.json.JsonConverter"
CONVERTERS = {"key.converter": JSON, "value.converter": JSON}
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED


class Apache:
    """A worker's REST API. A rebalance that is under way is waited for."""

    def __init__(self, worker: Oracle) -> None:
        self.worker = worker
        self._client = http.client(f"{worker.url}/connectors", timeout_s=100)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        def answer() -> httpx.Response | None:
            found = self._client.request(method, path, json=body)
            passing = found.status_code == 409 or "rebalance" in found.text
            return None if passing else found

        found = wait_until(answer, what=f"an answer to {method} {path}", every_s=0.2)
        assert found is not None and found.is_success, found.text
        return found.json() if found.content else None

    def create(self, name: str, config: dict[str, str], state: str = "RUNNING") -> None:
        self.ask("POST", "", {"name": name, "config": config, "initial_state": state})
        self.wait_for(name, state, *(() if state != "RUNNING" else ("RUNNING",)))

    def change(self, name: str, verb: str) -> None:
        """pause, resume or stop."""
        self.ask("PUT", f"/{name}/{verb}")

    def status(self, name: str) -> dict[str, Any]:
        found = self._client.get(f"/{name}/status")
        return dict(found.json()) if found.status_code == 200 else {}

    def wait_for(self, name: str, state: str, *tasks: str) -> None:
        def reached() -> bool:
            found = self.status(name)
            return (
                bool(found)
                and found["connector"]["state"] == state
                and [task["state"] for task in found["tasks"]] == list(tasks)
            )

        wait_until(reached, what=f"{name} to be {state} {tasks}", timeout_s=60)

    def alter(self, name: str, offsets: list[dict[str, Any]]) -> None:
        self.ask("PATCH", f"/{name}/offsets", {"offsets": offsets})

    def offsets(self, name: str) -> list[dict[str, Any]]:
        return list(self.ask("GET", f"/{name}/offsets")["offsets"])

    def close(self) -> None:
        self._client.close()


def source(name: str, file: Path, topic: str) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": SOURCE,
        "tasks.max": "1",
        "file": str(file),
        "topic": topic,
    }


def append(file: Path, first: int, last: int) -> None:
    with file.open("a") as lines:
        lines.writelines(f"line {number}\n" for number in range(first, last))


def lines(broker: BrokerAddress, topic: str) -> list[str]:
    found = read_to_end(broker.bootstrap_servers, topic)
    return [orjson.loads(message.value())["payload"] for message in found]


def numbered(last: int) -> list[str]:
    return [f"line {number}" for number in range(last)]


@pytest.fixture
def logs(broker: BrokerAddress) -> Iterator[KafkaLogs]:
    found = KafkaLogs({"bootstrap.servers": broker.bootstrap_servers})
    yield found
    found.close()


def folded(logs: KafkaLogs, group: str) -> tuple[ConfigSnapshot, OffsetSnapshot, StatusSnapshot]:
    """What our readers make of a cluster's topics."""
    config, offsets, status = (
        logs.reader(f"{group}-{kind}").read_to_end(30) for kind in ("configs", "offsets", "status")
    )
    return (
        config_topic.reduce_all(ConfigSnapshot(), config),
        offsets_topic.reduce_all(OffsetSnapshot(), offsets),
        status_topic.reduce_all(StatusSnapshot(), status),
    )


def agree(logs: KafkaLogs, apache: Apache, names: list[str]) -> None:
    """Our snapshots hold what Apache's REST API answers."""
    config, offsets, status = folded(logs, apache.worker.group_id)
    assert sorted(config.connectors) == sorted(names)
    for name in names:
        state = config.connectors[name]
        assert dict(state.config) == apache.ask("GET", f"/{name}/config")
        tasks = apache.ask("GET", f"/{name}/tasks")
        assert [dict(task) for task in state.task_configs] == [task["config"] for task in tasks]
        theirs = apache.status(name)
        known = status.connectors[name]
        assert known.state == theirs["connector"]["state"]
        assert known.worker_id == theirs["connector"]["worker_id"]
        ours = {task.task: s.state for task, s in status.tasks.items() if task.connector == name}
        assert ours == {task["id"]: task["state"] for task in theirs["tasks"]}
        if state.config["connector.class"] == SOURCE:
            held = offsets.connectors.get(name, {}).values()
            assert [{"partition": o.partition, "offset": o.offset} for o in held] == (
                apache.offsets(name)
            )


@pytest.mark.parametrize(
    "version", [KAFKA_VERSION, pytest.param(VERSIONS[-1], marks=pytest.mark.long)]
)
def test_apache_runs_a_cluster_then_we_then_apache(
    broker: BrokerAddress, logs: KafkaLogs, tmp_path: Path, unique: str, version: str
) -> None:
    group = f"shared-{secrets.token_hex(4)}"
    for kind in "flow", "rest":
        create_topic(broker.bootstrap_servers, f"{unique}-{kind}")
    file, other = tmp_path / "in.txt", tmp_path / "other.txt"
    append(file, 0, 3000)
    append(other, 0, 10)
    flow, rest = source("flow", file, f"{unique}-flow"), source("rest", other, f"{unique}-rest")
    idle = source("idle", other, f"{unique}-rest")
    sink = f"{unique}-copy"  # Its group is the broker's, which other tests use
    # Connect up to 4.1 takes a topic that is listed twice, and one without a name
    topics = f"{unique}-flow" + (f",{unique}-flow," if version != KAFKA_VERSION else "")
    copy = {
        "name": sink,
        "connector.class": SINK,
        "tasks.max": "1",
        "topics": topics,
        "file": str(tmp_path / "copy.txt"),
    }
    at_seven = {"partition": {"filename": str(other)}, "offset": {"position": 7}}

    worker = Oracle.start(
        tmp_path / "one", broker.bootstrap_servers, group_id=group, version=version
    )
    apache = Apache(worker)
    try:
        apache.create("flow", flow)
        apache.create("rest", rest)
        apache.create(sink, copy)
        apache.create("idle", idle, "STOPPED")
        wait_until(lambda: lines(broker, f"{unique}-flow") == numbered(3000), what="all lines")
        wait_until(lambda: lines(broker, f"{unique}-rest") == numbered(10), what="its lines")
        apache.change("rest", "pause")
        apache.wait_for("rest", "PAUSED", "PAUSED")
        apache.change(sink, "stop")
        apache.wait_for(sink, "STOPPED")
        apache.alter("idle", [at_seven])
        agree(logs, apache, ["flow", "rest", sink, "idle"])
        config, _, _ = folded(logs, group)
        targets = {name: state.target for name, state in config.connectors.items()}
        assert targets == {"flow": RUNNING, "rest": PAUSED, sink: STOPPED, "idle": STOPPED}
        sink_offsets = apache.offsets(sink)
    finally:
        apache.close()
        worker.stop()

    append(file, 3000, 5000)
    append(other, 10, 20)
    with thread_cluster(broker.bootstrap_servers, group, CONVERTERS) as ours:
        ours.wait_for("flow", State.RUNNING, State.RUNNING)
        ours.wait_for("rest", State.PAUSED, State.PAUSED)
        ours.wait_for(sink, State.STOPPED)
        ours.wait_for("idle", State.STOPPED)
        wait_until(lambda: lines(broker, f"{unique}-flow") == numbered(5000), what="the rest")
        assert lines(broker, f"{unique}-rest") == numbered(10)
        held = ours.verbs.offsets(sink)
        assert [{"partition": e.partition, "offset": e.offset} for e in held] == sink_offsets
        assert ours.verbs.offsets("idle") == [OffsetEntry(**at_seven)]

        ours.verbs.resume("rest")
        wait_until(lambda: lines(broker, f"{unique}-rest") == numbered(20), what="its lines")
        ours.verbs.pause("rest")
        ours.wait_for("rest", State.PAUSED, State.PAUSED)
        ours.verbs.alter_offsets("idle", [OffsetEntry({"filename": str(other)}, {"position": 14})])
        ours.verbs.resume(sink)
        ours.wait_for(sink, State.RUNNING, State.RUNNING)
        wait_until(lambda: (tmp_path / "copy.txt").read_text().count("line 4999") == 1, what="it")
        ours.verbs.delete(sink)
        ours.verbs.create("more", {**copy, "name": "more"}, STOPPED)
        ours.wait_for("more", State.STOPPED)

    append(file, 5000, 6000)
    worker = Oracle.start(
        tmp_path / "two", broker.bootstrap_servers, group_id=group, version=version
    )
    apache = Apache(worker)
    try:
        apache.wait_for("flow", "RUNNING", "RUNNING")
        apache.wait_for("rest", "PAUSED", "PAUSED")
        apache.wait_for("idle", "STOPPED")
        apache.wait_for("more", "STOPPED")
        wait_until(lambda: lines(broker, f"{unique}-flow") == numbered(6000), what="the end")
        assert lines(broker, f"{unique}-rest") == numbered(20)
        assert apache.offsets("idle") == [{**at_seven, "offset": {"position": 14}}]
        apache.change("more", "resume")
        copied = tmp_path / "copy.txt"
        wait_until(lambda: copied.read_text().count("line 5999") == 1, what="the copy")
        apache.change("idle", "resume")
        apache.wait_for("idle", "RUNNING", "RUNNING")
        more = numbered(20) + [f"line {number}" for number in range(2, 20)]
        wait_until(lambda: lines(broker, f"{unique}-rest") == more, what="lines from the third on")
        agree(logs, apache, ["flow", "rest", "idle", "more"])
    finally:
        apache.close()
        worker.stop()


# --- the same operations on both ---


def written(broker: BrokerAddress, topic: str, name: str) -> list[tuple[str, bytes | None]]:
    """Records about one connector, in order."""
    found = read_to_end(broker.bootstrap_servers, topic)
    about = [m for m in found if name in m.key().decode()]
    return [(m.key().decode(), m.value()) for m in about]


def values(records: list[tuple[str, bytes | None]]) -> list[tuple[str, Any]]:
    """Connect writes maps of configs in an order of Java's; nobody compares those bytes."""
    return [
        (key, orjson.loads(value) if value and b'"properties"' in value else value)
        for key, value in records
    ]


OPERATIONS = (
    "create stopped",
    "resume",
    "pause",
    "reconfigure",
    "resume",
    "restart",
    "stop",
    "alter",
    "alter one to null",
    "reset",
    "delete",
)


def wait_for_tasks(broker: BrokerAddress, topic: str, name: str) -> None:
    """Until what a resume writes is there: statuses may still be those of older tasks."""
    last = f"tasks-fencing-{name}"
    wait_until(lambda: written(broker, topic, name)[-1][0] == last, what=last)


def on_apache(
    broker: BrokerAddress, apache: Apache, name: str, config: dict[str, str], other: str
) -> None:
    def resume() -> None:
        apache.change(name, "resume")
        wait_for_tasks(broker, apache.worker.config_topic, name)
        apache.wait_for(name, "RUNNING", "RUNNING")

    def states() -> dict[str, list[str | None]]:
        """Of connector and task, in order by record key; partitions are read in any order."""
        found: dict[str, list[str | None]] = {}
        for key, value in written(broker, apache.worker.status_topic, name):
            if key.startswith(("status-connector-", "status-task-")):
                found.setdefault(key, []).append(orjson.loads(value or b"{}").get("state"))
        return found

    def restart() -> None:
        # The answer comes before the restart, and a stop in between would be overtaken by it.
        before = {key: len(seen) for key, seen in states().items()}
        apache.ask("POST", f"/{name}/restart?includeTasks=true&onlyFailed=false")

        def restarted() -> bool:
            since = [seen[before.get(key, 0) :] for key, seen in states().items()]
            return all("RESTARTING" in seen and seen[-1] == "RUNNING" for seen in since)

        wait_until(restarted, what="a restarted connector and its task")

    entries = [
        {"partition": {"filename": config["file"]}, "offset": {"position": 3}},
        {"partition": {"filename": other}, "offset": {"position": 4}},
    ]
    does: dict[str, Callable[[], object]] = {
        "create stopped": lambda: apache.create(name, config, "STOPPED"),
        "resume": resume,
        "pause": lambda: (apache.change(name, "pause"), wait("PAUSED", "PAUSED")),
        "reconfigure": lambda: apache.ask("PUT", f"/{name}/config", {**config, "batch.size": "7"}),
        "restart": restart,
        "stop": lambda: (apache.change(name, "stop"), wait("STOPPED")),
        "alter": lambda: apache.alter(name, entries),
        "alter one to null": lambda: apache.alter(name, [{**entries[1], "offset": None}]),
        "reset": lambda: apache.ask("DELETE", f"/{name}/offsets"),
        "delete": lambda: apache.ask("DELETE", f"/{name}"),
    }

    def wait(state: str, *tasks: str) -> None:
        apache.wait_for(name, state, *tasks)

    for operation in OPERATIONS:
        does[operation]()


def on_ours(
    broker: BrokerAddress, cluster: ThreadCluster, name: str, config: dict[str, str], other: str
) -> None:
    verbs = cluster.verbs

    def resume() -> None:
        verbs.resume(name)
        wait_for_tasks(broker, cluster.connect.herder._topics.config, name)
        cluster.wait_for(name, State.RUNNING, State.RUNNING)

    first = OffsetEntry({"filename": config["file"]}, {"position": 3})
    second = OffsetEntry({"filename": other}, {"position": 4})
    does: dict[str, Callable[[], object]] = {
        "create stopped": lambda: (verbs.create(name, config, STOPPED), wait(State.STOPPED)),
        "resume": resume,
        "pause": lambda: (verbs.pause(name), wait(State.PAUSED, State.PAUSED)),
        "reconfigure": lambda: verbs.put_config(name, {**config, "batch.size": "7"}),
        "restart": lambda: (
            verbs.restart(name, include_tasks=True),
            wait(State.RUNNING, State.RUNNING),
        ),
        "stop": lambda: cluster.stop_connector(name),
        "alter": lambda: verbs.alter_offsets(name, [first, second]),
        "alter one to null": lambda: verbs.alter_offsets(
            name, [OffsetEntry(second.partition, None)]
        ),
        "reset": lambda: verbs.reset_offsets(name),
        "delete": lambda: verbs.delete(name),
    }

    def wait(state: State, *tasks: State) -> None:
        cluster.wait_for(name, state, *tasks)

    for operation in OPERATIONS:
        does[operation]()


def test_both_write_the_same_records(
    broker: BrokerAddress, oracle: Oracle, tmp_path: Path, unique: str
) -> None:
    name = f"{unique}-it"
    create_topic(broker.bootstrap_servers, unique)
    file = tmp_path / "in.txt"
    append(file, 0, 10)
    config = source(name, file, unique)
    apache = Apache(oracle)
    try:
        on_apache(broker, apache, name, config, str(tmp_path / "other.txt"))
    finally:
        apache.close()
    group = f"ours-{secrets.token_hex(4)}"
    with thread_cluster(broker.bootstrap_servers, group, CONVERTERS) as ours:
        on_ours(broker, ours, name, config, str(tmp_path / "other.txt"))

    theirs = written(broker, oracle.config_topic, name)
    mine = written(broker, f"{group}-configs", name)
    assert values(mine) == values(theirs)
    newest = [dict(written(broker, t, name)) for t in (oracle.offset_topic, f"{group}-offsets")]
    assert newest[0] == newest[1]
    moved = [
        [(k, v) for k, v in written(broker, t, name) if v != b'{"position":70}']
        for t in (oracle.offset_topic, f"{group}-offsets")
    ]
    assert sorted(moved[0], key=str) == sorted(moved[1], key=str)
