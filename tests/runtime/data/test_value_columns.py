"""Many values have the texts that each of them has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from connect_runtime.api import FLOAT32, FLOAT64, INT64, OPTIONAL_STRING, STRING, Schema, Struct
from connect_runtime.data.value_columns import MapColumn, StructColumn, java_texts
from connect_runtime.java.scalars import java_text

INNER = Schema.struct({"x%s": STRING, "y": STRING})
POINT = Schema.struct({"id": INT64, "50%": OPTIONAL_STRING, "in": INNER})
ONE = Schema.struct({"line": STRING})


def point(number: int, text: str | None) -> Struct:
    inner = Struct(INNER, {"x%s": "a%", "y": "b"})
    return Struct(POINT, {"id": number, "50%": text, "in": inner})


def equal_point(number: int) -> Struct:
    return Struct(Schema.struct({"id": INT64}), {"id": number})


@pytest.mark.parametrize(
    "values",
    [
        [], [""], [1, 2], [1.0, 1e7, float("nan")], [True, False], [None, None], [1, "a", None],
        [{}, {}], [{}, {"a": 1}], [{"a": 1}, {}], [{"a": 1}, {"b": 2}],
        [{"a": 1, "b": 0.1}, {"b": 2e9, "a": 3}],
        [{"a%s": 1e9, "b": None}, {"a%s": 0.5, "b": "%s"}],
        [{1: {"deep": [1, None]}}, {1: {"deep": []}}], [{"a": 1}, None],
        [{"a": b"\xff"}, {"a": b"x"}], [{None: True}, {None: False}],
        [1 << 64, 1], [0.0, -5.0, 1e-3], [float("inf"), 1.0],
        [point(1, "a%d"), point(2, "b")], [point(1, "a"), point(2, None)],
        [point(1, "a"), equal_point(2)], [Struct(ONE, {"line": "a"}), Struct(ONE, {"line": "b"})],
        [Struct(POINT), Struct(POINT)], [Struct(Schema.struct({}))], [[1.0], ["a"]],
    ],
)  # fmt: skip
def test_texts_of_many_are_those_of_each(values: Sequence[Any]) -> None:
    assert list(java_texts(values)) == list(map(java_text, values))


TENTH = 0.10000000149011612  # as a number of 32 bits
READING = Schema.struct({"c": FLOAT32, "all": Schema.array(FLOAT32), "d": FLOAT64})


@pytest.mark.parametrize(
    ("schema", "values", "text"),
    [
        (FLOAT32, [TENTH, 16777216.0], "0.1"), (FLOAT64, [TENTH, -0.0, 0.0], str(TENTH)),
        (Schema.map(STRING, FLOAT32), [{"a": TENTH}, {"a": 0.5}], "{a=0.1}"),
        (Schema.map(FLOAT32, STRING), [{TENTH: "a"}, {TENTH: "b"}], "{0.1=a}"),
        (
            READING, [Struct(READING, {"c": x, "all": [x, 3.5], "d": x}) for x in (TENTH, 2.5)],
            f"Struct{{c=0.1,all=[0.1, 3.5],d={TENTH}}}",
        ),
    ],
)  # fmt: skip
def test_a_schema_tells_floats_from_doubles(
    schema: Schema, values: Sequence[Any], text: str
) -> None:
    texts = list(java_texts(values, schema))
    assert texts == [java_text(value, schema) for value in values]
    assert texts[0] == text


def test_a_column_of_maps_is_as_its_maps() -> None:
    column = MapColumn({"a%": [1, 1e9], "b": ["x", None]})
    maps = [{"a%": 1, "b": "x"}, {"a%": 1e9, "b": None}]

    assert list(java_texts(column)) == list(map(java_text, maps))
    part = column[:1]
    assert isinstance(part, MapColumn)
    assert list(part) == maps[:1]
    assert (list(column), column[1], column[:1], len(column)) == (maps, maps[1], maps[:1], 2)


def test_a_column_of_structs_is_as_its_structs() -> None:
    structs = [point(1, "a"), point(2, None)]
    column = StructColumn.of(structs)

    assert column is not None
    assert (list(column), column[1], list(column[1:])) == (structs, structs[1], structs[1:])
    assert list(java_texts(column)) == list(map(str, structs))
    assert StructColumn.of([Struct(POINT, {"50%": "no id"}), point(1, "a")]) is None
