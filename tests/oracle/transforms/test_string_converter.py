"""StringConverter writes the texts that Connect's writes: Java's `toString` of each value."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from connect_runtime.api import FLOAT32, FLOAT64, STRING, Schema, Struct
from connect_runtime.data.string_converter import StringConverter
from support.connect_classes import ConnectClasses
from support.connect_json import schema_json, value_json
from support.converting import writing

pytestmark = pytest.mark.oracle

# numbers that Java writes with the same digits before version 19 and since
FLOATS = (0.1, 3.14, -0.0, 100.0, 1e-5, 1e10, 16777216.0, 1e-45, 3.4028234663852886e38)
DOUBLES = (0.1, -0.0, 1e-3, 1e7, 123456.789, 1e21, 5e-324)
IN = Schema.struct({"f": FLOAT32, "d": FLOAT64})
OUT = Schema.struct({"f": FLOAT32, "s": STRING, "in": IN, "all": Schema.array(FLOAT32)})
STRUCTS = [
    Struct(OUT, {"f": f, "s": "x", "in": Struct(IN, {"f": f, "d": 0.1}), "all": [f, 1.0]})
    for f in (0.1, 3.14)
]


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (FLOAT32, FLOATS), (FLOAT64, DOUBLES), (None, DOUBLES), (OUT, STRUCTS),
        (Schema.array(FLOAT32), [[0.1], []]), (Schema.map(STRING, FLOAT32), [{"a": 0.1}, {}]),
    ],
)  # fmt: skip
def test_texts(connect_classes: ConnectClasses, schema: Schema | None, values: list[Any]) -> None:
    given = [{"schema": schema_json(schema), "value": value_json(v, schema)} for v in values]
    name = "org.apache.kafka.connect.storage.StringConverter"
    answer = connect_classes.ask({"converter": name, "config": {}, "write": given})
    converter = StringConverter()
    converter.configure({})

    found = writing(converter)(values, schema)
    assert found == [base64.b64decode(each["data"]) for each in answer["results"]]
