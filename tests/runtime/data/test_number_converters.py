"""Converters of numbers; Decimals keep all their digits, and huge ones are refused at once."""

from __future__ import annotations

from decimal import Decimal

import pytest

from connect_runtime.api import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT16,
    INT32,
    INT64,
    OPTIONAL_BOOLEAN,
    OPTIONAL_FLOAT32,
    OPTIONAL_FLOAT64,
    OPTIONAL_INT16,
    OPTIONAL_INT32,
    OPTIONAL_INT64,
    STRING,
    DataError,
    Schema,
)
from connect_runtime.data.converters import AnyPartConverter
from connect_runtime.data.logical_types import (
    MOST_BYTES,
    data_of,
    decimal_of,
    decimal_text,
    unscaled,
)
from connect_runtime.data.primitive_converters import (
    BooleanConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from support.converting import reading, writing

Cls = type[AnyPartConverter]


@pytest.mark.parametrize(
    ("cls", "schema", "value", "data", "read_as"),
    [
        (ShortConverter, INT16, -2, "fffe", OPTIONAL_INT16),
        (IntegerConverter, INT32, 258, "00000102", OPTIONAL_INT32),
        (LongConverter, INT64, 1 << 40, "0000010000000000", OPTIONAL_INT64),
        (FloatConverter, FLOAT32, 1.5, "3fc00000", OPTIONAL_FLOAT32),
        (DoubleConverter, FLOAT64, -1.5, "bff8000000000000", OPTIONAL_FLOAT64),
        (BooleanConverter, BOOLEAN, True, "01", OPTIONAL_BOOLEAN),
        (BooleanConverter, BOOLEAN, False, "00", OPTIONAL_BOOLEAN),
    ],
)
def test_bytes(cls: Cls, schema: Schema, value: object, data: str, read_as: Schema) -> None:
    expected = [bytes.fromhex(data), None]

    assert writing(cls())([value, None], schema) == expected
    assert writing(cls())([value, None], None) == expected
    column = reading(cls())(expected)
    assert (column.values, column.schema) == ([value, None], read_as)


@pytest.mark.parametrize(
    ("cls", "schema", "value", "text"),
    [
        (IntegerConverter, STRING, "x", "to integer (was class java.lang.String): "),
        (IntegerConverter, INT64, 5, "to integer (was class java.lang.Long): "),
        (IntegerConverter, None, 1 << 31, "to integer (was class java.lang.Long): "),
        (LongConverter, INT32, 5, "to long (was class java.lang.Integer): "),
        (LongConverter, FLOAT32, 1.5, "to long (was class java.lang.Float): "),
        (LongConverter, None, True, "to long (was class java.lang.Boolean): "),
        (LongConverter, None, [], "to long (was class java.util.ArrayList): "),
        (ShortConverter, None, 1.0, "to short (was class java.lang.Double): "),
        (DoubleConverter, None, 1, "to double (was class java.lang.Long): "),
    ],
)
def test_numbers_of_other_types(cls: Cls, schema: Schema | None, value: object, text: str) -> None:
    with pytest.raises(DataError) as raised:
        writing(cls())([value], schema)
    assert str(raised.value) == f"Failed to serialize {text}"


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (ShortConverter, "short"), (IntegerConverter, "integer"), (LongConverter, "long"),
        (FloatConverter, "float"), (DoubleConverter, "double"), (BooleanConverter, "boolean"),
    ],
)  # fmt: skip
def test_bytes_of_another_length(cls: Cls, name: str) -> None:
    for data in (b"", b"123"):
        with pytest.raises(DataError) as raised:
            reading(cls())([data])
        assert str(raised.value) == f"Failed to deserialize {name}: "


def test_booleans() -> None:
    with pytest.raises(DataError, match="Invalid schema type for BooleanConverter: STRING"):
        writing(BooleanConverter())(["x"], STRING)
    with pytest.raises(DataError, match=r"of type class java\.lang\.Long"):
        writing(BooleanConverter())([5], None)
    with pytest.raises(DataError, match="Failed to deserialize boolean: "):
        reading(BooleanConverter())([b"\x02"])


LONG = Decimal("-1234567890123456789012345678901234567890.12")


def test_no_digit_is_lost() -> None:
    assert decimal_of(data_of(unscaled(LONG, 2)), 2) == LONG
    assert decimal_text(LONG, 2) == str(LONG)


@pytest.mark.parametrize(
    ("value", "scale", "text"),
    [
        ("12.3", 2, "12.30"), ("12.345", 2, "12.345"), ("1E+2", 0, "100"), ("-0.001", 0, "-0.001"),
        ("0", 6, "0.000000"), ("0", 7, "0E-7"), ("-0.00000015", 8, "-1.5E-7"), ("1E+2", -2, "1E+2"),
    ],
)  # fmt: skip
def test_texts(value: str, scale: int, text: str) -> None:
    assert decimal_text(Decimal(value), scale) == text


@pytest.mark.parametrize("value", ["1E+999999999", "1E-999999999", "0E+999999999", "NaN", "sNaN"])
def test_numbers_that_would_take_forever(value: str) -> None:
    for convert in (unscaled, decimal_text):
        with pytest.raises(DataError):
            convert(Decimal(value), 2)


def test_many_bytes_are_refused() -> None:
    assert decimal_of(bytes([127] * MOST_BYTES), 0) > 0
    with pytest.raises(DataError, match="4097 bytes"):
        decimal_of(bytes([127] * (MOST_BYTES + 1)), 0)


@pytest.mark.parametrize("zeros", [10_000, 2_147_483_647])
def test_a_scale_cannot_stand_for_endless_zeros(zeros: int) -> None:
    with pytest.raises(DataError, match="more than 8192 digits"):
        decimal_text(Decimal(f"1E+{zeros}"), -zeros)
