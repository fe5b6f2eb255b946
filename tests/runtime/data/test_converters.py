"""String and byte converters, and which converter a connector gets."""

import pytest

from connect_runtime.api import BYTES, INT32, OPTIONAL_STRING, ConfigError, DataError
from connect_runtime.data.converters import converters_of
from connect_runtime.data.json_converter import JsonConverter
from connect_runtime.data.primitive_converters import ByteArrayConverter, StringConverter
from support.converting import reading, writing

STRING_NAME = "org.apache.kafka.connect.storage.StringConverter"
JSON_NAME = "org.apache.kafka.connect.json.JsonConverter"


def string(**options: str) -> StringConverter:
    made = StringConverter()
    made.configure({k.replace("_", "."): v for k, v in options.items()}, is_key=False)
    return made


def test_strings() -> None:
    values = ["a", None, "é", 1, 1e7, True, {"k": [None]}]
    wanted = [b"a", None, "é".encode(), b"1", b"1.0E7", b"true", b"{k=[null]}"]

    assert writing(string())(values, None) == wanted


def test_reading_strings() -> None:
    column = reading(string())([b"a", None, b"\xff"])

    assert column.values == ["a", None, "\ufffd"]
    assert column.schema is OPTIONAL_STRING


def test_another_encoding() -> None:
    assert writing(string(converter_encoding="ISO-8859-1"))(["é"], None) == [b"\xe9"]
    with pytest.raises(ConfigError, match="Invalid value nope for configuration"):
        string(converter_encoding="nope")


def test_bytes() -> None:
    made = ByteArrayConverter()

    assert writing(made)([b"a", None, bytearray(b"b")], BYTES) == [b"a", None, b"b"]
    with pytest.raises(DataError, match="Invalid schema type for ByteArrayConverter: INT32"):
        writing(made)([b"a"], INT32)
    with pytest.raises(DataError, match="not compatible"):
        writing(made)(["a"], None)


def test_the_connectors_converter_wins_with_its_own_options() -> None:
    found = converters_of(
        {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"},
        {"key.converter": STRING_NAME, "value.converter": STRING_NAME},
    )

    assert isinstance(found.key, StringConverter)
    assert isinstance(found.value, JsonConverter)
    assert writing(found.value)([{"a": 1}], None) == [b'{"a":1}']


def test_worker_options_do_not_reach_a_connectors_converter() -> None:
    found = converters_of(
        {"value.converter": JSON_NAME},
        {"key.converter": JSON_NAME, "value.converter": JSON_NAME,
         "value.converter.schemas.enable": "false"},
    )  # fmt: skip

    assert writing(found.value)([1], None) == [b'{"schema":null,"payload":1}']


def test_wrong_options() -> None:
    worker = {"key.converter": JSON_NAME, "value.converter": JSON_NAME}
    with pytest.raises(ConfigError, match="Expected value to be either true or false"):
        converters_of({}, worker | {"key.converter.schemas.enable": "maybe"})
    with pytest.raises(ConfigError, match="Missing required configuration"):
        converters_of({}, {})
