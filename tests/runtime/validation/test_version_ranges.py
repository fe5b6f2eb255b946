"""Versions that configs ask of plugins, as a real Connect worker of 4.1.0 judges them."""

from __future__ import annotations

import pytest

from connect_runtime.validation.plugin_choice import InvalidVersionRange, required_versions

THERE = "4.1.0"


@pytest.mark.parametrize(
    "text",
    (
        "4.1.0",
        "4.1",
        "[4.1.0.0]",
        "(,4.2-alpha)",
        "[1,2],[3,5]",
        "[,]",
        "[x,)",
        "[4.1-rc2,4.1.1)",
        "[4.1.0-SNAPSHOT,)",
    ),
)
def test_versions_that_are_met(text: str) -> None:
    wanted = required_versions(text)
    assert wanted is not None
    assert THERE in wanted


@pytest.mark.parametrize(
    ("text", "shown"),
    (
        ("4", "[4,4]"),
        ("4.1.0-rc1", "[4.1.0-rc1,4.1.0-rc1]"),
        ("(4.1.0,)", "(4.1.0,)"),
        ("(,4.1.0)", "(,4.1.0)"),
        ("[4.1.0.1,)", "[4.1.0.1,)"),
        ("[4.1-sp,)", "[4.1-sp,)"),
        ("[4.1.0-x,)", "[4.1.0-x,)"),
        ("a b", "[a b,a b]"),
        ("", "[,]"),
        (" latest ", "[latest,latest]"),
        ("\u00a0", "[\u00a0,\u00a0]"),
        ("\x00", "[,]"),
        ("[a1,alpha1]", "[a1,alpha1]"),
    ),
)
def test_versions_that_are_not_met(text: str, shown: str) -> None:
    wanted = required_versions(text)
    assert wanted is not None
    assert (THERE in wanted, str(wanted)) == (False, shown)


@pytest.mark.parametrize("text", ("latest", None))
def test_any_version_will_do(text: str | None) -> None:
    assert required_versions(text) is None


@pytest.mark.parametrize(
    ("text", "why"),
    (
        ("[4.1.0", "Unbounded range: [4.1.0"),
        ("[[", "Unbounded range: [["),
        ("(4.1.0)", "Single version must be surrounded by []: (4.1.0)"),
        ("[5,4]", "Range defies version ordering: [5,4]"),
        ("[4,4)", "Range defies version ordering: [4,4)"),
        ("[1a,1.alpha]", "Range defies version ordering: [1a,1.alpha]"),
        ("[1,2],[1,3]", "Ranges overlap: [1,2],[1,3]"),
        ("[1,2]x", "Only fully-qualified sets allowed in multiple set scenario: [1,2]x"),
        ("]", "Only fully-qualified sets allowed in multiple set scenario: []]"),
    ),
)
def test_texts_that_are_no_versions(text: str, why: str) -> None:
    with pytest.raises(InvalidVersionRange) as raised:
        required_versions(text)
    assert str(raised.value) == why
