"""No secret of a config reaches a trace."""

from __future__ import annotations

import pytest

from connect_runtime.api import ConfigDef, ConfigType
from connect_runtime.plugins import registry
from connect_runtime.tasks.task_setup import TaskSetup
from support.task_setups import task_launch, task_setup

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"my.password": "s3cret"}, "login s3cret refused"),
        ({"aws.secret.access.key": "s3cret"}, "key 's3cret'"),
        ({"ssl.key": "s3cret"}, "s3cret"),
        ({"sasl.jaas.config": f'{JAAS} username="me" password="s3cret";'}, "bad login: s3cret"),
        ({"sasl.jaas.config": f"{JAAS} username=me password=s3cret;"}, "bad login: s3cret"),
        ({"connection.url": "jdbc:postgresql://me:s3cret@db/x"}, "cannot log in with s3cret"),
        ({"connection.url": "jdbc:sqlserver://db;user=me;password=s3cret;x=1"}, "not s3cret"),
        ({"one.password": "s3cret", "two.password": "s3cret-and-more"}, "s3cret-and-more"),
        ({"pem.password": "BEGIN\ns3cret\nEND"}, "read 'BEGIN\\ns3cret\\nEND'"),
    ],
)
def test_secrets_by_their_keys_and_within_values(config: dict[str, str], text: str) -> None:
    found = task_setup(config=config).trace(ValueError(text))
    assert "s3cret" not in found
    assert "more" not in found
    assert "[hidden]" in found


def test_values_without_secrets_are_shown() -> None:
    config = {"password.enabled": "true", "file": "/data/in.txt", "secret.id": "ab"}
    text = "true: ab is not in /data/in.txt"
    assert task_setup(config=config).trace(ValueError(text)) == f"ValueError: {text}"


def test_secrets_by_their_type(monkeypatch: pytest.MonkeyPatch) -> None:
    class Connector:
        def config(self) -> ConfigDef:
            return _phrase()

    class Found:
        class_name = "Any"
        cls = Connector
        java = False

    monkeypatch.setattr(registry, "connector", lambda name: Found)
    config = {"connector.class": "Any", "phrase": "open sesame"}
    assert "sesame" not in task_setup(config=config).trace(ValueError("open sesame"))


def test_a_plugin_that_cannot_be_asked_is_no_obstacle() -> None:
    config = {"connector.class": "no.such.Connector", "x.password": "s3cret"}
    trace = task_setup(config=config).trace(ValueError("it was s3cret"))
    assert trace == "ValueError: it was [hidden]"


def test_the_workers_secrets() -> None:
    worker = {"producer.sasl.jaas.config": f'{JAAS} password="s3cret";'}
    assert "s3cret" not in task_setup(worker=worker).trace(ValueError("s3cret"))


def _phrase() -> ConfigDef:
    definition = ConfigDef()
    definition.define("phrase", ConfigType.PASSWORD, None)
    return definition


def test_values_of_config_providers() -> None:
    setup = TaskSetup(task_launch(), {"s3cret"})
    assert "s3cret" not in setup.trace(ValueError("s3cret"))
    assert "s3cret" not in repr(setup)
