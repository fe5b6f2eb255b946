"""What Java plugins make of single records, in a JVM: as a real task does, and as our own classes
do with the same config."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.model.live import Kind
from connect_reconciler.testing.inputs import message_of, source_record_of
from connect_reconciler.testing.java_pipeline import JavaPipeline
from connect_reconciler.testing.outcomes import DeliveredRecord, FailedRecord, RecordRun
from connect_reconciler.testing.subjects import Subject, prepared
from connect_runtime.engine import java_chains
from connect_runtime.engine.catalog import JavaCatalog, use_catalog
from connect_runtime.engine.java_chains import JavaChains
from connect_runtime.plugins import registry
from connect_specs.diagnostics import Invalid, Location
from connect_specs.record_tests import RecordInput
from connect_specs.secrets import Redactor
from support.broker import BrokerAddress, create_topic, read_to_end
from support.java_plugins import make_jar
from support.thread_cluster import thread_cluster
from support.wait import wait_until

PLUGINS = Path(__file__).parents[2] / "runtime" / "engine" / "plugins"
API = "org.apache.kafka.connect"
SERVICES = {
    f"{API}.transforms.Transformation": "tests.Marking",
    f"{API}.transforms.predicates.Predicate": "tests.Marking$Lengthy",
    f"{API}.storage.Converter": "tests.Marking$Capitals",
}
JSON = f"{API}.json.JsonConverter"
STRING = f"{API}.storage.StringConverter"
SIMPLE = f"{API}.storage.SimpleHeaderConverter"
PLAIN = {
    "key.converter": STRING,
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
MARK = {
    "transforms": "mark",
    "transforms.mark.type": "tests.Marking",
    "transforms.mark.mark": "secret-mark-7",
}
WHERE = Location("orders.yaml", 1, 1)
# Configs and records of which our own classes make the same
ALIKE: Mapping[str, tuple[Kind, Mapping[str, str], list[dict[str, Any]]]] = {
    "a sink's cast": (
        "sink",
        {
            "transforms": "cast",
            "transforms.cast.type": f"{API}.transforms.Cast$Value",
            "transforms.cast.spec": "amount:float64",
        },
        [
            {"key": "1", "value": {"amount": "2.50"}, "headers": (("trace", "7"), ("no", None))},
            {"value": {"amount": "ten"}},
            {"value": None, "timestamp": 1_700_000_000_000},
            {"value": "base64:/w=="},
        ],
    ),
    "a sink's schemas": (
        "sink",
        {"value.converter": JSON, "value.converter.schemas.enable": "true"},
        [
            {"value": {"schema": {"type": "int32", "optional": True}, "payload": 7}},
            {"value": {"schema": {"type": "float"}, "payload": 0.1}},
            {
                "value": {
                    "schema": {
                        "type": "bytes",
                        "name": f"{API}.data.Decimal",
                        "version": 1,
                        "parameters": {"scale": "2"},
                    },
                    "payload": "AN4=",
                }
            },
            {
                "value": {
                    "schema": {"type": "int64", "name": f"{API}.data.Timestamp", "version": 1},
                    "payload": 1_700_000_000_123,
                }
            },
            {"value": {"payload": 7}},
        ],
    ),
    "a source's route, and a filter": (
        "source",
        {
            "transforms": "drop,route",
            "transforms.drop.type": f"{API}.transforms.Filter",
            "transforms.drop.predicate": "tombstone",
            "predicates": "tombstone",
            "predicates.tombstone.type": f"{API}.transforms.predicates.RecordIsTombstone",
            "transforms.route.type": f"{API}.transforms.RegexRouter",
            "transforms.route.regex": ".*",
            "transforms.route.replacement": "eu-$0",
        },
        [
            {"key": "1", "value": {"a": [1, 2.5, None, True], "b": "é"}, "headers": (("n", 5),)},
            {"value": None},
            {"key": "k", "key_schema": "string", "value": 9_007_199_254_740_993},
            {"value": 7, "value_schema": "int32", "timestamp": 12, "partition": 3},
            {"value": "/wE=", "value_schema": "bytes"},
            {"key": 3, "value": 1},
        ],
    ),
}


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, built = tmp_path_factory.mktemp("plugins"), tmp_path_factory.mktemp("built")
    services = {
        "Marking": SERVICES,
        "Counting": {f"{API}.source.SourceConnector": "tests.Counting"},
    }
    for name, offered in services.items():
        jar = built / f"{name}.jar"
        make_jar(PLUGINS / f"{name}.java", offered, jar)
        (folder / name).mkdir()
        jar.rename(folder / name / jar.name)
    return folder


@pytest.fixture(scope="module")
def java(plugin_path: Path) -> Iterator[JavaChains]:
    chains = JavaChains({"plugin.path": str(plugin_path)})
    yield chains
    chains.close()


def subject(java: JavaChains | None, kind: Kind, **config: str) -> Subject:
    topic = {"topics": "orders"} if kind == "sink" else {"topic": "orders"}
    return Subject(
        "orders",
        kind,
        {**topic, **config},
        PLAIN,
        True,
        WHERE,
        secrets=("secret-mark-7",),
        java=java,
    )


def record_of(kind: Kind, parts: Mapping[str, Any]) -> Any:
    written = RecordInput(WHERE, **parts)
    if kind == "sink":
        return message_of(written, "orders", 0)
    return source_record_of(written, "orders")


def run_java(java: JavaChains, kind: Kind, config: Mapping[str, str], record: Any) -> RecordRun:
    needed = {"name": "orders", "connector.class": "None", "header.converter": SIMPLE}
    number = java.open({**needed, **PLAIN, **config}, sink=kind == "sink")
    pipeline = JavaPipeline(java, number, Redactor(), sink=kind == "sink")
    try:
        return pipeline.run(record)
    finally:
        pipeline.close()


@pytest.mark.parametrize("name", ALIKE)
def test_connects_own_classes_make_of_records_what_ours_make(java: JavaChains, name: str) -> None:
    kind, config, records = ALIKE[name]
    with prepared(subject(None, kind, **config)) as ours:
        for parts in records:
            record = record_of(kind, parts)
            expected, theirs = ours.run(record), run_java(java, kind, config, record)
            if isinstance(expected.outcome, FailedRecord):
                assert isinstance(theirs.outcome, FailedRecord), parts
                assert theirs.outcome.stage == expected.outcome.stage
                assert theirs.outcome.class_name == expected.outcome.class_name
                assert theirs.outcome.error == expected.outcome.error
            else:
                assert theirs == expected, parts


def test_a_plugin_transforms_if_its_predicate_says_so(java: JavaChains) -> None:
    config = {
        **MARK,
        "transforms.mark.predicate": "lengthy",
        "predicates": "lengthy",
        "predicates.lengthy.type": "tests.Marking$Lengthy",
        "key.converter": "tests.Marking$Capitals",
    }
    with prepared(subject(java, "source", **config)) as pipeline:
        short = pipeline.run(record_of("source", {"key": "a", "value": "x"})).outcome
        long = pipeline.run(record_of("source", {"key": "a", "value": "xyz"})).outcome
    assert isinstance(short, DeliveredRecord)
    assert short.in_kafka is not None
    assert (short.record.value.json, short.in_kafka.key.raw) == ("x", b"A")
    assert isinstance(long, DeliveredRecord)
    assert long.record.value.json == {
        "text": "xyz",
        "length": 3,
        "price": "12345678901234567890.10",
        "at": "2023-11-14T22:13:20.123000+00:00",
        "data": "base64:/wAB",
    }
    assert [name for name, _ in long.record.headers] == ["mark"]


def test_an_error_names_the_stage_the_class_and_its_causes(java: JavaChains) -> None:
    with prepared(subject(java, "sink", **MARK, **{"value.converter": STRING})) as pipeline:
        outcome = pipeline.run(record_of("sink", {"value": "poison"})).outcome
        assert outcome == FailedRecord(
            "TRANSFORMATION",
            "tests.Marking",
            f"{API}.errors.DataException",
            "cannot mark poison with secret-mark-7: it is poison",
        )
        assert "secret-mark-7" not in pipeline.redactor.redact(outcome.text)


def test_a_config_that_a_plugin_refuses_cannot_be_used(java: JavaChains) -> None:
    config = {key: value for key, value in MARK.items() if key != "transforms.mark.mark"}
    with (
        pytest.raises(Invalid, match=r"cannot be used: .*configuration \"transforms.mark.mark\""),
        prepared(subject(java, "sink", **config)),
    ):
        pass


def test_a_class_that_is_nowhere_cannot_run_and_neither_can_a_mixed_chain(java: JavaChains) -> None:
    unknown = {"transforms": "a", "transforms.a.type": "tests.Nowhere"}
    mixed = {**MARK, "transforms": "mark,a", "transforms.a.type": "support.unruly:Explode"}
    for config, hint in ((unknown, "plugin.path"), (mixed, "as a whole")):
        with pytest.raises(Invalid) as caught, prepared(subject(java, "sink", **config)):
            pass
        (problem,) = caught.value.diagnostics
        assert problem.code == "test.cannot-run"
        assert config["transforms.a.type"] in problem.what
        assert hint in problem.hint


@pytest.mark.long
def test_records_after_the_end_of_the_jvm_have_failed_with_the_reason(plugin_path: Path) -> None:
    chains = JavaChains({"plugin.path": str(plugin_path)})
    try:
        with prepared(subject(chains, "sink", **MARK, **{"value.converter": STRING})) as pipeline:
            chains.close()
            outcome = pipeline.run(record_of("sink", {"value": "x"})).outcome
    finally:
        chains.close()
    assert isinstance(outcome, FailedRecord)
    assert outcome.stage == "TRANSFORMATION"


@pytest.mark.long
def test_a_plugin_that_ends_or_holds_up_the_jvm_fails_no_other_chain(
    plugin_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = JavaChains({"plugin.path": str(plugin_path)})

    def texts(*values: str) -> list[str]:
        """What becomes of records of a chain of their own."""
        with prepared(subject(chains, "sink", **MARK, **{"value.converter": STRING})) as pipeline:
            outcomes = [pipeline.run(record_of("sink", {"value": v})).outcome for v in values]
        return [getattr(outcome, "text", "delivered") for outcome in outcomes]

    try:
        exited, after = texts("exit", "x")
        assert "exit code 7" in exited
        assert "exit code 7" in after
        assert texts("x") == ["delivered"]
        monkeypatch.setattr(java_chains, "_CALL_S", 5.0)
        began = time.monotonic()
        hung, after = texts("hang", "x")
        assert time.monotonic() - began < 15
        assert hung == "The JVM has not answered in 5 s"
        assert after != "delivered"
        monkeypatch.setattr(java_chains, "_CALL_S", 90.0)
        assert texts("x") == ["delivered"]
    finally:
        chains.close()


@pytest.mark.long
def test_a_source_record_is_in_kafka_byte_for_byte_as_a_real_task_writes_it(
    java: JavaChains, plugin_path: Path, broker: BrokerAddress, unique: str
) -> None:
    config = {
        **MARK,
        "connector.class": "tests.Counting",
        "topic": unique,
        "key.converter": "tests.Marking$Capitals",
        "value.converter": JSON,
        "value.converter.schemas.enable": "true",
    }
    settings = {
        "plugin.path": str(plugin_path),
        "bootstrap.servers": broker.bootstrap_servers,
        "key.converter": STRING,
        "value.converter": STRING,
    }
    create_topic(broker.bootstrap_servers, unique)
    names = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
    catalog = JavaCatalog({**settings, **dict.fromkeys(names, unique)}, "ours:8083")
    use_catalog(catalog)
    assert catalog.scan()
    registry.connector.cache_clear()
    try:
        with thread_cluster(broker.bootstrap_servers, unique[:80], settings) as cluster:
            cluster.verbs.create("c", {"name": "c", **config}, None)
            wait_until(
                lambda: read_to_end(broker.bootstrap_servers, unique), what="records", timeout_s=120
            )
            cluster.verbs.delete("c")
    finally:
        use_catalog(None)
        registry.connector.cache_clear()
        catalog.close()
    first = read_to_end(broker.bootstrap_servers, unique)[0]
    given = {"key": "0", "key_schema": "string", "value": "1", "value_schema": "string"}
    with prepared(subject(java, "source", **config)) as pipeline:
        outcome = pipeline.run(record_of("source", given)).outcome
    assert isinstance(outcome, DeliveredRecord)
    in_kafka = outcome.in_kafka
    assert in_kafka is not None
    assert (in_kafka.key.raw, in_kafka.value.raw) == (first.key(), first.value())
    assert [(name, value.raw) for name, value in in_kafka.headers] == first.headers()
