"""Which tasks share a JVM after JVMs have ended."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from connect_runtime.agent.jvm_places import SHARED, JvmMember, JvmPlaces

HOUR = 3_600.0


def tasks(count: int) -> list[JvmMember]:
    return [JvmMember((f"c{number}", 0), "1") for number in range(count)]


def shared_by(
    places: JvmPlaces, members: Iterable[JvmMember], time_s: float
) -> list[set[JvmMember]]:
    """Returns the members of each JVM."""
    by_place: dict[str, set[JvmMember]] = {}
    for member in members:
        by_place.setdefault(places.place(member, time_s), set()).add(member)
    return list(by_place.values())


def of(jvms: Iterable[set[JvmMember]], task: JvmMember) -> set[JvmMember]:
    return next(jvm for jvm in jvms if task in jvm)


@pytest.mark.parametrize("count", [2, 3, 9, 10, 50])
def test_a_task_that_ends_its_jvm_stands_alone_after_two_ends(count: int) -> None:
    places, members, interrupted = JvmPlaces(), tasks(count), dict.fromkeys(tasks(count), 0)
    culprit, now = members[count // 2], 0.0
    while True:
        jvm = of(shared_by(places, members, now), culprit)
        for member in jvm:
            interrupted[member] += 1
        named = places.ended(jvm, now, "exit code 7", killed=False)
        if named is not None:
            break
        now += 1
    assert named == culprit
    assert jvm == {culprit}
    assert [places.reason(member) for member in members if member != culprit] == [None] * (
        count - 1
    )
    assert places.reason(culprit) == "exit code 7"
    assert places.reason(JvmMember(culprit.task, "2")) is None
    others = [member for member in members if member != culprit]
    assert max(interrupted[member] for member in others) <= 2
    # the others share a JVM again, and this one stays alone until its config changes
    assert shared_by(places, others, now) == [set(others)]
    assert places.place(culprit, now + HOUR) != SHARED
    assert places.place(JvmMember(culprit.task, "2"), now + HOUR) == SHARED
    assert places.place(culprit, now + HOUR) == SHARED


def test_tasks_start_in_as_many_jvms_as_the_root_of_their_number() -> None:
    places, members = JvmPlaces(), tasks(50)
    assert places.ended(members, 0, "exit code 7", killed=False) is None
    jvms = shared_by(places, members, 1)
    assert sorted(map(len, jvms)) == [6, 6, 6, 6, 6, 6, 7, 7]
    assert places.ended(jvms[0], 2, "exit code 7", killed=False) is None
    assert sorted(map(len, shared_by(places, members, 3))) == sorted(
        [*map(len, jvms[1:]), *[1] * len(jvms[0])]
    )


def test_tasks_share_a_jvm_again_if_none_has_ended_for_a_while() -> None:
    places, members = JvmPlaces(), tasks(4)
    places.ended(members, 0, "exit code 7", killed=False)
    assert len(shared_by(places, members, 599)) == 2
    assert shared_by(places, members, 601) == [set(members)]


def test_one_end_by_a_signal_accuses_nobody_and_two_do() -> None:
    """Such as the kernel's, for want of memory that a plugin has taken."""
    places, members = JvmPlaces(), tasks(4)
    assert places.ended(members, 0, "exit code 7", killed=True) is None
    assert shared_by(places, members, 1) == [set(members)]
    assert places.ended(members, HOUR, "exit code 7", killed=True) is None
    assert shared_by(places, members, HOUR) == [set(members)]
    assert places.ended(members, HOUR + 60, "exit code 7", killed=True) is None
    assert len(shared_by(places, members, HOUR + 60)) == 2


def test_who_is_alone_in_a_killed_jvm_is_not_named() -> None:
    places, (member,) = JvmPlaces(), tasks(1)
    for second in range(3):
        assert places.ended([member], second, "exit code 7", killed=True) is None
        assert places.place(member, second) == SHARED
    assert places.ended([member], 4, "exit code 7", killed=False) == member


def test_whose_jvm_is_killed_again_and_again_is_named() -> None:
    """Such as by the kernel, as the task takes all memory of the machine."""
    places, members = JvmPlaces(), tasks(9)
    culprit, sizes = members[0], []
    for second in range(5):
        jvm = of(shared_by(places, members, second), culprit)
        sizes.append(len(jvm))
        named = places.ended(jvm, second, "SIGKILL", killed=True)
    assert sizes == [9, 9, 3, 1, 1]
    assert named == culprit
    assert places.reason(culprit) == "SIGKILL"
