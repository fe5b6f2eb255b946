"""Which version of Connect's API knows what, by the text that GET / gives."""

from __future__ import annotations

import pytest

from connect_reconciler.model.live import Feature, knows, parse, too_old


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.6.2", (3, 6)),
        ("4.10.0-SNAPSHOT", (4, 10)),
        ("3.7.0.redhat-00007", (3, 7)),
        ("7.6.1-ccs", (3, 6)),
        ("8.0.0-ce", (4, 0)),
        ("unknown", None),
        ("", None),
    ],
)
def test_versions_as_distributions_write_them(text: str, version: tuple[int, int] | None) -> None:
    assert parse(text) == version


@pytest.mark.parametrize(
    ("feature", "before", "since"),
    [
        (Feature.INITIAL_STATE, "3.6.2", "3.7.0"),
        (Feature.PATCH_CONFIG, "3.7.2", "3.8.0"),
    ],
)
def test_what_came_when(feature: Feature, before: str, since: str) -> None:
    assert not knows(before, feature)
    assert knows(since, feature) and knows("4.3.0", feature)


def test_a_version_that_cannot_be_read_is_taken_for_a_new_one() -> None:
    assert all(knows("unknown", feature) for feature in Feature)
    assert not too_old("unknown")
    assert too_old("3.5.1") and not too_old("3.6.0")
