"""A batch of a source that is transformed as columns is sent as its records would be."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from connect_runtime.api import INT64, STRING, Header, Schema, SourceBatch, Struct
from connect_runtime.data.converters import Converters
from connect_runtime.data.json_converter import JsonConverter
from connect_runtime.data.primitive_converters import ByteArrayConverter
from connect_runtime.data.simple_header_converter import SimpleHeaderConverter
from connect_runtime.errors.handler import ErrorHandler, ErrorPolicy
from connect_runtime.tasks.source.pipeline import RecordPipeline
from connect_runtime.transforms.chain import chain_of

JAVA = "org.apache.kafka.connect.transforms"
ROW = Schema.struct({"id": INT64, "name": STRING.as_optional()})
BATCHES = {
    "lines": SourceBatch("t", {}, ["a", "b", "a"], value_schema=STRING, source_offset={"n": 3}),
    "maps": SourceBatch("t", {}, [{"a": 1, "b": "x"}, {"a": 2}], keys=["k", None], partition=2),
    "nulls": SourceBatch("t", {}, [None, {"a": 2}], timestamps=[5, None]),
    "structs": SourceBatch(
        "t",
        {},
        [Struct(ROW, {"id": 1}), Struct(ROW, {"id": 2, "name": "x"})],
        value_schema=ROW,
        key_schema=INT64,
        keys=[1, 2],
        headers=[(Header("h", 1),), ()],
        offsets=[{"n": 1}, {"n": 2}],
    ),
    "empty": SourceBatch("t", {}, []),
}  # fmt: skip
CHAINS: dict[str, dict[str, str]] = {
    "hoist": {"a.type": f"{JAVA}.HoistField$Value", "a.field": "line"},
    "insert": {"a.type": f"{JAVA}.InsertField$Value", "a.static.field": "s", "a.static.value": "x"},
    "insert offset": {"a.type": f"{JAVA}.InsertField$Value", "a.offset.field": "o"},
    "key": {"a.type": "ValueToKey", "a.fields": "a"},
    "header": {"a.type": "InsertHeader", "a.header": "h", "a.value.literal": "5"},
    "route": {"a.type": "RegexRouter", "a.regex": "(.)", "a.replacement": "x-$1"},
    "filter nulls": {"a.type": "Filter", "a.predicate": "p"},
    "filter all": {"a.type": "Filter"},
}


def _pipeline(options: dict[str, str]) -> RecordPipeline:
    converter = JsonConverter()
    converter.configure({})
    config = {"transforms": "a", "predicates": "p", "predicates.p.type": "RecordIsTombstone"}
    chain = chain_of(config | {f"transforms.{key}": value for key, value in options.items()})
    return RecordPipeline(
        Converters(converter, converter, SimpleHeaderConverter()), chain, ErrorHandler()
    )


def _sent(options: dict[str, str], polled: Any, *, in_columns: bool = True) -> Any:
    pipeline = _pipeline(options)
    if not in_columns:
        pipeline._chain.in_columns = False
    try:
        sendings = pipeline.sendings(polled)
    except Exception as error:
        return type(error), str(error)
    return [(s.topic, s.partition, s.messages.records) for s in sendings]


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("batch", BATCHES)
def test_sent_as_records_are(batch: str, chain: str) -> None:
    polled = BATCHES[batch]
    expected = _sent(CHAINS[chain], polled, in_columns=False)
    assert _sent(CHAINS[chain], polled) == expected
    assert _sent(CHAINS[chain], list(polled.records())) == expected


@pytest.mark.parametrize("chain", CHAINS)
def test_records_of_several_topics_are_sent_in_order(chain: str) -> None:
    records = [record for name in BATCHES for record in BATCHES[name].records()]
    records += [replace(record, topic="u") for record in records]
    expected = _sent(CHAINS[chain], records, in_columns=False)
    assert _sent(CHAINS[chain], records) == expected


def test_columns_are_not_made_into_records(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: SourceBatch) -> Any:
        raise AssertionError("records were made")

    monkeypatch.setattr(SourceBatch, "records", refuse)
    assert len(_sent(CHAINS["hoist"], BATCHES["lines"])[0][2]) == 3


@pytest.mark.parametrize("in_columns", [True, False])
def test_transformations_see_when_a_batch_was_read(*, in_columns: bool) -> None:
    read = replace(BATCHES["lines"], read_at=1_700_000_000_123)
    dated = {"a.type": "TimestampRouter", "a.topic.format": "${topic}-${timestamp}"}

    ((topic, _, messages),) = _sent(dated, read, in_columns=in_columns)
    assert topic == "t-20231114"
    if in_columns:  # without times they can be sent together
        assert [set(each) for each in messages] == [{"value"}] * 3


def test_records_are_made_once_for_all_topics_that_have_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a topic for each record, making all of them for each takes minutes."""
    made: list[SourceBatch] = []
    records = SourceBatch.records
    monkeypatch.setattr(SourceBatch, "records", lambda batch: made.append(batch) or records(batch))
    converter = ByteArrayConverter()
    converter.configure({})
    chain = chain_of(
        {"transforms": "a", "transforms.a.type": "TimestampRouter",
         "transforms.a.timestamp.format": "SSS"}
    )  # fmt: skip
    failed: list[Any] = []
    reporter: Any = SimpleNamespace(report=lambda failure: failed.append(failure.record.value))
    errors = ErrorHandler(ErrorPolicy(tolerates_all=True), [reporter])
    pipeline = RecordPipeline(
        Converters(converter, converter, SimpleHeaderConverter()), chain, errors
    )

    batch = SourceBatch("t", {}, ["a", "b", "c"], timestamps=[1, 2, 3])
    assert pipeline.sendings(batch) == []  # no topic is created for them
    assert (failed, len(made)) == (["a", "b", "c"], 1)
