"""Random values of random schemas are written as by Connect: by JsonConverter, StringConverter and
SimpleHeaderConverter."""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from connect_runtime.api import DataError, Schema, Struct
from connect_runtime.data.json_converter import JsonConverter
from connect_runtime.data.primitive_converters import StringConverter
from connect_runtime.data.simple_header_converter import SimpleHeaderConverter, parse_literal
from connect_runtime.java.scalars import java_float, to_float
from oracle.transforms.test_any_record import JSON, schemas
from support.connect_classes import ConnectClasses
from support.connect_json import comparable, schema_json, value_json
from support.converting import writing

pytestmark = pytest.mark.oracle

CONVERTERS = {
    "org.apache.kafka.connect.json.JsonConverter": JsonConverter,
    "org.apache.kafka.connect.storage.StringConverter": StringConverter,
}
OPTIONS: tuple[Mapping[str, str], ...] = (
    {},
    {"schemas.enable": "false"},
    {"schemas.enable": "false", "decimal.format": "NUMERIC"},
    {"replace.null.with.default": "false"},
)
# Java before 19 writes more digits of some numbers
FRACTION = re.compile(rb"-?\d+\.\d+(E-?\d+)?")


@st.composite
def columns(draw: st.DrawFn) -> tuple[Schema, list[Any]]:
    schema, values = draw(schemas())
    return schema, draw(st.lists(values, min_size=1, max_size=3))


@given(
    column=columns(),
    name=st.sampled_from(list(CONVERTERS)),
    options=st.sampled_from(OPTIONS),
)
def test_any_value(
    connect_classes: ConnectClasses,
    column: tuple[Schema, list[Any]],
    name: str,
    options: Mapping[str, str],
) -> None:
    schema, values = column
    assume(not any(map(_has_an_order_or_address, values)))
    given = [{"schema": schema_json(schema), "value": value_json(v, schema)} for v in values]
    answers = connect_classes.ask({"converter": name, "config": options, "write": given})["results"]
    made = CONVERTERS[name]()
    made.configure(options)
    write = writing(made)

    written = []
    for value, answer in zip(values, answers, strict=True):
        try:
            (data,) = write([value], schema)
        except DataError as error:
            assert (type(error).java_class, str(error)) == (answer["error"], answer["message"])
        else:
            assert _comparable(data) == _comparable(base64.b64decode(answer["data"] or ""))
            written.append((value, data))
    together = write([value for value, _ in written], schema)
    assert together == [data for _, data in written]


@given(st.one_of(columns(), st.lists(JSON, max_size=3).map(lambda values: (None, values))))
def test_any_header(
    connect_classes: ConnectClasses, column: tuple[Schema | None, list[Any]]
) -> None:
    """It is read and written again as by Connect, too."""
    schema, values = column
    assume(not any(map(_has_an_order_or_address, values)))
    assume(not any({int, dt.date} <= set(_kinds(each)) for each in values))
    given = [{"schema": schema_json(schema), "value": value_json(v, schema)} for v in values]
    simple = SimpleHeaderConverter()

    for value, answer in zip(
        values, connect_classes.ask({"headers": given})["results"], strict=True
    ):
        data = simple.from_connect("t", "h", schema, value)
        theirs, again = (base64.b64decode(answer[name] or "") for name in ("data", "again"))
        assert _comparable(data) == _comparable(theirs)
        found, read = simple.to_connect("t", "h", None if value is None else theirs)
        assert schema_json(found) == answer["schema"]
        assert _comparable(simple.from_connect("t", "h", found, read)) == _comparable(again)


LITERALS = st.recursive(
    st.sampled_from(
        ["1", "300", "1.5", "1.1", "1e300", "-0.0", '"a"', "true", "null", "2024-01-01"]
    ),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3).map(lambda found: f"[{','.join(found)}]"),
        # of one entry: Java writes others in the order of a hash map
        parts.map(lambda value: f'{{"k":{value}}}'),
        parts.map(lambda value: f"{{1:{value}}}"),
        st.just("{}"),
    ),
    max_leaves=6,
)


@given(literals=st.lists(LITERALS, min_size=1, max_size=4), options=st.sampled_from(OPTIONS[:3]))
@example(literals=["[]", "{}", '[1,"a"]', "[null]", '{"k":null}', "[[],1]"], options={})
@example(literals=['[[{"k":1e300},{1:1.1}],"a"]'], options={})
def test_any_literal_as_a_header_in_json(
    connect_classes: ConnectClasses, literals: list[str], options: Mapping[str, str]
) -> None:
    """The trap: elements of different types, and those of an empty list, have no schema."""
    converter = JsonConverter()
    converter.configure({**options, "converter.type": "header"})
    answers = connect_classes.ask({"literals": literals, "config": options})["results"]
    for text, answer in zip(literals, answers, strict=True):
        # of values that do not fit their schema, numbers may here: those of Python have no width
        if text == "null" or answer.get("message", "").startswith("Invalid type for "):
            continue
        schema, value = parse_literal(text)
        try:
            data = converter.from_connect("t", "h", schema, value)
        except DataError as error:
            keyless = str(error) == "The schema of a map needs one of its keys"
            assert keyless or str(error) == answer["message"]
            assert "error" in answer
            continue
        theirs = base64.b64decode(answer["data"]) if answer["data"] else None
        assert _comparable(data) == _comparable(theirs)
        try:
            found, read = converter.to_connect("t", "h", theirs)
        except DataError as error:
            assert str(error) == answer["unreadable"]["message"]
        else:
            assert schema_json(found) == answer["schema"]
            assert comparable(value_json(read, found)) == comparable(answer["value"])


def _has_an_order_or_address(value: Any) -> bool:
    """Whether Java writes it in the order of a hash map, or where it is in memory."""
    match value:
        case bytes():
            return True
        case Struct():
            return any(map(_has_an_order_or_address, value.values.values()))
        case dict():
            return len(value) > 1 or any(map(_has_an_order_or_address, value.values()))
        case list():
            return any(map(_has_an_order_or_address, value))
        case _:
            return False


def _kinds(value: Any) -> Iterator[type]:
    """Its parts. Beside dates Connect takes numbers for dates, also where Python's have ended."""
    match value:
        case Struct():
            parts = list(value.values.values())
        case dict():
            parts = list(value.values())
        case list():
            parts = value
        case _:
            yield type(value)
            return
    for part in parts:
        yield from _kinds(part)


def _comparable(data: bytes | None) -> bytes:
    return FRACTION.sub(lambda m: java_float(to_float(float(m[0]))).encode(), data or b"")
