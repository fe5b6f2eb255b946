"""StringConverter writes and reads the texts that Connect's does: Java's `toString` of each value,
and UTF-8 as Java reads it."""

from __future__ import annotations

import base64
import codecs
import datetime as dt
from itertools import product
from typing import Any

import pytest

from connect_runtime.api import (
    DATE,
    FLOAT32,
    FLOAT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Struct,
)
from connect_runtime.data.primitive_converters import StringConverter
from connect_runtime.java.scalars import java_text
from support.connect_classes import ConnectClasses
from support.connect_json import schema_json, value_json
from support.converting import reading, writing

pytestmark = pytest.mark.oracle

# numbers that Java writes with the same digits before version 19 and since
FLOATS = (0.1, 3.14, -0.0, 100.0, 1e-5, 1e10, 16777216.0, 1e-45, 3.4028234663852886e38)
DOUBLES = (0.1, -0.0, 1e-3, 1e7, 123456.789, 1e21, 5e-324)
# bytes that begin, continue and end characters
PIECES = b"A\x80\x8f\x90\x9f\xa0\xbf\xc0\xc2\xe0\xe1\xed\xef\xf0\xf4\xf5"
NAME = "org.apache.kafka.connect.storage.StringConverter"
IN = Schema.struct({"f": FLOAT32, "d": FLOAT64})
OUT = Schema.struct({"f": FLOAT32, "s": STRING, "in": IN, "all": Schema.array(FLOAT32)})
DAYS = [dt.date(*each) for each in ((1970, 1, 1), (2024, 2, 29), (1582, 10, 15), (9999, 1, 3))]
TIMES = [dt.time(), dt.time(23, 59, 59, 999_000)]
MOMENTS = [dt.datetime.combine(day, time, dt.UTC) for day in DAYS for time in TIMES]
DATED = Schema.struct({"at": TIMESTAMP, "day": DATE, "all": Schema.array(TIME)})
STRUCTS = [
    Struct(OUT, {"f": f, "s": "x", "in": Struct(IN, {"f": f, "d": 0.1}), "all": [f, 1.0]})
    for f in (0.1, 3.14)
]


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (FLOAT32, FLOATS), (FLOAT64, DOUBLES), (None, DOUBLES), (OUT, STRUCTS),
        (Schema.array(FLOAT32), [[0.1], []]), (Schema.map(STRING, FLOAT32), [{"a": 0.1}, {}]),
        (DATE, DAYS), (TIME, TIMES), (TIMESTAMP, MOMENTS),
        (DATED, [Struct(DATED, {"at": MOMENTS[2], "day": DAYS[1], "all": TIMES})]),
    ],
)  # fmt: skip
def test_writing(connect_classes: ConnectClasses, schema: Schema | None, values: list[Any]) -> None:
    given = [{"schema": schema_json(schema), "value": value_json(v, schema)} for v in values]
    answer = connect_classes.ask({"converter": NAME, "config": {}, "write": given})
    converter = StringConverter()
    converter.configure({})

    found = writing(converter)(values, schema)
    assert found == [base64.b64decode(each["data"]) for each in answer["results"]]


def test_reading_what_is_no_utf8(connect_classes: ConnectClasses) -> None:
    """Each part of a character is replaced once, as is half of a surrogate pair."""
    data = [bytes(each) for size in (1, 2, 3) for each in product(PIECES, repeat=size)]
    data += [each + b"\xbf\x80A" for each in data]
    read = [base64.b64encode(each).decode() for each in data]
    answer = connect_classes.ask({"converter": NAME, "config": {}, "read": read})
    converter = StringConverter()
    converter.configure({})

    theirs = [each["value"]["v"] for each in answer["results"]]
    assert list(reading(converter)(data).values) == theirs
    assert [java_text(each) for each in data] == theirs


@pytest.mark.parametrize(
    "encoding", ["UTF-16", "UTF-16LE", "UTF-32", "ISO-8859-1", "US-ASCII", "windows-1252"]
)
def test_other_encodings(connect_classes: ConnectClasses, encoding: str) -> None:
    texts = ["", "a", "\u20ac", "\U0001f600"]
    marks = (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE)
    data = [b"", b"a", b"\x00a", b"a\x00", b"\x00\x00\x00a", b"\x81\xff", *marks]
    data += [mark + b"a\x00" for mark in marks]
    options = {"converter.encoding": encoding}
    given = {
        "read": [base64.b64encode(each).decode() for each in data],
        "write": [{"schema": None, "value": value_json(each, None)} for each in texts],
    }
    answer = connect_classes.ask({"converter": NAME, "config": options, **given})["results"]
    converter = StringConverter()
    converter.configure(options)

    theirs = [each["value"]["v"] for each in answer[: len(data)]]
    assert [reading(converter)([each]).values[0] for each in data] == theirs
    assert list(reading(converter)(data).values) == theirs
    written = [base64.b64decode(each["data"]) for each in answer[len(data) :]]
    assert writing(converter)(texts, None) == written
