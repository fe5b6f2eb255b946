"""Kafka and REST API of two Connect clusters in one connect.yaml: nothing is planned or written.

Two groups of Apache's workers on one Kafka, a second Kafka, and a runtime of ours.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from connect_reconciler.apply.report import Outcome
from connect_specs.diagnostics import ConnectError, Invalid
from support import http
from support.broker import BrokerAddress, create_topic
from support.command import Command
from support.oracle import Oracle
from support.rest_project import RestProject, sink, source
from support.thread_cluster import thread_cluster
from support.wait import wait_until

pytestmark = pytest.mark.oracle


def started(broker: BrokerAddress, folder: Path, group: str, **settings: str) -> Oracle:
    group_id = f"{group}-{secrets.token_hex(4)}"
    return Oracle.start(folder, broker.bootstrap_servers, group_id=group_id, settings=settings)


@pytest.fixture(scope="module")
def first(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    worker = started(broker, tmp_path_factory.mktemp("first"), "first")
    yield worker
    worker.kill()


@pytest.fixture(scope="module")
def second(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    worker = started(broker, tmp_path_factory.mktemp("second"), "second")
    yield worker
    worker.kill()


@pytest.fixture(autouse=True)
def left_empty(first: Oracle, second: Oracle) -> Iterator[None]:
    yield
    for worker in (first, second):
        for name in names(worker):
            asked(lambda name=name, worker=worker: http.delete(path(worker, name), timeout=90))
        wait_until(lambda worker=worker: names(worker) == [], what="no connectors")


def names(worker: Oracle) -> list[str]:
    answer = asked(lambda: http.get(f"{worker.url}/connectors", timeout=90))
    return sorted(answer.json())


def path(worker: Oracle, name: str, *rest: str) -> str:
    return "/".join((f"{worker.url}/connectors/{name}", *rest))


def asked(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer once no rebalance is in the way."""

    def answer() -> httpx.Response | None:
        found = ask()
        return found if found.is_success or found.status_code == 404 else None

    found = wait_until(answer, what="an answer", timeout_s=60, every_s=0.2)
    assert found is not None
    return found


def put(worker: Oracle, name: str, file: Path) -> None:
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": "lines"}
    asked(lambda: http.put(path(worker, name, "config"), json=config, timeout=90))
    wait_until(
        lambda: http.get(path(worker, name, "status"), timeout=90).status_code == 200,
        what="a status",
        timeout_s=60,
    )


def write(connect: Command, group: str, url: str, kafka: str, *specs: str) -> None:
    """A project as a user writes it, so that what is said names its lines."""
    text = f"project: orders\ncluster:\n  group.id: {group}\n  target: {{rest: '{url}'}}\n"
    text += f"  kafka: {{bootstrap.servers: '{kafka}'}}\n"
    connect.write("connect.yaml", text)
    for name in specs:
        config = "{connector.class: FileStreamSource, file: /dev/null, topic: lines}"
        connect.write(f"connectors/{name}.yaml", f"name: {name}\nconfig: {config}\n")


@pytest.fixture
def connect(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.mark.long
def test_a_kafka_that_the_workers_do_not_use_is_refused(
    connect: Command, first: Oracle, broker: BrokerAddress, other_broker: BrokerAddress
) -> None:
    write(connect, first.group_id, first.url, other_broker.bootstrap_servers, "lines")
    for words in (("plan",), ("apply", "--yes"), ("drift",), ("stop", "lines")):
        done = connect(*words)
        assert done.returncode == 2, (words, done.stderr)
        assert "error[cluster.other-kafka]" in done.stderr
        assert {broker.cluster_id, other_broker.cluster_id} <= set(
            done.stderr.replace(",", "").split()
        )
        assert "connect.yaml:4" in done.stderr
        assert "connect.yaml:5" in done.stderr
    assert names(first) == []


@pytest.mark.long
def test_a_copied_connect_yaml_with_the_other_group_s_workers_is_refused(
    connect: Command, first: Oracle, second: Oracle, broker: BrokerAddress
) -> None:
    """An update would create a second copy there, and a delete would find nothing to delete."""
    write(connect, first.group_id, first.url, broker.bootstrap_servers, "lines")
    applied = connect("apply", "--yes", "--healthy-for", "2s")
    assert applied.returncode == 0, applied.stderr

    write(connect, first.group_id, second.url, broker.bootstrap_servers, "lines")
    spec = connect.folder / "connectors" / "lines.yaml"
    spec.write_text(spec.read_text().replace("/dev/null", "/dev/zero"))
    refused = connect("apply", "--yes")
    assert (refused.returncode, names(second)) == (2, []), refused.stderr
    assert "error[cluster.other-group]" in refused.stderr
    for told in (
        second.url,
        f"{first.group_id}-configs",
        "lines",
        "connect.yaml:3",
        "connect.yaml:4",
    ):
        assert told in refused.stderr

    examined = connect("doctor")
    assert "error[cluster.other-group]" in examined.stdout
    assert "restart the worker" not in examined.stdout

    spec.unlink()
    assert connect("apply", "--yes", "--allow-empty").returncode == 2
    by_hand = connect("delete", "lines")
    assert (by_hand.returncode, names(first)) == (2, ["lines"]), by_hand.stderr


@pytest.mark.long
def test_the_same_names_on_both_are_told_apart_by_their_workers(
    connect: Command, first: Oracle, second: Oracle, broker: BrokerAddress, tmp_path: Path
) -> None:
    for worker in (first, second):
        put(worker, "lines", tmp_path / "in.txt")
    write(connect, first.group_id, second.url, broker.bootstrap_servers, "lines")
    refused = connect("plan")
    assert refused.returncode == 2
    assert "error[cluster.other-group]" in refused.stderr
    for worker in (first, second):
        assert worker.url.removeprefix("http://") in refused.stderr


@pytest.mark.long
def test_a_missing_config_topic_is_no_empty_cluster(
    connect: Command, first: Oracle, broker: BrokerAddress
) -> None:
    write(connect, f"{first.group_id}-typo", first.url, broker.bootstrap_servers, "lines")
    refused = connect("plan")
    assert refused.returncode == 2
    assert "error[cluster.no-config-topic]" in refused.stderr
    assert f"{first.group_id}-typo-configs" in refused.stderr
    assert "connect.yaml:3" in refused.stderr


@pytest.mark.long
def test_a_group_without_workers_is_refused(
    first: Oracle, client: dict[str, str], connect: Command, broker: BrokerAddress
) -> None:
    """Topics and REST API are of one cluster, and only the group.id is not."""
    group = first.group_id
    write(connect, f"{group}-typo", first.url, broker.bootstrap_servers, "lines")
    topics = f"config: {group}-configs, offsets: {group}-offsets, status: {group}-status"
    with (connect.folder / "connect.yaml").open("a") as file:
        file.write(f"  topics: {{{topics}}}\n")
    refused = connect("plan")
    assert refused.returncode == 2
    assert "error[cluster.empty-group]" in refused.stderr
    assert "connect.yaml:3" in refused.stderr


@pytest.mark.long
def test_a_status_topic_that_is_not_the_workers_is_refused(
    first: Oracle, connect: Command, broker: BrokerAddress, tmp_path: Path, unique: str
) -> None:
    """The trap: the gate waits for statuses that never come, and every apply fails."""
    put(first, "lines", tmp_path / "in.txt")
    create_topic(broker.bootstrap_servers, unique)
    write(connect, first.group_id, first.url, broker.bootstrap_servers, "lines")
    with (connect.folder / "connect.yaml").open("a") as file:
        file.write(f"  topics: {{status: {unique}}}\n")
    refused = connect("plan")
    assert refused.returncode == 2
    assert "error[cluster.other-status-topic]" in refused.stderr
    assert unique in refused.stderr
    # without such a topic nothing is known of statuses, and REST is asked for them
    text = (connect.folder / "connect.yaml").read_text()
    connect.write("connect.yaml", text.replace(unique, f"{unique}-none"))
    assert connect("plan").returncode == 0


@pytest.mark.long
def test_a_write_that_went_to_another_cluster_ends_the_apply(
    first: Oracle, second: Oracle, client: dict[str, str], tmp_path: Path
) -> None:
    """Nothing tells two clusters without connectors apart before the first write."""
    project = RestProject(second.url, first.group_id, client, name="new")
    project.want(*(source(f"lines-{n}", tmp_path / "in.txt", "lines") for n in range(20)))
    report = project.apply()
    assert report.exit_code == 3
    assert {each.code for each in report.ended_by} == {"cluster.not-arrived"}
    assert report.counts[Outcome.DONE] == 0
    assert len(names(second)) <= project.choices.parallelism


@pytest.mark.long
def test_connectors_that_come_and_go_meanwhile_refuse_nothing(
    first: Oracle, client: dict[str, str], tmp_path: Path
) -> None:
    over, wrong = threading.Event(), []

    def come_and_go() -> None:
        number = 0
        while not over.is_set():
            number += 1
            name = f"passing-{number}"
            try:
                put(first, name, tmp_path / "in.txt")
                asked(lambda name=name: http.delete(path(first, name), timeout=90))
            except Exception as error:
                wrong.append(error)
                return

    put(first, "stays", tmp_path / "in.txt")
    project = RestProject(first.url, first.group_id, client)
    project.want(source("lines", tmp_path / "in.txt", "lines"))
    busy = threading.Thread(target=come_and_go)
    busy.start()
    try:
        for _ in range(8):
            assert not project.plan().errors
    finally:
        over.set()
        busy.join(120)
    assert wrong == []


@pytest.mark.long
def test_workers_whose_connectors_use_another_kafka_are_theirs(
    broker: BrokerAddress,
    other_broker: BrokerAddress,
    client: dict[str, str],
    tmp_path: Path,
    unique: str,
) -> None:
    """The topics of the workers are on `bootstrap.servers`, whatever their connectors' clients
    are told."""
    elsewhere = {
        f"{kind}.bootstrap.servers": other_broker.bootstrap_servers
        for kind in ("producer", "consumer", "admin")
    }
    create_topic(other_broker.bootstrap_servers, unique)
    worker = started(
        broker, tmp_path, "elsewhere", **elsewhere, **{"exactly.once.source.support": "disabled"}
    )
    try:
        project = RestProject(worker.url, worker.group_id, client, worker=elsewhere)
        project.want(sink("lines", tmp_path / "out.txt", unique))
        project.settle()
    finally:
        worker.kill()


@pytest.mark.long
def test_our_runtime_s_topics_with_apache_s_workers_are_refused(
    first: Oracle, broker: BrokerAddress, client: dict[str, str], tmp_path: Path, unique: str
) -> None:
    with thread_cluster(client["bootstrap.servers"], unique) as ours:
        config = {"connector.class": "FileStreamSource", "file": "/dev/null", "topic": unique}
        ours.verbs.put_config("lines", config)
        project = RestProject(first.url, unique, client)
        project.want(source("lines", tmp_path / "in.txt", unique))
        with pytest.raises(Invalid) as refused:
            project.plan()
    assert refused.value.diagnostics[0].code == "cluster.other-group"
    assert names(first) == []


@pytest.mark.long
def test_a_silent_rest_api_is_not_compared_and_nothing_is_written(
    broker: BrokerAddress, client: dict[str, str], tmp_path: Path
) -> None:
    worker = started(broker, tmp_path, "silent")
    worker.kill()
    project = RestProject(worker.url, worker.group_id, client)
    project.want(source("lines", tmp_path / "in.txt", "lines"))
    plan = project.plan()
    assert "cluster.not-compared" in [each.code for each in plan.warnings]
    with pytest.raises(ConnectError):
        project.apply(plan)
