"""Slips in configs that no definition forbids."""

from __future__ import annotations

import pytest

from connect_reconciler.validation.keys import sensitive_slips, slips


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
