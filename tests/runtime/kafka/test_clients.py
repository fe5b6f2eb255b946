"""Client properties in Java's names, and clusters that cannot be reached."""

import gc
import logging
import socket
import subprocess
import sys
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaError, KafkaException

from connect_runtime.kafka import clients
from connect_runtime.kafka.client_config import client_config
from connect_runtime.kafka.clients import admin, check_reachable, consumer
from connect_specs.diagnostics import Invalid, Unreachable
from support.broker import BrokerAddress, create_topic
from support.brokerless import brokerless

CLIENT_PROPERTIES = yaml.safe_load(Path(__file__).with_name("client_properties.yaml").read_text())


@pytest.mark.parametrize(("properties", "settings", "unsupported"), CLIENT_PROPERTIES)
def test_properties_are_translated_dropped_or_named(
    properties: dict[str, str], settings: dict[str, str], unsupported: list[str]
) -> None:
    translated = client_config(properties)
    assert translated.settings == settings
    assert translated.unsupported == tuple(unsupported)


def test_properties_without_effect_are_named_once_and_without_values(
    caplog: pytest.LogCaptureFixture, unique: str
) -> None:
    properties = {"group.id": "g", "bootstrap.servers": "", unique: "hunter2"}
    with caplog.at_level(logging.WARNING, "connect.kafka"):
        consumer(properties)
        consumer(properties)
    assert caplog.text.count(unique) == 1
    assert "hunter2" not in caplog.text


def test_a_value_that_does_not_fit_is_not_shown() -> None:
    with pytest.raises(Invalid) as caught:
        consumer({"group.id": "g", "security.protocol": "hunter2"})
    assert caught.value.diagnostics[0].why == (
        'Invalid value for configuration property "security.protocol"'
    )


def test_a_cluster_that_answers_has_an_id(broker: BrokerAddress) -> None:
    found = check_reachable({"bootstrap.servers": broker.bootstrap_servers})
    assert found == broker.cluster_id


# Only the garbage collector can let this client go, and it runs where the answer comes in
COLLECTED_BY_ITS_OWN_THREAD = """
import gc, logging, sys, threading
from connect_runtime.kafka.clients import admin

gc.disable()
threads, answered = [], threading.Event()

def collect(_):
    if sys.argv[2] == "logs":
        logging.getLogger("any").warning("gives the thread a name")
    threads.append(threading.get_ident())
    gc.collect()
    answered.set()

client = admin({"bootstrap.servers": sys.argv[1]})
client.describe_cluster(request_timeout=10).add_done_callback(collect)
cycle = [client]
cycle.append(cycle)
del client, cycle
assert answered.wait(20)
assert threads != [threading.get_ident()]
admin({"bootstrap.servers": sys.argv[1]})
print("alive")
"""


@pytest.mark.parametrize("thread", ["silent", "logs"])
def test_a_client_that_its_own_thread_collects_does_not_abort(
    broker: BrokerAddress, thread: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLLECTED_BY_ITS_OWN_THREAD, broker.bootstrap_servers, thread],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_a_question_about_a_topic_does_not_create_it(broker: BrokerAddress, unique: str) -> None:
    """A broker may create each topic that a client asks about, and so bring a deleted one back."""
    client = admin({"bootstrap.servers": broker.bootstrap_servers})
    for turn in range(3):
        asked = client.list_topics(unique, timeout=10).topics[unique]
        assert asked.error is not None
        # the broker creates topics in this order
        create_topic(broker.bootstrap_servers, f"{unique}-{turn}")
    assert unique not in client.list_topics(timeout=10).topics


def test_admin_clients_are_shared_while_they_are_used() -> None:
    """Each would log in by itself."""
    given = {"bootstrap.servers": "127.0.0.1:1"}
    first = admin(given)
    assert admin(dict(given)) is first
    assert admin(given, {}) is not first
    assert admin(given | {"client.id": "another"}) is not first
    used = weakref.ref(first)
    del first
    gc.collect()
    assert used() is None


def test_an_admin_client_that_is_being_destroyed_is_not_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who got it could not keep its own threads from destroying it: Python finalizes it once."""
    given = {"bootstrap.servers": "127.0.0.1:1"}
    asked: list[Any] = []

    def asks_meanwhile(ident: int) -> bool:
        asked.append(admin(given))
        return True

    client = admin(given)
    monkeypatch.setattr(clients, "_is_pythons", asks_meanwhile)
    del client
    monkeypatch.undo()
    (found,) = asked
    assert not gc.is_finalized(found)


def test_a_forked_process_shares_none() -> None:
    """A client's threads do not outlive a fork, nor does a thread that was just asking for one.

    Not with real clients: glibc's own lock of name lookups may be held at a fork, too.
    """
    code = """
import os, threading
from connect_runtime.kafka import clients

class Client:
    over = False

clients._new_admin = lambda *_: Client()
held, done = threading.Event(), threading.Event()

def asking():
    with clients._admins_lock:
        held.set()
        done.wait()

client = clients.admin({})
thread = threading.Thread(target=asking)
thread.start()
held.wait()
pid = os.fork()
if not pid:
    os._exit(clients.admin({}) is client)
done.set()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0\n", done.stderr


def test_a_refused_connection_is_told_with_address_and_reason(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(Unreachable) as caught:
            check_reachable({"bootstrap.servers": address}, timeout_s=1)
    assert time.monotonic() - began < 8
    (told,) = caught.value.diagnostics
    assert told.where == address
    assert told.why.endswith("Connection refused")
    assert capfd.readouterr() == ("", "")


def test_a_peer_that_stays_silent_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable) as caught:
            check_reachable({"bootstrap.servers": address}, timeout_s=1)
    assert caught.value.diagnostics[0].why == "it does not answer"


def test_who_waits_for_kafka_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python handles no signal during a request."""
    now, waits = [0.0], []

    class Silent:
        def list_topics(self, timeout: float) -> None:
            now[0] += timeout
            waits.append(timeout)
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

        def poll(self, timeout: float) -> None:
            now[0] += timeout

    monkeypatch.setattr(clients, "admin", lambda *_: Silent())
    monkeypatch.setattr(clients, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with pytest.raises(Unreachable):
        check_reachable({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=60)
    assert max(waits) <= 5


def test_an_answer_that_names_no_broker_ends_no_process() -> None:
    """Kafka's answer for a moment after its brokers were frozen."""
    code = """
import sys
from connect_runtime.kafka import clients
from connect_specs.diagnostics import Invalid, Unreachable
given = {"bootstrap.servers": sys.argv[1]}
clients._answers(given)
try:
    clients.check_reachable(given, 1)
except Unreachable:
    print("went on")
"""
    with brokerless() as address:
        asked = subprocess.run(
            [sys.executable, "-c", code, address],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (asked.returncode, asked.stdout) == (0, "went on\n"), asked.stderr


def test_no_address_is_said_at_once() -> None:
    with pytest.raises(Unreachable, match=r"bootstrap\.servers is not set"):
        check_reachable({})


def test_a_login_module_without_counterpart_is_named() -> None:
    with pytest.raises(Invalid) as caught:
        check_reachable(
            {
                "bootstrap.servers": "k:1",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "com.example.OwnLoginModule required password=hunter2;",
            }
        )
    (problem,) = caught.value.diagnostics
    assert (problem.code, problem.where) == ("kafka.properties", "k:1")
    assert "sasl.jaas.config" in problem.hint
    assert "hunter2" not in repr(problem)


def test_a_refused_login_is_told_apart_and_at_once(broker: BrokerAddress) -> None:
    began = time.monotonic()
    with pytest.raises(Unreachable) as caught:
        check_reachable(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
                'required username="u" password="hunter2";',
            },
            timeout_s=60,
        )
    assert time.monotonic() - began < 30
    assert caught.value.diagnostics[0].code == "kafka.authentication"
    assert "hunter2" not in repr(caught.value)


def test_a_client_that_gets_no_threads_is_no_error_of_its_properties(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is INVALID is never tried again."""

    def none_left(*_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE))

    monkeypatch.setattr(clients, "Consumer", none_left)
    with pytest.raises(Unreachable, match="No Kafka client can start here"):
        consumer({"bootstrap.servers": "a:1", "group.id": "g"})
