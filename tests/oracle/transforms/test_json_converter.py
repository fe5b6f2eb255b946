"""JsonConverter, compared with Connect's: what it reads, writes and refuses, with the texts of
errors, and where ours refuses what Connect changes without a word."""

from __future__ import annotations

import base64
import datetime as dt
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
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
from connect_runtime.data.json_converter import JsonConverter
from connect_runtime.tasks.run import RECURSION
from support.connect_classes import ConnectClasses
from support.connect_json import Json, comparable, schema_json, value_json
from support.converting import reading, writing

pytestmark = pytest.mark.oracle

NAME = "org.apache.kafka.connect.json.JsonConverter"
PLAIN = {"schemas.enable": "false"}
DATA = "org.apache.kafka.connect.data"
DEEP = 1000  # levels that Jackson reads


def enveloped(schema: str, *payloads: str) -> list[bytes]:
    return [f'{{"schema":{schema},"payload":{payload}}}'.encode() for payload in payloads]


def typed(*names: str, payloads: Sequence[str]) -> list[bytes]:
    return [d for name in names for d in enveloped(f'{{"type":"{name}"}}', *payloads)]


def logical(name: str, type_: str, more: str = "") -> str:
    return f'{{"type":"{type_}","name":"{DATA}.{name}","version":1{more}}}'


def every(schemas: Iterable[str], *payloads: str) -> list[bytes]:
    return [d for schema in schemas for d in enveloped(schema, *payloads)]


DECIMAL = logical("Decimal", "bytes", ',"parameters":{"scale":"2"}')
STRUCT = (
    '{"type":"struct","fields":[{"field":"a","type":"int32"},'
    '{"field":"b","type":"string","optional":true},{"field":"c","type":"int32","default":7},'
    '{"field":"d","type":"int32","optional":true,"default":8}]}'
)
STRUCTS = (
    "{}", '{"a":1}', '{"a":1,"unknown":2}', '{"a":null}', '{"a":1,"b":"x"}',
    '{"a":1,"c":null,"d":null}', "[]", '"x"', "1", '{"a":1,"a":2}', '{"a":1,"b":null}', "null",
)  # fmt: skip
MANY = "{" + ",".join(f'"f{n}":{n}' for n in range(2_000)) + "}"
FIELDS = [f'{{"field":"f{n}","type":"int32"}}' for n in range(2_000)]
# name: (options, messages)
SAME: Mapping[str, tuple[Mapping[str, str], Sequence[bytes]]] = {
    "json": (
        PLAIN,
        [
            b"true", b"null", b'"a"', b"0", b"-0", b"1.0", b"1e2", b"1e-400",
            b"9223372036854775807", b"-9223372036854775808", b"0.1",
            b"3.14159265358979323846264338327950288", b"007",
            b"-007", b"00", b"00.5", b'{"a":-01,"b":"007 \\" 008"}', b"1e-05", b"[[],{}]",
            b'{"":1}', b'{"a":1,"a":2}', b' {"a" : [1 , 2.5, "x", null, false] }\n',
            "\"\U0001f600 \u00e9 \\u00e9\"".encode(), b'"\x7f"',
        ],
    ),
    "nothing": (PLAIN, [b"", b" \t\r\n"]),
    "no-json": (
        PLAIN,
        [
            b"{", b"[1", b"tru", b"nullx", b"'a'", b'"unclosed', b'{"a":1,}', b"[1,]", b"{a:1}",
            b"12abc", b"NaN", b"[NaN]", b"Infinity", b"-Infinity", b"+1", b".5", b"5.", b"0x10",
            b'"a\nb"', b'"\t"', b'"\\x"', b'"\x00"', b"/*c*/1", b"\x00", b"\xff\xfe\xfd",
            b'{"a":"\xff"}', b'"\xed\xa0\x80"', b"\x1e1", b"1" * 1001, b"1" * 10_000,
            b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000,
            b'"' + b'\\"' * 100_000,
        ],
    ),
    "encodings": (
        PLAIN,
        [
            b'\xef\xbb\xbf{"a":1}', '{"a":"\u00e9"}'.encode("utf-16"),
            '{"a":1}'.encode("utf-16-le"), '{"a":1}'.encode("utf-16-be"),
            '{"a":1}'.encode("utf-32-be"), b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf",
            b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff", b"\xef\xbb\xbf ", b"\xff\xfe \x00",
            b"\x00 \x00 ",
        ],
    ),
    "envelopes": (
        {},
        [
            b"", b" ", b"1", b"null", b"[]", b"{}", b'{"schema":null}', b'{"payload":1}',
            b'{"schema":null,"payload":null}', b'{"schema":null,"payload":{"a":1}}',
            b'{"payload":1,"schema":{"type":"int32"}}',
            b'{"schema":{"type":"int32"},"payload":1,"payload":2}',
            b'{"schema":{"type":"int32"},"payload":1,"x":2}',
            b' {"schema" : {"type":"int32"} , "payload" : 1 } ',
        ],
    ),
    "types": (
        {},
        [
            *typed("int8", "int16", "int32", "int64", payloads=["0", "-1", "127", "1.0", "null"]),
            *typed("int32", payloads=["2147483647", "-2147483648", "1e2"]),
            *typed("int64", payloads=["9223372036854775807", "-9223372036854775808"]),
            *typed("float", "double", payloads=["0", "1", "-1.5", "0.1", "1e30", "null"]),
            # in and beside the middle between two numbers of 32 bits
            *typed("float", payloads=["16777217", "16777219", "9007199791611905", "1e39"]),
            *typed("float", payloads=["1.000000059604644775390625", "3.4028235677973366e38"]),
            *typed("float", payloads=["1.00000005960464477539062501", "1e-45", "7.1e-46"]),
            *typed("boolean", payloads=["true", "false", "null"]),
            *typed("string", payloads=['""', '"x"', "null"]),
            *typed("bytes", payloads=['""', '"AAE="', '"AAE"', '"AA E="', '"x"', "null"]),
            # lines of MIME, and what may and may not be padded
            *typed("bytes", payloads=['"AAEC\\r\\nAAEC\\n"', '" AAE="', '"AA==AAE="', '"AAE =="']),
            *typed("bytes", payloads=['"AAEC="', '"AAEC===="', '"="', '"AA="', '"AB=="', '"A-_="']),
        ],
    ),
    "decimals": (
        {},
        enveloped(
            DECIMAL,
            '"BNI="', '"/w=="', '"BNI=\\n"', "1", "-1", "12.34", "12.345", "0.1",
            "1e2", "9223372036854775807",
            "3.14159265358979323846264338327950288", "123456789012345678901234567890.12",
            "123456789012345678901234567890123456789", '""', '"x"', "true", "[]", "{}", "null",
        ),
    ),
    "many-digits": (
        {},
        enveloped(DECIMAL, f'"{base64.b64encode(bytes([127] * 40)).decode()}"', "1" * 100 + ".5"),
    ),
    "times": (
        {},
        [
            *every(
                [logical("Date", "int32"), logical("Time", "int32")],
                "0", "1", "1.5", "1.0", '"x"', "true", "[]", "2147483648", "null",
            ),
            *enveloped(logical("Date", "int32"), "-1", "-719162", "2932896"),
            *enveloped(logical("Time", "int32"), "86399999", "-1", "86400001"),
            *enveloped(
                logical("Timestamp", "int64"),
                "0", "-1", "253402300799999", "-62135596800000", "1.0", '"x"', "null",
            ),
            *enveloped(logical("Date", "string"), "1"),
        ],
    ),
    "schemas": (
        {},
        every(
            [
                "1", '"x"', "[]", "{}", '{"type":1}', '{"type":"x"}', '{"type":"array"}',
                '{"type":"array","items":null}', '{"type":"array","items":{}}', '{"type":"map"}',
                '{"type":"map","keys":{"type":"string"}}',
                '{"type":"map","keys":null,"values":null}',
                '{"type":"map","keys":{"type":"string"},"values":null}', '{"type":"struct"}',
                '{"type":"struct","fields":{}}', '{"type":"struct","fields":[1]}',
                '{"type":"struct","fields":[null]}',
                '{"type":"struct","fields":[{"type":"int32"}]}',
                '{"type":"struct","fields":[{"field":1,"type":"int32"}]}',
                '{"type":"struct","fields":[{"field":"a"}]}',
                '{"type":"struct","fields":[{"field":"a","type":"int8"},'
                '{"field":"a","type":"int8"}]}',
                '{"type":"struct","fields":[{"field":"","type":"int32"}]}',
                '{"type":"int32","optional":"true"}', '{"type":"int32","optional":1}',
                '{"type":"int32","optional":true}', '{"type":"int32","name":1}',
                '{"type":"int32","version":"1"}', '{"type":"int32","version":1.0}',
                '{"type":"int32","version":true}', '{"type":"int32","doc":1}',
                '{"type":"int32","parameters":{"a":1}}', '{"type":"int32","parameters":[]}',
                '{"type":"int32","parameters":{}}', '{"type":"int32","default":null}',
                '{"type":"int32","optional":true,"default":null}', '{"type":"int32","default":5}',
                '{"type":"int32","name":"n","version":2,"doc":"d","parameters":{"p":"q"},'
                '"default":1}',
                DECIMAL.replace("}}", '},"default":0.1}'),
            ],
            "1", "null",
        ),
    ),
    "many-fields": (
        {},
        [
            *enveloped("null", MANY),
            *enveloped(f'{{"type":"struct","fields":[{",".join(FIELDS)}]}}', MANY, "{}"),
        ],
    ),
    "structs": ({}, enveloped(STRUCT, *STRUCTS)),
    "nulls": ({"replace.null.with.default": "false"}, enveloped(STRUCT, *STRUCTS)),
    "maps": (
        {},
        [
            *enveloped(
                '{"type":"map","keys":{"type":"string"},"values":{"type":"int32"}}',
                "{}", '{"a":1}', '[["a",1]]', '{"a":null}', "1", "null",
            ),
            *enveloped(
                '{"type":"map","keys":{"type":"int32"},"values":{"type":"string"}}',
                "[]", '[[1,"a"]]', '{"1":"a"}', "[[1]]", '[[1,"a",2]]', "[1]", '["ab"]',
                '[{"a":1,"b":2}]', '[[null,"a"]]', "[[1,null]]", '[[1,"a"],[1,"b"]]',
            ),
        ],
    ),
    "arrays": (
        {},
        [
            *enveloped('{"type":"array","items":{"type":"int32"}}', "[]", "[1,2]", "[null]"),
            *enveloped(
                '{"type":"array","items":{"type":"array","items":{"type":"string","optional":true}}}',
                '[["a",null],[]]',
            ),
        ],
    ),
    # KIP-1054: payloads without an envelope
    "a schema in the config": (
        {"schema.content": STRUCT},
        [*(each.encode() for each in (*STRUCTS, "{", "")), *enveloped(STRUCT, '{"a":1}')],
    ),
    "no struct in the config": (
        {"schema.content": " " + logical("Timestamp", "int64", ',"optional":true') + " "},
        [b"1", b"null", b"", b'"a"', b"1.5", *typed("int64", payloads=["1"])],
    ),
    "an empty schema in the config": ({"schema.content": ""}, typed("int32", payloads=["1"])),
    "null as schema in the config": ({"schema.content": "null"}, typed("int32", payloads=["1"])),
    "a schema in the config, and no schemas": (
        {"schema.content": STRUCT, "schemas.enable": "false"}, [b'{"a":1}', b"1", b"null"]
    ),
}  # fmt: skip
# what Connect reads as something else, or in part, is an error here
STRICTER: Mapping[str, tuple[Mapping[str, str], Sequence[bytes]]] = {
    "what-follows": (PLAIN, [b'{"a":1} x', b"1 2", b'{"a":1}}']),
    "no-unicode": (PLAIN, [b'"\\ud800"', b'"\xc0\x80"']),
    "huge-numbers": (PLAIN, [b"1e999999", b"-1e400", b"1" * 1000]),
    "other-types": (
        {},
        [
            *typed("int8", "int32", "int64", payloads=['"1"', "true", "[]", "{}", "1.5"]),
            *typed("int8", payloads=["128", "1e10"]),
            *typed("int64", payloads=["9223372036854775808", "9007199254740993.0"]),
            *typed("float", "double", payloads=['"1"', "true", "[]"]),
            *typed("boolean", payloads=["1", '"true"', "[]"]),
            *typed("string", payloads=["1", "true", "[]", "{}"]),
            *typed("bytes", payloads=["1", "true", "[]"]),
            *enveloped('{"type":"array","items":{"type":"int32"}}', "{}", '"ab"'),
        ],
    ),
    "far-dates": (
        {},
        [
            *enveloped(logical("Date", "int32"), "2932897", "-719163"),
            *enveloped(logical("Time", "int32"), "86400000"),
            *enveloped(logical("Timestamp", "int64"), "253402300800000", "9223372036854775807"),
        ],
    ),
    "huge-decimals": (
        {},
        enveloped(DECIMAL, f'"{base64.b64encode(bytes([127] * 5000)).decode()}"'),
    ),
}  # fmt: skip
# what Connect refuses, or reads as another number, is read here
MORE: Mapping[str, tuple[Mapping[str, str], Sequence[tuple[bytes, Any]]]] = {
    "long-fractions": (PLAIN, [(b"0." + b"1" * 1200, 0.1111111111111111)]),
    "beyond-int64": (
        PLAIN,
        [(b"9223372036854775808", 2**63), (b"18446744073709551616", float(2**64))],
    ),
    "minus-zero": (PLAIN, [(b"-0.0", -0.0)]),
    "not-finite": ({}, [(typed("double", payloads=['"Infinity"'])[0], float("inf"))]),
}


def converter(options: Mapping[str, str]) -> JsonConverter:
    made = JsonConverter()
    made.configure(options, is_key=False)
    return made


def theirs(classes: ConnectClasses, options: Mapping[str, str], **more: Any) -> list[Json]:
    answer = classes.ask({"converter": NAME, "config": dict(options), **more})
    found: list[Json] = answer["results"]
    return found


def their_readings(
    classes: ConnectClasses, options: Mapping[str, str], data: Sequence[bytes], **more: Any
) -> list[Json]:
    texts = [base64.b64encode(each).decode() for each in data]
    return [_plain(each) for each in theirs(classes, options, read=texts, **more)]


def _plain(found: Json) -> Json:
    return {k: v for k, v in found.items() if k != "cause"} if "error" in found else found


def our_reading(options: Mapping[str, str], data: bytes) -> Json:
    try:
        column = reading(converter(options))([data])
    except DataError as error:
        return {"error": type(error).java_class, "message": str(error)}
    (schema,) = column.each_schema()
    return {"schema": schema_json(schema), "value": value_json(column.values[0], schema)}


@pytest.mark.parametrize("name", SAME)
def test_reading(connect_classes: ConnectClasses, name: str) -> None:
    options, data = SAME[name]
    for message, found in zip(data, their_readings(connect_classes, options, data), strict=True):
        assert comparable(our_reading(options, message)) == comparable(found), message[:200]


@pytest.mark.parametrize("enabled", ["true", "false"])
@pytest.mark.parametrize(
    "content",
    ["{", "1", '"x"', "[]", "{}", '{"type":"nope"}', '{"type":1}', '{"type":"array"}', "true"],
)
def test_a_schema_in_the_config_that_is_none(
    connect_classes: ConnectClasses, content: str, enabled: str
) -> None:
    options = {"schema.content": content, "schemas.enable": enabled}
    expected = connect_classes.ask({"converter": NAME, "config": options})
    with pytest.raises(DataError) as raised:
        converter(options)
    assert {"error": raised.value.java_class, "message": str(raised.value)} == _plain(expected)


@pytest.mark.parametrize("name", STRICTER)
def test_what_is_an_error_only_here(connect_classes: ConnectClasses, name: str) -> None:
    options, data = STRICTER[name]
    for message, found in zip(data, their_readings(connect_classes, options, data), strict=True):
        assert "error" not in found, message[:200]
        assert "error" in our_reading(options, message), message[:200]


@pytest.mark.parametrize("name", MORE)
def test_what_is_read_only_here(connect_classes: ConnectClasses, name: str) -> None:
    options, cases = MORE[name]
    found = their_readings(connect_classes, options, [data for data, _ in cases])
    for (data, value), their in zip(cases, found, strict=True):
        assert reading(converter(options))([data]).values == [value]
        assert "error" in their or their["value"] != value_json(value, None)


@pytest.mark.parametrize("shape", [(b"[", b"]"), (b'{"a":', b"}")], ids=["arrays", "objects"])
def test_depths(
    connect_classes: ConnectClasses,
    shape: tuple[bytes, bytes],
    request: pytest.FixtureRequest,
) -> None:
    """As deep as Connect's parser goes, ours goes, too, and writes it again."""
    request.addfinalizer(partial(sys.setrecursionlimit, sys.getrecursionlimit()))
    sys.setrecursionlimit(RECURSION)
    data = [shape[0] * n + b"1" + shape[1] * n for n in (100, DEEP, DEEP + 1, 100 * DEEP)]
    found = their_readings(connect_classes, PLAIN, data, brief=True)

    assert ["error" in each for each in found] == [False, False, True, True]
    read, write = reading(converter(PLAIN)), writing(converter(PLAIN))
    for message in data[:2]:
        assert write(read([message]).values, None) == [message]
    with pytest.raises(DataError):
        read([data[3]])


POINT = Schema.struct({"x": INT32, "y": Schema(Type.INT32, default=7)}, name="Point")
EMOJI = Schema.struct(
    {
        "f\U0001f600": Schema(
            Type.STRING,
            default="\U0001f600",
            doc="\x1f\U0001f600",
            parameters={"p\U0001f600": "\U0001f600"},
        )
    },
    name="\U0001f600",
)
VALUES: Sequence[tuple[Schema | None, Sequence[Any]]] = (
    (None, [
        None, True, 1, -5, 1.5, 1e21, 100.0, 1e-5, 1e7, 0.0001, float("nan"), [float("-inf")],
        "a\x1f\n\u00e9", b"\x00", [1, None], {"x": None, "y": float("nan")}, "1.5e9 null \\u00",
        {"a": [None]}, {1: "a"}, {}, [], Decimal("1.5"), Struct(POINT, {"x": 1}),
        "\U0001f600\u20ac", {"\U0001f600": ["\U000e226e", 1e21]}, {"\ud800": ["\udcff\u20ac"]},
    ]),
    (BOOLEAN, [True, 1, "x", None]),
    *((schema, [1, -1, 127, True, "x", 1.5, None]) for schema in (INT8, INT16, INT32, INT64)),
    (FLOAT32, [0.5, 0.1, 1e30, float("nan"), float("inf"), "x"]),
    (FLOAT64, [0.5, 0.1, 1e21, 1e-5, float("nan"), float("-inf"), "x"]),
    (STRING, ["", "x\"\\\u2028\u007f", "\\u00ab", "\\\u001f\\\\u001f", 1, None]),
    (STRING, ["\U0001f600 \u00e9\u20ac \U000e226e", "\U00010000\U0010ffff\n", "\uffff"]),
    (STRING, ["\U0001f600", "\u00e9"]),
    (STRING, ["\ud800x", "a\udcff\x1f\n\\\"", "\ude00\ud83d\U0001f600\u20ac"]),
    (EMOJI, [Struct(EMOJI, {"f\U0001f600": "\U0001f600"}), Struct(EMOJI)]),
    (BYTES, [b"", b"\x00\xff", "x"]),
    (STRING.as_optional(), [None, "x"]),
    (Schema(Type.STRING, default="d"), [None, "x"]),
    (decimal(2), [
        Decimal("12.34"), Decimal("-0.01"), Decimal("0.00"), Decimal("1.28"), Decimal("12.345"),
        Decimal("-1.28"),
        Decimal("123456789012345678901234567890123456.78"), "x", None,
    ]),
    (decimal(8), [
        Decimal("0E-8"), Decimal("0.00000015"), Decimal("-0.00000150"), Decimal("1.50000000"),
        Decimal("123456789012.12345678"),
    ]),
    (decimal(-2), [Decimal("0E+2"), Decimal("12E+2")]),
    (DATE, [dt.date(1970, 1, 4), dt.date(1969, 12, 31), dt.date(9999, 12, 31), "x"]),
    (TIME, [dt.time(0, 0), dt.time(23, 59, 59, 999000), "x"]),
    (TIMESTAMP, [
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(1, 1, 1, tzinfo=dt.UTC),
        dt.datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=dt.UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC), "x",
    ]),
    (Schema.array(INT32), [[], [1, 2], [1, "x"], [None], "x", 1]),
    (Schema.map(STRING, INT32), [{}, {"a": 1}, {"a": "x"}, {"a": None}, "x"]),
    (Schema.map(INT32, STRING), [{}, {1: "a"}, {1: None}]),
    (POINT, [Struct(POINT, {"x": 1}), Struct(POINT, {"x": 1, "y": 2}), "x", None]),
)  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [{}, PLAIN, {**PLAIN, "decimal.format": "NUMERIC"}, {"schema.content": STRUCT}],
    ids=str,
)
def test_writing(connect_classes: ConnectClasses, options: Mapping[str, str]) -> None:
    cases = [(schema, value) for schema, values in VALUES for value in values]
    write = [{"schema": schema_json(s), "value": value_json(v, s)} for s, v in cases]
    answers = theirs(connect_classes, options, write=write)
    written: dict[Schema | None, list[tuple[Any, bytes | None]]] = defaultdict(list)
    for (schema, value), found in zip(cases, answers, strict=True):
        ours: Any
        try:
            (ours,) = writing(converter(options))([value], schema)
        except DataError as error:
            ours = type(error).java_class, str(error)
        if "error" in found:
            assert ours == (found["error"], found["message"]), (schema, value)
        else:
            data = found["data"] and base64.b64decode(found["data"])
            assert ours == data, (schema, value)
            written[schema].append((value, data))
    for schema, rows in written.items():  # all of them at once
        values = [value for value, _ in rows]
        assert writing(converter(options))(values, schema) == [data for _, data in rows]
