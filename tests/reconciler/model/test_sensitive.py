"""Which values are secret, and that a fingerprint tells no more than it must."""

from __future__ import annotations

import pytest

from connect_reconciler.model.secrets.sensitive import (
    ConfigRedactor,
    config_fingerprint,
    fingerprint,
    is_mask,
    key_id,
    redacted,
    reveal,
)
from connect_reconciler.model.values import Plain, Secret
from connect_specs.diagnostics import Stale
from connect_specs.secret_parts import secret_parts
from connect_specs.secret_values import is_reference, is_sensitive

SECRET = [
    ("connection.password", "x"),
    ("database.passwd", "x"),
    ("ssl.keystore.password", "x"),
    ("ssl.key.password", "x"),
    ("ssl.keystore.key", "x"),
    ("ssl.keystore.certificate.chain", "x"),
    ("ssl.truststore.certificates", "x"),
    ("sasl.jaas.config", 'x required username="u" password="p";'),
    ("consumer.override.sasl.jaas.config", "x"),
    ("listener.name.a.plain.jaas.config", "x"),
    ("client.secret", "x"),
    ("oauth.token", "x"),
    ("splunk.hec.token", "x"),
    ("api.key", "x"),
    ("apiKey", "x"),
    ("confluent.api_key", "x"),
    ("snowflake.private.key", "x"),
    ("snowflake.private.key.passphrase", "x"),
    ("aws.secret.access.key", "x"),
    ("azure.account.key", "x"),
    ("gcp.credentials.json", "{}"),
    ("basic.auth.user.info", "u:p"),
    ("value.converter.schema.registry.basic.auth.user.info", "u:p"),
    ("transforms.encrypt.secret.key", "x"),
    ("connection.url", "jdbc:postgresql://u:p@db/x"),
    ("connection.uri", "mongodb+srv://u:p@host"),
    ("anything", "https://u:p@host"),
    ("anything", "jdbc:mysql://db/x?user=u&password=p"),
    ("anything", "Endpoint=sb://x;SharedAccessKey=abc"),
    ("anything", "-----BEGIN PRIVATE KEY-----\nabc"),
    ("password", "pre${file:/x:p}"),
    ("my.secret.path.value", "x"),
]
SHOWN = [
    ("connection.password", ""),
    ("connection.password", "${file:/secrets:password}"),
    ("sasl.jaas.config", "${vault:kafka:jaas}${vault:kafka:rest}"),
    ("connection.url", "jdbc:postgresql://db:5432/x"),
    ("connection.url", "https://u:${file:/x:p}@host"),
    ("connection.url", "https://u@host"),
    ("anything", "${file:/x:p}"),
    ("tasks.max", "1"),
    ("key.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ("message.key.columns", "a"),
    ("analyzer.tokenizer", "standard"),
    ("ssl.keystore.location", "/x"),
    ("ssl.key.password.file", "/x"),
    ("aws.credentials.provider.class", "x.Y"),
    ("basic.auth.credentials.source", "USER_INFO"),
    ("oauth.token.endpoint.url", "https://host/token"),
    ("token.cache.enabled", "true"),
]


@pytest.mark.parametrize(("key", "value"), SECRET)
def test_secret(key: str, value: str) -> None:
    assert is_sensitive(key, value)


@pytest.mark.parametrize(("key", "value"), SHOWN)
def test_shown(key: str, value: str) -> None:
    assert not is_sensitive(key, value)


def test_keys_that_are_named_as_sensitive() -> None:
    assert is_sensitive("topics", "orders", {"topics"})
    assert is_sensitive("flag", "true", {"flag"})
    assert not is_sensitive("topics", "${env:TOPICS}", {"topics"})
    assert is_sensitive("vendor.pin", "1234", {"vendor.*"})
    assert not is_sensitive("vendor", "1234", {"vendor.*"})


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("jdbc://db/x", ()),
        ("jdbc:postgresql://u:p@db/x", ("p",)),
        ("https://u:p%40x@host", ("p%40x", "p@x")),
        ("mongodb://u:p@ss@host/db", ("p@ss",)),
        ("jdbc:mysql://db/x?user=u&password=p&ssl=true", ("p",)),
        ('x.LoginModule required username="u" password="a b";', ("a b",)),
        ("https://u:${file:/x:p}@host", ()),
    ],
)
def test_the_secret_inside_a_value(value: str, parts: tuple[str, ...]) -> None:
    assert secret_parts(value) == parts


@pytest.mark.parametrize(
    "mask",
    [
        "****",
        "****************",
        "[hidden]",
        "(sensitive)",
        "<redacted>",
        "jdbc:postgresql://u:****@db/x",
        'x.LoginModule required username="u" password="[hidden]";',
    ],
)
def test_a_mask(mask: str) -> None:
    assert is_mask(mask)


@pytest.mark.parametrize("value", ["", "*", "hidden", "s3cret****", "jdbc://u:p@db", "${a:b:c}"])
def test_no_mask(value: str) -> None:
    assert not is_mask(value)


def test_reference() -> None:
    assert is_reference("${file:/x:y}")
    assert is_reference("${dir:/x:y}")
    assert not is_reference("")
    assert not is_reference("${}")
    assert not is_reference("x${file:/x:y}")
    assert not is_reference("$file")


def test_fingerprint_is_bound_to_key_connector_and_config_key() -> None:
    marks = {
        fingerprint(b"k", "a", "password", "x"),
        fingerprint(b"k", "a", "password", "y"),
        fingerprint(b"k", "a", "other", "x"),
        fingerprint(b"k", "b", "password", "x"),
        fingerprint(b"l", "a", "password", "x"),
    }
    assert len(marks) == 5
    assert all(len(mark) == 64 for mark in marks)
    assert fingerprint(b"k", "a", "b", "cd") != fingerprint(b"k", "a", "bc", "d")


def test_without_a_key_nothing_is_told() -> None:
    assert fingerprint(None, "a", "password", "x") == ""
    assert key_id(None) == ""
    assert key_id(b"k") != key_id(b"l")


def test_config_fingerprint_does_not_depend_on_what_counts_as_secret() -> None:
    config = {"name": "a", "pin": "1234", "password": "x"}
    marks = {
        config_fingerprint(
            redacted(config, ConfigRedactor("a", b"k", named)), connector="a", key=b"k"
        )
        for named in (frozenset[str](), frozenset({"pin"}), frozenset({"pin", "name"}))
    }
    assert len(marks) == 1
    other = redacted({**config, "password": "y"}, ConfigRedactor("a", b"k"))
    assert config_fingerprint(other, connector="a", key=b"k") not in marks


def test_config_fingerprint_sees_added_and_removed_keys() -> None:
    redactor = ConfigRedactor("a", b"k")
    one = redacted({"a": "1"}, redactor)
    two = redacted({"a": "1", "b": ""}, redactor)
    assert config_fingerprint(one, connector="a", key=b"k") != config_fingerprint(
        two, connector="a", key=b"k"
    )
    assert config_fingerprint(one, connector="a", key=b"k") == config_fingerprint(
        two, connector="a", key=b"k", leaving_out=["b"]
    )


def test_reveal_reads_secrets_again() -> None:
    texts = {"name": "a", "password": "x", "other": "1"}
    config = redacted({"name": "a", "password": "x"}, ConfigRedactor("a", b"k"))
    assert reveal(config, texts, connector="a", key=b"k") == {"name": "a", "password": "x"}


@pytest.mark.parametrize("texts", [{"password": "hunter3"}, {}])
def test_reveal_refuses_another_secret(texts: dict[str, str]) -> None:
    config = redacted({"password": "hunter2"}, ConfigRedactor("a", b"k"))
    with pytest.raises(Stale) as caught:
        reveal(config, texts, connector="a", key=b"k")
    assert "password" in str(caught.value)
    assert "hunter" not in str(caught.value)


def test_reveal_without_a_key_takes_what_the_specs_say() -> None:
    config = redacted({"password": "x"}, ConfigRedactor("a", None))
    assert config == {"password": Secret("")}
    assert reveal(config, {"password": "x"}, connector="a", key=None) == {"password": "x"}


def test_key_is_in_no_repr() -> None:
    assert "very secret" not in repr(ConfigRedactor("a", b"very secret"))
    assert redacted({"a": "b"}, ConfigRedactor("a", b"k")) == {"a": Plain("b")}
