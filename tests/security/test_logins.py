"""Logins as users write them, under Java's names: a broker lets them in, or is said to refuse."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from connect_runtime.kafka.clients import check_reachable
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage.log import InternalTopic, NewRecord
from connect_specs.diagnostics import Invalid, Unreachable
from support.certificates import java_store
from support.command import Command
from support.guarded_broker import GuardedBroker

WRONG = "hunter2-wrong"


@pytest.fixture(scope="module")
def trust(guarded: GuardedBroker) -> dict[str, str]:
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(guarded.authority.own.certificate),
    }


@pytest.fixture(scope="module")
def sealed(guarded: GuardedBroker, trust: dict[str, str]) -> dict[str, str]:
    """Client properties of a user who comes by SCRAM and TLS."""
    guarded.let_in("sealed")
    return guarded.sealed("sealed") | trust


def cluster_id(guarded: GuardedBroker) -> str:
    return check_reachable(guarded.open)


def test_plain(guarded: GuardedBroker) -> None:
    assert check_reachable(guarded.client("planner")) == cluster_id(guarded)


def test_scram_over_tls_also_for_records(
    guarded: GuardedBroker, sealed: dict[str, str], unique: str
) -> None:
    for operation in ("READ", "WRITE", "CREATE"):
        guarded.allow("sealed", "TOPIC", unique, operation)
    guarded.allow("sealed", "TRANSACTIONAL_ID", unique, "WRITE")
    logs = KafkaLogs(sealed)
    logs.ensure_compacted(InternalTopic(unique, 1, "a test"))
    logs.writer(unique).write([NewRecord(unique, b"key", b"value")])
    read = logs.reader(unique).read_to_end(10)
    logs.close()
    assert [(record.key, record.value) for record in read] == [(b"key", b"value")]


def test_an_authority_in_the_properties_themselves(
    guarded: GuardedBroker, sealed: dict[str, str]
) -> None:
    given = {key: value for key, value in sealed.items() if key != "ssl.truststore.location"}
    given["ssl.truststore.certificates"] = guarded.authority.own.certificate.read_text()
    assert check_reachable(given) == cluster_id(guarded)


def test_a_clients_certificate(
    guarded: GuardedBroker, trust: dict[str, str], tmp_path: Path
) -> None:
    own = guarded.authority.sign("client")
    both = tmp_path / "client.pem"
    both.write_text(own.key.read_text() + own.certificate.read_text())
    in_a_file = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
    in_texts = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": own.key.read_text(),
        "ssl.keystore.certificate.chain": own.certificate.read_text(),
    }
    for given in (in_a_file, in_texts):
        assert check_reachable(guarded.mutual() | trust | given) == cluster_id(guarded)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_stores_of_java(guarded: GuardedBroker, tmp_path: Path, kind: str) -> None:
    own = guarded.authority.sign("java-client")
    trusted = (guarded.authority.own.certificate,)
    trust = java_store(tmp_path / "trust", kind, trusted=trusted, password=WRONG)
    keys = java_store(tmp_path / "keys", kind, own=own, password=WRONG)
    stores = {
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": WRONG,
        "ssl.keystore.location": str(keys),
        "ssl.keystore.password": WRONG,
    }
    assert check_reachable(guarded.mutual() | stores) == cluster_id(guarded)


@pytest.mark.parametrize("kind", ["plain", "scram"])
def test_a_wrong_password_is_said_at_once_and_not_shown(
    guarded: GuardedBroker, sealed: dict[str, str], kind: str
) -> None:
    plain = guarded.client("planner", WRONG)
    wrong = plain if kind == "plain" else sealed | guarded.sealed("sealed", WRONG)
    began = time.monotonic()
    with pytest.raises(Unreachable) as refused:
        check_reachable(wrong, timeout_s=60)
    assert time.monotonic() - began < 30
    (found,) = refused.value.diagnostics
    assert (found.code, found.what) == ("kafka.authentication", "Kafka refuses the login")
    assert WRONG not in repr(found)


def test_a_broker_that_is_not_trusted_is_said_with_the_properties_to_look_at(
    guarded: GuardedBroker,
) -> None:
    with pytest.raises(Unreachable) as refused:
        check_reachable(guarded.sealed("sealed") | {"ssl.cipher.suites": "x"}, timeout_s=1)
    (found,) = refused.value.diagnostics
    assert "certificate verify failed" in found.why
    assert "ssl.truststore.location" in found.hint
    assert "ssl.ca.location" not in found.why
    assert "These have no effect: ssl.cipher.suites." in found.hint


def test_a_store_that_cannot_be_read_is_said_before_anything_is_asked(
    guarded: GuardedBroker,
) -> None:
    with pytest.raises(Invalid) as refused:
        check_reachable(guarded.sealed("sealed") | {"ssl.truststore.location": "/none/ca.jks"})
    (found,) = refused.value.diagnostics
    assert found.where == "ssl.truststore.location"
    assert "/none/ca.jks cannot be read: No such file" in found.what


def test_no_verb_shows_a_login(guarded: GuardedBroker, tmp_path: Path) -> None:
    connect = Command(tmp_path)
    client = guarded.client("planner", WRONG)
    project = {"project": "p", "cluster": {"group.id": "nobodys", "kafka": client}}
    connect.write("connect.yaml", json.dumps(project))
    connect.write("connectors/a.yaml", "name: a\nconfig: {connector.class: FileStreamSource}\n")
    for verb in (["plan", "--json"], ["drift"], ["apply", "--yes"]):
        done = connect(*verb)
        assert done.returncode == 3, done
        assert "Kafka refuses the login" in done.stderr
        assert WRONG not in done.stdout + done.stderr
        assert "jaas" not in (done.stdout + done.stderr).replace("sasl.jaas.config.", "")


def test_a_password_comes_from_the_environment(
    guarded: GuardedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = Command(tmp_path)
    client = guarded.client("nobody", "${env:KAFKA_PASSWORD}")
    project = {"project": "p", "cluster": {"group.id": "nobodys", "kafka": client}}
    connect.write("connect.yaml", json.dumps(project))
    connect.write("connectors/a.yaml", "name: a\nconfig: {connector.class: FileStreamSource}\n")
    monkeypatch.setenv("KAFKA_PASSWORD", WRONG)
    assert "Kafka refuses the login" in connect("plan").stderr
    monkeypatch.setenv("KAFKA_PASSWORD", "of-a-test")
    assert "nobodys-configs" in connect("plan").stderr
    monkeypatch.delenv("KAFKA_PASSWORD")
    assert connect("plan").returncode == 2
