"""Which values are secret, that fingerprints tell no more than they must, that no text quotes a
secret, and what counts as changed where a cluster masks secrets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connect_reconciler.actions import UpdateConfig
from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.model.ledger import LedgerState, Owned
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.model.secrets import (
    ConfigRedactor,
    config_fingerprint,
    fingerprint,
    is_mask,
    key_id,
    reveal,
    same_config,
    see_through_masks,
)
from connect_reconciler.plan.planner import make_plan
from connect_specs.desired import Desired, DesiredConnector, TargetState
from connect_specs.diagnostics import Location, Stale
from connect_specs.secrets import is_reference, is_sensitive, secret_parts

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
        config_fingerprint(ConfigRedactor("a", b"k", named).values(config), connector="a", key=b"k")
        for named in (frozenset[str](), frozenset({"pin"}), frozenset({"pin", "name"}))
    }
    assert len(marks) == 1
    other = ConfigRedactor("a", b"k").values({**config, "password": "y"})
    assert config_fingerprint(other, connector="a", key=b"k") not in marks


def test_config_fingerprint_sees_added_and_removed_keys() -> None:
    redactor = ConfigRedactor("a", b"k")
    one = redactor.values({"a": "1"})
    two = redactor.values({"a": "1", "b": ""})
    assert config_fingerprint(one, connector="a", key=b"k") != config_fingerprint(
        two, connector="a", key=b"k"
    )
    assert config_fingerprint(one, connector="a", key=b"k") == config_fingerprint(
        two, connector="a", key=b"k", leaving_out=["b"]
    )


def test_reveal_reads_secrets_again() -> None:
    texts = {"name": "a", "password": "x", "other": "1"}
    config = ConfigRedactor("a", b"k").values({"name": "a", "password": "x"})
    assert reveal(config, texts, connector="a", key=b"k") == {"name": "a", "password": "x"}


@pytest.mark.parametrize("texts", [{"password": "hunter3"}, {}])
def test_reveal_refuses_another_secret(texts: dict[str, str]) -> None:
    config = ConfigRedactor("a", b"k").values({"password": "hunter2"})
    with pytest.raises(Stale) as caught:
        reveal(config, texts, connector="a", key=b"k")
    assert "password" in str(caught.value)
    assert "hunter" not in str(caught.value)


def test_reveal_without_a_key_takes_what_the_specs_say() -> None:
    config = ConfigRedactor("a", None).values({"password": "x"})
    assert config == {"password": Secret("")}
    assert reveal(config, {"password": "x"}, connector="a", key=None) == {"password": "x"}


def test_key_is_in_no_repr() -> None:
    assert "very secret" not in repr(ConfigRedactor("a", b"very secret"))
    assert ConfigRedactor("a", b"k").values({"a": "b"}) == {"a": Plain("b")}


REDACTOR = ConfigRedactor("a", None, frozenset({"pin", "key"}))
PEM = "-----BEGIN PRIVATE KEY-----\nMIIBVgIBADAN\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("pin", "s3cret", "Invalid value s3cret for configuration pin"),
        ("pin", "  s3cret ", "Invalid value s3cret for configuration pin"),
        ("pin", 's3"cret', '{"pin": "s3\\"cret"}'),
        ("pin", "sécret", '{"pin": "s\\u00e9cret"}'),
        ("url", "jdbc://me:s3cret@db/x", "login failed for me with s3cret"),
        ("url", "jdbc://me:s3%2Fcret@db/x", "login failed for me with s3/cret"),
        ("sasl.jaas.config", 'x required password="s3cret";', "cannot log in with s3cret"),
        ("key", PEM, "cannot read MIIBVgIBADAN"),
    ],
)
def test_a_secret_in_any_shape(key: str, value: str, text: str) -> None:
    found = REDACTOR.redact(text, {key: value, "file": "in.txt"})
    assert "cret" not in found
    assert "MIIB" not in found
    assert "(hidden)" in found


def test_one_secret_in_another_and_in_the_word_for_hidden() -> None:
    config = {"pin": "hid", "db.password": "hidden-hid-hidden"}
    assert REDACTOR.redact("a hidden-hid-hidden b hid c", config) == "a (hidden) b (hidden) c"


def test_what_is_no_secret_stays() -> None:
    assert REDACTOR.redact("in.txt is missing", {"file": "in.txt", "pin": "${env:PIN}"}) == (
        "in.txt is missing"
    )


KEY = b"k"
CLASS = "org.example.DbSource"
SPEC = DesiredConnector(
    "a",
    {"name": "a", "connector.class": CLASS, "db.pin": "1234", "topic": "t"},
    Location("a.yaml"),
)
MASKS = ["****", "********", "[hidden]", "••••", "<redacted>"]


def live_of(mask: str, applied: str | None, key: bytes | None = KEY, **more: str) -> Live:
    """The connector with its pin masked; `applied` is what the ledger has the fingerprint of."""
    config = {**SPEC.config, "db.pin": mask, **more}
    recorded = dict(SPEC.config)
    recorded["db.pin"] = "" if applied is None else fingerprint(KEY, "a", "db.pin", applied)
    return Live(
        connectors={"a": LiveConnector("a", "source", config, TargetState.RUNNING)},
        ledger=LedgerState({"a": Owned("orders", recorded, None)}, fingerprint_key=key),
        rest_alone=True,
    )


def plan_of(live: Live, spec: DesiredConnector = SPEC):  # type: ignore[no-untyped-def]
    desired = Desired("orders", {"a": spec})
    return make_plan(desired, see_through_masks(live, desired), group_id="g")


@pytest.mark.parametrize("mask", MASKS)
def test_a_secret_that_was_applied_before_is_unchanged(mask: str) -> None:
    plan = plan_of(live_of(mask, applied="1234"))
    assert plan.empty
    assert [each.code for each in plan.warnings] == ["plan.rest-alone"]


@pytest.mark.parametrize("mask", MASKS)
def test_another_secret_than_the_one_applied_is_a_change(mask: str) -> None:
    (action,) = plan_of(live_of(mask, applied="0000")).actions
    assert isinstance(action, UpdateConfig)
    assert [change.key for change in action.changes] == ["db.pin"]
    assert action.config["db.pin"] == Secret(fingerprint(KEY, "a", "db.pin", "1234"))


def test_without_a_fingerprint_it_counts_as_unchanged_and_that_is_said() -> None:
    plan = plan_of(live_of("****", applied=None))
    assert plan.empty
    assert [each.code for each in plan.warnings] == ["plan.secret-unknown", "plan.rest-alone"]


def test_a_masked_key_is_a_secret_whatever_its_name() -> None:
    (action,) = plan_of(live_of("****", applied="0000")).actions
    assert "1234" not in repr(action)


def test_a_change_of_another_key_writes_the_true_secret() -> None:
    (action,) = plan_of(live_of("****", applied="1234", topic="u")).actions
    assert isinstance(action, UpdateConfig)
    assert [change.key for change in action.changes] == ["topic"]
    assert action.config["db.pin"] == Secret(fingerprint(KEY, "a", "db.pin", "1234"))


def test_a_mask_that_would_be_kept_is_refused_once_the_config_is_written() -> None:
    config = {key: text for key, text in SPEC.config.items() if key != "db.pin"}
    spec = replace(SPEC, config=config, ignore=("config.db.*",))
    live = live_of("****", applied=None)
    assert plan_of(live, spec).empty
    changed = replace(spec, config={**config, "topic": "u"})
    (error,) = plan_of(live, changed).errors
    assert (error.code, "stop ignoring db.pin" in error.hint) == ("plan.masked-value", True)


def test_a_spec_that_holds_a_mask_is_refused() -> None:
    spec = replace(SPEC, config={**SPEC.config, "db.pin": "****"})
    (error,) = plan_of(Live(rest_alone=True), spec).errors
    assert error.code == "plan.masked-value"


def test_configs_are_the_same_as_far_as_they_can_be_seen() -> None:
    assert same_config({"a": "****", "b": "1"}, {"a": "x", "b": "1"})
    assert not same_config({"a": "****", "b": "1"}, {"a": "x", "b": "2"})
    assert not same_config({"b": "1"}, {"a": "x", "b": "1"})
