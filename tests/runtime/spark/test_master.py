"""Whose application is whose at a Spark master, and why one has no executor."""

from __future__ import annotations

import pytest

from connect_runtime.spark.master import Application, MasterState, Tenure, former_applications

OURS = Tenure("group orders, Kafka 4L6g", 12)


def own(cores: int | None, most: int | None = None) -> Application:
    return Application("own", OURS.name_of("connect"), most, cores)


@pytest.mark.parametrize(
    ("name", "follows"),
    [
        ("connect (group orders, Kafka 4L6g, term 11)", True),
        ("theirs (x) (group orders, Kafka 4L6g, term 9)", True),
        (OURS.name_of("connect"), False),
        ("connect (group orders, Kafka 4L6g, term 13)", False),
        ("connect (group orders, Kafka 5M7h, term 11)", False),
        ("connect (group orders-2, Kafka 4L6g, term 11)", False),
        ("connect (group orders, Kafka 4L6g, term 11) copy", False),
        ("connect", False),
    ],
)
def test_only_an_application_of_an_earlier_term_of_the_same_cluster_is_a_former_leaders(
    name: str, follows: bool
) -> None:
    assert OURS.follows(name) is follows


def test_group_ids_with_signs_of_regular_expressions_are_taken_as_they_are() -> None:
    strange = Tenure("group a.*(b, Kafka k", 2)
    assert strange.follows(Tenure("group a.*(b, Kafka k", 1).name_of("x"))
    assert not strange.follows("x (group a!!(b, Kafka k, term 1)")


def test_an_application_with_all_the_cores_it_asked_for_leaves_a_former_one_alone() -> None:
    old = Application("old", "connect (group orders, Kafka 4L6g, term 11)", 4, 4)
    assert [*former_applications(MasterState((own(4, 4), old), 8, 0), "own", OURS)] == []
    for lacks in (own(2, 4), own(0, 4), own(None, 4), own(4)):
        assert [*former_applications(MasterState((lacks, old), 8, 0), "own", OURS)] == [old]


def test_an_application_that_the_master_does_not_know_ends_no_other() -> None:
    old = Application("old", "connect (group orders, Kafka 4L6g, term 11)", None, 4)
    assert [*former_applications(MasterState((old,), 8, 4), "own", OURS)] == []


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (MasterState((own(0),), 0, 0), "Spark's master has no living worker"),
        (MasterState((own(0),), 8, 8), "8 of them are free: no worker has as many cores"),
        (
            MasterState(
                (own(0), Application("a", "nightly", 8, 8), Application("b", "idle")), 8, 0
            ),
            "none of its 8 cores to this runtime: nightly holds 8 (a). Start",
        ),
    ],
)
def test_why_there_is_no_executor(state: MasterState, said: str) -> None:
    assert said in str(state.shortage("own"))


@pytest.mark.parametrize(
    "state",
    [
        MasterState((own(4),), 8, 4),  # granted: it is being started
        MasterState((own(None),)),  # the page cannot be read
        MasterState(()),
    ],
)
def test_nothing_is_said_of_what_starts_or_is_not_known(state: MasterState) -> None:
    assert state.shortage("own") is None
