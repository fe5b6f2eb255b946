"""Connectors with references on a real broker: resolved where they are used, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect_runtime.herder.verbs import RequestError
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry
from support import config_providers
from support.broker import BrokerAddress, read_to_end
from support.config_providers import NAME, VaultProvider
from support.connectors import SOURCE
from support.leaky import LEAKY, LeakySource, LeakySourceTask
from support.thread_cluster import STRING, ThreadCluster, thread_cluster
from support.wait import wait_until

PASSWORD, ROTATED = "s3cret-p4ss", "r0tated-p4ss"


@dataclass(frozen=True, slots=True)
class Secrets:
    """A cluster whose workers have the providers file and vault."""

    cluster: ThreadCluster
    file: Path
    bootstrap_servers: str
    group_id: str

    def create(self, name: str, **more: str) -> None:
        config = {
            "name": name,
            "connector.class": LEAKY,
            "topic": f"{self.group_id}-{name}",
            "last": "2",
            # a name that says nothing about its value
            "pass.word": f"${{file:{self.file}:password}}",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        self.cluster.verbs.create(name, config, None)

    def everything(self) -> str:
        """All that was ever written to the cluster's topics, and all launches."""
        view = self.cluster.connect.herder
        topics = view._topics
        texts = [repr(launch) for launch in self.cluster.launcher.launches]
        for topic in (topics.config, topics.offsets, topics.status, topics.assignments):
            found = read_to_end(self.bootstrap_servers, topic)
            texts += [(message.value() or b"").decode() for message in found]
        return "\n".join(texts)


@pytest.fixture
def secrets(
    broker: BrokerAddress, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Secrets]:
    config_providers.install(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    config_providers.reset()
    file = tmp_path / "db.properties"
    file.write_text(f"password={PASSWORD}\n")
    settings = {
        "config.providers": "file,vault",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path),
        "config.providers.vault.class": NAME,
    }
    with thread_cluster(broker.bootstrap_servers, unique, settings) as cluster:
        yield Secrets(cluster, file, broker.bootstrap_servers, unique)


def _started(name: str) -> list[str]:
    return [each["pass.word"] for each in LeakySource.started if each["name"] == name]


def _tasks_started(name: str) -> list[str]:
    return [each["pass.word"] for each in LeakySourceTask.started if each["name"] == name]


def test_a_password_reaches_the_connector_and_its_task_and_no_topic(
    secrets: Secrets, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    secrets.create(unique, dsn="plain")
    secrets.cluster.wait_for(unique, State.RUNNING, State.RUNNING)
    assert _started(unique) == _tasks_started(unique) == [PASSWORD]
    reference = f"${{file:{secrets.file}:password}}"
    (task,) = secrets.cluster.verbs.tasks(unique)
    assert task.config["pass.word"] == reference
    assert secrets.cluster.verbs.config(unique)["pass.word"] == reference
    secrets.cluster.stop_connector(unique)
    assert reference in secrets.everything()
    assert PASSWORD not in secrets.everything()
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize("leak", ["start", "task", "exit", "stop"])
def test_no_trace_quotes_a_resolved_value(
    secrets: Secrets, unique: str, leak: str, caplog: pytest.LogCaptureFixture
) -> None:
    secrets.create(unique, leak=leak)
    match leak:
        case "start":
            secrets.cluster.wait_for(unique, State.FAILED)
            trace = secrets.cluster.verbs.status(unique).connector.trace
        case "task" | "exit":
            secrets.cluster.wait_for(unique, State.RUNNING, State.FAILED)
            trace = secrets.cluster.verbs.status(unique).tasks[0].trace
        case _:
            secrets.cluster.wait_for(unique, State.RUNNING, State.RUNNING)
            secrets.cluster.stop_connector(unique)
            wait_until(lambda: "refused" in caplog.text, what="the log to say so")
            trace = caplog.text
    assert f"login of {unique} with '[hidden]' refused" in (trace or "")
    assert PASSWORD not in secrets.everything()
    assert PASSWORD not in caplog.text


def test_a_missing_key_fails_the_connector_and_names_it(secrets: Secrets, unique: str) -> None:
    secrets.create(unique, pass_word=f"${{file:{secrets.file}:pasword}}")
    secrets.cluster.wait_for(unique, State.FAILED)
    trace = secrets.cluster.verbs.status(unique).connector.trace or ""
    assert "in pass.word cannot be resolved: the config provider file has no pasword at" in trace
    assert _started(unique) == []
    secrets.file.write_text(f"pasword={PASSWORD}\n")
    secrets.cluster.verbs.restart(unique)
    secrets.cluster.wait_for(unique, State.RUNNING, State.RUNNING)


def test_a_file_that_the_task_cannot_read_fails_the_task(secrets: Secrets, unique: str) -> None:
    secrets.create(unique)
    secrets.cluster.wait_for(unique, State.RUNNING, State.RUNNING)
    secrets.file.unlink()
    secrets.cluster.verbs.restart_task(unique, 0)
    secrets.cluster.wait_for(unique, State.RUNNING, State.FAILED)
    trace = secrets.cluster.verbs.status(unique).tasks[0].trace or ""
    assert f"Could not read properties from file {secrets.file}: No such file" in trace


def test_a_rotated_password_reaches_tasks_when_the_connector_restarts(
    secrets: Secrets, unique: str
) -> None:
    secrets.create(unique)
    secrets.cluster.wait_for(unique, State.RUNNING, State.RUNNING)
    secrets.cluster.verbs.restart(unique)
    wait_until(lambda: len(_started(unique)) == 2, what="the connector to restart")
    secrets.file.write_text(f"password={ROTATED}\n")
    secrets.cluster.verbs.restart(unique)
    wait_until(lambda: ROTATED in _tasks_started(unique), what="the task to get the new password")
    # the restart that changed nothing left the task alone
    assert _tasks_started(unique) == [PASSWORD, ROTATED]
    assert ROTATED not in secrets.everything()


@pytest.mark.parametrize("action", ["restart", "none"])
def test_a_value_that_expires_restarts_the_connector_and_changed_tasks(
    secrets: Secrets, unique: str, action: str
) -> None:
    VaultProvider.secrets["db", "password"] = PASSWORD
    VaultProvider.ttl_ms = 1000
    secrets.create(unique, pass_word="${vault:db:password}", config_action_reload=action)
    secrets.cluster.wait_for(unique, State.RUNNING, State.RUNNING)
    if action == "none":
        # another connector's reload shows that the time has passed
        secrets.create(f"{unique}-2", pass_word="${vault:db:password}")
        wait_until(lambda: len(_started(f"{unique}-2")) >= 2, what="the other one to restart")
        assert _started(unique) == [PASSWORD]
        return
    wait_until(lambda: len(_started(unique)) >= 2, what="the connector to restart")
    assert _tasks_started(unique) == [PASSWORD]
    VaultProvider.secrets["db", "password"] = ROTATED
    wait_until(lambda: ROTATED in _tasks_started(unique), what="the task to get the new password")
    assert _tasks_started(unique) == [PASSWORD, ROTATED]
    assert PASSWORD not in secrets.everything()
    assert ROTATED not in secrets.everything()


def test_a_failed_connector_is_started_again_when_its_value_expires(
    secrets: Secrets, unique: str
) -> None:
    VaultProvider.secrets["db", "leak"] = "start"
    VaultProvider.secrets["db", "password"] = PASSWORD
    VaultProvider.ttl_ms = 1000
    secrets.create(unique, pass_word="${vault:db:password}", leak="${vault:db:leak}")
    secrets.cluster.wait_for(unique, State.FAILED)
    VaultProvider.secrets["db", "leak"] = "nowhere"
    secrets.cluster.wait_for(unique, State.RUNNING, State.RUNNING)


@pytest.mark.parametrize(
    ("leak", "answer"),
    [
        ("nowhere", "The offsets for this connector have been altered successfully"),
        ("refuse", "login of {} with '[hidden]' refused"),
        ("throw", "Failed to modify offsets for source connector {}"),
    ],
)
def test_alter_offsets_gets_resolved_values_and_tells_none(
    secrets: Secrets, unique: str, leak: str, answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    secrets.create(unique, leak=leak)
    secrets.cluster.wait_for(unique, State.RUNNING, State.RUNNING)
    secrets.cluster.stop_connector(unique)
    entries = [OffsetEntry({"table": "t0", "schema": "s"}, {"position": 1})]
    try:
        found = secrets.cluster.verbs.alter_offsets(unique, entries)
    except RequestError as error:
        found = error.message
    assert found == answer.format(unique)
    assert PASSWORD not in caplog.text
    if leak == "nowhere":
        secrets.file.unlink()
        with pytest.raises(RequestError, match=r"in pass\.word cannot be resolved"):
            secrets.cluster.verbs.alter_offsets(unique, entries)
        # reading offsets needs no password
        assert len(secrets.cluster.verbs.offsets(unique)) == 1


def test_worker_properties_client_overrides_and_converters_may_hold_references(
    broker: BrokerAddress, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_TEST_KAFKA", broker.bootstrap_servers)
    monkeypatch.setenv("CONNECT_TEST_CONVERTER", STRING)
    monkeypatch.setenv("CONNECT_TEST_ZIP", "gzip")
    settings = {
        "bootstrap.servers": "${env:CONNECT_TEST_KAFKA}",
        "value.converter": "${env:CONNECT_TEST_CONVERTER}",
        "config.providers": "env",
        "config.providers.env.class": "EnvVarConfigProvider",
    }
    with thread_cluster(broker.bootstrap_servers, unique, settings) as cluster:
        config = {
            "name": unique,
            "connector.class": SOURCE,
            "topic": f"{unique}-data",
            "last": "2",
            "key.converter": "${env:CONNECT_TEST_CONVERTER}",
            "producer.override.compression.type": "${env:CONNECT_TEST_ZIP}",
        }
        cluster.verbs.create(unique, config, None)
        cluster.wait_for(unique, State.RUNNING, State.RUNNING)
        wait_until(
            lambda: len(read_to_end(broker.bootstrap_servers, f"{unique}-data")) == 2,
            what="the records",
        )
        (launch,) = cluster.launcher.launches
        assert launch.worker["bootstrap.servers"] == "${env:CONNECT_TEST_KAFKA}"
