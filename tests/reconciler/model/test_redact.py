"""Texts from elsewhere quote secrets in many shapes; none of them stays."""

from __future__ import annotations

import pytest

from connect_reconciler.model.secrets.sensitive import ConfigRedactor, redact

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
    found = redact(text, REDACTOR, {key: value, "file": "in.txt"})
    assert "cret" not in found
    assert "MIIB" not in found
    assert "(hidden)" in found


def test_one_secret_in_another_and_in_the_word_for_hidden() -> None:
    config = {"pin": "hid", "db.password": "hidden-hid-hidden"}
    assert redact("a hidden-hid-hidden b hid c", REDACTOR, config) == "a (hidden) b (hidden) c"


def test_what_is_no_secret_stays() -> None:
    assert redact("in.txt is missing", REDACTOR, {"file": "in.txt", "pin": "${env:PIN}"}) == (
        "in.txt is missing"
    )
