"""Whose a connector is: another project's is refused, a delete asks, and there is one ledger."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from connect_reconciler.backend import open_backend
from connect_reconciler.backend.lease import acquired
from connect_reconciler.backend.observe.kafka_view import KafkaView
from connect_reconciler.cli.connector_access import Known, known
from connect_reconciler.cli.verbs.connector import _confirmed as delete_agreed
from connect_reconciler.ledger.config_entry import Entry, dump_entry
from connect_reconciler.model.config_values import LEDGER_KEY
from connect_reconciler.model.ledger import Owned
from connect_runtime.herder.verbs import RequestError
from connect_runtime.kafka.groups import list_group_offsets
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage import config_topic
from connect_runtime.storage.snapshots import ConfigSnapshot
from connect_specs.desired import RestTarget, TargetState
from connect_specs.diagnostics import ExitCode, Invalid
from connect_specs.names import ledger_group
from connect_specs.project import load_project
from support.broker import BrokerAddress
from support.command import CONNECT, Command
from support.fake_worker import FakeWorker, Stored
from support.projects import project_of
from support.served_worker import served_project

SPEC = """\
name: {name}
state: stopped
lifecycle: {{prevent_delete: {guard}}}
config: {{connector.class: FileStreamSource, file: /dev/null, topic: lines}}
"""
CHANGES = (
    ("stop", "theirs"),
    ("pause", "theirs"),
    ("resume", "theirs"),
    ("delete", "theirs", "--yes"),
    ("offsets", "reset", "theirs"),
)


@pytest.fixture
def ours(tmp_path: Path, broker: BrokerAddress, unique: str) -> Command:
    """A project with one connector, beside one with another."""
    for project, name in (("orders", "theirs"), ("billing", "ours")):
        (tmp_path / project).mkdir()
        command = Command(tmp_path / project)
        text = f"project: {project}\ncluster: {broker.cluster(unique)}\n"
        command.write("connect.yaml", text)
        command.write("connectors/a.yaml", SPEC.format(name=name, guard="false"))
        assert command("apply", "--yes").returncode == 0
    return command


def states(project: Command) -> dict[str, str]:
    """The target states of all connectors of the cluster."""
    loaded = load_project(project.folder / "connect.yaml")
    assert loaded.kafka is not None
    records = KafkaView(loaded.kafka).records(loaded.topics.config)
    found = config_topic.reduce_all(ConfigSnapshot(), records).connectors
    return {name: each.target.value for name, each in found.items()}


def answered(project: Command, answer: str, *words: str) -> tuple[int, str]:
    """The verb at a terminal where somebody answers; its exit code and what it wrote."""
    main, terminal = pty.openpty()
    os.write(main, f"{answer}\n".encode())
    done = subprocess.run(
        [*CONNECT, *words],
        cwd=project.folder,
        stdin=terminal,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    os.close(terminal)
    os.close(main)
    return done.returncode, done.stdout + done.stderr


def test_the_question_tells_no_login(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("typer.prompt", lambda *_, **__: "n")
    target = RestTarget("https://me:zq9@connect.test:8083/x")
    project = project_of(name="p", target=target)
    assert not delete_agreed(Known("c", {}, None), open_backend(project, {}))
    told = capsys.readouterr().err
    assert "zq9" not in told and "https://connect.test:8083/x" in told


def test_a_refusal_before_the_config_is_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is said of a connector may quote secrets of its config."""

    def refuse(*_: object) -> None:
        raise RequestError(500, "the worker's own words")

    target = RestTarget("https://connect.test:8083")
    project = project_of(name="p", target=target)
    backend = open_backend(project, {})
    monkeypatch.setattr(type(backend), "ensure_one_cluster", refuse)
    with pytest.raises(RequestError, match="the worker's own words"):
        known(backend, "a")


def test_a_delete_asks(ours: Command) -> None:
    nobody = ours("delete", "ours")
    assert nobody.returncode == 2
    assert "error[delete.nobody-to-ask]: ours" in nobody.stderr
    assert "--yes" in nobody.stderr
    code, told = answered(ours, "n", "delete", "ours")
    assert code == 1
    assert "- ours: delete" in told and "project billing" in told
    assert "its offsets stay" in told and "Delete ours? [y/N]" in told
    assert "not deleted" in told
    assert "ours" in states(ours)
    code, told = answered(ours, "", "delete", "ours")
    assert (code, "ours" in states(ours)) == (1, True)
    code, told = answered(ours, "y", "delete", "ours")
    assert code == 0, told
    assert states(ours).keys() == {"theirs"}
    # What is not there is not asked about
    code, told = answered(ours, "y", "delete", "ours")
    assert (code, "Delete ours?" in told) == (1, False)
    assert "connect.404" in told


# --- over REST alone: the config says who owns it ---


def stored(name: str, project: str) -> Stored:
    owned = Owned(project, {"name": name}, None)
    config = {"name": name, "connector.class": "C", LEDGER_KEY: dump_entry(Entry(owned, {}))}
    return Stored(config, TargetState.RUNNING)


def test_over_rest_alone_the_config_names_the_owner(tmp_path: Path) -> None:
    worker = FakeWorker(
        connectors={
            "theirs": stored("theirs", "orders"),
            "copied": stored("another", "orders"),
            "ours": stored("ours", "p"),
            "free": Stored({"name": "free", "connector.class": "C"}, TargetState.RUNNING),
            "odd": Stored({"name": "odd", LEDGER_KEY: "?"}, TargetState.RUNNING),
        }
    )
    with served_project(worker, tmp_path):
        connect = Command(tmp_path)
        for words in CHANGES:
            refused = connect(*words)
            assert refused.returncode == 2, refused.stderr
            assert "belongs to project orders" in refused.stderr
        assert worker.asked == []
        unreadable = connect("stop", "odd")
        assert unreadable.returncode == 1
        assert "error[ledger.unreadable]: odd" in unreadable.stderr
        assert worker.asked == []
        for name in ("ours", "free", "copied"):
            assert connect("stop", name).returncode == 0
        for name in ("theirs", "odd"):
            assert connect("stop", name, "--force").returncode == 0
        assert {each.target for each in worker.connectors.values()} == {TargetState.STOPPED}
        assert connect("delete", "ours", "--yes").returncode == 0
        assert "ours" not in worker.connectors
        unseen = connect("delete", "free", "--yes")
        assert unseen.returncode == 2
        assert "owners cannot be seen without cluster.kafka" in unseen.stderr
        code, told = answered(connect, "n", "delete", "free", "--force")
        assert (code, "owners cannot be seen" in told) == (1, True)
        assert "http://" in told
        assert worker.asked[-1] == "DELETE /connectors/ours"


# --- two projects with one group.id and different ledger topics ---


def with_ledger(
    connect: Command, broker: BrokerAddress, unique: str, project: str, ledger: str
) -> None:
    topics = f"topics: {{ledger: {ledger}}}"
    kafka = f"kafka: {{bootstrap.servers: '{broker.bootstrap_servers}'}}"
    text = f"project: {project}\ncluster:\n  group.id: {unique}\n  {kafka}\n  {topics}\n"
    connect.write("connect.yaml", text)
    connect.write(f"connectors/{project}.yaml", SPEC.format(name=project, guard="false"))


def test_a_project_with_another_ledger_topic_is_refused(
    connect: Command, broker: BrokerAddress, unique: str
) -> None:
    with_ledger(connect, broker, unique, "one", f"{unique}-one")
    assert connect("apply", "--yes").returncode == 0
    (connect.folder / "connectors" / "one.yaml").unlink()
    with_ledger(connect, broker, unique, "two", f"{unique}-two")
    for words in (("apply", "--yes"), ("apply", "--yes", "--takeover")):
        refused = connect(*words)
        assert refused.returncode == 2, refused.stderr
        assert "error[cluster.other-ledger]" in refused.stderr
        assert f"{unique}-one" in refused.stderr and f"{unique}-two" in refused.stderr
    names = AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10)
    assert f"{unique}-two" not in names.topics
    # The first one goes on
    (connect.folder / "connectors" / "two.yaml").unlink()
    with_ledger(connect, broker, unique, "one", f"{unique}-one")
    connect.write("connectors/more.yaml", SPEC.format(name="more", guard="false"))
    assert connect("apply", "--yes").returncode == 0


def test_the_other_one_is_seen_while_it_applies(
    connect: Command, broker: BrokerAddress, unique: str
) -> None:
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    with_ledger(connect, broker, unique, "one", f"{unique}-one")
    one = load_project(connect.folder / "connect.yaml", None)
    with_ledger(connect, broker, unique, "two", f"{unique}-two")
    two = load_project(connect.folder / "connect.yaml", None)
    logs = KafkaLogs(kafka)
    lease = acquired(one, kafka, logs, "one")
    try:
        assert list_group_offsets(kafka, ledger_group(unique)) == {(f"{unique}-one", 0): 0}
        with pytest.raises(Invalid) as refusal:
            acquired(two, kafka, logs, "two")
        assert refusal.value.exit_code is ExitCode.INVALID
        lease.keep()
    finally:
        lease.release()
        logs.close()
