"""Java's texts, structs and batches of records."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api import (
    FLOAT32,
    INT32,
    STRING,
    DataError,
    Schema,
    SchemaBuilder,
    SchemaBuilderError,
    SinkBatch,
    SinkRecord,
    SourceBatch,
    Struct,
    Type,
)
from connect_runtime.java.scalars import java_float, java_text, to_float


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"), (True, "true"), (7, "7"), ("x", "x"),
        (1.0, "1.0"), (0.0, "0.0"), (-0.0, "-0.0"), (100.0, "100.0"), (0.001, "0.001"),
        (0.0001, "1.0E-4"), (9999999.0, "9999999.0"), (10000000.0, "1.0E7"), (1e21, "1.0E21"),
        (5e-324, "4.9E-324"), (2e23, "2.0E23"), (1.5e300, "1.5E300"), (123456.789, "123456.789"),
        (12345678.9, "1.23456789E7"),
        (float("nan"), "NaN"), (float("-inf"), "-Infinity"),
        ([1, None, "a"], "[1, null, a]"), ({"a": 1, "b": [True]}, "{a=1, b=[true]}"), ({}, "{}"),
        (b"caf\xc3\xa9", "café"),
    ],
)  # fmt: skip
def test_java_text(value: object, text: str) -> None:
    assert java_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"), (0.10000000149011612, "0.1"), (3.14, "3.14"), (1e10, "1.0E10"),
        (-0.0, "-0.0"), (16777216.0, "1.6777216E7"), (1e-45, "1.4E-45"), (1e39, "Infinity"),
        (-1e39, "-Infinity"), (3.4028234663852886e38, "3.4028235E38"), (float("nan"), "NaN"),
    ],
)  # fmt: skip
def test_java_float(value: float, text: str) -> None:
    assert java_float(value) == text
    assert java_text([value], Schema.array(FLOAT32)) == f"[{text}]"


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_have_the_fewest_digits_that_name_them(value: float) -> None:
    digits = next(d for d in range(1, 9) if to_float(float(f"{value:.{d}e}")) == value)
    assert Decimal(java_float(value)) == Decimal(f"{value:.{digits}e}")


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (16777217, 16777216), (16777219, 16777220), (0.1, 0.10000000149011612), (1e39, math.inf),
        # as numbers of 64 bits, both are in the middle between two of 32 bits
        (Decimal("1.00000005960464477539062501"), 1.0000001192092896),
        (Decimal("1.00000005960464477539062499"), 1.0),
        (2**60 + 2**36 + 1, 2**60 + 2**37), (2**60 + 2**36 - 1, 2**60),
    ],
)  # fmt: skip
def test_numbers_of_32_bits_are_rounded_once(value: float | Decimal, rounded: float) -> None:
    assert to_float(value) == rounded


def test_structs() -> None:
    schema = Schema.struct(
        {"id": INT32, "name": STRING.as_optional(), "n": Schema(INT32.type, default=7)}
    )
    struct = Struct(schema, {"id": 1})

    assert (struct["id"], struct["name"], struct["n"]) == (1, None, 7)
    assert struct.without_default("n") is None
    assert str(struct) == "Struct{id=1}"
    assert struct == Struct(schema, {"id": 1, "name": None})
    assert struct != Struct(schema, {"id": 1, "n": 7})
    with pytest.raises(DataError, match="nope is not a valid field name"):
        struct["nope"] = 1


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"id": None}, 'Invalid value: null used for required field: "id", schema type: INT32'),
        (
            {"id": 1 << 31},
            'Invalid Java object for schema with type INT32: class java.lang.Long for field: "id"',
        ),
        (
            {"id": True},
            "Invalid Java object for schema with type INT32: class java.lang.Boolean"
            ' for field: "id"',
        ),
    ],
)
def test_a_struct_takes_only_what_fits(values: dict[str, object], problem: str) -> None:
    with pytest.raises(DataError) as refused:
        Struct(Schema.struct({"id": INT32}), values)
    assert str(refused.value) == problem


def test_a_struct_in_a_struct_has_all_required_fields() -> None:
    inner = Schema.struct({"id": INT32})
    with pytest.raises(DataError, match='null used for required field: "id"'):
        Struct(Schema.struct({"inner": inner}), {"inner": Struct(inner)})


def test_a_schema_builder() -> None:
    builder = SchemaBuilder(Type.STRUCT).name("Order").version(2).parameter("a", "b")
    built = builder.field("id", INT32).optional().build()

    assert built == Schema.struct(
        {"id": INT32}, name="Order", version=2, parameters={"a": "b"}, optional=True
    )
    for wrong, problem in (
        (lambda: builder.name("Other"), "name has already been set"),
        (lambda: builder.field("id", STRING), "field name duplication id"),
        (lambda: builder.field("", STRING), "fieldName cannot be null"),
        (lambda: SchemaBuilder(Type.INT8).field("x", STRING), "Cannot create fields on type INT8"),
        (lambda: SchemaBuilder(Type.INT8).default("x"), "Invalid default value"),
        (lambda: SchemaBuilder(Type.INT8).default(None), "Invalid default value"),
    ):
        with pytest.raises(SchemaBuilderError, match=problem):
            wrong()


def test_a_sink_batch_makes_only_the_columns_that_are_asked_for() -> None:
    def never() -> list[str]:
        raise AssertionError("nobody asked for keys")

    batch = SinkBatch(["a", "b"], topics=["t", "t"], partitions=[0, 0], offsets=[5, 6], keys=never)

    assert len(batch) == 2
    assert (batch.values, batch.offsets, batch.headers) == (["a", "b"], [5, 6], [(), ()])


def test_a_sink_batch_yields_records() -> None:
    batch = SinkBatch(lambda: ["a"], topics=["t"], partitions=[3], offsets=[5], size=1)

    assert list(batch) == [SinkRecord("t", 3, 5, "a")]


def test_columns_of_a_source_batch_have_one_length() -> None:
    with pytest.raises(ValueError, match="keys has 1 entries for 2 values"):
        SourceBatch("t", {}, ["a", "b"], keys=["k"])


def test_only_the_last_record_of_a_source_batch_has_its_offset() -> None:
    batch = SourceBatch("t", {"f": 1}, ["a", "b"], source_offset={"p": 2})

    assert [record.source_offset for record in batch.records()] == [None, {"p": 2}]
