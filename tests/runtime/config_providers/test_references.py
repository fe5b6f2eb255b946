"""References are found as Apache's pattern finds them, and replaced in one pass."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connect_runtime.config_providers.references import (
    Reference,
    holds_reference,
    references,
    reverse,
    substitute,
)

APACHE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
VALUES = {
    ("file", "/run/db", "password"): "s3cret",
    ("env", "", "USER"): "me",
    ("env", "", "NESTED"): "${env:USER}",
}
# characters that make references, and one that does not
TEXTS = st.text(alphabet="${}:ab\n", max_size=24)


@pytest.mark.parametrize(
    ("value", "resolved"),
    [
        ("${file:/run/db:password}", "s3cret"),
        ("jdbc://${env:USER}:${file:/run/db:password}@db", "jdbc://me:s3cret@db"),
        ("${env:NESTED}", "${env:USER}"),
        ("${vault:x} ${env:USER} ${topic}", "${vault:x} me ${topic}"),
        ("plain", "plain"),
    ],
)
def test_substitution_is_one_pass_and_keeps_what_has_no_value(value: str, resolved: str) -> None:
    assert substitute(value, _lookup) == resolved


@given(TEXTS)
@example("${x${env:USER}}${vault:secret/db:a:b}${:}${a::}${topic}${env:USER")
def test_references_are_found_as_apache_finds_them(text: str) -> None:
    expected = [
        Reference(match[1], match[3] or "", match[4], match[0]) for match in APACHE.finditer(text)
    ]
    assert list(references(text)) == expected
    assert holds_reference(text) == bool(expected)


@given(TEXTS)
def test_without_values_the_text_stays(text: str) -> None:
    assert substitute(text, lambda reference: None) == text


@given(
    st.dictionaries(st.sampled_from("abc"), TEXTS), st.dictionaries(st.sampled_from("abcd"), TEXTS)
)
def test_resolving_what_was_reversed_gives_what_the_connector_was_given(
    raw: dict[str, str], added: dict[str, str]
) -> None:
    def resolve(config: dict[str, str]) -> dict[str, str]:
        return {
            key: substitute(value, lambda each: f"<{each.key}>") for key, value in config.items()
        }

    resolved = resolve(raw)
    task = {**{f"{key}.added": value for key, value in added.items()}, **resolved}
    found = reverse(raw, task)
    assert {key: found[key] for key in raw} == {
        key: value if holds_reference(value) else resolved[key] for key, value in raw.items()
    }
    assert {key: resolve(found)[key] for key in raw} == resolved


def test_a_key_without_reference_or_not_in_the_connector_config_is_left_alone() -> None:
    raw = {"password": "${env:PASSWORD}", "table": "a,b"}
    task = {"password": "s3cret", "table": "a", "number": "0"}
    assert reverse(raw, task) == {"password": "${env:PASSWORD}", "table": "a", "number": "0"}


def test_a_value_that_never_closes_its_braces_takes_linear_time() -> None:
    assert references("${:" * 300_000) == ()
    assert not holds_reference("${" * 300_000 + "}")


def _lookup(reference: Reference) -> str | None:
    return VALUES.get((reference.provider, reference.path, reference.key))
