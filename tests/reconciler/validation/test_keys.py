"""What definitions say about configs: slips are told, and what may be meant is left alone."""

from __future__ import annotations

import pytest

from connect_reconciler.validation.keys import sensitive_slips, slips, unknown_keys, wrong_values
from connect_specs.plugin_definitions import KeyDefinition, PluginDefinition, PluginSet, keys_of


def plugin(class_name: str, kind_of: str, /, **keys: str) -> PluginDefinition:
    """Keys as `name=TYPE`, `!` for a required one, `_` for a dot."""
    found = {}
    for key, kind in keys.items():
        key = key.replace("_", ".")
        found[key] = KeyDefinition(key, kind.rstrip("!"), required=kind.endswith("!"))
    return PluginDefinition(class_name, kind_of, "1.0", found)


PLUGINS = PluginSet(
    (
        plugin(
            "com.example.OrdersSourceConnector",
            "source",
            name="STRING!",
            connector_class="STRING!",
            tasks_max="INT",
            topic="STRING!",
            batch_size="LONG",
            fast="BOOLEAN",
            share="DOUBLE",
            transforms="LIST",
            value_converter="CLASS",
            converters="LIST",
            topic_creation_groups="LIST",
        ),
        plugin(
            "org.apache.iceberg.connect.IcebergSinkConnector",
            "sink",
            iceberg_tables="LIST",
            iceberg_catalog="STRING",
        ),
        plugin("io.debezium.connector.X.PgConnector", "source", database_hostname="STRING"),
        plugin("com.example.Mask$Value", "transformation", field="STRING!", limit="INT"),
        plugin(
            "com.example.AvroConverter",
            "converter",
            schemas_enable="BOOLEAN",
            converter_type="STRING!",
        ),
    )
)
GOOD = {"name": "a", "connector.class": "OrdersSource", "topic": "t"}
MASKED = {**GOOD, "transforms": "m", "transforms.m.type": "com.example.Mask$Value"}
AVRO = {**GOOD, "value.converter": "AvroConverter"}


def _missing(key: str) -> str:
    return f'Missing required configuration "{key}" which has no default value.'


def _invalid(value: str, key: str, why: str) -> str:
    return f"Invalid value {value} for configuration {key}: {why}"


WRONG = [
    ({}, {}),
    ({"tasks.max": " 3 ", "fast": "TRUE", "share": "1e3", "batch.size": "-1"}, {}),
    ({"tasks.max": "x"}, {"tasks.max": _invalid("x", "tasks.max", "Not a number of type INT")}),
    (
        {"tasks.max": "2147483648"},
        {"tasks.max": _invalid("2147483648", "tasks.max", "Not a number of type INT")},
    ),
    (
        {"fast": "yes"},
        {"fast": _invalid("yes", "fast", "Expected value to be either true or false")},
    ),
    ({"share": "much"}, {"share": _invalid("much", "share", "Not a number of type DOUBLE")}),
    ({"tasks.max": "${env:TASKS}"}, {}),
]


@pytest.mark.parametrize(("config", "found"), WRONG)
def test_wrong_values(config: dict[str, str], found: dict[str, str]) -> None:
    assert _wrong({**GOOD, **config}) == found


def test_a_required_key_that_is_missing() -> None:
    assert _wrong({"name": "a", "connector.class": "OrdersSource"}) == {"topic": _missing("topic")}


def test_the_keys_of_a_transformation_are_checked_under_its_alias() -> None:
    assert _wrong({**MASKED, "transforms.m.limit": "x"}) == {
        "transforms.m.field": _missing("transforms.m.field"),
        "transforms.m.limit": _invalid("x", "transforms.m.limit", "Not a number of type INT"),
    }


def test_what_the_worker_tells_a_converter_is_not_asked_of_the_config() -> None:
    assert _wrong(AVRO) == {}


def _wrong(config: dict[str, str]) -> dict[str, str]:
    keys = keys_of(config, PLUGINS)
    assert keys is not None
    return {finding.key: finding.error for finding in wrong_values(config, keys)}


UNREAD = "remove it, unless the connector passes it on"
UNKNOWN = [
    ({**GOOD, "bach.size": "5"}, "bach.size", "did you mean batch.size?"),
    ({**GOOD, "wholly.other": "5"}, "wholly.other", UNREAD),
    ({**GOOD, "name": "orders", "orders.size": "5"}, "orders.size", UNREAD),
    ({**GOOD, "topic": "big", "big.size": "5"}, "big.size", UNREAD),
    ({**GOOD, "trasforms": "m"}, "trasforms", "did you mean transforms?"),
    ({**MASKED, "transforms.m.fild": "x"}, "transforms.m.fild", "did you mean transforms.m.field?"),
    ({**MASKED, "transforms.mm.field": "x"}, "transforms.mm.field", "did you mean m?"),
    ({**GOOD, "predicates.p.type": "x"}, "predicates.p.type", "add p to 'predicates'"),
    (
        {**AVRO, "value.converter.schemas.enabled": "true"},
        "value.converter.schemas.enabled",
        "did you mean value.converter.schemas.enable?",
    ),
    (
        {**GOOD, "value.converter.schemas.enable": "true"},
        "value.converter.schemas.enable",
        "set value.converter here as well",
    ),
]


@pytest.mark.parametrize(("config", "key", "hint"), UNKNOWN)
def test_unknown_keys(config: dict[str, str], key: str, hint: str) -> None:
    assert _unknown(config) == {key: hint}


NO_FALSE_ALARM = [
    GOOD,
    {**GOOD, "producer.override.linger.ms": "5"},
    {**GOOD, "admin.override.client.id": "x"},
    {**GOOD, "topic.creation.default.partitions": "5"},
    {**GOOD, "topic.creation.groups": "big", "topic.creation.big.cleanup.policy": "compact"},
    {**GOOD, "converters": "isbn", "isbn.type": "com.example.Isbn", "isbn.schema.name": "x"},
    {**AVRO, "value.converter.schema.registry.url": "http://registry"},
    {**AVRO, "value.converter.converter.type": "value"},
    {**MASKED, "transforms.m.field": "x", "transforms.m.predicate": "p"},
    {**GOOD, "transforms": "u", "transforms.u.type": "com.example.Unknown", "transforms.u.x": "1"},
    {**GOOD, "transforms": "${env:CHAIN}", "transforms.u.type": "com.example.Unknown"},
    {"name": "a", "connector.class": "PgConnector", "driver.loginTimeout": "5"}
    | {"connector.class": "io.debezium.connector.X.PgConnector", "database.sslmode": "require"},
    {**GOOD, "connect.ledger": "{}"},
    {**GOOD, "converters": "a, b", "b.class": "com.example.Isbn", "b.schema.name": "x"},
    {
        "name": "iceberg",
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "iceberg.tables": "db.orders",
        "iceberg.catalog.type": "rest",
        "iceberg.catalog.uri": "http://catalog",
        "iceberg.hadoop.fs.s3a.path.style.access": "true",
        "iceberg.kafka.security.protocol": "SSL",
        "iceberg.table.db.orders.partition-by": "days(at)",
        "iceberg.tables.auto-create-props.format-version": "2",
        "iceberg.tables.write-props.write.format.default": "orc",
    },
]


@pytest.mark.parametrize("config", NO_FALSE_ALARM)
def test_no_false_alarms(config: dict[str, str]) -> None:
    assert _unknown(config) == {}


def _unknown(config: dict[str, str]) -> dict[str, str]:
    keys = keys_of(config, PLUGINS)
    assert keys is not None
    return {finding.key: finding.hint for finding in unknown_keys(config, keys)}


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("com.example.OrdersSourceConnector", True),
        ("OrdersSourceConnector", True),
        ("OrdersSource", True),
        ("Orders", False),
        ("com.example.OrdersSource", False),
        ("Mask$Value", False),
    ],
)
def test_names_that_a_class_goes_by(name: str, known: bool) -> None:
    assert (keys_of({"connector.class": name}, PLUGINS) is not None) is known


@pytest.mark.parametrize(
    ("key", "value", "says", "hint"),
    [
        (
            "consumer.override.max.poll.recrods",
            "5",
            "have no property max.poll.recrods",
            "did you mean consumer.override.max.poll.records?",
        ),
        (
            "consumer.overide.fetch.max.bytes",
            "5",
            "overrides nothing",
            "did you mean consumer.override.fetch.max.bytes?",
        ),
        ("topics", "a b", "'a b', which is no name", "letters, digits"),
        ("topics", "a, b/c", "'b/c', which is no name", "letters, digits"),
        ("topics", "{{ topic }}", "no name", "letters, digits"),
        ("topics", "..", "no name", "letters, digits"),
        ("errors.deadletterqueue.topic.name", "d l q", "no name", "letters, digits"),
        ("url", "x${file:/a:b", "is not closed", "end it with '}'"),
    ],
)
def test_a_slip(key: str, value: str, says: str, hint: str) -> None:
    (found,) = slips({"name": "c", key: value}, is_sink=True)
    assert found.key == key
    assert says in found.error
    assert found.hint.startswith(hint)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("consumer.override.max.poll.records", "5"),
        ("producer.override.acme.interceptor.url", "x"),
        ("consumer.fetch.max.bytes", "5"),
        ("topics", "a, b-c_d.e"),
        ("topics", "${env:TOPICS}"),
        ("topics.regex", "a (b|c)"),
        ("file.name.template", "{{topic}}-${partition}"),
        ("url", "${file:/a:b}/${topic}"),
        ("replacement", "$1${"),
    ],
)
def test_no_slip(key: str, value: str) -> None:
    assert list(slips({key: value}, is_sink=True)) == []


def test_a_sources_topics_may_be_patterns() -> None:
    assert list(slips({"topics": "a.*, b c"}, is_sink=False)) == []


def test_a_sensitive_key_that_is_nearly_one() -> None:
    config = {"passphrase": "x", "url": "y"}
    found = list(sensitive_slips(["pasphrase", "passphrase", "pass*", "gone.by.now"], config))
    assert found == [("pasphrase", "passphrase")]
