"""Which members of a consumer group are tasks, and which are strangers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect_reconciler.model.group_members import GroupMember, strangers

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
