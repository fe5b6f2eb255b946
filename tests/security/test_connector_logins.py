"""Connectors with a login of their own, on another Kafka cluster and on the worker's: the rights of
docs/security.md, which are those of Connect's manual and of KIP-618, suffice, and without one of
them the connector says so."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AclBinding

from connect_runtime.herder.verbs import RequestError
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry
from support.broker import BrokerAddress, create_topic, produce, read_to_end
from support.connectors import SINK, SOURCE, ObedientSinkTask
from support.connectors import partition as source_partition
from support.guarded_broker import PASSWORD, GuardedBroker, binding
from support.rights import listed
from support.thread_cluster import ThreadCluster, thread_cluster
from support.wait import wait_until

GROUP = f"logins-{secrets.token_hex(4)}"
OFFSETS = f"{GROUP}-offsets"
USER = "reader"
CLIENTS = ("producer", "consumer", "admin")


@pytest.fixture(scope="module")
def cluster(broker: BrokerAddress) -> Iterator[ThreadCluster]:
    with thread_cluster(broker.bootstrap_servers, GROUP) as made:
        yield made


def overrides(
    kafka: GuardedBroker, client: str, user: str = USER, password: str = PASSWORD
) -> dict[str, str]:
    given = kafka.client(user, password)
    return {f"{client}.override.{key}": value for key, value in given.items()}


def source_rights(name: str, data: str) -> list[AclBinding]:
    given = [
        ("TOPIC", data, "WRITE"),
        ("TOPIC", OFFSETS, "WRITE"),
        ("TOPIC", OFFSETS, "READ"),
        ("TOPIC", OFFSETS, "DESCRIBE"),
        ("TOPIC", OFFSETS, "CREATE"),
        ("TRANSACTIONAL_ID", f"{GROUP}-{name}-0", "WRITE"),
    ]
    return [binding(USER, *each) for each in given]


def test_the_rights_of_a_source_suffice(
    guarded: GuardedBroker, cluster: ThreadCluster, unique: str
) -> None:
    name, data = f"c{unique[-8:]}", f"{unique}-data"
    servers = guarded.open["bootstrap.servers"]
    create_topic(servers, data)
    rights = source_rights(name, data)
    guarded.set_rights(rights)
    try:
        config = {"name": name, "connector.class": SOURCE, "topic": data, "last": "4"}
        cluster.verbs.create(name, config | overrides(guarded, "producer"), None)
        wait_until(lambda: len(read_to_end(servers, data)) == 4, what="the records")
        cluster.stop_connector(name)
        entry = OffsetEntry(source_partition("0"), {"position": 2})
        cluster.verbs.alter_offsets(name, [entry])
        (found,) = cluster.verbs.offsets(name)
        assert found.offset == {"position": 2}

        # each one that is missing is told: of the task, or of whoever asks
        guarded.take_rights([rights[-1]])
        with pytest.raises(RequestError, match="Failed to"):
            cluster.verbs.alter_offsets(name, [entry])
        cluster.verbs.resume(name)
        cluster.wait_for(name, State.RUNNING, State.FAILED)
        trace = cluster.verbs.status(name).tasks[0].trace or ""
        assert f"needs Write on the transactional id {GROUP}-{name}-0" in trace
        assert "of-a-test" not in trace
    finally:
        guarded.take_rights(rights)
        cluster.verbs.delete(name)


def test_without_the_right_to_create_its_offsets_topic_a_source_fails(
    guarded: GuardedBroker, cluster: ThreadCluster, unique: str
) -> None:
    name = f"c{unique[-8:]}"
    config = {"name": name, "connector.class": SOURCE, "topic": f"{unique}-data"}
    own = {"offsets.storage.topic": f"{unique}-own"}
    cluster.verbs.create(name, config | own | overrides(guarded, "producer"), None)
    try:
        cluster.wait_for(name, State.FAILED)
        trace = cluster.verbs.status(name).connector.trace or ""
        assert f"{unique}-own" in trace and "of-a-test" not in trace
    finally:
        cluster.verbs.delete(name)


def test_the_rights_of_a_sink_suffice(
    guarded: GuardedBroker, cluster: ThreadCluster, unique: str
) -> None:
    name, data = f"c{unique[-8:]}", f"{unique}-data"
    servers = guarded.open["bootstrap.servers"]
    create_topic(servers, data)
    produce(servers, data, [(None, b"a"), (None, b"b")])
    rights = [
        binding(USER, "TOPIC", data, "READ"),
        binding(USER, "GROUP", f"connect-{name}", "READ"),
        binding(USER, "GROUP", f"connect-{name}", "DELETE"),
    ]
    guarded.set_rights(rights)
    try:
        config = {"name": name, "connector.class": SINK, "topics": data}
        cluster.verbs.create(name, config | overrides(guarded, "consumer"), None)
        wait_until(lambda: ObedientSinkTask.got.get(name) == ["a", "b"], what="the records")
        cluster.stop_connector(name)
        entry = OffsetEntry({"kafka_topic": data, "kafka_partition": 0}, {"kafka_offset": 1})
        wait_until(lambda: _done(cluster, name, entry), what="the group to be empty")
        (found,) = cluster.verbs.offsets(name)
        assert found.offset == {"kafka_offset": 1}
        cluster.verbs.reset_offsets(name)
        assert cluster.verbs.offsets(name) == []
    finally:
        guarded.take_rights(rights)
        cluster.verbs.delete(name)


# --- the tables of Connect's manual and of KIP-618 ---


@dataclass(frozen=True, slots=True)
class Home:
    """A Connect cluster, and its group.id."""

    cluster: ThreadCluster
    group: str


@pytest.fixture(scope="module")
def guarded_home(guarded: GuardedBroker) -> Iterator[Home]:
    """Its own topics are on the Kafka with the authorizer, too. Its login may do what
    docs/security.md lists for a leader, but not with the transactional ids of tasks: those are the
    connectors'. Connectors that override nothing have logins of their own, too."""
    group = f"guarded-{secrets.token_hex(4)}"
    client = guarded.client("leader")
    rights = [
        right.at(group, "none").of("leader")
        for right in listed()
        if (right.resource, right.name) != ("transactional id", "<group.id>-*")
    ]
    guarded.set_rights(rights)
    try:
        for user in CLIENTS:
            client |= {f"{user}.{key}": value for key, value in guarded.client(user).items()}
        with thread_cluster(client["bootstrap.servers"], group, client) as made:
            yield Home(made, group)
    finally:
        guarded.take_rights(rights)


def of_the_manual(home: Home, name: str, offsets: str) -> list[AclBinding]:
    """Connect's manual, "ACL requirements": of each individual connector."""
    return [
        *ids("reader", home, name),
        *(
            binding("reader", "TOPIC", offsets, right)
            for right in ("WRITE", "READ", "DESCRIBE", "CREATE")
        ),
    ]


def of_the_kip(home: Home, name: str, offsets: str) -> list[AclBinding]:
    """KIP-618, "Connector principal permissions": of its producer, consumer and admin client."""
    return [
        *ids("producer", home, name),
        binding("producer", "TOPIC", offsets, "WRITE"),
        binding("consumer", "TOPIC", offsets, "READ"),
        *ids("admin", home, name),
        binding("admin", "TOPIC", offsets, "CREATE"),
        binding("admin", "TOPIC", offsets, "DESCRIBE"),
    ]


def ids(user: str, home: Home, name: str) -> list[AclBinding]:
    return [
        binding(user, "TRANSACTIONAL_ID", f"{home.group}-{name}-{task}", right)
        for task in range(2)
        for right in ("WRITE", "DESCRIBE")
    ]


@pytest.mark.parametrize(
    ("clusters", "logins", "offsets"),
    [
        ("one cluster", "one login", "worker's topic"),
        ("one cluster", "no override", "own topic"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("one cluster", "one login", "own topic"),
                ("one cluster", "no override", "worker's topic"),
                ("one cluster", "three logins", "worker's topic"),
                ("one cluster", "three logins", "own topic"),
                ("two clusters", "one login", "worker's topic"),
                ("two clusters", "one login", "own topic"),
                ("two clusters", "three logins", "worker's topic"),
                ("two clusters", "three logins", "own topic"),
            )
        ),
    ],
)
def test_the_rights_of_the_manual_suffice(
    clusters: str,
    logins: str,
    offsets: str,
    guarded: GuardedBroker,
    cluster: ThreadCluster,
    request: pytest.FixtureRequest,
    unique: str,
) -> None:
    """For a life with changes: each of them fences the tasks before it."""
    home = Home(cluster, GROUP)
    if clusters == "one cluster":
        home = request.getfixturevalue("guarded_home")
    name, data = f"c{unique[-8:]}", f"{unique}-data"
    own = f"{unique}-own" if offsets == "own topic" else ""
    alike = logins == "one login"
    rights = (of_the_manual if alike else of_the_kip)(home, name, own or f"{home.group}-offsets")
    rights.append(binding("reader" if alike else "producer", "TOPIC", data, "WRITE"))
    config = {"name": name, "connector.class": SOURCE, "topic": data, "last": "4"}
    config |= {"tasks": "2", "tasks.max": "2"}
    for client in CLIENTS if logins != "no override" else ():
        config |= overrides(guarded, client, "reader" if alike else client)
    if own:
        config["offsets.storage.topic"] = own
    verbs, servers = home.cluster.verbs, guarded.open["bootstrap.servers"]
    create_topic(servers, data)

    def written(count: int) -> None:
        def reached() -> bool:
            return count == len(read_to_end(servers, data)) or failed(home.cluster, name)

        wait_until(reached, what=f"{count} records")
        assert not failed(home.cluster, name), verbs.status(name)

    with allowed(guarded, rights):
        try:
            verbs.create(name, config, None)
            written(8)
            verbs.put_config(name, config | {"last": "6"})
            written(12)
            verbs.put_config(name, config | {"last": "8", "tasks": "1"})
            written(14)
            home.cluster.stop_connector(name)
            verbs.alter_offsets(name, [OffsetEntry(source_partition("0"), {"position": 7})])
            first = source_partition("0")
            assert [e.offset for e in verbs.offsets(name) if e.partition == first] == [
                {"position": 7}
            ]
            verbs.resume(name)
            written(15)
            home.cluster.stop_connector(name)
            verbs.reset_offsets(name)
            assert verbs.offsets(name) == []
        finally:
            verbs.delete(name)


@pytest.mark.long
def test_a_login_that_became_wrong_is_named(
    guarded: GuardedBroker, guarded_home: Home, unique: str
) -> None:
    """Tasks of the right login are fenced with the new one."""
    name, data = f"c{unique[-8:]}", f"{unique}-data"
    create_topic(guarded.open["bootstrap.servers"], data)
    rights = of_the_manual(guarded_home, name, f"{guarded_home.group}-offsets")
    rights.append(binding("reader", "TOPIC", data, "WRITE"))
    config = {"name": name, "connector.class": SOURCE, "topic": data, "last": "4"}
    config |= {"tasks": "2", "tasks.max": "2"}
    for client in CLIENTS:
        config |= overrides(guarded, client)
    wrong = overrides(guarded, "producer", password="no-password")
    verbs = guarded_home.cluster.verbs
    with allowed(guarded, rights):
        try:
            verbs.create(name, config, None)
            guarded_home.cluster.wait_for(name, State.RUNNING, State.RUNNING, State.RUNNING)
            verbs.put_config(name, config | wrong)
            wait_until(lambda: failed(guarded_home.cluster, name), what="it to fail", timeout_s=90)
            trace = verbs.status(name).connector.trace or ""
            assert "Kafka refuses the login" in trace, trace
            assert "no-password" not in trace
            verbs.put_config(name, config)
            guarded_home.cluster.wait_for(name, State.RUNNING, State.RUNNING, State.RUNNING)
        finally:
            verbs.delete(name)


@contextmanager
def allowed(kafka: GuardedBroker, rights: Sequence[AclBinding]) -> Iterator[None]:
    kafka.set_rights(rights)
    try:
        yield
    finally:
        kafka.take_rights(rights)


def failed(cluster: ThreadCluster, name: str) -> bool:
    status = cluster.connect.herder.view.status
    parts = [
        status.connectors.get(name),
        *(s for t, s in status.tasks.items() if t.connector == name),
    ]
    return any(each is not None and each.state is State.FAILED for each in parts)


def _done(cluster: ThreadCluster, name: str, entry: OffsetEntry) -> bool:
    try:
        cluster.verbs.alter_offsets(name, [entry])
    except RequestError:
        return False
    return True
