"""Who starts the project's own Kafka, who shares it, and who ends it."""

import subprocess
from pathlib import Path

import pytest

from connect_reconciler.cli.connecting import backend_of, own_broker
from connect_reconciler.cli.project_files import broker_folder
from connect_runtime.kafka.embedded import EmbeddedBroker, find_broker
from connect_specs.desired import Project
from connect_specs.project import load_project
from support.command import CONNECT
from support.wait import wait_until


@pytest.fixture
def project(tmp_path: Path) -> Project:
    file = tmp_path / "connect.yaml"
    file.write_text("project: p\ncluster: {group.id: g, kafka: embedded}\n")
    return load_project(file)


def test_a_verb_ends_the_broker_that_it_started_and_the_last_user_does(project: Project) -> None:
    with backend_of(project) as outer:
        broker = find_broker(broker_folder(project))
        assert broker is not None
        assert outer.kafka == {"bootstrap.servers": f"127.0.0.1:{broker.port}"}
        with backend_of(project) as inner:
            assert inner.kafka == outer.kafka
        assert find_broker(broker_folder(project)) == broker
    assert find_broker(broker_folder(project)) is None
    assert (project.data / ".gitignore").read_text() == "*\n"


def test_up_takes_a_verbs_broker_over_and_no_verb_ends_it_then(project: Project) -> None:
    with backend_of(project), own_broker(project, for_up=True) as broker:
        assert broker.adopted
    try:
        with backend_of(project):
            pass
        assert find_broker(broker_folder(project)) is not None
    finally:
        broker.stop()


@pytest.mark.long
def test_the_broker_of_a_verb_that_was_killed_is_ended_by_the_next(project: Project) -> None:
    orphan = EmbeddedBroker.start(broker_folder(project))
    (project.data / "broker.for-verbs").write_text(f"{orphan.pid}\n")
    with backend_of(project):
        pass
    assert find_broker(broker_folder(project)) is None


def test_kafka_of_others_is_only_named(tmp_path: Path) -> None:
    file = tmp_path / "connect.yaml"
    file.write_text(
        "project: p\ncluster: {group.id: g, kafka: {bootstrap.servers: 'k:9092', a.b: c}}\n"
    )
    with backend_of(load_project(file)) as backend:
        assert backend.kafka == {"bootstrap.servers": "k:9092", "a.b": "c"}
    assert not (tmp_path / ".connect").exists()


@pytest.mark.long
def test_a_verb_that_is_terminated_ends_the_broker_that_it_started(tmp_path: Path) -> None:
    spec = "name: a\nconfig: {connector.class: FileStreamSource, file: /dev/null, topic: t}\n"
    (tmp_path / "connect.yaml").write_text("project: p\ncluster: {group.id: g, kafka: embedded}\n")
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connectors" / "a.yaml").write_text(spec)
    planning = subprocess.Popen(
        [*CONNECT, "plan"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    folder = tmp_path / ".connect" / "broker"
    wait_until(
        lambda: folder.is_dir() and find_broker(folder), what="the broker to be there", every_s=0.01
    )
    planning.terminate()
    planning.communicate(timeout=30)
    assert planning.returncode == 143
    assert find_broker(folder) is None
