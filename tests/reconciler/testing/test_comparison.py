"""Which records come out differently: counts and names of fields, and never a value."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import Any

import pytest

from connect_reconciler.render.record_tests import (
    comparison_json,
    comparison_markdown,
    comparison_text,
)
from connect_reconciler.testing.comparison import Comparison, compare
from connect_reconciler.testing.outcomes import DeliveredRecord, RecordRun, ShownValue
from reconciler.testing.records import delivered, dropped, failed, record, run

INT64 = {"type": "int64", "optional": False}
INT32 = {"type": "int32", "optional": False}


def struct(name: str, **fields: Any) -> Any:
    listed = [{**schema, "field": field} for field, schema in fields.items()]
    return {"type": "struct", "optional": False, "name": name, "fields": listed}


def fields(old: RecordRun, new: RecordRun) -> list[str]:
    return list(compare([old], [new]).fields)


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["value.a"]),
        ({"a": 1}, {"a": 1.0}, ["value.a"]),
        ({"a": 1}, {"a": True}, ["value.a"]),
        ({"a": None}, {}, ["value", "value.a"]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ["value.a.b[]"]),
        ({"a": [{"p": 1}, {"p": 2}]}, {"a": [{"p": 1}]}, ["value.a[].p"]),
        ({"me@example.com": 1}, {"me@example.com": 2}, ["value.*"]),
        ({"4711": 1}, {}, ["value", "value.*"]),
        ("text", "other", ["value"]),
    ],
)
def test_names_of_fields(old: Any, new: Any, names: list[str]) -> None:
    assert fields(delivered(old), delivered(new)) == names


def test_a_type_that_changed_is_a_difference_though_the_value_is_the_same() -> None:
    one, other = struct("o", a=INT64), struct("o", a=INT32)
    assert fields(delivered({"a": 1}, one), delivered({"a": 1}, other)) == ["value.a"]


def test_a_schema_that_differs_as_a_whole_has_a_name_of_its_own() -> None:
    one, other = struct("o", a=INT64), struct("p", a=INT64)
    assert fields(delivered({"a": 1}, one), delivered({"a": 1}, other)) == ["value (schema)"]


def test_keys_of_a_map_with_a_schema_are_data() -> None:
    schema = {"type": "map", "keys": {"type": "string"}, "values": INT64, "optional": False}
    old, new = delivered({"alice": 1, "bob": 1}, schema), delivered({"alice": 2, "bob": 2}, schema)
    assert compare([old], [new]).fields == {"value.*": 1}


def test_topic_key_and_headers() -> None:
    old = delivered(
        topic="a", key=ShownValue("1"), headers=(("h", ShownValue("1")), ("h", ShownValue("2")))
    )
    new = delivered(
        topic="b", key=ShownValue("2"), headers=(("h", ShownValue("1")), ("h", ShownValue("3")))
    )
    assert fields(old, new) == ["headers.h", "key", "topic"]


def test_what_a_source_writes_counts_where_the_record_is_the_same() -> None:
    def wrote(raw: bytes) -> RecordRun:
        return run(DeliveredRecord(record({"a": 1}), replace(record(), value=ShownValue(raw=raw))))

    assert fields(wrote(b'{"a":1}'), wrote(b'{"payload":{"a":1}}')) == ["value (bytes)"]


def test_outcomes_are_counted() -> None:
    old = [delivered(1), delivered(1), dropped(), failed(), failed(), delivered(1), dropped()]
    new = [failed("VALUE_CONVERTER"), dropped(), delivered(1), delivered(1), failed()]
    new += [delivered(2), dropped()]
    found = compare(old, new)
    assert found == Comparison(
        total=7,
        different=5,
        fields={"value": 1},
        failing={"VALUE_CONVERTER, acme.Mask": 1},
        recovered=1,
        dropped=1,
        undropped=1,
        still_failing=1,
    )
    assert comparison_text(found) == (
        "5 of 7 records come out differently: value (1); 1 fails that did not, in"
        " VALUE_CONVERTER, acme.Mask (1); 1 no longer fails; 1 newly dropped; 1 no longer dropped;"
        " 1 fails before and after"
    )


def test_the_sentence_has_counts_and_names() -> None:
    found = Comparison(
        1000, 17, {"value.amount": 12, "headers.source": 5}, {"TRANSFORMATION, acme.Mask": 3}
    )
    assert comparison_text(found) == (
        "17 of 1,000 records come out differently: value.amount (12), headers.source (5);"
        " 3 fail that did not, in TRANSFORMATION, acme.Mask (3)"
    )
    assert comparison_text(Comparison(1000)) == "all 1,000 records come out the same"
    assert comparison_text(Comparison(0)) == "there are no records to compare"


def test_no_value_is_in_a_comment() -> None:
    """The trap: a comment on a pull request is read by more people than the topic."""
    secret = "hunter2-4711"
    old = [
        delivered({secret: 1, "card": secret, "of": {"me@example.com": secret}}),
        delivered(headers=((secret, ShownValue(secret)),)),
        failed(message=secret),
    ]
    new = [delivered({secret: 2}), delivered(), delivered({"a": secret})]
    found = compare(old, new), compare(new, old)
    for each in found:
        told = comparison_text(each) + comparison_markdown("p", "main", {"orders": each}, {})
        told += json.dumps(comparison_json(each)) + repr(asdict(each))
        assert "value.card" in told
        assert "example" not in told
    # A name that could be a field's is not known to be data
    assert all("me@" not in str(each.fields) for each in found)


def test_what_fails_and_what_differs_comes_first_in_a_comment() -> None:
    """The trap: of 200 connectors, the one that fails is cut from the end."""
    failing = Comparison(5, 1, {}, {"TRANSFORMATION, acme.Mask": 1})
    found = {"a": Comparison(0), "b": Comparison(5), "c": Comparison(5, 1), "d": failing}
    told = comparison_markdown("p", "main", found, {})
    assert re.findall(r"<code>(\w)</code>: ", told) == ["d", "c", "b", "a"]


def test_a_comment_is_never_too_long_and_names_cannot_break_it() -> None:
    many = {f"value.field{number}": 1 for number in range(500)}
    found = {f"c{number}": Comparison(5, 5, many) for number in range(500)}
    told = comparison_markdown("p", "<!-- main", found, {"x": "`because` <b>"})
    assert len(told) < 65_536
    assert "and 480 more fields" in told
    assert "more" in told.splitlines()[-1]
    assert "<b>" not in told and "<!-- main" not in told
    assert told.startswith("<!-- connect-test:p -->\n")
