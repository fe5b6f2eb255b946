"""What a transformation makes for a schema is made once, so that converters recognize it."""

from __future__ import annotations

from connect_runtime.api import INT64, STRING, Schema, SinkRecord, Struct
from connect_runtime.transforms.field_transformations import InsertFieldValue
from connect_runtime.transforms.fields import SchemaCache


def _schema(number: int) -> Schema:
    return Schema.struct({f"f{number}": INT64})


def test_equal_schemas_give_the_same_instance() -> None:
    made: list[Schema] = []
    cache = SchemaCache(lambda schema: made.append(schema) or object())

    assert cache(_schema(1)) is cache(_schema(1))
    assert cache(_schema(1)) is not cache(_schema(2))
    assert len(made) == 2


def test_the_last_16_schemas_are_kept() -> None:
    made: list[str] = []
    cache = SchemaCache(lambda schema: made.append(schema.fields[0].name) or object())

    for number in range(17):
        cache(_schema(number))
    for number in (16, 1, 0):
        cache(_schema(number))

    assert made == [*(f"f{number}" for number in range(17)), "f0"]


def test_records_with_equal_schemas_keep_one_schema() -> None:
    insert = InsertFieldValue()
    insert.configure({"topic.field": "topic"})

    def record() -> SinkRecord:
        schema = Schema.struct({"a": STRING})
        return SinkRecord("t", 0, 0, Struct(schema, {"a": "x"}), schema)

    first, second = insert.apply(record()), insert.apply(record())
    assert first is not None and second is not None
    assert first.value_schema is second.value_schema
    assert first.value.schema is first.value_schema
