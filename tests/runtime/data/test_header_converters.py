"""Headers: SimpleHeaderConverter's inference, and the other converters used for headers.

`literals.json` was made by SimpleHeaderConverter of Apache Kafka 4.1.0, in UTC: a header's text,
the schema that it is read with, and the text that it is then written as.
"""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pytest

from connect_runtime.api import (
    BYTES,
    FLOAT32,
    INT32,
    OPTIONAL_INT32,
    STRING,
    TIMESTAMP,
    ConfigError,
    DataError,
    HeaderConverter,
    Schema,
    Struct,
)
from connect_runtime.data.converters import converters_of
from connect_runtime.data.simple_header_converter import SimpleHeaderConverter

STRING_NAME = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {"key.converter": STRING_NAME, "value.converter": STRING_NAME}
LITERALS = json.loads(Path(__file__).with_name("literals.json").read_text())
SIMPLE = SimpleHeaderConverter()


def header_converter(**config: str) -> HeaderConverter:
    return converters_of({k.replace("_", "."): v for k, v in config.items()}, WORKER).header


def shown(schema: Schema | None) -> str:
    """A schema as `literals.json` has it."""
    if schema is None:
        return "null"
    text = schema.type.name
    if schema.items or text == "ARRAY":
        text += f"<{shown(schema.items)}>"
    if text == "MAP":
        text += f"<{shown(schema.keys)},{shown(schema.values)}>"
    if schema.name is not None:
        parameters = schema.parameters
        held = ",".join(f"{k}={v}" for k, v in (parameters or {}).items())
        text += f":{schema.name.rpartition('.')[2]}{f'{{{held}}}' if held else 'null'}"
    return text


@pytest.mark.parametrize(("text", "schema", "written"), LITERALS)
def test_texts_are_read_as_by_connect(text: str, schema: str, written: str) -> None:
    found, value = SIMPLE.to_connect("t", "k", text.encode())

    if not schema:
        assert (found, value) == (None, None)
        return
    assert shown(found) == schema
    data = SIMPLE.from_connect("t", "k", found, value)
    assert data is not None
    assert data.decode() == written


def test_values_are_those_of_their_schema() -> None:
    def read(text: str) -> object:
        return SIMPLE.to_connect("t", "k", text.encode())[1]

    assert read("2024-01-02") == dt.date(2024, 1, 2)
    assert read("2024-01-02T03:04:05.678Z") == dt.datetime(2024, 1, 2, 3, 4, 5, 678000, dt.UTC)
    assert read("9223372036854775808") == Decimal(2**63)
    assert [type(each) for each in read("[1,1.5]")] == [float, float]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (STRING, 'a"b', 'a"b'),
        (STRING, "half\udcff", "half?"),
        (None, None, None),
        (BYTES, b"\x00\x01", "AAE="),
        (FLOAT32, 0.1, "0.1"),
        (None, {"a": [b"\x00", 'x"\\']}, '{"a":["AA==","x\\"\\\\"]}'),
        (TIMESTAMP, dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC), "01:00:00.000Z"),
        (TIMESTAMP, dt.datetime(1970, 1, 2), "1970-01-02"),  # noqa: DTZ001 -- in UTC
    ],
)
def test_values_are_written_as_text(schema: Schema, value: object, text: str | None) -> None:
    data = SIMPLE.from_connect("t", "k", schema, value)

    assert data == (None if text is None else text.encode())


def test_structs_are_written_as_maps() -> None:
    schema = Schema.struct({"a": INT32, "b": STRING.as_optional()})

    data = SIMPLE.from_connect("t", "k", schema, Struct(schema, {"a": 1}))

    assert data == b'{"a":1,"b":null}'


def test_lists_deeper_than_the_stack_are_bytes() -> None:
    data = b"[" * 100_000

    assert SIMPLE.to_connect("t", "k", data) == (BYTES, data)


def test_the_simple_one_is_the_default() -> None:
    assert isinstance(header_converter(), SimpleHeaderConverter)
    assert isinstance(header_converter(header_converter="Simple"), SimpleHeaderConverter)


def test_other_converters_with_options_of_the_connector() -> None:
    json_ = header_converter(
        header_converter="JsonConverter", **{"header.converter.schemas.enable": "false"}
    )
    assert json_.from_connect("t", "k", None, {"a": 1}) == b'{"a":1}'
    assert json_.to_connect("t", "k", b'{"a":1}') == (None, {"a": 1})

    integer = header_converter(
        header_converter="org.apache.kafka.connect.converters.IntegerConverter"
    )
    assert integer.to_connect("t", "k", b"\0\0\1\0") == (OPTIONAL_INT32, 256)
    with pytest.raises(DataError, match="Failed to deserialize integer: "):
        integer.to_connect("t", "k", b"1")


def test_a_worker_option_is_for_the_workers_converter() -> None:
    worker = {**WORKER, "header.converter": "JsonConverter",
              "header.converter.schemas.enable": "false"}  # fmt: skip

    assert converters_of({}, worker).header.from_connect("t", "k", None, 1) == b"1"
    own = converters_of({"header.converter": "JsonConverter"}, worker).header
    assert own.from_connect("t", "k", None, 1) == b'{"schema":null,"payload":1}'


def test_an_unknown_class() -> None:
    with pytest.raises(ConfigError, match="Class Nope could not be found"):
        header_converter(header_converter="Nope")
