"""Exchanges about plugins of all kinds: listings, keys, and validation of configs that name them.

Like those of `exchanges`, they change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from oracle.exchanges import Exchange

_JAVA = "org.apache.kafka.connect"
_TRANSFORMS = f"{_JAVA}.transforms"
_PREDICATES = f"{_TRANSFORMS}.predicates"
_JSON = f"{_JAVA}.json.JsonConverter"
_STRING = f"{_JAVA}.storage.StringConverter"
_SIMPLE = f"{_JAVA}.storage.SimpleHeaderConverter"
_NUMBERS = ("Boolean", "Double", "Float", "Integer", "Long", "Short")
_KEY_OR_VALUE = (
    "Cast",
    "ExtractField",
    "Flatten",
    "HeaderFrom",
    "HoistField",
    "InsertField",
    "MaskField",
    "ReplaceField",
    "SetSchemaMetadata",
    "TimestampConverter",
)
_WHOLE = ("DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey")

_MISSING_REGEX = "a missing expression is told once, without the error of Java's null"
_NO_PLUGIN = "Java's classes that are no plugins are not known here"


def _sink(config: Mapping[str, Any]) -> Exchange:
    body = {"name": "new", "connector.class": "FileStreamSink", "topics": "{topic}", **config}
    return Exchange("PUT", "/connector-plugins/FileStreamSink/config/validate", body)


def _source(config: Mapping[str, Any]) -> Exchange:
    body = {"name": "new", "connector.class": "FileStreamSource", "topic": "{topic}", **config}
    return Exchange("PUT", "/connector-plugins/FileStreamSource/config/validate", body)


def _keys(plugin: str) -> Exchange:
    return Exchange("GET", f"/connector-plugins/{plugin}/config")


def _differs(reason: str, exchange: Exchange) -> Exchange:
    return replace(exchange, differs=reason)


def _transform(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    full = name if "." in name else f"{_TRANSFORMS}.{name}"
    given = {f"transforms.a.{key}": value for key, value in options.items()}
    return {"transforms": "a", "transforms.a.type": full, **given}


def _predicate(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    given = {f"predicates.p.{key}": value for key, value in options.items()}
    return {"predicates": "p", "predicates.p.type": f"{_PREDICATES}.{name}", **given}


LISTED = (
    Exchange("GET", "/connector-plugins?connectorsOnly=false"),
    *(
        Exchange("GET", f"/connector-plugins/{plugin}/config?version={version}")
        for plugin in ("Filter", "FileStreamSink", "Nope")
        for version in ("latest", "[0.1,9.0)", "[9.9]", "[[")
    ),
    *(_keys(f"{_TRANSFORMS}.{name}${half}") for name in _KEY_OR_VALUE for half in ("Key", "Value")),
    *(_keys(f"{_TRANSFORMS}.{name}") for name in _WHOLE),
    *(
        _keys(f"{_PREDICATES}.{name}")
        for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
    ),
    *(_keys(f"{_JAVA}.converters.{name}Converter") for name in (*_NUMBERS, "ByteArray")),
    *map(_keys, (_JSON, _STRING, _SIMPLE)),
    # short names
    *map(
        _keys,
        ("Filter", "RegexRouter", "TopicNameMatches", "Json", "String", "SimpleHeaderConverter"),
    ),
    # plugins that only a worker's properties name
    *map(
        _keys,
        (
            f"{_JAVA}.connector.policy.AllowlistConnectorClientConfigOverridePolicy",
            "PrincipalConnectorClientConfigOverridePolicy",
            "All",
            "None",
            "org.apache.kafka.common.config.provider.FileConfigProvider",
            "DirectoryConfigProvider",
            "EnvVar",
            "File",
        ),
    ),
    *map(_keys, ("Simple", "SimpleHeader", "HoistField$Value", "HoistField", "Cast$Key", "Nope")),
)


def _lists(key: str) -> Iterator[dict[str, Any]]:
    """Lists that may be refused (KIP-1161)."""
    for value in ("", " ", "a,a", "a, a", "a,", ",", "a,,b", "a,,", None):
        yield {key: value}


# Options of each transformation: none, right ones, wrong ones
_OPTIONS: Mapping[str, tuple[Mapping[str, Any], ...]] = {
    "Cast$Value": (
        {},
        {"spec": "a:int8,b:string"},
        {"spec": "float64"},
        {"spec": ""},
        {"spec": "a:bytes"},
        {"spec": "a:nope"},
        {"spec": "a:b:c"},
        {"spec": "int8,a:int8"},
        {"spec": "\u00a0"},
        {"spec": "int8", "replace.null.with.default": "maybe"},
    ),
    "DropHeaders": ({}, {"headers": "a,b"}, *_lists("headers")),
    "ExtractField$Key": (
        {},
        {"field": "a"},
        {"field": "a.b", "field.syntax.version": "v2"},
        {"field": "a", "field.syntax.version": "V3"},
    ),
    "Filter": ({}, {"bogus": "x"}),
    "Flatten$Value": ({}, {"delimiter": "_"}),
    "HeaderFrom$Value": (
        {},
        {"fields": "a", "headers": "b", "operation": "move"},
        {"fields": "", "headers": "b", "operation": "shift"},
        {"fields": "a,b", "headers": "c", "operation": "copy"},
        *({**each, "headers": "b", "operation": "copy"} for each in _lists("fields")),
    ),
    "HoistField$Key": ({}, {"field": "a"}, {"field": None}),
    "InsertField$Value": (
        {},
        {"static.field": "a", "static.value": "b"},
        {"static.field": "a"},
        {"offset.field": "o!", "topic.field": "t?"},
    ),
    "InsertHeader": ({}, {"header": "h", "value.literal": "1"}, {"header": ""}),
    "MaskField$Value": (
        {},
        {"fields": "a", "replacement": "x"},
        {"fields": "", "replacement": ""},
        *_lists("fields"),
    ),
    "RegexRouter": ({"regex": "(a)b", "replacement": "$1"}, {"regex": ".*"}),
    "ReplaceField$Value": (
        {},
        {"include": "a", "renames": "a:b,c:d"},
        {"renames": "a"},
        {"renames": "a:b:c"},
        *_lists("include"),
        *_lists("exclude"),
        {"renames": "a:b,a:b"},
    ),
    "SetSchemaMetadata$Value": ({}, {"schema.name": "n"}, {"schema.version": "x"}),
    "TimestampConverter$Value": (
        {},
        {"target.type": "Timestamp"},
        {"target.type": "timestamp"},
        {"target.type": "string"},
        {"target.type": "string", "format": "yyyy-MM-dd"},
        {"target.type": "unix", "unix.precision": "minutes"},
    ),
    "TimestampRouter": ({}, {"topic.format": "x", "timestamp.format": "yyyy"}),
    "ValueToKey": ({}, {"fields": "a,b"}, *_lists("fields")),
}


def _of_options() -> Iterator[Exchange]:
    for name, given in _OPTIONS.items():
        for number, options in enumerate(given):
            # both kinds of connectors have the same keys for them
            connector = _sink if number % 2 else _source
            yield connector(_transform(name, options))


_FILTER = _transform("Filter", {"predicate": "p"})
_REGEX_ERRORS = ("[", "(", "a{2,1}", "*a", "(?<n>a)(?<n>b)", "\\", "[a-z&&[^b]]")

TRANSFORMS = (
    *_of_options(),
    _differs(_MISSING_REGEX, _sink(_transform("RegexRouter", {}))),
    *(
        _sink(_transform("RegexRouter", {"regex": regex, "replacement": "x"}))
        for regex in _REGEX_ERRORS
    ),
    # aliases
    _sink({"transforms": ""}),
    _sink({"transforms": " a , b ", **_transform("Filter", {}), "transforms.b.type": "Filter"}),
    _sink({"transforms": "a", "transforms.a.type": "Filter"}),
    _sink({"transforms": "a, a", "transforms.a.type": "Filter"}),
    _sink({**_transform("Filter", {}), "transforms": "a,b"}),
    _sink({**_transform("Filter", {}), "transforms": "a,,b", "transforms.b.type": "Filter"}),
    _sink({"transforms": "a.b", "transforms.a.b.type": "Filter"}),
    _sink({"transforms": "a,a.b", "transforms.a.type": "Filter", "transforms.a.b.type": "Filter"}),
    _sink({"transforms.a.type": "Filter"}),
    _sink({"transforms": None}),
    # classes
    *(
        _sink({"transforms": "a", "transforms.a.type": name})
        for name in (
            "bogus",
            "",
            "Cast",
            "HoistField$Value",
            "FileStreamSink",
            f"{_JAVA}.file.FileStreamSinkConnector",
            _JSON,
            "JsonConverter",
            f"{_PREDICATES}.TopicNameMatches",
            f"{_TRANSFORMS}.Cast",
        )
    ),
    *(
        _differs(_NO_PLUGIN, _sink({"transforms": "a", "transforms.a.type": name}))
        for name in (f"{_TRANSFORMS}.Transformation", "java.lang.String")
    ),
    _sink({"transforms": "a", "transforms.a.type": None}),
    # predicates of transformations
    _sink({**_FILTER, **_predicate("RecordIsTombstone", {})}),
    _sink({**_FILTER, "transforms.a.negate": "true", **_predicate("RecordIsTombstone", {})}),
    _sink({**_FILTER, "transforms.a.negate": "maybe", **_predicate("RecordIsTombstone", {})}),
    _sink(_FILTER),
    _sink({**_FILTER, **_predicate("RecordIsTombstone", {}), "transforms.a.predicate": "q"}),
    _sink({**_FILTER, "transforms.a.predicate": ""}),
    _sink({**_FILTER, "transforms.a.predicate": "", "transforms.a.negate": "true"}),
    _sink(_transform("Filter", {"negate": "true"})),
    _sink(_transform("Filter", {"negate": "false"})),
    _sink(_transform("HoistField$Value", {"negate": "x"})),
    _sink({"transforms": "a", "transforms.a.type": "bogus", "transforms.a.negate": "true"}),
    _sink({"transforms": "a", "transforms.a.negate": "true"}),
    # versions
    *(
        _sink(_transform("Filter", {"plugin.version": version}))
        for version in ("latest", "[9.9]", "", "[4.0,", "[0.1,9.0]")
    ),
)

PREDICATES = (
    *(
        connector(_predicate(name, options))
        for connector, name, options in (
            (_sink, "HasHeaderKey", {}),
            (_source, "HasHeaderKey", {"name": "h"}),
            (_sink, "HasHeaderKey", {"name": ""}),
            (_source, "RecordIsTombstone", {}),
            (_sink, "RecordIsTombstone", {"bogus": "x"}),
            (_source, "TopicNameMatches", {"pattern": "a.*"}),
            (_sink, "TopicNameMatches", {"pattern": ""}),
            (_sink, "TopicNameMatches", {"pattern": "["}),
            (_sink, "TopicNameMatches", {"pattern": "a", "plugin.version": "[9.9]"}),
        )
    ),
    _differs(_MISSING_REGEX, _sink(_predicate("TopicNameMatches", {}))),
    _sink({"predicates": "p"}),
    _sink({"predicates": "p,p", "predicates.p.type": "RecordIsTombstone"}),
    _sink({"predicates": "p", "predicates.p.type": "bogus"}),
    _sink({"predicates": "p", "predicates.p.type": f"{_TRANSFORMS}.Filter"}),
    _sink({"predicates": "p,q", "predicates.p.type": "RecordIsTombstone"}),
    _sink({**_predicate("RecordIsTombstone", {}), **_FILTER, "transforms": "b,a"}),
)


def _each(key: str, values: Iterable[Any]) -> Iterator[Exchange]:
    for number, value in enumerate(values):
        yield (_sink if number % 2 else _source)({key: value})


_DLQ = "errors.deadletterqueue"

ERRORS = (
    *_each("errors.retry.timeout", ("-1", "-2", "9223372036854775807", "9223372036854775808", "")),
    *_each("errors.retry.delay.max.ms", ("0", "-5", "1.5", None)),
    *_each("errors.tolerance", ("all", "ALL", "", None, " all ")),
    *_each("errors.log.enable", ("true", "TRUE", "yes", "")),
    *_each("errors.log.include.messages", ("true", "1")),
    _sink({f"{_DLQ}.topic.name": "dlq", f"{_DLQ}.topic.replication.factor": "1"}),
    _sink({f"{_DLQ}.topic.name": "dlq", f"{_DLQ}.topic.replication.factor": "0"}),
    _sink({f"{_DLQ}.topic.name": "dlq", f"{_DLQ}.topic.replication.factor": "-1"}),
    _sink({f"{_DLQ}.topic.name": "dlq", f"{_DLQ}.topic.replication.factor": "32768"}),
    _sink({f"{_DLQ}.topic.name": "dlq", f"{_DLQ}.context.headers.enable": "maybe"}),
    _sink({f"{_DLQ}.topic.name": "not a topic"}),
    _sink({f"{_DLQ}.topic.name": " {topic} "}),
    _sink({f"{_DLQ}.topic.name": "a", "topics": "a,,b,a"}),
    _source({f"{_DLQ}.topic.name": "dlq"}),
    _sink({"errors.nope": "x"}),
    *(_sink({"topics": "", "topics.regex": regex}) for regex in (*_REGEX_ERRORS, "a.*")),
    *map(_sink, _lists("topics")),
    *(_sink({**topics, "topics.regex": "a.*"}) for topics in _lists("topics")),
    *map(_sink, _lists("transforms")),
    *map(_source, _lists("predicates")),
    *(
        _sink({f"consumer.override.{name}": value})
        for name, values in (
            ("interceptor.classes", ("", "a,a", "a,", None)),
            ("metric.reporters", ("", "a,a", "a,", None)),
            ("sasl.jaas.config", (None,)),
            ("max.poll.records", (None,)),
            ("bogus", (None,)),
        )
        for value in values
    ),
)

CONVERTERS = (
    *(
        _sink({"value.converter": f"{_JAVA}.converters.{name}Converter"})
        for name in (*_NUMBERS, "ByteArray")
    ),
    _source({"key.converter": "String", "value.converter": "JsonConverter"}),
    _source({"key.converter": _STRING, "key.converter.converter.encoding": "UTF-16"}),
    _source({"key.converter": _STRING, "key.converter.converter.type": "header"}),
    _source({"key.converter": _STRING, "key.converter.converter.type": "bogus"}),
    _source({"key.converter": _STRING, "key.converter.converter.type": None}),
    _source({"value.converter": _JSON, "value.converter.schemas.cache.size": "x"}),
    _source({"value.converter": _JSON, "value.converter.decimal.format": "numeric"}),
    _source({"value.converter": _JSON, "value.converter.decimal.format": "text"}),
    _source({"value.converter": _JSON, "value.converter.replace.null.with.default": "x"}),
    _source({"value.converter": _JSON, "value.converter.bogus": "x"}),
    _source({"value.converter": _JSON, "value.converter.schemas.enable": None}),
    _source({"value.converter.schemas.enable": "maybe"}),
    *(
        _sink({"value.converter": _JSON, "value.converter.schema.content": content})
        for content in ("", '{"type":"int32"}', "{", None)
    ),
    *(
        _source({f"{side}.converter": name})
        for side in ("key", "header")
        for name in (
            "bogus",
            "",
            "FileStreamSink",
            f"{_TRANSFORMS}.Filter",
            _SIMPLE,
            "SimpleHeaderConverter",
            "Json",
        )
    ),
    _sink({"header.converter": _JSON, "header.converter.schemas.enable": "false"}),
    _sink({"header.converter": _JSON, "header.converter.schemas.enable": "maybe"}),
    _sink({"header.converter": f"{_JAVA}.converters.IntegerConverter"}),
    _sink({"header.converter": _STRING, "header.converter.converter.type": "value"}),
    _sink({"header.converter": None}),
    *(
        _sink({f"{side}.converter": _JSON, f"{side}.converter.plugin.version": None})
        for side in ("key", "value", "header")
    ),
    *(
        _sink({f"{side}.converter": _JSON, f"{side}.converter.plugin.version": version})
        for side, version in (
            ("value", "latest"),
            ("value", "[9.9]"),
            ("value", "[["),
            ("header", "[9.9]"),
        )
    ),
    _sink({"value.converter.plugin.version": "[9.9]"}),
    _sink({"value.converter.plugin.version": "[["}),
    _sink({"key.converter": "bogus", "key.converter.plugin.version": "("}),
    _sink({"connector.plugin.version": "latest"}),
    _differs(
        "converters are recommended whatever the connector's version",
        _sink({"connector.plugin.version": "[9.9]"}),
    ),
    replace(
        _sink({"connector.plugin.version": "[["}), differs="it is the client's error", status=400
    ),
)

# for workers with a policy
OVERRIDES = (
    *(
        connector({f"{client}.override.{name}": value, **more})
        for connector, client, more in (
            (_source, "producer", {}),
            (_source, "consumer", {}),
            (_source, "admin", {}),
            (_sink, "consumer", {}),
            (_sink, "producer", {}),
            (_sink, "producer", {f"{_DLQ}.topic.name": "dlq"}),
        )
        for name, value in (
            ("linger.ms", "5"),
            ("fetch.max.bytes", "500"),
            ("acks", "1"),
            ("sasl.mechanism", "PLAIN"),
            ("bogus", "x"),
        )
    ),
)

_UNWRAP = "io.debezium.transforms.ExtractNewRecordState"

DEBEZIUM = (
    *map(_keys, (_UNWRAP, "ExtractNewRecordState")),
    *(
        _sink(_transform(_UNWRAP, options))
        for options in (
            {},
            {"delete.tombstone.handling.mode": "rewrite"},
            {"delete.tombstone.handling.mode": "bogus"},
            {"add.fields": "op,table,source.ts_ms:t", "add.headers": "op"},
            {"drop.fields.header.name": "x", "drop.fields.from.key": "true"},
            {"drop.fields.keep.schema.compatible": "maybe"},
            {"drop.tombstones": "false"},
            {"plugin.version": "[9,)"},
        )
    ),
)
