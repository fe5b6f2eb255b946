"""Schemas, projections and shares of partitions, compared with Connect's own."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from connect_runtime.api import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    DataError,
    Schema,
    Struct,
    Type,
    decimal,
)
from connect_runtime.api.connectors import group_partitions
from connect_runtime.api.schema import validate_value
from connect_runtime.api.schema_projector import project_value
from support.connect_classes import ConnectClasses
from support.connect_json import comparable, schema_json, value_json

pytestmark = pytest.mark.oracle

POINT = Schema.struct({"x": INT32, "y": Schema(Type.INT32, default=7)}, name="Point")
WIDE = Schema.struct({"x": INT64, "z": Schema(Type.STRING, default="z")}, name="Point")
NESTED = Schema.struct({"p": POINT, "tags": Schema.array(STRING), "m": Schema.map(STRING, INT32)})

PRIMITIVES = (BOOLEAN, INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, STRING, BYTES)
LOGICAL = (decimal(2), DATE, TIME, TIMESTAMP)
VALUES: tuple[Any, ...] = (
    None, True, 1, -129, 40_000, 1 << 40, 0.5, "x", b"x", Decimal("1.00"), [1], ["a"], {"a": 1},
    {1: "a"}, Struct(POINT, {"x": 1}),
)  # fmt: skip


def _error(call: Any) -> Any:
    try:
        call()
    except DataError as error:
        return type(error).java_class, str(error)
    return None


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize(
    "schema",
    [
        *PRIMITIVES, *LOGICAL, STRING.as_optional(), Schema(Type.INT32, default=1), POINT,
        Schema.array(STRING), Schema.map(STRING, INT32),
        Schema.array(Schema.array(INT32)), Schema.map(STRING, Schema.array(INT32)),
    ],
    ids=lambda s: f"{s}{s.items or ''}{s.optional}",
)  # fmt: skip
def test_values_that_fit(connect_classes: ConnectClasses, schema: Schema, value: Any) -> None:
    answer = connect_classes.ask(
        {"schema": schema_json(schema), "value": value_json(value, schema)}
    )
    expected = None if "valid" in answer else (answer["error"], answer["message"])
    assert _error(lambda: validate_value(schema, value, field="f")) == expected


@pytest.mark.parametrize(
    ("source", "value", "target"),
    [
        (source, value, target)
        for source, value in (
            (INT8, 5), (INT16, 300), (INT32, 70_000), (INT64, 1 << 40), (FLOAT32, 0.5),
            (FLOAT64, 0.1), (BOOLEAN, True), (STRING, "x"), (BYTES, b"x"),
            (decimal(2), Decimal("1.00")),
            (STRING.as_optional(), None), (STRING.as_optional(), "x"),
            (Schema.array(INT32), [1, 2]), (Schema.map(STRING, INT32), {"a": 1}),
            (POINT, Struct(POINT, {"x": 1})), (POINT, Struct(POINT, {"x": 1, "y": 2})),
        )
        for target in (
            INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES, decimal(2),
            decimal(3), Schema(Type.STRING, default="d"), STRING.as_optional(), Schema.array(INT64),
            Schema.map(STRING, INT64), WIDE, Schema.struct({"x": INT8}, name="Point"),
            Schema.struct({"q": INT8}, name="Point"), Schema.struct({"x": INT32}, name="Other"),
            Schema.struct({"q": INT8.as_optional()}, name="Point"),
        )
    ],
)  # fmt: skip
def test_projections(
    connect_classes: ConnectClasses, source: Schema, value: Any, target: Schema
) -> None:
    answer = connect_classes.ask(
        {
            "schema": schema_json(source),
            "value": value_json(value, source),
            "target": schema_json(target),
        }
    )
    try:
        found = {"value": value_json(project_value(source, value, target), target)}
    except DataError as error:
        assert (type(error).java_class, str(error)) == (answer["error"], answer["message"])
    else:
        assert comparable(found) == comparable(answer)


@pytest.mark.parametrize("elements", range(8))
@pytest.mark.parametrize("groups", [-1, 0, 1, 2, 3, 5, 9])
def test_groups_of_partitions(connect_classes: ConnectClasses, elements: int, groups: int) -> None:
    answer = connect_classes.ask({"elements": elements, "groups": groups})
    if "error" in answer:
        with pytest.raises(ValueError, match=answer["message"]):
            group_partitions(range(elements), groups)
    else:
        assert group_partitions(range(elements), groups) == answer["groups"]


def test_dates_are_of_their_own_types() -> None:
    validate_value(DATE, dt.date(2024, 1, 2))
    with pytest.raises(DataError, match=r"class java\.util\.Date for value"):
        validate_value(DATE, dt.datetime(2024, 1, 2, tzinfo=dt.UTC))
