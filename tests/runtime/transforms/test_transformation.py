"""Transformations do to columns what they do to each record, and leave the records as they were.
What a transformation makes for a schema is made once, so that converters recognize it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import yaml

from connect_runtime.api import INT64, STRING, ConnectorError, Predicate, Schema, SinkRecord, Struct
from connect_runtime.errors.handler import ErrorHandler
from connect_runtime.plugins import registry
from connect_runtime.plugins.registry import PluginKind
from connect_runtime.transforms.chain import Chain, Filter, Step, TopicNameMatches
from connect_runtime.transforms.field_transformations import InsertFieldValue
from connect_runtime.transforms.fields import SchemaCache
from connect_runtime.transforms.transformation import ColumnPredicate, Columns, ColumnTransformation
from support.applying_transforms import TABLES, Configuration, configurations
from support.connect_json import Json, record_json
from support.record_tables import record_of

RECORDS = [
    record
    for record in map(record_of, yaml.safe_load((TABLES / "records.yaml").read_text()).values())
    if isinstance(record, SinkRecord)
]
MAPS = [record for record in RECORDS if record.value_schema is None and type(record.value) is dict]
# pairs with the same fields
ALIKE = [[replace(record, offset=n) for n in range(2)] for record in MAPS]
# pairs that share their schema, as keys and as values
STRUCTS = [
    [replace(each, key=struct, key_schema=schema, value_schema=schema, offset=n) for n in range(2)]
    for each in RECORDS
    if isinstance(struct := each.value, Struct) and (schema := struct.schema)
]
FIELDS = {
    "topics": "topic", "partitions": "partition", "offsets": "offset", "timestamps": "timestamp",
    "headers": "headers", "keys": "key", "key_schemas": "key_schema", "values": "value",
    "value_schemas": "value_schema",
}  # fmt: skip


def columns_of(records: Sequence[SinkRecord]) -> Columns:
    return Columns(
        len(records),
        {
            name: (lambda field=field: [getattr(record, field) for record in records])
            for name, field in FIELDS.items()
        },
    )


def records_in(columns: Columns) -> list[Json]:
    rows = zip(*(columns[name] for name in FIELDS), strict=True)
    return [record_json(SinkRecord(**dict(zip(FIELDS.values(), row, strict=True)))) for row in rows]


def ready(case: Configuration) -> ColumnTransformation | ColumnPredicate | None:
    kind: PluginKind = "predicate" if ".predicates." in case.name else "transformation"
    plugin = registry.plugin(kind, "type", case.name).cls()
    try:
        plugin.configure(case.config)
    except ConnectorError:
        return None
    return plugin


@pytest.mark.parametrize("case", [c for c in configurations() if ready(c)], ids=str)
def test_columns_are_as_records(case: Configuration) -> None:
    for records in (RECORDS, MAPS, *ALIKE, *STRUCTS):
        check_columns(case, records)


def check_columns(case: Configuration, records: list[SinkRecord]) -> None:
    plugin = ready(case)
    assert plugin is not None
    if isinstance(plugin, Predicate):
        expected = [plugin.test(record) for record in records]
        assert isinstance(plugin, ColumnPredicate)
        assert list(plugin.test_columns(columns_of(records))) == expected
        return
    if not isinstance(plugin, ColumnTransformation):
        pytest.skip("works on records alone")
    good, changed = [], []
    for record in records:
        try:
            after = plugin.apply(record)
        except ConnectorError:
            continue
        good.append(record)
        changed += [] if after is None else [record_json(after)]
    before = list(map(repr, good))

    columns = columns_of(good)
    plugin.apply_columns(columns)

    assert records_in(columns) == changed
    assert list(map(repr, good)) == before
    # twice: what the first made may be changed in place, but not what it was made from
    plugin = ready(case)
    assert isinstance(plugin, ColumnTransformation)
    singly = [plugin.apply(record) for record in good]
    try:
        again = [record_json(r) for r in (plugin.apply(s) for s in singly if s) if r]
    except ConnectorError:
        return
    columns = columns_of(good)
    plugin.apply_columns(columns)
    plugin.apply_columns(columns)
    assert records_in(columns) == again
    assert list(map(repr, good)) == before


def inserting(predicate: TopicNameMatches | None = None, *, negate: bool = False) -> Step:
    insert = InsertFieldValue()
    insert.configure({"static.field": "s", "static.value": "x"})
    return Step(insert, "InsertField", predicate, negate)


@pytest.mark.parametrize("negate", [False, True])
@pytest.mark.parametrize("topics", ["orders", "nothing", ".*"])
def test_predicates_choose_records(topics: str, negate: bool) -> None:
    records = [SinkRecord(t, 0, i, {"a": i}) for i, t in enumerate(["orders", "p", "orders", "q"])]
    predicate = TopicNameMatches()
    predicate.configure({"pattern": topics})
    for chain in (
        Chain((inserting(predicate, negate=negate), inserting())),
        Chain((Step(Filter(), "Filter", predicate, negate), inserting())),
    ):
        columns = columns_of(records)
        assert chain.in_columns
        chain.apply_columns(columns)
        singly = [chain.apply(record, record, ErrorHandler) for record in records]  # type: ignore[arg-type]
        assert records_in(columns) == [record_json(r) for r in singly if r is not None]
        assert list(columns.rows) == [i for i, r in enumerate(singly) if r is not None]
    assert [record.value for record in records] == [{"a": i} for i in range(4)]


def test_an_error_gives_the_columns_up() -> None:
    records = [SinkRecord("t", 0, 0, {"a": 1}), SinkRecord("t", 0, 1, 5)]

    with pytest.raises(ConnectorError):
        Chain((inserting(),)).apply_columns(columns_of(records))
    assert records[0].value == {"a": 1}


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
