"""JsonConverter on many values at once, and what only ours does. tests/oracle/transforms compares
the rest with Connect's, byte for byte."""

import datetime as dt
import gc
import json
import math
import weakref
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    DataError,
    Schema,
    Struct,
    Type,
    decimal,
)
from connect_runtime.data.converters import UnreadableRows
from connect_runtime.data.json_converter import JsonConverter
from connect_runtime.data.json_writer import Options, encoder
from support.converting import reading, writing

TENTH = 0.10000000149011612  # as a number of 32 bits


def converter(**options: str) -> JsonConverter:
    made = JsonConverter()
    made.configure({name.replace("_", "."): v for name, v in options.items()}, is_key=False)
    return made


PLAIN = {"schemas_enable": "false"}


def test_a_whole_number_is_a_fraction_if_its_schema_says_so() -> None:
    assert writing(converter(**PLAIN))([3], FLOAT64) == [b"3.0"]


def test_a_time_without_a_zone_is_in_utc() -> None:
    naive = dt.datetime(1970, 1, 1, 0, 0, 1)  # noqa: DTZ001

    assert writing(converter(**PLAIN))([naive], TIMESTAMP) == [b"1000"]


@pytest.mark.parametrize("value", [dt.datetime(2026, 1, 2, tzinfo=dt.UTC), [dt.date(2026, 1, 2)]])
def test_dates_need_a_schema(value: object) -> None:
    with pytest.raises(DataError, match="Date does not have corresponding schema type"):
        writing(converter(**PLAIN))([value], None)


def test_uuids_are_no_values_whatever_their_digits() -> None:
    write = writing(converter(**PLAIN))
    assert write([str(UUID(int=0))], None) == [b'"00000000-0000-0000-0000-000000000000"']
    for number in (0, 0xE << 80, (1 << 128) - 1):
        with pytest.raises(DataError, match="UUID does not have corresponding schema type"):
            write([{"id": UUID(int=number)}], None)


def test_floats_are_rounded_once() -> None:
    schema = '{"type":"struct","fields":[{"field":"a","type":"float","optional":true}]}'
    # the third is above the middle between two floats, and as a double in the middle
    texts = ["0.1", "null", "1.00000005960464477539062501", "16777217", "1e39", '"NaN"']
    data = [f'{{"schema":{schema},"payload":{{"a":{text}}}}}'.encode() for text in texts]
    read, expected = reading(converter()), [TENTH, None, 1.0000001192092896, 2.0**24, math.inf]

    for _ in range(2):  # the second time, the schema is known
        found = [struct["a"] for struct in read(data).values]
        assert found[:-1] == expected
        assert math.isnan(found[-1])
    for text, value in zip(data, expected, strict=False):
        assert [struct["a"] for struct in read([text, text]).values] == [value, value]


IN = Schema.struct({"x\x1f": FLOAT64, "y": STRING.as_optional()})
OUT = Schema.struct({"id": INT64, "name": STRING, "in": IN, "d": Schema(Type.STRING, default="d")})


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (STRING, ["a", "", "é", "a,b"]), (STRING, ['a",', 'a","b', '"', "\\", "\n"]),
        (STRING, ["\x1f", "a"]), (STRING.as_optional(), ["a", None]), (INT8, [1, -128]),
        (INT64, [-(1 << 63), (1 << 63) - 1]),
        (BOOLEAN, [True, False]), (FLOAT64, [1.5, 9999999.0, 0.001]), (FLOAT64, [0.0, -0.0, -1.5]),
        (FLOAT64, [1.0, float("nan"), 2.0]), (FLOAT64, [1e7, 1e-4]), (FLOAT64, [1, 2.5]),
        (FLOAT32, [0.1, 16777216.0]), (Schema.array(STRING), [["a"], []]), (Schema.struct({}), []),
        (IN, [Struct(IN, {"x\x1f": n / 2, "y": y}) for n, y in enumerate(["a", "b", None])]),
        (IN.as_optional(), [None, Struct(IN.as_optional(), {"x\x1f": 1.5})]),
        (OUT, [
            Struct(OUT, {"id": n, "name": "a%", "in": Struct(IN, {"x\x1f": 0.5})}) for n in (1, 2)
        ]),
    ],
)  # fmt: skip
def test_many_values_are_written_as_each_of_them(schema: Schema, values: list[Any]) -> None:
    encode = encoder(schema, Options())
    texts = [encode(value).encode() for value in values]

    assert writing(converter(**PLAIN))(values, schema) == texts
    envelopes = writing(converter())(values, schema)
    assert [each and each.partition(b',"payload":')[2] for each in envelopes] == [
        text + b"}" for text in texts
    ]


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (INT8, [1, 128]), (INT8, [True, 1]), (STRING, ["a", b"\xff"]), (STRING, ["a", None]),
        (BOOLEAN, [True, 1]), (FLOAT64, [0.5, "x"]), (IN, [Struct(OUT)]),
        (IN, [Struct(IN, {"x\x1f": 0.5}), Struct(IN)]),
    ],
)  # fmt: skip
def test_one_of_many_values_that_cannot_be_written_is_an_error(
    schema: Schema, values: list[Any]
) -> None:
    with pytest.raises(DataError):
        writing(converter())(values, schema)


def test_decimals_as_numbers() -> None:
    write = writing(converter(**PLAIN, decimal_format="numeric"))
    read = reading(converter())

    assert write([Decimal("12.3")], decimal(2)) == [b"12.30"]
    envelope = writing(converter(decimal_format="NUMERIC"))([Decimal("12.3")], decimal(2))
    assert read(envelope).values == [Decimal("12.30")]


def test_defaults_are_kept_apart_from_null_if_asked() -> None:
    schema = Schema(Type.STRING, optional=True, default="x")
    write = writing(converter(**PLAIN, replace_null_with_default="false"))

    assert write([None], schema) == [b"null"]


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (IN, {"y": "a"}, "Invalid type for STRUCT"),
        (IN, Struct(Schema.struct({"y": STRING}), {"y": "a"}), "Mismatching schema"),
        (INT32, 1 << 31, "out of the range of INT32"),
    ],
)
def test_values_that_do_not_fit(schema: Schema, value: object, text: str) -> None:
    with pytest.raises(DataError, match=text):
        writing(converter())([value], schema)


def test_more_fields_are_noticed_after_a_known_schema() -> None:
    read = reading(converter())
    head = b'{"schema":{"type":"int32","optional":false},"payload":'

    assert read([head + b"1}"]).values == [1]
    with pytest.raises(DataError, match="may not contain additional fields"):
        read([head + b'1,"more":2}'])


@pytest.mark.parametrize("data", [b"{", b"nope", b"'a'"])
def test_what_is_no_json(data: bytes) -> None:
    with pytest.raises(DataError) as raised:
        reading(converter(**PLAIN))([data])
    text = "Converting byte[] to Kafka Connect data failed due to serialization error: "
    assert str(raised.value) == text
    assert raised.value.__cause__ is not None


def test_reading_without_schemas() -> None:
    column = reading(converter(**PLAIN))(
        [b'{"a":[1,1.5,"x",null,true]}', None, b"007", b'{"a":-01,"b":"007"}', b"0.5"]
    )

    assert column.schema is None
    assert column.values == [
        {"a": [1, 1.5, "x", None, True]}, None, 7, {"a": -1, "b": "007"}, 0.5,
    ]  # fmt: skip


def test_different_schemas_in_one_column() -> None:
    write = writing(converter())
    data = [*write(["a"], STRING), *write([1], INT32), None]
    column = reading(converter())(data)

    assert column.values == ["a", 1, None]
    assert column.each_schema() == [STRING, INT32, None]


@pytest.mark.parametrize("enabled", ["false", "true"])
def test_messages_that_cannot_be_read_are_named(enabled: str) -> None:
    whole = b'{"schema":{"type":"int8"},"payload":7}'
    read = reading(converter(schemas_enable=enabled))
    if enabled == "true":
        read([whole])
        with pytest.raises(UnreadableRows) as found:
            read([whole, whole.replace(b"7", b"[]")])
        assert list(found.value.errors) == [1]
    with pytest.raises(UnreadableRows) as found:
        read([whole, b"{", None, b"[1", whole])
    for (row, error), (expected, data) in zip(
        found.value.errors.items(), [(1, b"{"), (3, b"[1")], strict=True
    ):
        with pytest.raises(DataError) as alone:
            read([data])
        assert not isinstance(alone.value, UnreadableRows)
        assert (row, str(error)) == (expected, str(alone.value))
        assert str(error.__cause__) == str(alone.value.__cause__)
    assert list(found.value.readable.values) == list(read([whole, None, whole]).values)


@pytest.mark.parametrize("enabled", ["false", "true"])
def test_errors_do_not_keep_their_records(enabled: str) -> None:
    def error_of_many() -> weakref.ref[DataError]:
        try:
            read([b"{", b"{", None])
        except UnreadableRows as found:
            return weakref.ref(found.errors[1])
        raise AssertionError("it was read")

    read = reading(converter(schemas_enable=enabled))
    gc.disable()
    try:
        assert error_of_many()() is None
    finally:
        gc.enable()


MANY_SCHEMA = (
    '{"type":"struct","optional":true,"fields":['
    '{"type":"int8","optional":true,"field":"a"},'
    '{"type":"double","optional":false,"field":"b"},'
    '{"type":"string","optional":true,"default":"x","field":"c"},'
    '{"type":"boolean","optional":true,"field":"d"},'
    '{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp","optional":true,"field":"e"},'
    '{"type":"struct","optional":true,"field":"f","fields":['
    '{"type":"string","field":"g"},{"type":"bytes","optional":true,"field":"h"}]}]}'
)
WHOLE = '{"a":1,"b":0.5,"c":"t","d":true,"e":1000,"f":{"g":"t","h":"AA=="}}'


@pytest.mark.parametrize("replace_null", ["true", "false"])
@pytest.mark.parametrize(
    "payload",
    [
        WHOLE, "null", "{}", '{"b":1}', '{"b":null}', WHOLE.replace("1,", "127,", 1),
        WHOLE.replace("1,", "128,", 1), WHOLE.replace("1,", "-129,", 1),
        WHOLE.replace("1,", "1.0,"), WHOLE.replace("1,", "null,", 1), WHOLE.replace("0.5", '"NaN"'),
        WHOLE.replace("0.5", "7"),
        WHOLE.replace('"t"', "null", 1), WHOLE.replace("true", "null"), WHOLE.replace("true", "1"),
        WHOLE.replace("1000", "null"), WHOLE.replace('"g":"t"', '"g":null'),
        WHOLE.replace('"AA=="', "null"), WHOLE.replace('"AA=="', "1"), "[1]",
        WHOLE.replace('"a"', '"z"'), WHOLE.replace("}}", '},"more":1}'), WHOLE + "x", "1,2",
    ],
)  # fmt: skip
@pytest.mark.parametrize("tombstone", [False, True])
def test_many_are_read_as_each_is(payload: str, replace_null: str, tombstone: bool) -> None:
    made = reading(converter(replace_null_with_default=replace_null))
    data: list[bytes | None] = [
        f'{{"schema":{MANY_SCHEMA},"payload":{each}}}'.encode() for each in (WHOLE, payload, WHOLE)
    ]
    if tombstone:
        data.insert(1, None)
    try:
        expected = [reading(converter(replace_null_with_default=replace_null))([d]) for d in data]
    except DataError:
        with pytest.raises(DataError):
            made(data)
        with pytest.raises(DataError):
            made(data)  # and when the schema is known
        return
    for _ in range(2):
        column = made(data)
        assert column.each_schema() == [each.each_schema()[0] for each in expected]
        # not ==: a NaN is not equal to itself
        assert list(map(repr, column.values)) == [repr(each.values[0]) for each in expected]


def test_a_schema_in_the_config_is_that_of_all_messages() -> None:
    """KIP-1054: payloads come without an envelope, and tombstones without a schema."""
    content = '{"type":"struct","fields":[{"type":"int32","optional":true,"field":"a"}]}'
    schema = Schema.struct({"a": INT32.as_optional()})
    read = reading(converter(schema_content=content))

    column = read([b'{"a":1}', None])
    assert column.values == [Struct(schema, {"a": 1}), None]
    assert column.each_schema() == [schema, None]
    with pytest.raises(DataError, match="Invalid"):
        read([b'{"a":"x"}'])
    with pytest.raises(DataError, match="Failed to parse schema in converter config"):
        converter(schema_content="{")
    plain = reading(converter(schema_content=content, schemas_enable="false"))
    assert plain([b'{"a":1}']).values == [{"a": 1}]


def test_of_two_schemas_of_one_envelope_the_last_counts_also_if_the_first_is_known() -> None:
    """As in Java, whose parser keeps the last of two fields of one name."""
    read = reading(converter())
    first = b'{"schema":{"type":"int32","optional":true},"payload":'
    assert read([first + b"1}"]).values == [1]

    twice = first + b'"x","schema":{"type":"string","optional":true}}'
    assert read([twice]).values == ["x"]
    assert read([first + b"2}", twice]).values == [2, "x"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)  # fmt: skip


@given(json_values)
def test_what_is_written_can_be_read(value: object) -> None:
    made = converter(**PLAIN)
    (data,) = writing(made)([value], None)

    if value is None:
        assert data is None
        return
    assert data is not None
    assert json.loads(data) == value
    assert reading(made)([data]).values == [value]
