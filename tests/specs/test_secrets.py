"""Secrets by key names and by their forms, and their redaction in every form that a trace or an
error may write them in."""

from __future__ import annotations

import json
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_specs.secrets import Redactor, is_sensitive, secret_parts, secrets_in

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKC\n-----END RSA PRIVATE KEY-----"
ACCOUNT = '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBA\\n"}'
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

# key, value, and what must not be left of it in a text that quotes the value
SECRETS = [
    ("azblob.sas.key", "abc", "abc"),
    ("s3.sse.customer.key", "abc", "abc"),
    ("connection.pwd", "abc", "abc"),
    ("redis.pass", "abc", "abc"),
    ("dbPwd", "abc", "abc"),
    ("key.passphrase", "abc", "abc"),
    ("http.headers.authorization", "abc", "abc"),
    ("confluent.license", "abc", "abc"),
    ("http.headers", "Authorization: Bearer s3cr3t-t0ken", "s3cr3t-t0ken"),
    ("headers", "Accept:application/json|Authorization:Bearer s3cr3t-t0ken", "s3cr3t-t0ken"),
    ("headers", "X-Vendor: plain", "plain"),
    ("http.headers.additional", "Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ("any", '{"X-Api-Key": "s3cr3t"}', "s3cr3t"),
    ("any", "Authorization: Token s3cr3t", "s3cr3t"),
    ("any", "Bearer s3cr3tt0ken", "s3cr3tt0ken"),
    ("connection.url", "jdbc:oracle:thin:scott/tiger@db:1521:orcl", "tiger"),
    ("connection.url", "jdbc:oracle:thin:scott/tiger@//db:1521/orcl", "tiger"),
    ("any", "scott/tiger@//db:1521/orcl", "tiger"),
    ("any", "scott/tiger@db:1521/orcl", "tiger"),
    ("any", "jdbc:sqlserver://db;user=sa;password=tiger", "tiger"),
    ("any", "jdbc:postgresql://me:tiger@db/x", "tiger"),
    ("any", "mongodb://me:tiger@db1:27017,db2:27017/x", "tiger"),
    ("any", "amqp://me:ti%2Fger@db/x", "ti/ger"),
    ("any", "amqp://me:ti/ger@db/x", "ti/ger"),
    ("any", "https://me:ti@ger@db/x", "ti@ger"),
    ("any", "https://hooks.slack.com/services/T000/B000/XXXXYYYYZZZZ", "XXXXYYYYZZZZ"),
    ("any", "https://acme.webhook.office.com/webhookb2/1@2/IncomingWebhook/33334444/4", "33334444"),
    ("any", "https://discord.com/api/webhooks/1234/abcdefgh", "abcdefgh"),
    ("any", "https://hooks.zapier.com/hooks/catch/1/abcdefgh", "abcdefgh"),
    ("any", "https://mattermost.acme/hooks/abc", "hooks/abc"),
    ("any", "https://api.telegram.org/bot123:abcd/sendMessage", "bot123:abcd"),
    ("any", "https://chat.googleapis.com/v1/spaces/A/messages?key=abc&token=def", "def"),
    ("slack.webhook.url", "https://proxy.acme/x/y", "https://proxy.acme/x/y"),
    ("alerts.webhook", "https://proxy.acme/x/y", "https://proxy.acme/x/y"),
    ("any", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abc==", "abc=="),
    ("any", "Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey=abc=", "abc="),
    ("any", "BlobEndpoint=https://x/;SharedAccessSignature=sv=2020&sig=abc%3D", "abc%3D"),
    ("any", "https://x.blob.core.windows.net/c?sv=2020&sig=abc%3D", "abc="),
    ("any", "https://f.azurewebsites.net/api/x?code=abc", "abc"),
    ("any", '{"client_secret": "abc"}', "abc"),
    ("any", "Module required username=u password = 'abc';", "abc"),
    ("any", "user=u;password={abc}", "{abc}"),
    ("any", "user=u;password=?abc", "?abc"),
    ("any", "AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    ("any", f"AKIAIOSFODNN7EXAMPLE:{AWS}", AWS),
    ("any", PEM, "MIIEowIBAAKC"),
    ("any", ACCOUNT, "MIIEvQIBA"),
    ("any", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQVYBGZ1a\n", "lQVYBGZ1a"),
    ("any", JWT, JWT),
    ("any", "ghp_abcdefghijklmnopqrst", "ghp_abcdefghijklmnopqrst"),
    ("any", f"dapi{'0123456789abcdef' * 2}-2", f"dapi{'0123456789abcdef' * 2}-2"),
    ("any", f"SG.{'a' * 22}.{'b' * 43}", f"SG.{'a' * 22}.{'b' * 43}"),
]

SHOWN = [
    ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
    ("key.converter.schemas.enable", "false"),
    ("schema.ignore", "true"),
    ("key.ignore", "true"),
    ("basic.auth.password", "true"),
    ("use.token", "False"),
    ("topic.key.ignore", "orders"),
    ("pk.mode", "record_key"),
    ("pk.fields", "id"),
    ("key.field.name", "id"),
    ("partition.key", "customer"),
    (
        "document.id.strategy",
        "com.mongodb.kafka.connect.sink.processor.id.strategy.BsonOidStrategy",
    ),
    ("message.key.columns", "inventory.customers:id"),
    ("s3.part.size", "5242880"),
    ("s3.bucket.name", "logs"),
    ("s3.object.tagging", "true"),
    ("topics", "orders,sk-orders-of-the-whole-company,token-events"),
    ("topics", "SG.payments.transactions.v1,SG.orders_of_all_the_customers.of_the_whole_company"),
    ("topics", "dapi-orders-of-the-company,dapi.orders.of.the.company"),
    ("topics.regex", "acme\\.(orders|basic-data)\\..*"),
    ("header.converter", "org.apache.kafka.connect.storage.SimpleHeaderConverter"),
    ("errors.deadletterqueue.context.headers.enable", "true"),
    ("http.headers", "Content-Type: application/json; charset=utf-8, Accept: */*"),
    ("transforms.drop.headers", "trace,span"),
    ("http.headers.content.type", "application/json"),
    ("http.authorization.type", "none"),
    ("connection.url", "jdbc:postgresql://db:5432/x?ssl=true&applicationName=a@b"),
    ("connection.url", "jdbc:oracle:thin:@//db:1521/orcl"),
    ("connection.url", "jdbc:sqlserver://db:1433;databaseName=x;encrypt=true"),
    ("connection.uri", "mongodb://db1:27017,db2:27017/?replicaSet=rs0"),
    ("bootstrap.servers", "kafka-1:9092,kafka-2:9092"),
    ("http.api.url", "https://api.acme.com/v1/orders?key.field=a&page=2"),
    (
        "image",
        "registry.acme/a/b@sha256:4bc453b53cb3d914b45f4b250294236adba2c0e09ff6f03793949e7e39fd4cc1",
    ),
    ("email", "team/orders@acme.com"),
    ("query", "select * from t where pass > 3 and basic = 1"),
    ("query", "select * from t where token = ? and secret = $1"),
    ("value.schema", '{"properties": {"token": {"type": "string"}, "secret": ["a"]}}'),
    ("connector.class", "io.confluent.connect.s3.S3SinkConnector"),
    ("transforms.mask.fields", "password,token"),
    ("timestamp.column.name", "updated_at"),
    ("file", "/var/lib/connect/secrets-of-nobody.txt"),
    ("producer.override.sasl.mechanism", "SCRAM-SHA-256"),
    ("ssl.endpoint.identification.algorithm", "https"),
    ("flush.size", "1000"),
    ("compass", "north"),
    ("bypass.enabled", "x"),
    ("connection.url", "jdbc:oracle:thin:${env:U}/${env:P}@db:1521:orcl"),
    ("headers", "Authorization: Bearer ${env:TOKEN}"),
    ("any", "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=${env:KEY}"),
]


@pytest.mark.parametrize(("key", "value", "secret"), SECRETS)
def test_secret_and_nothing_of_it_remains_in_texts(key: str, value: str, secret: str) -> None:
    assert is_sensitive(key, value)
    redactor = Redactor(secrets_in({key: value}), shortest=1)
    assert secret not in redactor.redact(f"cannot use <{value}>")
    # a part of the value that a message quotes alone
    assert secret not in redactor.redact(f"cannot use <{secret}>")


@pytest.mark.parametrize(("key", "value"), SHOWN)
def test_everyday_keys_and_values_are_shown(key: str, value: str) -> None:
    assert not is_sensitive(key, value)


def test_the_part_of_a_value_that_is_secret() -> None:
    assert secret_parts("jdbc:oracle:thin:scott/tiger@db:1521:orcl") == ("tiger",)
    assert secret_parts("AccountName=a;AccountKey=abc==;x=y") == ("abc==",)
    assert secret_parts("Authorization: Bearer abc") == ("abc",)


@pytest.mark.parametrize(
    "text",
    [
        "://",
        "://a:",
        "://a:b",
        "https://hook",
        "https://" + "a" * 300 + "/hook",
        "token='",
        'token="a',
        "authorization",
        "x-a-",
        "x-key-",
        "bearer ",
        "basic  ",
        "jdbc:oracle:thin:",
        "a/",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----",
        "eyJ",
        "eyJaaaaaaaaa.",
        "AKIA",
        "headers: a: ",
        "a: ,",
        "=",
        "\\n",
    ],
)
def test_no_text_takes_long(text: str) -> None:
    long = text * (200_000 // len(text))
    began = time.thread_time()
    is_sensitive("headers", long)
    list(secret_parts(long))
    assert time.thread_time() - began < 15


def test_the_values_of_a_thousand_connectors_take_little_time() -> None:
    configs = [
        {f"{key}.{n}.{i}": f"{value}{n}" for i, (key, value) in enumerate(SHOWN)}
        for n in range(1000)
    ]
    began = time.thread_time()
    for config in configs:
        for key, value in config.items():
            is_sensitive(key, value)
    assert time.thread_time() - began < 10


KEY_FILE = "-----BEGIN PRIVATE KEY-----\nMIIBVgIBADAN\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("secret", "text", "redacted"),
    [
        ("s3cret", "login with s3cret failed", "login with [hidden] failed"),
        ("  s3cret\n", "login with s3cret failed", "login with [hidden] failed"),
        ('s3"cret', r'{"pin": "s3\"cret"}', '{"pin": "[hidden]"}'),
        ("sécret", '{"pin": "s\\u00e9cret"}', '{"pin": "[hidden]"}'),
        ("a\\b'c", r"""ValueError('"a\\b\'c')""", """ValueError('"[hidden]')"""),
        ("s3/cr et", "https://me:s3%2Fcr%20et@db", "https://me:[hidden]@db"),
        ("s3/cr et", "https://me:s3%2fcr%20et@db", "https://me:[hidden]@db"),
        ("s3/cr et", "user=me&password=s3%2Fcr+et", "user=me&password=[hidden]"),
        (KEY_FILE, "cannot read MIIBVgIBADAN", "cannot read [hidden]"),
        (KEY_FILE, f"cannot read {KEY_FILE!r}", "cannot read '[hidden]'"),
        ("42", "42 of 420 rows", "42 of 420 rows"),
        ("", "nothing", "nothing"),
    ],
)
def test_every_form_is_redacted(secret: str, text: str, redacted: str) -> None:
    assert Redactor([secret]).redact(text) == redacted


@pytest.mark.parametrize(
    ("secret", "redacted"),
    [
        ("42", "[hidden] of 420 rows: pin=[hidden]"),
        ("420", "42 of [hidden] rows: pin=42"),
        ("of 4", "42 [hidden]20 rows: pin=42"),
    ],
)
def test_a_short_secret_is_redacted_as_a_word(secret: str, redacted: str) -> None:
    assert Redactor([secret], shortest=1).redact("42 of 420 rows: pin=42") == redacted


def test_one_secret_in_another_and_in_the_mask() -> None:
    redactor = Redactor(["hidden", "hidden-twice"])
    assert redactor.redact("a hidden-twice b hidden") == "a [hidden] b [hidden]"


@given(st.text(min_size=4).filter(lambda text: len(text.strip()) >= 4))
def test_no_encoding_of_a_secret_remains(secret: str) -> None:
    redactor = Redactor([secret])
    encoded = secret.encode("utf-8", "surrogatepass")
    for form in (secret, json.dumps(secret), quote(encoded, safe=""), quote_plus(encoded)):
        assert form not in redactor.redact(f"<{form}>") or form in "<[hidden]>"


def test_secrets_of_a_config_by_name_and_inside_values() -> None:
    config = {
        "db.password": "s3cret",
        "url": "jdbc://me:pa%2Fss@db/x",
        "pin": "1234",
        "file": "/tmp/x",
        "api.key": "${env:KEY}",
    }
    found = set(secrets_in(config, {"pin"}))
    assert {"s3cret", "pa%2Fss", "pa/ss", "1234"} <= found
    assert not {"/tmp/x", "${env:KEY}"} & found
