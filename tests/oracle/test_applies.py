"""Applies and restarts on a real Connect worker, in cases where other tools go wrong."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from connect_reconciler.doctor.look import examine
from connect_reconciler.render.plan_file import dump_plan, load_plan
from connect_reconciler.validation.configs import checked
from connect_specs.desired import Desired, DesiredConnector, Pin, TargetState
from support import http
from support.broker import BrokerAddress, create_topic, member, produce, read_to_end
from support.command import Command
from support.oracle import Oracle
from support.rest_project import RestProject, sink
from support.spec_files import load_connectors
from support.wait import wait_until

pytestmark = pytest.mark.oracle

RUNNING, PAUSED = TargetState.RUNNING, TargetState.PAUSED


@pytest.fixture
def topic(broker: BrokerAddress, unique: str) -> str:
    """Ten records that are no JSON."""
    create_topic(broker.bootstrap_servers, unique)
    produce(broker.bootstrap_servers, unique, [(None, f"line {n}".encode()) for n in range(10)])
    return unique


@pytest.fixture(params=["kafka", pytest.param("rest-alone", marks=pytest.mark.long)])
def project(
    request: pytest.FixtureRequest, oracle: Oracle, client: dict[str, str]
) -> Iterator[RestProject]:
    kafka = client if request.param == "kafka" else {}
    made = RestProject(oracle.url, oracle.group_id, kafka, name=f"traps-{secrets.token_hex(4)}")
    yield made
    made.specs = {}
    assert made.apply().exit_code == 0


def states(oracle: Oracle, name: str) -> list[str]:
    """The connector's state and those of its tasks, as the worker tells them."""
    found = http.get(f"{oracle.url}/connectors/{name}/status", timeout=10).json()
    if "connector" not in found:  # nobody has told of it yet
        return []
    return [found["connector"]["state"], *(task["state"] for task in found["tasks"])]


def broken(name: str, out: Path, topic: str) -> DesiredConnector:
    """A sink whose task fails at the first record."""
    converter = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    return sink(name, out, topic, **converter)


def test_config_and_state_change_in_one_run(
    project: RestProject, oracle: Oracle, topic: str, tmp_path: Path
) -> None:
    """The trap: of a config and a state that change together, the state waits for the next run."""
    project.want(sink(topic, tmp_path / "out.txt", topic))
    project.settle()
    other = str(tmp_path / "other.txt")
    spec = sink(topic, tmp_path / "out.txt", topic)
    project.want(replace(spec, config={**spec.config, "file": other}, state=PAUSED))
    project.settle()
    assert states(oracle, topic) == ["PAUSED", "PAUSED"]
    stored = http.get(f"{oracle.url}/connectors/{topic}/config", timeout=10).json()
    assert stored["file"] == other


def test_from_failed_to_paused_and_back_to_running(
    project: RestProject, oracle: Oracle, topic: str, tmp_path: Path
) -> None:
    """The trap: a pause does not change what FAILED, and a resume does not restart failed tasks."""
    out = tmp_path / "out.txt"
    project.want(broken(topic, out, topic))
    assert project.apply().exit_code == 1
    assert states(oracle, topic) == ["RUNNING", "FAILED"]

    project.want(replace(broken(topic, out, topic), state=PAUSED))
    project.settle()
    wait_until(lambda: states(oracle, topic) == ["PAUSED", "PAUSED"], what="FAILED to be PAUSED")

    project.want(replace(sink(topic, out, topic), state=RUNNING))
    project.settle()
    assert states(oracle, topic) == ["RUNNING", "RUNNING"]
    wait_until(lambda: out.exists() and len(out.read_text().splitlines()) == 10, what="10 lines")


def test_numbers_and_names_in_a_spec_are_what_connect_stores(
    project: RestProject, oracle: Oracle, topic: str, tmp_path: Path, client: dict[str, str]
) -> None:
    """The trap: 10 or "10", and a name both in the spec and in its config, differ for ever.

    Each such difference is another write of the config, and each write restarts the tasks.
    """
    file = tmp_path / "a.yaml"
    file.write_text(
        f"name: {topic}\n"
        "config:\n"
        f"  name: {topic}\n"
        "  connector.class: FileStreamSink\n"
        f"  topics: {topic}\n"
        f"  file: {tmp_path / 'out.txt'}\n"
        "  tasks.max: 1\n"
        "  consumer.override.max.poll.records: 10\n"
        "  errors.log.enable: true\n"
        "  key.converter: org.apache.kafka.connect.storage.StringConverter\n"
        "  value.converter: org.apache.kafka.connect.storage.StringConverter\n"
    )
    project.want(*load_connectors([file], tmp_path).values())
    project.settle()
    written = len(read_to_end(client["bootstrap.servers"], oracle.config_topic))
    assert project.plan().empty
    assert project.apply().exit_code == 0
    assert len(read_to_end(client["bootstrap.servers"], oracle.config_topic)) == written


def test_validation_needs_a_name_and_leaves_references_to_the_worker(
    project: RestProject, oracle: Oracle, topic: str, tmp_path: Path
) -> None:
    """The trap: validate wants a `name`, and judges an unresolved `${…}` by its letters."""
    file = tmp_path / "a.yaml"
    file.write_text(
        f"name: {topic}\n"
        "config:\n"
        "  connector.class: FileStreamSink\n"
        f"  topics: {topic}\n"
        "  tasks.max: ${env:TASKS}\n"
    )
    (spec,) = load_connectors([file], tmp_path).values()
    asked = http.put(
        f"{oracle.url}/connector-plugins/FileStreamSink/config/validate",
        json={key: value for key, value in spec.config.items() if key != "name"},
        timeout=30,
    ).json()
    refused = {each["value"]["name"] for each in asked["configs"] if each["value"]["errors"]}
    assert refused == {"name", "tasks.max"}

    desired = Desired(project.name, {topic: spec})
    live = checked(project.observe(), desired, project.backend)
    assert live.errors == ()
    (told,) = [each for each in live.warnings if each.code == "config.not-checkable"]
    assert told.what.endswith(f"not checked: {topic} (tasks.max)")


def test_what_was_deleted_in_between_is_no_failure(
    project: RestProject, oracle: Oracle, topic: str, tmp_path: Path
) -> None:
    """The trap: 404 when deleting is an error, and what was known of it is mended by hand."""
    project.want(sink(topic, tmp_path / "out.txt", topic))
    project.settle()
    project.specs = {}
    deleted = http.delete(f"{oracle.url}/connectors/{topic}", timeout=30)
    assert deleted.status_code == 204
    assert project.apply().exit_code == 0
    assert project.plan().empty


def test_failed_tasks_are_restarted_by_a_verb(
    oracle: Oracle, broker: BrokerAddress, topic: str, tmp_path: Path
) -> None:
    """Restart of failed tasks, and their traces in the status; those of the specs at once."""
    connect = Command(tmp_path / "project")
    connect.write(
        "connect.yaml",
        "project: p\n"
        "cluster:\n"
        f"  group.id: {oracle.group_id}\n"
        f"  target: {{rest: '{oracle.url}'}}\n"
        f"  kafka: {{bootstrap.servers: '{broker.bootstrap_servers}'}}\n",
    )
    folder = tmp_path / "not-there-yet"
    spec = sink(topic, folder / "out.txt", topic)
    config = spec.config
    connect.write("connectors/a.json", json.dumps({"name": topic, "config": dict(config)}))
    created = http.put(f"{oracle.url}/connectors/{topic}/config", json=dict(config), timeout=30)
    assert created.status_code == 201
    try:
        wait_until(lambda: states(oracle, topic)[1:] == ["FAILED"], what="its task to fail")
        assert str(folder / "out.txt") in connect("status").stdout
        folder.mkdir()
        assert states(oracle, topic) == ["RUNNING", "FAILED"]
        restarted = connect("restart", "--failed")
        assert restarted.returncode == 0, restarted.stderr
        assert restarted.stdout == f"{topic}: restarted (task 0 had failed)\n"
        wait_until(lambda: states(oracle, topic) == ["RUNNING", "RUNNING"], what="it to run")
        assert connect("restart", "--failed").stdout == "nothing failed\n"
    finally:
        http.delete(f"{oracle.url}/connectors/{topic}", timeout=30)


@pytest.mark.long
def test_what_fails_is_rolled_back(
    oracle: Oracle, broker: BrokerAddress, topic: str, tmp_path: Path
) -> None:
    """Rollback on failure: config and offsets go back, what was created goes, and the exit is 1."""
    connect = Command(tmp_path / "project")
    connect.write(
        "connect.yaml",
        f"project: {topic}\n"
        "cluster:\n"
        f"  group.id: {oracle.group_id}\n"
        f"  target: {{rest: '{oracle.url}'}}\n"
        f"  kafka: {{bootstrap.servers: '{broker.bootstrap_servers}'}}\n",
    )

    def spec(name: str, file: Path, more: str = "") -> None:
        config = {**sink(name, file, topic).config, "tasks.max": "1"}
        text = f"name: {name}\nstate: running\nconfig: {json.dumps(config)}\n{more}"
        connect.write(f"connectors/{name}.yaml", text)

    good, bad = f"{topic}-good", f"{topic}-bad"
    spec(good, tmp_path / "out.txt")
    try:
        first = connect("apply", "--yes", "--healthy-for", "2s", "--json")
        assert first.returncode == 0, first.stderr
        assert "rollback" not in json.loads(first.stdout)
        stored = http.get(f"{oracle.url}/connectors/{good}/config", timeout=30).json()
        spec(good, tmp_path / "other.txt", "offsets: {pin: again, to: earliest}\n")
        spec(bad, tmp_path / "not-there" / "out.txt")
        done = connect("apply", "--yes", "--healthy-for", "2s", "--json", "--rollback-on-failure")
        assert done.returncode == 1
        answer = json.loads(done.stdout)
        assert answer["report"]["exit_code"] == 1
        assert answer["rollback"]["errors"] == []
        assert answer["rollback"]["report"]["exit_code"] == 0
        assert http.get(f"{oracle.url}/connectors/{bad}", timeout=30).status_code == 404
        now = http.get(f"{oracle.url}/connectors/{good}/config", timeout=30).json()
        assert now == stored
        newest, failed, _ = json.loads(connect("history", "--json").stdout)["applies"]
        assert newest["rolls_back"] == failed["apply_id"] == answer["report"]["apply_id"]
        again = connect("apply", "--yes", "--healthy-for", "2s", "--rollback-on-failure")
        assert again.returncode == 1
        assert f"{bad}: failed: " in again.stdout
        assert "Rolled back: apply " in again.stdout
        wait_until(lambda: states(oracle, good) == ["RUNNING", "RUNNING"], what="it to run")
    finally:
        for name in (good, bad):
            http.delete(f"{oracle.url}/connectors/{name}", timeout=30)


def test_a_pin_to_the_end_delivers_nothing_again_under_load(
    oracle: Oracle, client: dict[str, str], unique: str, tmp_path: Path
) -> None:
    """The trap: the end of the topic is that of the plan, which the sink has read past when the
    saved plan is applied, and until it is stopped."""
    servers, out = client["bootstrap.servers"], tmp_path / "out"
    create_topic(servers, unique)
    project = RestProject(oracle.url, oracle.group_id, client, name=f"load-{secrets.token_hex(4)}")
    wanted = sink(unique, out, unique)
    project.want(wanted)
    project.settle()
    written, ended = 0, Event()

    def write() -> None:
        nonlocal written
        while not ended.wait(0.05):
            lines = range(written, written + 20)
            produce(servers, unique, [(None, str(n).encode()) for n in lines])
            written += 20

    def read() -> list[str]:
        return out.read_text().splitlines() if out.exists() else []

    writing = Thread(target=write)
    writing.start()
    try:
        wait_until(lambda: len(read()) > 200, what="200 records")
        project.want(replace(wanted, pin=Pin("end", to="latest")))
        saved = load_plan(dump_plan(project.plan()))
        planned = written
        wait_until(lambda: len(read()) > planned + 200, what="200 records more than planned")
        assert project.apply(saved).exit_code == 0
        moved = len(read())
        wait_until(lambda: len(read()) > moved + 200, what="200 records since")
    finally:
        ended.set()
        writing.join()
    wait_until(lambda: read()[-1:] == [str(written - 1)], what="the last record")
    found = read()
    assert len(found) == len(set(found)), "records were delivered again"
    assert project.plan().empty
    project.specs = {}
    assert project.apply().exit_code == 0


@pytest.mark.long
def test_a_sink_whose_group_someone_else_reads_with_is_not_stopped(
    oracle: Oracle, client: dict[str, str], unique: str, tmp_path: Path
) -> None:
    """The trap: it is stopped, its offsets do not move, and it stays stopped. The other one has the
    client id of a task: it is the sink of that name on another Connect cluster."""
    create_topic(client["bootstrap.servers"], unique, partitions=2)
    project = RestProject(oracle.url, oracle.group_id, client, name=f"group-{secrets.token_hex(4)}")
    wanted = sink(unique, tmp_path / "out", unique)
    project.want(wanted)
    project.settle()
    project.want(replace(wanted, pin=Pin("back", to="earliest")))

    def warned() -> list[str]:
        return [each.code for each in project.plan().warnings]

    own = f"connector-consumer-{unique}-0"
    wait_until(lambda: warned() == [], what="its task alone")
    with member(client["bootstrap.servers"], f"connect-{unique}", own, unique):
        wait_until(lambda: warned() == ["plan.group-members"], what="two members")
        found = {each.where: each.code for each in examine(project.backend).findings}
        assert found[unique] == "doctor.group-members"
        (report,) = project.apply().connectors
        assert own in report.results[0].detail
        assert report.left == "running"
        assert states(oracle, unique) == ["RUNNING", "RUNNING"]
    wait_until(lambda: warned() == [], what="its task alone")
    project.settle()
    project.specs = {}
    assert project.apply().exit_code == 0
