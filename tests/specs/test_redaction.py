"""Secrets are found in every form that a trace or an error may write them in."""

from __future__ import annotations

import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_specs.redaction import Redactor, secrets_in

PEM = "-----BEGIN PRIVATE KEY-----\nMIIBVgIBADAN\n-----END PRIVATE KEY-----\n"


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
        (PEM, "cannot read MIIBVgIBADAN", "cannot read [hidden]"),
        (PEM, f"cannot read {PEM!r}", "cannot read '[hidden]'"),
        ("42", "42 of 420 rows", "42 of 420 rows"),
        ("", "nothing", "nothing"),
    ],
)
def test_every_form_is_redacted(secret: str, text: str, redacted: str) -> None:
    assert Redactor([secret]).redact(text) == redacted


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
