"""A partition of one of the cluster's own topics is offline: its only broker was killed. What does
not need it goes on, and what cannot be done is said."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import NewTopic

from connect_runtime.herder.verbs import RequestError
from connect_runtime.kafka import clients
from connect_runtime.kafka.client_checks import READ, check_rights
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.kafka.topics import create_topic, describe_topics
from connect_runtime.storage.snapshots import State, StatusSnapshot, TaskId
from connect_runtime.storage.status_topic import reduce_all
from connect_specs.names import ClusterTopics
from support.broker import read_to_end
from support.command import Command
from support.second_broker import TwoBrokers, two_brokers
from support.thread_cluster import ThreadCluster, thread_cluster
from support.wait import wait_until

pytestmark = pytest.mark.long

# A verb that waits for a broker waits for 10 s and more
PROMPT_S = 8.0


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoBrokers]:
    with two_brokers(tmp_path_factory.mktemp("brokers")) as both:
        yield both


def source(folder: Path, name: str) -> dict[str, str]:
    file = folder / f"{name}.txt"
    file.write_text("one\n")
    return {
        "name": name,
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": f"lines-{folder.name}",
    }


def created(
    brokers: TwoBrokers, topics: ClusterTopics, folder: Path, **placed: tuple[int, ...]
) -> None:
    """Makes all topics of a cluster on the first broker, but those that are `placed`."""
    for field in ("config", "offsets", "status", "assignments"):
        brokers.create_topic(getattr(topics, field), *placed.get(field, (1,)))
    brokers.create_topic(f"lines-{folder.name}", 1, policy="delete")


def prompt(what: str, verb: Any, *args: Any, **options: Any) -> Any:
    """The verb's answer, which must come soon."""
    began = time.monotonic()
    answer = verb(*args, **options)
    assert time.monotonic() - began < PROMPT_S, what
    return answer


def running(cluster: ThreadCluster, name: str, *, runs: bool) -> None:
    """Until the connector's task runs, or none does; of that the status topic may say nothing."""
    wait_until(
        lambda: any(task.connector == name for task in cluster.launcher.running) is runs,
        what=f"{name} to run: {runs}",
        timeout_s=20,
    )


def describe(properties: dict[str, str], topic: str) -> None:
    answer = describe_topics(clients.admin(properties), [topic], 15)[topic]
    assert not isinstance(answer, KafkaError), answer


def create(properties: dict[str, str], topic: str) -> None:
    new = NewTopic(f"{topic}-{properties['client.id']}", 1, 1)
    assert create_topic(clients.admin(properties), new, 15) is None


def read_settings(properties: dict[str, str], topic: str) -> None:
    assert KafkaLogs(properties).cleanup_policy(topic) == "compact"


def read_rights(properties: dict[str, str], topic: str) -> None:
    check_rights(properties, topics={topic: (READ,)})


@pytest.mark.parametrize("request_", [describe, create, read_settings, read_rights])
def test_a_client_is_answered_though_the_broker_that_it_asks_is_gone(
    brokers: TwoBrokers, unique: str, request_: Callable[[dict[str, str], str], None]
) -> None:
    """Each client asks one broker, which Kafka chooses: some of them the second."""
    brokers.create_topic(unique, 1)
    brokers.create_topic(f"{unique}-second", 2)
    of_clients = [
        {"bootstrap.servers": brokers.kafka, "client.id": str(number)} for number in range(8)
    ]
    admins = [clients.admin(properties) for properties in of_clients]  # shared while one has them
    for admin in admins:
        describe_topics(admin, [unique], 15)
    brokers.kill_second(f"{unique}-second")
    try:
        for properties in of_clients:
            prompt(request_.__name__, request_, properties, unique)
    finally:
        brokers.start_second()


def test_an_offline_status_partition_holds_up_nothing(
    brokers: TwoBrokers, tmp_path: Path, unique: str
) -> None:
    topics = ClusterTopics.of(unique)
    created(brokers, topics, tmp_path, status=(2, 1))
    names = [f"c{number}" for number in range(4)]  # their statuses are in both partitions
    with thread_cluster(brokers.kafka, unique) as cluster:
        for name in names:
            cluster.verbs.create(name, source(tmp_path, name), None)
        for name in names:
            cluster.wait_for(name, State.RUNNING, State.RUNNING)
        brokers.kill_second(topics.status)

        for name in names:
            prompt("stop", cluster.verbs.stop, name)
        for name in names:
            running(cluster, name, runs=False)
        prompt("alter", cluster.verbs.reset_offsets, "c0")
        for name in names:
            prompt("resume", cluster.verbs.resume, name)
        prompt("create", cluster.verbs.create, "late", source(tmp_path, "late"), None)
        for name in (*names, "late"):
            running(cluster, name, runs=True)
        before = cluster.connect.herder.view.runs[TaskId("c1", 0)].attempt
        prompt("restart", cluster.verbs.restart, "c1", include_tasks=True)
        wait_until(
            lambda: (
                (run := cluster.connect.herder.view.runs.get(TaskId("c1", 0))) is not None
                and run.attempt > before
            ),
            what="another attempt",
        )
        prompt("pause", cluster.verbs.pause, "c2")
        prompt("delete", cluster.verbs.delete, "c3")
        running(cluster, "c3", runs=False)
        said = wait_until(cluster.verbs.degraded, what="the problem", timeout_s=20)
        assert f"{topics.status}: no broker leads partition 0" in said
        wait_until(
            lambda: f"{topics.status}-0" in (cluster.verbs.runtime().problem or ""),
            what="which statuses cannot be written",
            timeout_s=20,
        )

    # a runtime that starts needs no statuses either
    with thread_cluster(brokers.kafka, unique) as cluster:
        for name in ("c0", "c1", "late"):
            running(cluster, name, runs=True)
        assert cluster.verbs.degraded() is not None
        brokers.start_second()
        wait_until(lambda: cluster.verbs.degraded() is None, what="no problem", timeout_s=60)
        for name in ("c0", "c1", "late"):
            cluster.wait_for(name, State.RUNNING, State.RUNNING)
        cluster.wait_for("c2", State.PAUSED, State.PAUSED)

        def written() -> bool:
            records = cluster.logs.reader(topics.status).read_to_end(20)
            found = reduce_all(StatusSnapshot(), records)
            return (
                {name: each.state for name, each in found.connectors.items()}
                == {
                    "c0": State.RUNNING,
                    "c1": State.RUNNING,
                    "c2": State.PAUSED,
                    "late": State.RUNNING,
                }
                and found.tasks[TaskId("c0", 0)].state is State.RUNNING
                and TaskId("c3", 0) not in found.tasks
            )

        wait_until(written, what="all statuses in the topic", timeout_s=30)

        # read to its end before: the consumer does not say again that it is there
        brokers.kill_second(topics.status)
        herder = cluster.connect.herder
        herder.run_on_thread(herder._log.statuses.read)
        assert "Statuses cannot be read" in (cluster.verbs.degraded() or "")
        brokers.start_second()
        wait_until(lambda: cluster.verbs.degraded() is None, what="no problem", timeout_s=60)


def test_statuses_of_what_changed_meanwhile_are_true_once_their_partition_is_back(
    brokers: TwoBrokers, tmp_path: Path, unique: str
) -> None:
    """The leader and the tasks write the same keys, and each tries again at times of its own."""
    topics = ClusterTopics.of(unique)
    created(brokers, topics, tmp_path, status=(2,))
    without_fencing = {"exactly.once.source.support": "disabled"}
    with thread_cluster(brokers.kafka, unique, without_fencing) as cluster:
        names = [f"c{number}" for number in range(4)]
        for name in names:
            cluster.verbs.create(name, source(tmp_path, name), None)
        for name in names:
            cluster.wait_for(name, State.RUNNING, State.RUNNING)
        brokers.kill_second(topics.status)
        for name in names:
            cluster.verbs.stop(name)
            running(cluster, name, runs=False)
        wait_until(lambda: not cluster.connect.herder.view.status.tasks, what="no task's status")
        for name in names:
            cluster.verbs.resume(name)
        for name in names:
            running(cluster, name, runs=True)
        brokers.start_second()
        for name in names:
            cluster.wait_for(name, State.RUNNING, State.RUNNING)

        def written() -> bool:
            reader = cluster.logs.reader(topics.status)
            found = reduce_all(StatusSnapshot(), reader.read_to_end(20))
            reader.close()
            return {TaskId(name, 0): State.RUNNING for name in names} == {
                task: each.state for task, each in found.tasks.items()
            } and not found.outdated

        wait_until(written, what="all statuses in the topic", timeout_s=40)
        # what is written late, too
        wait_until(lambda: cluster.verbs.degraded() is None, what="no problem", timeout_s=60)
        wait_until(written, what="all statuses in the topic", timeout_s=40)


@pytest.mark.parametrize("offline", ["config", "assignments"])
def test_where_orders_cannot_be_written_tasks_go_on_and_requests_say_why(
    brokers: TwoBrokers, tmp_path: Path, unique: str, offline: str
) -> None:
    topics = ClusterTopics.of(unique)
    created(brokers, topics, tmp_path, **{offline: (2,)})
    name = getattr(topics, offline)
    with thread_cluster(brokers.kafka, unique) as cluster:
        cluster.verbs.create("c0", source(tmp_path, "c0"), None)
        cluster.wait_for("c0", State.RUNNING, State.RUNNING)
        brokers.kill_second(name)
        said = wait_until(cluster.verbs.problem, what="the problem", timeout_s=30)
        assert f"topic {name}: no broker leads partition 0" in said
        assert cluster.launcher.running
        with (tmp_path / "c0.txt").open("a") as lines:
            lines.write("two\n")
        read = partial(read_to_end, brokers.kafka, f"lines-{tmp_path.name}")
        wait_until(lambda: len(read()) == 2, what="the second line", timeout_s=30)
        if offline == "config":
            with pytest.raises(RequestError, match=f"{name}-0") as refused:
                cluster.verbs.stop("c0")
            assert refused.value.status == 500
        brokers.start_second()
        wait_until(lambda: cluster.verbs.problem() is None, what="no problem", timeout_s=60)
        wait_until(lambda: cluster.connect.herder.leading, what="a leader", timeout_s=60)
        wait_until(lambda: _done(lambda: cluster.verbs.stop("c0")), what="a stop", timeout_s=60)
        cluster.wait_for("c0", State.STOPPED)


def test_an_offline_offsets_partition_holds_up_sources_that_need_it(
    brokers: TwoBrokers, tmp_path: Path, unique: str
) -> None:
    topics = ClusterTopics.of(unique)
    created(brokers, topics, tmp_path, offsets=(2, 1))
    names = [f"c{number}" for number in range(6)]
    with thread_cluster(brokers.kafka, unique) as cluster:
        for name in names:
            cluster.verbs.create(name, source(tmp_path, name), None)
        for name in names:
            cluster.wait_for(name, State.RUNNING, State.RUNNING)
        records = read_to_end(brokers.kafka, topics.offsets)
        there = {each.key().decode().split('"')[1] for each in records if each.partition() == 0}
        assert there
        assert there < set(names)
        sink = {
            "name": "out",
            "connector.class": "FileStreamSink",
            "topics": f"lines-{tmp_path.name}",
        }
        cluster.verbs.stop(min(there))
        wait_until(lambda: len(cluster.launcher.running) == 5, what="a stopped one")
        brokers.kill_second(topics.offsets)
        # what needs no offsets goes on: sinks start, configs change, and stops happen
        prompt("create", cluster.verbs.create, "out", {**sink, "file": str(tmp_path / "out")}, None)
        running(cluster, "out", runs=True)
        for name in set(names) - there:
            file = tmp_path / f"{name}.txt"
            file.write_text("one\ntwo\n")
        wait_until(
            lambda: len(read_to_end(brokers.kafka, f"lines-{tmp_path.name}")) == 6 + 6 - len(there),
            what="lines of sources whose offsets are elsewhere",
            timeout_s=30,
        )
        with pytest.raises(RequestError, match=topics.offsets) as refused:
            cluster.verbs.reset_offsets(min(there))
        assert refused.value.status == 500
        prompt("pause", cluster.verbs.pause, "out")
        said = wait_until(cluster.verbs.degraded, what="the problem", timeout_s=30)
        assert f"topic {topics.offsets}: no broker leads partition 0" in said
        brokers.start_second()
        wait_until(lambda: cluster.verbs.degraded() is None, what="no problem", timeout_s=60)
        cluster.verbs.reset_offsets(min(there))
        for name in names:
            cluster.verbs.resume(name)
            running(cluster, name, runs=True)


def _done(verb: Callable[[], object]) -> bool:
    try:
        verb()
    except RequestError:
        return False
    return True


def test_verbs_go_on_without_statuses_and_say_so(
    brokers: TwoBrokers, tmp_path: Path, unique: str
) -> None:
    """No runtime is up: the apply itself leads."""
    topics = ClusterTopics.of(unique)
    created(brokers, topics, tmp_path, status=(2,))
    brokers.create_topic(topics.ledger, 1)
    spec = "\n".join(f"  {key}: {value}" for key, value in source(tmp_path, "c").items())
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connectors" / "c.yaml").write_text(f"name: c\nconfig:\n{spec}\n")
    kafka = f"{{bootstrap.servers: '{brokers.kafka}'}}"
    text = f"project: p\ncluster: {{group.id: {unique}, kafka: {kafka}}}\nspecs: [connectors/]\n"
    (tmp_path / "connect.yaml").write_text(text)
    connect = Command(tmp_path)
    done = connect("apply", "--yes")
    assert done.returncode == 0, done.stderr
    brokers.kill_second(topics.status)
    try:
        done = connect("plan")
        assert done.returncode == 0, done.stderr
        assert f"{topics.status}-0: " in done.stdout + done.stderr
        (tmp_path / "connectors" / "c.yaml").write_text(f"name: c\nconfig:\n{spec}\n  note: x\n")
        done = connect("apply", "--yes")
        assert done.returncode == 0, done.stderr
        done = connect("status")
        assert done.returncode == 0, done.stderr
        assert f"some statuses cannot be read: {topics.status}-0: " in done.stderr
        # configs and offsets alone make a drift
        assert connect("drift").returncode == 0
        done = connect("doctor")
        assert done.returncode == 1, done.stderr
        assert "no broker leads partition 0 of the status topic" in done.stdout
    finally:
        brokers.start_second()
