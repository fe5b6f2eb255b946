"""Decimals keep all their digits, and huge ones are refused at once."""

from __future__ import annotations

from decimal import Decimal

import pytest

from connect_runtime.api import DataError
from connect_runtime.data.logical_types import (
    MOST_BYTES,
    data_of,
    decimal_of,
    decimal_text,
    unscaled,
)

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
