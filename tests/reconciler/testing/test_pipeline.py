"""What a config makes of single records: through the classes of the runtime, in its order."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.model.live import Kind
from connect_reconciler.testing.comparison import fields_of, outcome_text
from connect_reconciler.testing.inputs import default_topic, message_of, source_record_of
from connect_reconciler.testing.outcomes import (
    DeliveredRecord,
    DroppedRecord,
    FailedRecord,
    RecordRun,
    connect_value,
    kafka_value,
)
from connect_reconciler.testing.subjects import Subject, prepared
from connect_runtime.api import ConfigDef, Schema, Struct, Transformation, decimal
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.record_tests import RecordInput

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {
    "key.converter": STRING,
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
SMT = "org.apache.kafka.connect.transforms"
CHAIN = {
    "transforms": "drop,cast,route",
    "transforms.drop.type": f"{SMT}.Filter",
    "transforms.drop.predicate": "tombstone",
    "predicates": "tombstone",
    "predicates.tombstone.type": f"{SMT}.predicates.RecordIsTombstone",
    "transforms.cast.type": f"{SMT}.Cast$Value",
    "transforms.cast.spec": "amount:float64",
    "transforms.route.type": f"{SMT}.RegexRouter",
    "transforms.route.regex": ".*",
    "transforms.route.replacement": "eu-$0",
}
WHERE = Location("orders.yaml", 1, 1)


def subject(kind: Kind, *, is_ours: bool = True, **config: str) -> Subject:
    worker = {**WORKER, **config.pop("worker", {})}  # type: ignore[dict-item]
    topic = {"topics": "orders"} if kind == "sink" else {"topic": "orders"}
    return Subject("orders", kind, {**topic, **config}, worker, is_ours, WHERE)


def given(**parts: Any) -> RecordInput:
    return RecordInput(WHERE, **parts)


def through(kind: Kind, config: Mapping[str, str], *records: RecordInput) -> list[RecordRun]:
    found = subject(kind, **config)
    make: Any = message_of if kind == "sink" else source_record_of
    more = (0,) if kind == "sink" else ()
    with prepared(found) as pipeline:
        return [pipeline.run(make(each, "orders", *more)) for each in records]


def problem(kind: Kind, **config: Any) -> Diagnostic:
    with pytest.raises(Invalid) as caught, prepared(subject(kind, **config)):
        pass
    (found,) = caught.value.diagnostics
    return found


def test_a_sink_from_bytes_to_the_record_of_its_task() -> None:
    (run,) = through("sink", CHAIN, given(key="1", value={"amount": "2.5"}, headers=(("h", "x"),)))
    assert isinstance(run.outcome, DeliveredRecord)
    assert run.outcome.in_kafka is None
    assert run.consumed is not None and run.consumed.value.raw == b'{"amount":"2.5"}'
    assert run.input is not None and run.input.value.json == {"amount": "2.5"}
    after = run.outcome.record
    assert (after.topic, after.partition, after.offset, after.timestamp) == ("eu-orders", 0, 0, 0)
    assert (after.key.json, after.value.json) == ("1", {"amount": 2.5})
    assert [(name, part.json) for name, part in after.headers] == [("h", "x")]


def test_a_source_from_the_record_of_its_task_to_bytes() -> None:
    schema = {"type": "struct", "fields": [{"field": "amount", "type": "string"}]}
    config = {**CHAIN, "value.converter": JSON}
    (run,) = through("source", config, given(value={"amount": "2.5"}, value_schema=schema, key="k"))
    assert isinstance(run.outcome, DeliveredRecord)
    after, written = run.outcome.record, run.outcome.in_kafka
    assert after.value.json == {"amount": 2.5}
    assert after.value.schema["fields"][0]["type"] == "double"
    assert written is not None
    assert (written.topic, written.key.raw) == ("eu-orders", b"k")
    assert written.value.json["payload"] == {"amount": 2.5}


@pytest.mark.parametrize("kind", ["sink", "source"])
def test_each_record_has_its_own_outcome(kind: Kind) -> None:
    bad, none, good = through(
        kind, CHAIN, given(value={"amount": "x"}), given(), given(value={"amount": "1"})
    )
    assert isinstance(bad.outcome, FailedRecord)
    assert (bad.outcome.stage, bad.outcome.class_name) == ("TRANSFORMATION", f"{SMT}.Cast$Value")
    assert bad.outcome.error == "org.apache.kafka.connect.errors.DataException"
    assert "out of range" in bad.outcome.message
    assert none.outcome == DroppedRecord()
    assert isinstance(good.outcome, DeliveredRecord)


def test_what_fails_in_a_converter() -> None:
    (run,) = through("sink", {}, given(value="{"))
    assert isinstance(run.outcome, FailedRecord)
    assert (run.outcome.stage, run.outcome.class_name) == ("VALUE_CONVERTER", JSON)
    assert run.input is None
    (run,) = through("source", {"key.converter": "BooleanConverter"}, given(key="x"))
    assert isinstance(run.outcome, FailedRecord)
    assert run.outcome.stage == "KEY_CONVERTER"


def test_retries_do_not_make_a_test_wait() -> None:
    (run,) = through("sink", {"errors.retry.timeout": "-1"}, given(value="{"))
    assert isinstance(run.outcome, FailedRecord)


def test_a_java_class_is_named_with_its_place() -> None:
    key = "transforms.mask.type"
    found = problem("sink", transforms="mask", **{key: "com.acme.Mask"})
    assert (found.code, found.what) == (
        "test.cannot-run",
        "transforms.mask.type of orders: com.acme.Mask cannot run here",
    )
    found = problem("sink", **{"value.converter": "io.confluent.connect.avro.AvroConverter"})
    assert found.code == "test.cannot-run"
    assert "AvroConverter" in found.what


def test_an_option_that_is_wrong_is_told_without_secrets() -> None:
    config = {"transforms": "t", "transforms.t.type": f"{SMT}.Cast$Value"}
    found = problem("sink", **config, **{"transforms.t.spec": "a:hunter2"})
    assert (found.code, found.where) == ("test.config", WHERE)


def test_a_converter_that_nobody_names() -> None:
    found = problem("sink", worker={"value.converter": ""})
    assert found.code == "test.no-converter"
    assert "value.converter" in found.what


PROVIDERS = {"config.providers": "file", "config.providers.file.class": "FileConfigProvider"}
INSERT = {
    "transforms": "insert",
    "transforms.insert.type": f"{SMT}.InsertField$Value",
    "transforms.insert.static.field": "token",
}


def test_references_are_resolved_and_their_values_are_secret(tmp_path: Path) -> None:
    file = tmp_path / "secrets.properties"
    file.write_text("token=hunter2\n")
    value = {"transforms.insert.static.value": f"${{file:{file}:token}}"}
    found = subject("sink", worker=PROVIDERS, **INSERT, **value)  # type: ignore[arg-type]
    with prepared(found) as pipeline:
        run = pipeline.run(message_of(given(value={}), "orders", 0))
        assert isinstance(run.outcome, DeliveredRecord)
        assert run.outcome.record.value.json == {"token": "hunter2"}
        assert pipeline.redactor.redact("a hunter2 b") == "a [hidden] b"


def test_a_reference_that_no_part_needs_is_never_resolved() -> None:
    config = {"connection.password": "${file:/nowhere:password}"}
    (run,) = [*through("sink", {"worker": PROVIDERS, **config}, given(value={}))]  # type: ignore[dict-item]
    assert isinstance(run.outcome, DeliveredRecord)


def test_a_reference_that_cannot_be_resolved() -> None:
    value = {"transforms.insert.static.value": "${file:/nowhere:token}"}
    found = problem("sink", worker=PROVIDERS, **INSERT, **value)
    assert found.code == "test.unresolved-reference"
    assert "provide it there" in found.hint
    # Only on a Connect cluster may the workers have providers that connect.yaml does not name
    assert problem("sink", is_ours=False, **INSERT, **value).code == "test.unresolved-reference"


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (given(value="base64:?"), "base64"),
        (given(value="base64:é"), "base64"),
        (given(value="x", value_schema="int64"), "schema"),
        (given(value=1, value_schema={"type": "nothing"}), "schema"),
    ],
)
def test_records_that_are_not_valid(record: RecordInput, says: str) -> None:
    with pytest.raises(Invalid) as caught:
        source_record_of(record, "orders")
    (found,) = caught.value.diagnostics
    assert (found.code, found.where) == ("test.bad-value", WHERE)
    assert says in found.what


def test_a_record_in_kafka_has_no_schema() -> None:
    with pytest.raises(Invalid) as caught:
        message_of(given(value=1, value_schema="int64"), "orders", 0)
    assert caught.value.diagnostics[0].code == "test.bad-value"


def test_a_record_without_a_topic() -> None:
    assert default_topic({"topics": "a"}, "sink") == "a"
    assert default_topic({"topics": "a, b"}, "sink") is None
    assert default_topic({"topics.regex": "a.*"}, "sink") is None
    assert default_topic({"topic": "a"}, "source") == "a"
    with pytest.raises(Invalid) as caught:
        message_of(given(), None, 0)
    assert caught.value.diagnostics[0].code == "test.no-topic"


def test_values_that_are_nested_deeply_do_not_break_anything() -> None:
    for depth in (120, 900):
        text = '{"a":' * depth + "1" + "}" * depth
        (run,) = through("sink", {}, given(value=text))
        assert run.consumed is not None and run.consumed.value.json == text
        if isinstance(run.outcome, DeliveredRecord):
            found = fields_of(run.outcome.record)
            assert [path for path in found if path.startswith("value.a.a")] != []


class Broken(Transformation):
    """Fails in every way."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, options: Mapping[str, str]) -> None:
        self._how = options["how"]
        if self._how == "configure":
            raise KeyError("id")

    def apply(self, record: Any) -> Any:
        match self._how:
            case "exit":
                sys.exit(0)
            case "no record":
                return 5
        raise KeyError("id")

    def close(self) -> None:
        raise RuntimeError


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("raise", "KeyError", "'id'"),
        ("no record", "AttributeError", "'int' object has no attribute 'topic'"),
        # The trap: a test that ends the process with 0 passes
        ("exit", "SystemExit", "0"),
    ],
)
def test_a_transformation_of_the_user_that_breaks(
    monkeypatch: pytest.MonkeyPatch, how: str, error: str, message: str
) -> None:
    monkeypatch.setattr("support.idle_source.Broken", Broken, raising=False)
    config = {"transforms": "t", "transforms.t.type": "support.idle_source:Broken"}
    (run,) = through("sink", config | {"transforms.t.how": how}, given(value={}))
    assert isinstance(run.outcome, FailedRecord)
    assert (run.outcome.error, run.outcome.message) == (error, message)
    assert outcome_text(run.outcome).endswith(f": {error}: {message}")
    found = problem("sink", **config, **{"transforms.t.how": "configure"})
    assert (found.code, found.what) == ("test.config", "orders cannot be used: KeyError: 'id'")


def test_bytes_and_values_as_json() -> None:
    assert kafka_value(b'{"a": [1]}').json == {"a": [1]}
    assert kafka_value(b"42").json == "42"
    # No JSON, although Python reads and writes it
    for text in ('{"a": NaN}', "[-Infinity]", '{"a": 1e999}'):
        assert kafka_value(text.encode()).json == text
    assert kafka_value(b"\xff").json == "base64:/w=="
    assert kafka_value(b"base64:/w==").json == "base64:YmFzZTY0Oi93PT0="
    assert kafka_value(None).json is None
    schema = Schema.struct({"d": decimal(2)})
    assert connect_value(Struct(schema, {"d": Decimal("1.50")}), schema).json == {"d": "1.50"}
    assert connect_value({"f": float("nan"), "b": b"\x00"}, None).json == {
        "f": "NaN",
        "b": "base64:AA==",
    }
