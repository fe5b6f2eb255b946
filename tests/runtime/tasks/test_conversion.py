"""What happens to records between a task and Kafka: columns, context, headers, bad records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from confluent_kafka import Message

from connect_runtime.api import (
    INT8,
    OPTIONAL_STRING,
    STRING,
    Column,
    ConfigDef,
    ConnectorError,
    Converter,
    DataError,
    Header,
    HeaderConverter,
    RawHeaders,
    Read,
    Schema,
    SinkRecord,
    SourceBatch,
    SourceRecord,
    Transformation,
    Write,
)
from connect_runtime.data.converters import Converters
from connect_runtime.data.json_converter import JsonConverter
from connect_runtime.data.primitive_converters import StringConverter
from connect_runtime.data.simple_header_converter import SimpleHeaderConverter
from connect_runtime.errors.handler import ErrorHandler, ErrorPolicy, Failure, Stage
from connect_runtime.tasks.sink.decoder import Decoder
from connect_runtime.tasks.source.pipeline import RecordPipeline
from connect_runtime.transforms.chain import Chain, Step

NO_CHAIN = Chain(())


class Noted:
    """A reporter that keeps what it is told."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []

    def report(self, failure: Failure) -> None:
        self.failures.append(failure)

    @property
    def stages(self) -> list[tuple[Stage, Any]]:
        return [(f.stage, f.record.value) for f in self.failures]


class Registry(Converter):
    """Writes topic and value, and adds a header to each record, as schema registries may."""

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, options: Mapping[str, str], *, is_key: bool) -> None:
        pass

    def writer(self) -> Write:
        def write(
            topic: str,
            headers: Sequence[RawHeaders] | None,
            schema: Schema | None,
            values: Sequence[Any],
        ) -> list[bytes | None]:
            assert headers is not None
            for each in headers:
                each.append(("id", str(len(each)).encode()))
            return [f"{topic}:{value}".encode() for value in values]

        return write

    def reader(self) -> Read:
        def read(
            topic: str, headers: Sequence[RawHeaders] | None, column: Sequence[bytes | None]
        ) -> Column:
            assert headers is not None
            named = [dict(each).get("id", b"-") or b"-" for each in headers]
            pairs = zip(named, column, strict=True)
            return Column([(topic, n.decode(), (d or b"").decode()) for n, d in pairs], STRING)

        return read


class Filtering(StringConverter):
    """Leaves out values, which no converter may; the others would get wrong keys and offsets."""

    ignores_context = True
    reads_anything = False

    def writer(self) -> Write:
        write = super().writer()
        return lambda topic, headers, schema, values: write(
            topic, headers, schema, [value for value in values if value != "no"]
        )

    def reader(self) -> Read:
        read = super().reader()
        return lambda topic, headers, column: read(
            topic, headers, [data for data in column if data != b"no"]
        )


@dataclass
class Does(Transformation):
    """Applies a function."""

    function: Callable[[Any], Any]

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, options: Mapping[str, str]) -> None:
        pass

    def apply(self, record: Any) -> Any:
        return self.function(record)


def chain(function: Callable[[Any], Any]) -> Chain:
    return Chain((Step(Does(function), "p.Does"),))


def strings() -> StringConverter:
    made = StringConverter()
    made.configure({})
    return made


def json_() -> JsonConverter:
    made = JsonConverter()
    made.configure({"schemas.enable": "false"})
    return made


def converters(
    value: Converter | None = None,
    key: Converter | None = None,
    header: HeaderConverter | None = None,
) -> Converters:
    return Converters(key or strings(), value or strings(), header or SimpleHeaderConverter())


def tolerant(noted: Noted) -> ErrorHandler:
    return ErrorHandler(ErrorPolicy(tolerates_all=True), [noted])


def sent(
    pipeline: RecordPipeline, polled: Any
) -> list[tuple[str, int | None, list[dict[str, Any]]]]:
    return [(s.topic, s.partition, s.messages.records) for s in pipeline.sendings(polled)]


def record(value: Any, topic: str = "t", **more: Any) -> SourceRecord:
    return SourceRecord({"p": 1}, {"n": 1}, topic, value, **more)


def message(value: bytes, offset: int = 0, topic: str = "t", **more: Any) -> Message:
    return Message(topic, 0, offset, value=value, timestamp=(1, 5), **more)


# sources


def test_headers_become_bytes_before_key_and_value() -> None:
    pipeline = RecordPipeline(converters(value=Registry()), NO_CHAIN, ErrorHandler())
    headers = (Header("a", 1), Header("b", "x", STRING))

    found = sent(pipeline, [record("v", headers=headers), record("w"), record("u", "other")])

    assert found == [
        ("t", None, [
            {"value": b"t:v", "headers": [("a", b"1"), ("b", b"x"), ("id", b"2")]},
            {"value": b"t:w", "headers": [("id", b"0")]},
        ]),
        ("other", None, [{"value": b"other:u", "headers": [("id", b"0")]}]),
    ]  # fmt: skip


def test_without_headers_messages_can_be_sent_together() -> None:
    (sending,) = RecordPipeline(converters(), NO_CHAIN, ErrorHandler()).sendings([record("a")])

    assert sending.messages.records == [{"value": b"a"}]
    assert not sending.messages.singly


def test_transformations_run_before_records_are_grouped() -> None:
    def by_value(found: SourceRecord) -> SourceRecord | None:
        return None if found.value == "drop" else replace(found, topic=found.value)

    pipeline = RecordPipeline(converters(), chain(by_value), ErrorHandler())
    values = ["a", "a", "drop", "b", "drop", "b", "a"]

    found = sent(pipeline, [record(value) for value in values])

    assert [(topic, len(each)) for topic, _, each in found] == [("a", 2), ("b", 2), ("a", 1)]


def test_batches_are_transformed_as_records() -> None:
    pipeline = RecordPipeline(
        converters(), chain(lambda r: replace(r, key=r.value)), ErrorHandler()
    )
    batch = SourceBatch("t", {}, ["a", "b"], source_offset={"n": 2})

    assert [each for _, _, each in sent(pipeline, batch)] == [
        [{"key": b"a", "value": b"a"}, {"key": b"b", "value": b"b"}]
    ]


BAD = object()


def test_each_bad_record_is_one_error_and_the_others_are_sent_in_order() -> None:
    noted = Noted()
    pipeline = RecordPipeline(converters(value=json_(), key=json_()), NO_CHAIN, tolerant(noted))
    batch = SourceBatch(
        "t", {}, [BAD if n % 100 == 7 else n for n in range(1000)],
        keys=[BAD if n == 500 else n for n in range(1000)],
        timestamps=list(range(1, 1001)),
        headers=[(Header("n", n),) for n in range(1000)],
    )  # fmt: skip

    ((_, _, messages),) = sent(pipeline, batch)

    good = [n for n in range(1000) if n % 100 != 7 and n != 500]
    number = [str(n).encode() for n in good]
    assert [m["value"] for m in messages] == number == [m["key"] for m in messages]
    assert [m["headers"] for m in messages] == [[("n", n)] for n in number]
    assert [m["timestamp"] for m in messages] == [n + 1 for n in good]
    assert len(noted.failures) == 11
    assert (Stage.KEY_CONVERTER, 500) in noted.stages
    assert noted.failures[0].class_name == "org.apache.kafka.connect.json.JsonConverter"
    assert isinstance(noted.failures[0].record, SourceRecord)


def test_a_converter_that_leaves_values_out_loses_none() -> None:
    filtering = Filtering()
    filtering.configure({})
    given = converters(value=filtering)
    with pytest.raises(ConnectorError, match="1 values were converted to 0"):
        sent(
            RecordPipeline(given, NO_CHAIN, ErrorHandler()),
            [record("a"), record("no"), record("b")],
        )

    noted = Noted()
    messages = [message(value, offset) for offset, value in enumerate((b"a", b"no", b"b"))]
    batch = Decoder(given, NO_CHAIN, tolerant(noted)).batch(messages)
    assert (batch.values, batch.offsets) == (["a", "b"], [0, 2])
    assert [str(failure.error) for failure in noted.failures] == ["1 messages were converted to 0"]


def test_an_error_after_the_chain_is_told_with_the_record_of_the_task() -> None:
    noted = Noted()

    def spoil(found: SourceRecord) -> SourceRecord:
        if found.value == "worse":
            raise DataError("refused")
        return replace(found, value=BAD) if found.value == "bad" else found

    pipeline = RecordPipeline(converters(value=json_()), chain(spoil), tolerant(noted))

    found = sent(pipeline, [record("a"), record("worse"), record("bad"), record("b")])

    assert [m["value"] for _, _, each in found for m in each] == [b'"a"', b'"b"']
    assert noted.stages == [(Stage.TRANSFORMATION, "worse"), (Stage.VALUE_CONVERTER, "bad")]


def test_an_error_without_a_chain_is_told_with_the_record_of_the_task() -> None:
    noted = Noted()
    polled = [record(value) for value in (1, object(), 2, object())]
    RecordPipeline(converters(value=json_()), NO_CHAIN, tolerant(noted)).sendings(polled)

    assert [failure.record for failure in noted.failures] == polled[1::2]


@pytest.mark.parametrize("tolerates", [True, False])
def test_errors_of_the_chain_and_of_converters_are_in_the_order_of_the_records(
    tolerates: bool,
) -> None:
    noted = Noted()
    errors = ErrorHandler(ErrorPolicy(tolerates_all=tolerates), [noted])
    refuse = chain(lambda r: r if r.value != "refused" else 1 / 0)
    pipeline = RecordPipeline(converters(value=json_()), refuse, errors)
    polled = [record(value) for value in (1, object(), "refused", 2, object(), "refused", 3)]

    if tolerates:
        (first, second, third) = sent(pipeline, polled)
        assert [m["value"] for _, _, each in (first, second, third) for m in each] == [
            b"1", b"2", b"3",
        ]  # fmt: skip
    else:
        with pytest.raises(ConnectorError):
            pipeline.sendings(polled)
    stages = [Stage.VALUE_CONVERTER, Stage.TRANSFORMATION] * 2
    assert [f.stage for f in noted.failures] == stages[: None if tolerates else 1]


def test_a_header_that_cannot_be_written() -> None:
    noted = Noted()
    pipeline = RecordPipeline(converters(), NO_CHAIN, tolerant(noted))

    found = sent(pipeline, [record("a", headers=(Header("h", BAD),)), record("b")])

    assert [m["value"] for _, _, each in found for m in each] == [b"b"]
    assert noted.stages == [(Stage.HEADER_CONVERTER, "a")]


def test_by_default_a_bad_record_fails_the_task() -> None:
    pipeline = RecordPipeline(converters(value=json_()), NO_CHAIN, ErrorHandler())
    with pytest.raises(ConnectorError, match="Tolerance exceeded in error handler"):
        pipeline.sendings([record("a"), record(BAD)])


def test_a_bad_timestamp_is_no_error_of_a_converter() -> None:
    pipeline = RecordPipeline(converters(), NO_CHAIN, tolerant(Noted()))
    with pytest.raises(ConnectorError, match="Invalid record timestamp -5"):
        pipeline.sendings([record("a", timestamp=-5)])


# sinks


def decoder(made: Converters, chained: Chain = NO_CHAIN, noted: Noted | None = None) -> Decoder:
    return Decoder(made, chained, tolerant(noted) if noted else ErrorHandler())


def test_a_converter_that_needs_the_topic_gets_a_column_of_each() -> None:
    messages = [
        message(b"1", topic="a", headers=[("id", b"7")]),
        message(b"2", topic="a"),
        message(b"3", topic="b"),
    ]

    batch = decoder(converters(value=Registry())).batch(messages)

    assert batch.values == [("a", "7", "1"), ("a", "-", "2"), ("b", "-", "3")]
    assert batch.value_schemas == [STRING] * 3


def test_records_of_a_sink_have_headers_with_schemas() -> None:
    batch = decoder(converters()).batch(
        [message(b"v", headers=[("a", b"x"), ("b", b"[1]"), ("c", None)]), message(b"w")]
    )
    (first, second) = batch

    array = Schema.array(INT8)
    assert first.headers == (Header("a", "x", STRING), Header("b", [1], array), Header("c"))
    assert second.headers == ()


def test_records_of_a_sink_know_where_they_were_read() -> None:
    moved = chain(lambda r: replace(r, topic="new", partition=None))

    (found,) = decoder(converters(), moved).batch([message(b"v", 9, "old")])

    assert (found.topic, found.original_topic) == ("new", "old")
    assert (found.partition, found.original_partition, found.original_offset) == (None, 0, 9)


def test_a_record_that_a_transformation_made_anew_is_of_its_message() -> None:
    anew = chain(lambda r: SinkRecord("new", 1, 0, r.value))

    (found,) = decoder(converters(), anew).batch([message(b"v", 9, "old")])

    assert (found.topic, found.original_topic, found.original_offset) == ("new", "old", 9)


@pytest.mark.parametrize(("given", "found"), [((1, 5), 5), ((2, 0), 0), ((1, -1), None)])
def test_a_message_without_a_time_has_none(given: tuple[int, int], found: int | None) -> None:
    """Kafka's -1 stands for no time, also where a producer sent it."""
    batch = decoder(converters()).batch([Message("t", 0, 0, value=b"v", timestamp=given)])

    assert batch.timestamps == [found]


def test_a_chain_is_never_bypassed() -> None:
    kept = decoder(
        converters(), chain(lambda r: None if r.value == "drop" else replace(r, value=r.value * 2))
    )

    batch = kept.batch([message(b"a", 1), message(b"drop", 2), message(b"b", 3)])

    assert (len(batch), batch.values, batch.offsets) == (2, ["aa", "bb"], [1, 3])
    assert [r.value for r in batch] == ["aa", "bb"]
    assert batch.value_schemas == [OPTIONAL_STRING] * 2


def test_bad_messages_are_one_error_each() -> None:
    noted = Noted()
    raw = [b"{" if n % 300 == 5 else str(n).encode() for n in range(1000)]
    messages = [message(value, n) for n, value in enumerate(raw)]

    batch = decoder(converters(value=json_()), noted=noted).batch(messages)

    assert batch.values == [n for n in range(1000) if n % 300 != 5]
    assert batch.offsets == batch.values
    assert [(f.stage, f.record.offset()) for f in noted.failures] == [
        (Stage.VALUE_CONVERTER, n) for n in (5, 305, 605, 905)
    ]


def test_the_first_stage_that_fails_is_the_error_of_a_message() -> None:
    noted = Noted()
    made = converters(json_(), json_(), json_())
    bad: list[Any] = [("h", b"{")]
    messages = [
        message(b"{", 0, key=b"{", headers=bad),
        message(b"{", 1, key=b"1", headers=bad),
        message(b"1", 2, key=b"1", headers=bad),
        message(b"1", 3, key=b"1", headers=[("h", b"1")]),
    ]

    (good,) = decoder(made, noted=noted).batch(messages)

    assert good == SinkRecord("t", 0, 3, 1, key=1, timestamp=5, headers=(Header("h", 1),))
    assert [f.stage for f in noted.failures] == [
        Stage.KEY_CONVERTER, Stage.VALUE_CONVERTER, Stage.HEADER_CONVERTER,
    ]  # fmt: skip


def test_an_error_of_a_chain_keeps_the_message() -> None:
    noted = Noted()

    def refuse(found: SinkRecord) -> SinkRecord:
        if found.value == "bad":
            raise ValueError("refused")
        return found

    batch = decoder(converters(), chain(refuse), noted).batch([message(b"bad", 4), message(b"b")])

    assert batch.values == ["b"]
    ((stage, offset),) = [(f.stage, f.record.offset()) for f in noted.failures]
    assert (stage, offset, noted.failures[0].class_name) == (Stage.TRANSFORMATION, 4, "p.Does")


def test_no_messages_are_an_empty_batch() -> None:
    assert decoder(converters(value=Registry())).batch([]).values == []
