"""Tests of records: what is listed is compared as a whole, and what is not is not compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from connect_reconciler.testing.comparison import check
from connect_reconciler.testing.outcomes import (
    DeliveredRecord,
    DroppedRecord,
    FailedRecord,
    ShownValue,
    kafka_value,
)
from connect_specs.record_tests import ExpectedDrop, ExpectedError, ExpectedRecord
from reconciler.testing.records import record

FAILED = FailedRecord(
    "TRANSFORMATION",
    "acme.Mask",
    "org.apache.kafka.connect.errors.DataException",
    "no such field: x",
)


def told(expected: Any, outcome: Any) -> list[str]:
    return [str(each) for each in check(expected, outcome)]


@pytest.mark.parametrize(
    ("parts", "mismatches"),
    [
        ({}, []),
        ({"topic": "orders", "partition": 0, "offset": 1, "timestamp": 2}, []),
        ({"topic": "other"}, ['topic: expected "other", found "orders"']),
        ({"value": {"a": 1, "b": [{"c": "x"}]}}, []),
        ({"value": {"a": 1.0, "b": [{"c": "x"}]}}, ["value.a: expected 1.0, found 1"]),
        ({"value": {"a": True, "b": [{"c": "x"}]}}, ["value.a: expected true, found 1"]),
        ({"value": {"a": 1}}, ['value.b: expected nothing, found [{"c": "x"}]']),
        (
            {"value": {"a": 1, "b": [{"c": "y"}], "d": None}},
            ['value.b[0].c: expected "y", found "x"', "value.d: expected null, found nothing"],
        ),
        ({"value": None}, ['value: expected null, found {"a": 1, "b": [{"c": "x"}]}']),
        ({"headers": (("g", 2), ("h", "1"))}, []),
        ({"headers": ()}, ["headers.h: expected nothing, found \"1\"",
                           "headers.g: expected nothing, found 2"]),
        ({"headers": (("h", "1"), ("h", "2"), ("g", 2))},
         ['headers.h[1]: expected "2", found nothing']),
    ],
)  # fmt: skip
def test_a_record_of_a_sink(parts: dict[str, Any], mismatches: list[str]) -> None:
    headers = (("h", ShownValue("1")), ("g", ShownValue(2)))
    found = DeliveredRecord(record({"a": 1, "b": [{"c": "x"}]}, headers=headers))
    assert told(ExpectedRecord(parts), found) == mismatches


@pytest.mark.parametrize(
    ("raw", "expected", "passes"),
    [
        (b'{"a": 1,  "b": 2}', {"b": 2, "a": 1}, True),
        (b'{"a": 1}', '{"a": 1}', True),
        (b'{"a":1}', '{"a": 1}', False),
        (b"42", 42, True),
        (b"42", "42", True),
        (b"42", 42.0, False),
        (b"\xff\x00", "base64:/wA=", True),
        (b"base64:x", "base64:YmFzZTY0Ong=", True),
        (None, None, True),
        (b"", None, False),
        (b"", "", True),
        (b"null", None, False),
    ],
)
def test_bytes_that_a_source_writes(raw: bytes | None, expected: Any, passes: bool) -> None:
    written = replace(record(), value=kafka_value(raw))
    found = DeliveredRecord(record(), written)
    assert (told(ExpectedRecord({"value": expected}), found) == []) is passes


def test_other_outcomes() -> None:
    found = DeliveredRecord(record())
    assert told(ExpectedDrop(), DroppedRecord()) == []
    assert told(ExpectedDrop(), found) == ["expected that it is dropped, found a record"]
    assert told(ExpectedRecord({}), DroppedRecord()) == [
        "expected a record, found that it was dropped"
    ]
    assert told(ExpectedRecord({}), FAILED) == [
        "expected a record, found an error in TRANSFORMATION of acme.Mask: no such field: x"
    ]
    assert told(ExpectedError(None, ""), FAILED) == []
    assert told(ExpectedError("TRANSFORMATION", "such field"), FAILED) == []
    pythons = FailedRecord("TRANSFORMATION", "acme.Mask", "KeyError", "'id'")
    assert told(ExpectedError("TRANSFORMATION", "KeyError: 'id'"), pythons) == []
    assert told(ExpectedError("VALUE_CONVERTER", "other"), FAILED) == [
        "error.stage: expected VALUE_CONVERTER, found TRANSFORMATION",
        "error.message: expected a text with 'other', found 'no such field: x'",
    ]
    assert told(ExpectedError("VALUE_CONVERTER", ""), found) == [
        "expected an error in VALUE_CONVERTER, found a record"
    ]
