"""A real Connect worker as a target: its secrets masked, killed in between, many at once, examined.

With its Kafka the ledger is in its topic; without, in the configs.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from connect_reconciler.actions import UpdateConfig
from connect_reconciler.actions.plan import Plan
from connect_reconciler.backend import open_backend
from connect_reconciler.backend.observe.rest import statuses_over_rest
from connect_reconciler.doctor.look import examine
from connect_reconciler.drift.model import ChangedIn
from connect_reconciler.model.config_values import LEDGER_KEY
from connect_reconciler.model.offsets import Offsets
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage import status_topic
from connect_runtime.storage.snapshots import State, Status
from connect_specs.desired import Pin, RestTarget, TargetState
from connect_specs.diagnostics import Unreachable
from support import http
from support.broker import BrokerAddress
from support.masking import masking
from support.oracle import Oracle
from support.rest_project import RestProject, pin_at, sink
from support.rig import lines_of
from support.wait import wait_until

pytestmark = pytest.mark.oracle

RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED


@pytest.fixture(scope="module")
def worker(
    broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Oracle]]:
    """The one worker, which a test may replace by the same one started again."""
    started = [
        Oracle.start(
            tmp_path_factory.mktemp("worker"),
            broker.bootstrap_servers,
            group_id=f"target-{secrets.token_hex(4)}",
        )
    ]
    try:
        yield started
    finally:
        started[0].kill()


@pytest.fixture(params=["kafka", pytest.param("rest-alone", marks=pytest.mark.long)])
def project(
    request: pytest.FixtureRequest, worker: list[Oracle], client: dict[str, str]
) -> Iterator[RestProject]:
    made = RestProject(
        worker[0].url,
        worker[0].group_id,
        client if request.param == "kafka" else {},
        name=f"orders-{secrets.token_hex(4)}",
    )
    yield made
    made.specs = {}
    assert made.apply().exit_code == 0


def test_changes_through_rest(project: RestProject, topic: str, tmp_path: Path) -> None:
    """Live state from where it can be had; every change by the REST API."""
    out = tmp_path / "out.txt"
    project.want(sink(topic, out, topic))
    project.settle()
    wait_until(lambda: len(lines_of(out)) == 10, what="ten records")
    wait_until(lambda: project.offsets(topic), what="committed offsets")
    rewound = replace(
        sink(topic, out, topic, **{"tasks.max": "1"}), state=PAUSED, pin=pin_at("back", topic, 7)
    )
    project.want(rewound)
    project.settle()
    project.want(replace(rewound, state=RUNNING))
    project.settle()
    wait_until(lambda: lines_of(out)[-3:] == ["7", "8", "9"], what="three records again")
    assert len(lines_of(out)) == 13


def test_a_rename_carries_the_offsets(project: RestProject, topic: str, tmp_path: Path) -> None:
    old, new = f"{topic}-old", f"{topic}-new"
    out, again = tmp_path / "out.txt", tmp_path / "again.txt"
    project.want(sink(old, out, topic))
    project.settle()
    wait_until(lambda: project.offsets(old), what="committed offsets")
    del project.specs[old]
    project.want(replace(sink(new, again, topic), renamed_from=old))
    assert [type(action).__name__ for action in project.plan().actions] == [
        "Stop",
        "Create",
        "CopyOffsets",
        "Resume",
        "Delete",
    ]
    project.settle()
    live = project.observe()
    assert (old in live.connectors, live.connectors[new].target) == (False, RUNNING)
    assert lines_of(again) == []


@pytest.mark.long
def test_what_was_changed_by_hand(
    project: RestProject, worker: list[Oracle], topic: str, tmp_path: Path
) -> None:
    spec = sink(topic, tmp_path / "out.txt", topic)
    project.want(spec)
    project.settle()
    assert not project.drift().drifted
    changed = {**spec.config, "file": str(tmp_path / "other.txt")}
    stored = http.get(f"{worker[0].url}/connectors/{topic}/config").json()
    http.put(f"{worker[0].url}/connectors/{topic}/config", json=stored | changed)
    (finding,) = (each for each in project.drift().findings if each.connector == topic)
    assert (finding.key, finding.changed_in) == ("file", ChangedIn.CLUSTER)
    assert (finding.since is not None) is bool(project.kafka)
    project.settle()
    assert not project.drift().drifted


def test_a_rollback_brings_back_config_state_and_offsets(
    worker: list[Oracle], client: dict[str, str], topic: str, tmp_path: Path
) -> None:
    project = RestProject(worker[0].url, worker[0].group_id, client, name="rolled")
    out = tmp_path / "out.txt"
    project.want(sink(topic, out, topic))
    project.settle()
    wait_until(lambda: project.offsets(topic), what="committed offsets")
    before = project.observe().connectors[topic]
    rewound = replace(
        sink(topic, tmp_path / "other.txt", topic), state=STOPPED, pin=Pin("again", reset=True)
    )
    project.want(rewound)
    report = project.settle()
    assert project.observe().connectors[topic].offsets == Offsets()
    assert project.roll_back(report.apply_id).exit_code == 0
    after = project.observe().connectors[topic]
    assert (after.config, after.target, after.offsets) == (
        before.config,
        RUNNING,
        before.offsets,
    )
    project.specs = {}
    project.settle()


def test_statuses_over_rest(worker: list[Oracle], topic: str, tmp_path: Path) -> None:
    """A failed task's trace, over REST."""
    project = RestProject(worker[0].url, worker[0].group_id, name="statuses")
    missing = tmp_path / "missing" / "out.txt"
    spec = sink(topic, tmp_path / "out.txt", topic)
    project.want(replace(spec, config={**spec.config, "file": str(missing)}))
    assert project.apply().exit_code == 1
    connectors, told = statuses_over_rest(project.project.target or RestTarget(""))
    assert connectors[topic].target is RUNNING
    assert told[topic].tasks[0].state is State.FAILED
    assert str(missing) in (told[topic].tasks[0].trace or "")
    report = examine(open_backend(project.project, {}))
    assert [each.code for each in report.findings] == ["doctor.failed"]
    project.specs = {}
    project.settle()


@pytest.mark.long
def test_a_worker_killed_and_started_in_the_middle_of_an_apply(
    project: RestProject, worker: list[Oracle], topic: str, tmp_path: Path
) -> None:
    """The apply waits for it, and does the rest."""
    out = tmp_path / "out.txt"
    plan = rewind(project, topic, out)
    with killed_while_stopping(worker, topic):
        report = project.apply(plan)
    assert report.exit_code == 0, report
    assert project.plan().empty
    wait_until(lambda: lines_of(out)[-3:] == ["7", "8", "9"], what="three records again")


def rewind(project: RestProject, topic: str, out: Path) -> Plan:
    """The plan that takes a running sink three records back."""
    project.want(sink(topic, out, topic))
    project.settle()
    wait_until(lambda: project.offsets(topic), what="committed offsets")
    project.want(replace(sink(topic, out, topic), pin=pin_at("back", topic, 7)))
    return project.plan()


@contextmanager
def killed_while_stopping(worker: list[Oracle], connector: str) -> Iterator[None]:
    """The worker gets SIGKILL when the connector does not run any more, and is started again."""

    def stopped() -> bool:
        answer = http.get(f"{worker[0].url}/connectors/{connector}/status").json()
        return bool(answer["connector"]["state"] == "STOPPED")

    def kill() -> None:
        wait_until(stopped, what="the stop", every_s=0.01)
        worker[0].kill()
        worker[0] = worker[0].again()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        killer.join(90)


def test_a_worker_that_is_down_is_said(worker: list[Oracle], client: dict[str, str]) -> None:
    gone = RestProject("http://127.0.0.1:1", worker[0].group_id)
    with pytest.raises(Unreachable) as unreachable:
        gone.plan()
    assert unreachable.value.exit_code == 3
    there = RestProject("http://127.0.0.1:1", worker[0].group_id, client)
    assert there.plan().empty


def test_masked_secrets(
    worker: list[Oracle], topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A REST API that masks secrets: each key is changed or not, and no mask is written back."""
    mask = "••••••"
    monkeypatch.setenv("CONNECT_FINGERPRINT_KEY", "00ff" * 16)
    given = {"consumer.override.ssl.key.password": "hunter2", "db.pin": "1234"}
    spec = sink(topic, tmp_path / "out.txt", topic, **given)
    with masking(worker[0].url, given.keys(), mask) as (url, sent):
        project = RestProject(url, worker[0].group_id, name="masked")
        project.want(spec)
        project.settle()
        changed = replace(spec, config={**spec.config, "db.pin": "not-hex"})
        project.want(changed)
        (action,) = (each for each in project.plan().actions if isinstance(each, UpdateConfig))
        assert [change.key for change in action.changes] == ["db.pin"]
        project.settle()
        project.want(replace(changed, state=STOPPED, pin=pin_at("back", topic, 2)))
        project.settle()
        stored = http.get(f"{worker[0].url}/connectors/{topic}/config").json()
        assert (stored["db.pin"], stored["consumer.override.ssl.key.password"]) == (
            "not-hex",
            "hunter2",
        )
        assert mask not in json.dumps(stored, ensure_ascii=False)
        assert not [body for body in sent if mask in body]
        for secret in ("not-hex", "hunter2"):
            assert secret not in stored[LEDGER_KEY]
        project.specs = {}
        project.settle()


@pytest.mark.long
def test_many_connectors_in_one_apply(
    worker: list[Oracle], client: dict[str, str], unique: str, tmp_path: Path
) -> None:
    """Each creation rebalances the workers, which refuse requests meanwhile. Created by REST alone;
    deleted with Kafka, which takes the ledger along from the configs."""
    project = RestProject(worker[0].url, worker[0].group_id, name="many")
    specs = [sink(f"{unique}-{n}", tmp_path / f"{n}.txt", unique) for n in range(150)]
    project.want(*(replace(spec, state=PAUSED) for spec in specs))
    begun = time.monotonic()
    report = project.settle()
    assert time.monotonic() - begun < 90
    assert len(report.connectors) == 150
    project.kafka = client
    project.specs = {}
    assert len(project.settle().connectors) == 150
    assert not [name for name in project.observe().connectors if name.startswith(unique)]


def test_the_doctor_compares_topics_with_rest(
    worker: list[Oracle], client: dict[str, str], topic: str, tmp_path: Path
) -> None:
    """What topics and REST say is cross-checked."""
    project = RestProject(worker[0].url, worker[0].group_id, client, name="examined")
    project.want(replace(sink(topic, tmp_path / "out.txt", topic), state=STOPPED))
    project.settle()
    report = examine(open_backend(project.project, client))
    assert (report.healthy, report.findings) == (True, ())
    alone = examine(RestProject(worker[0].url, worker[0].group_id).backend)
    assert (alone.healthy, alone.findings) == (True, ())

    topics = project.project.topics
    gone = status_topic.connector_record(topics.status, "gone", Status(State.RUNNING, "w", 1))
    KafkaLogs(client).writer(f"{topic}-tests").write([gone])
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topics.offsets, incremental_configs=[entry])
    asks = admin(client)
    asks.incremental_alter_configs([resource])[resource].result(10)
    try:
        report = examine(open_backend(project.project, client))
        found = [(each.severity, each.code) for each in report.findings]
        assert found == [("error", "doctor.not-compacted"), ("warning", "doctor.orphan-status")]
        mixed = examine(open_backend(replace(project.project, target=None), client))
        assert "cluster.of-apache" in [each.code for each in mixed.findings]
    finally:
        entry.value = "compact"
        asks.incremental_alter_configs([resource])[resource].result(10)
        project.specs = {}
        project.settle()
