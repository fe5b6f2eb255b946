"""What each version of Connect can do, and the members of a consumer group that are no tasks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect_reconciler.model.live import Feature, GroupMember, knows, parse, strangers


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
        (Feature.ALTER_OFFSETS, "3.5.1", "3.6.0"),
        (Feature.INITIAL_STATE, "3.6.2", "3.7.0"),
        (Feature.PATCH_CONFIG, "3.7.2", "3.8.0"),
        (Feature.TASKS_FOLLOW, "3.8.1", "3.9.0"),
    ],
)
def test_what_came_when(feature: Feature, before: str, since: str) -> None:
    assert not knows(before, feature)
    assert knows(since, feature) and knows("4.3.0", feature)


def test_a_version_that_cannot_be_read_is_taken_for_a_new_one() -> None:
    assert all(knows("unknown", feature) for feature in Feature)


# --- members of a sink's group ---

ZERO, ONE = "connector-consumer-a-0", "connector-consumer-a-1"


@pytest.mark.parametrize(
    ("ids", "tasks", "found"),
    [
        pytest.param([], {"a": 2}, [], id="tasks that have not joined yet"),
        pytest.param([ZERO, ONE], {"a": 2}, [], id="its tasks"),
        pytest.param([ZERO], {"a": 2}, [], id="a task that has not joined yet"),
        pytest.param([ZERO, "mine"], {"a": 1}, ["mine"], id="a consumer of someone"),
        pytest.param(["mine"], {"a": 0}, ["mine"], id="beside a stopped sink"),
        pytest.param([ZERO, ZERO], {"a": 1}, [ZERO], id="a sink of this name elsewhere"),
        pytest.param([ZERO, ONE], {"a": 1}, [ONE], id="a sink elsewhere with more tasks"),
        pytest.param([ZERO], {"a": 0}, [ZERO], id="a sink elsewhere, and this one is stopped"),
        pytest.param(
            [ZERO, "connector-consumer-b-0"], {"a": 1, "b": 1}, [], id="sinks that share a group"
        ),
        pytest.param(["own", "own"], {"a": 2}, [], id="a client id that is configured"),
        pytest.param(["own", "own", "own"], {"a": 2}, ["own"], id="one more of that client id"),
    ],
)
def test_members_that_are_no_tasks(
    ids: list[str], tasks: Mapping[str, int], found: list[str]
) -> None:
    members = [GroupMember(each, "/10.0.0.1") for each in ids]
    assert [each.client_id for each in strangers(members, tasks)] == found


def test_a_member_as_it_is_shown() -> None:
    assert str(GroupMember("mine", "/10.0.0.1")) == "mine at 10.0.0.1"
