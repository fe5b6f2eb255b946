"""Configs of Java connectors on a real worker and on ours: values of config providers, which expire
or are secret, and classes of several plugins in one config."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from connect_runtime.engine.jvm import running_jvms
from connect_runtime.metrics.jvm_metrics import samples_of
from connect_runtime.validation.validate import validate
from oracle.java_sides import (
    START_S,
    OurSide,
    Side,
    TheirSide,
    lines,
    our_side,
    reach,
    records,
    their_side,
    wait_for_line,
)
from support import config_providers
from support.broker import BrokerAddress, create_topic, produce, read_to_end
from support.config_providers import NAME, VaultProvider
from support.connect_jars import add_plugin
from support.guarded_broker import GuardedBroker
from support.java_plugins import SOURCE, add_compiled
from support.thread_cluster import STRING
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.long]

PROVIDER = "org.apache.kafka.common.config.provider.ConfigProvider"
CONVERTER = "org.apache.kafka.connect.storage.Converter"
PREDICATE = "org.apache.kafka.connect.transforms.predicates.Predicate"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
TRANSFORMS = "org.apache.kafka.connect.transforms"
SECRET = "open-sesame-77"
VARIABLE = "CONNECT_TEST_SECRET"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    folder = tmp_path_factory.mktemp("differing") / "plugins"
    services = {
        SOURCE: "tests.Differing",
        PROVIDER: "tests.Differing$Files3s",
        CONVERTER: "tests.Differing$Prefixed",
        PREDICATE: "tests.Differing$Even",
    }
    add_compiled("Differing", services, folder)
    for name in ("strimzi-env", "debezium-postgres", "mirror"):
        add_plugin(name, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, SECRET)
        yield {
            "plugin.path": str(folder),
            "key.converter": STRING,
            "value.converter": STRING,
            "config.providers": "expiring,env",
            "config.providers.expiring.class": "tests.Differing$Files3s",
            "config.providers.env.class": "io.strimzi.kafka.EnvVarConfigProvider",
        }


@pytest.fixture(scope="module")
def theirs(
    broker: BrokerAddress, settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TheirSide]:
    folder = tmp_path_factory.mktemp("their-configs")
    with their_side(broker, folder, settings, exactly_once=True) as side:
        yield side


@pytest.fixture(scope="module")
def ours(
    broker: BrokerAddress, settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OurSide]:
    """Also with a provider in Python, whose value only the worker's file uses."""
    folder = tmp_path_factory.mktemp("our-configs")
    config_providers.install(folder / "installed")
    further = {
        "config.providers": "expiring,env,vault",
        "config.providers.vault.class": NAME,
        "value.converter": "tests.Differing$Prefixed",
        "value.converter.prefix": "${vault:path:prefix}",
    }
    VaultProvider.secrets["path", "prefix"] = f"{SECRET}-of-the-vault "
    sys.path.insert(0, str(folder / "installed"))
    try:
        with our_side(broker, folder.name, {**settings, **further}) as side:
            yield side
    finally:
        sys.path.remove(str(folder / "installed"))
        config_providers.reset()


def config(side: Side, unique: str, folder: Path, **more: str) -> dict[str, str]:
    name = f"{side.letter}-{unique}"
    return {
        "name": name,
        "connector.class": "tests.Differing",
        "tasks.max": "1",
        "topic": name,
        "reports": str(folder / side.letter),
        "value.converter": STRING,
        **more,
    }


@pytest.mark.parametrize("reload", ["restart", "none"])
def test_a_connector_starts_again_when_a_value_expires_as_by_apaches_worker(
    theirs: TheirSide, ours: OurSide, tmp_path: Path, unique: str, reload: str
) -> None:
    """And its task, if the value has changed."""
    secret = tmp_path / "secret"
    for side in (theirs, ours):
        secret.write_text("first")
        given = config(
            side,
            unique,
            tmp_path,
            value=f"${{expiring:{secret}:any}}",
            **{"config.action.reload": reload},
        )
        reports = Path(given["reports"])
        side.put(given)
        reach(side, given["name"], "RR")
        if reload == "restart":
            wait_for_line(reports, "connector starts with first", 3)
            assert lines(reports).count("task starts with first") == 1
            secret.write_text("second")
            wait_for_line(reports, "task starts with second")
            assert "connector starts with second" in lines(reports)
        else:
            # longer than the value lasts, as the other case's starts show
            records(side, given["topic"], 3)
            before = lines(reports)
            secret.write_text("second")
            other = config(side, f"{unique}-other", tmp_path, value=given["value"])
            other["reports"] += "-other"
            side.put(other)
            wait_for_line(Path(other["reports"]), "connector starts with second", 3)
            assert lines(reports) == before
            side.delete(other["name"])
        side.delete(given["name"])


def test_classes_of_several_plugins_make_the_same_records_as_by_apaches_worker(
    theirs: TheirSide, ours: OurSide, tmp_path: Path, unique: str
) -> None:
    """A header converter and a transformation of Debezium's, a predicate and a converter of
    another plugin."""
    more = {
        "mode": "texts",
        "last": "4",
        "header.converter": "io.debezium.converters.BinaryDataConverter",
        "header.converter.delegate.converter.type": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter": "tests.Differing$Prefixed",
        "key.converter.prefix": "key ",
        "value.converter": "Prefixed",
        "value.converter.prefix": "value ",
        "transforms": "unwrap,mark",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.mark.type": f"{TRANSFORMS}.InsertHeader",
        "transforms.mark.header": "even",
        "transforms.mark.value.literal": "yes",
        "transforms.mark.predicate": "even",
        "predicates": "even",
        "predicates.even.type": "tests.Differing$Even",
    }
    for side in (theirs, ours):
        side.put(config(side, unique, tmp_path, **more))
    their, of_ours = (records(s, f"{s.letter}-{unique}", 4) for s in (theirs, ours))
    assert of_ours == their
    assert [value for _, value, _ in their] == [f"value text {n}".encode() for n in range(1, 5)]
    for side in (theirs, ours):
        side.delete(f"{side.letter}-{unique}")


def test_a_value_of_a_python_provider_in_the_workers_file_reaches_the_jvms(
    ours: OurSide, tmp_path: Path, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = config(ours, unique, tmp_path, mode="texts")
    del given["value.converter"]
    with caplog.at_level(logging.INFO):
        ours.put(given)
        values = [value for _, value, _ in records(ours, given["topic"], 3)]
    assert values == [f"{SECRET}-of-the-vault text {n}".encode() for n in range(1, 4)]
    # the converter has logged it
    assert "the prefix is [hidden]" in caplog.text
    assert SECRET not in caplog.text
    ours.delete(given["name"])


def test_a_source_whose_producer_writes_elsewhere_has_its_offsets_there(
    ours: OurSide, guarded: GuardedBroker, tmp_path: Path, unique: str
) -> None:
    """All its clients follow the producer's bootstrap.servers, so it continues."""
    elsewhere = guarded.open["bootstrap.servers"]
    more = {"mode": "texts", "producer.override.bootstrap.servers": elsewhere}
    given = config(ours, unique, tmp_path, **more)
    name = given["name"]
    create_topic(elsewhere, name)
    ours.put(given)
    sent = {"partition": {"topic": name}, "offset": {"sent": 3}}
    wait_until(lambda: ours.offsets(name) == [sent], what="its offset", timeout_s=START_S)
    assert len(read_to_end(elsewhere, name)) == 3
    assert len(read_to_end(elsewhere, f"{ours.group}-offsets")) >= 1
    ours.stop(name)
    reach(ours, name, "S")
    assert ours.offsets(name) == [sent]
    ours.delete(name)


def test_numbers_of_mirror_maker_are_on_the_page(ours: OurSide, unique: str) -> None:
    """Its own MBeans, with connector and task."""
    create_topic(ours.kafka, unique)
    produce(ours.kafka, unique, [(None, b"a"), (None, b"b")])
    name = f"mirror-{unique}"
    given = {"name": name, "connector.class": "MirrorSourceConnector", "tasks.max": "1"}
    given |= {"topics": unique, "source.cluster.alias": "there", "target.cluster.alias": "here"}
    for cluster in ("source", "target"):
        given[f"{cluster}.cluster.bootstrap.servers"] = ours.kafka
    given |= {"replication.factor": "1", "offset-syncs.topic.replication.factor": "1"}
    given |= {"key.converter": BYTES, "value.converter": BYTES}
    ours.put(given)
    assert [value for _, value, _ in records(ours, f"there.{unique}", 2)] == [b"a", b"b"]

    def numbers() -> dict[str, float]:
        return {
            metric.removeprefix("kafka_connect_mirror_mirrorsourceconnector_"): value
            for metric, labels, value in samples_of(running_jvms())
            if metric.startswith("kafka_connect_mirror_") and labels["connector"] == name
            if (labels["task"], labels["topic"]) == ("0", f"there.{unique}")
        }

    found = wait_until(numbers, what="its numbers", timeout_s=START_S)
    assert found["record_count"] == 2
    assert found["replication_latency_ms_max"] >= 0
    ours.delete(name)


@pytest.mark.parametrize("mode", ["connector throws", "task throws", ""])
def test_a_secret_of_the_environment_appears_nowhere(
    ours: OurSide,
    tmp_path: Path,
    unique: str,
    mode: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is thrown from `start`, and logged there: by Strimzi's provider, in a key that no name
    marks as a password."""
    create_topic(ours.kafka, f"o-{unique}")
    given = config(ours, unique, tmp_path, mode=mode, value=f"${{env:{VARIABLE}}}")
    name = given["name"]
    with caplog.at_level(logging.INFO):
        ours.put(given)
        letters = {"connector throws": "F", "task throws": "RF"}.get(mode, "RR")
        seen = reach(ours, name, letters)
    assert f"connector starts with {SECRET}" in lines(Path(given["reports"]))
    if mode:
        assert "Cannot use" in "".join(seen.traces)
    assert "connector starts with [hidden]" in caplog.text
    wrong = {**given, "tasks.max": given["value"], "header.converter": given["value"]}
    verbs = ours.worker.verbs
    texts = [caplog.text, str(seen), str(verbs.info(name)), str(verbs.tasks(name))]
    infos = validate(wrong, ours.config)
    assert infos.error_count == 2
    texts.append(str(infos))
    for kind in ("configs", "status", "offsets"):
        messages = read_to_end(ours.kafka, f"{ours.group}-{kind}")
        texts += [str((message.key(), message.value())) for message in messages]
    assert not [text for text in texts if SECRET in text]
    ours.delete(name)
