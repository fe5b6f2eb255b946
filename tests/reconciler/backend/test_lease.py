"""The lease over a membership that the test decides about."""

import threading
from collections.abc import Iterator

import pytest

from connect_reconciler.backend.lease import Lease, LeaseLost, LeaseRefused, identity
from connect_specs.diagnostics import Diagnostic, ExitCode, Unreachable
from support.wait import wait_until


class Member:
    """Leads when the test says so."""

    def __init__(self, *, leading: bool) -> None:
        self.leading = leading
        self.term = int(leading)
        self.closed = False
        self.polled = threading.Event()

    def poll(self, timeout_s: float = 0.0) -> None:
        self.polled.set()
        threading.Event().wait(0.001)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def member() -> Member:
    return Member(leading=True)


@pytest.fixture
def lease(member: Member) -> Iterator[Lease]:
    held = Lease.acquire(lambda: member, lambda: None, timeout_s=5)
    yield held
    held.release()


def test_the_lease_is_held_until_it_is_released(lease: Lease, member: Member) -> None:
    lease.keep()
    assert not member.closed
    lease.release()
    assert member.closed
    assert lease.lost


def test_membership_is_kept_alive_without_the_apply(lease: Lease, member: Member) -> None:
    member.polled.clear()
    assert member.polled.wait(5)


def test_a_lease_that_went_elsewhere_is_lost(lease: Lease, member: Member) -> None:
    member.leading = False
    with pytest.raises(LeaseLost):
        lease.keep()


def test_a_lease_that_was_away_in_between_is_lost(lease: Lease, member: Member) -> None:
    member.term += 1
    with pytest.raises(LeaseLost):
        lease.keep()


def test_a_taken_lease_is_refused_with_its_holder() -> None:
    member = Member(leading=False)
    who = "alex@laptop pid 7 since 2026-11-21T14:00:00Z"
    with pytest.raises(LeaseRefused, match="alex@laptop pid 7") as refused:
        Lease.acquire(lambda: member, lambda: who, timeout_s=0.01)
    assert refused.value.exit_code is ExitCode.UNREACHABLE
    assert member.closed


def test_who_holds_it_is_said_before_the_wait() -> None:
    """The trap: a second apply says nothing for as long as it waits."""
    member, said = Member(leading=False), list[tuple[str, float]]()

    def waits(what: str, limit_s: float) -> None:
        said.append((what, limit_s))
        member.leading, member.term = True, 1

    lease = Lease.acquire(lambda: member, lambda: "alex@ci pid 7", timeout_s=60, waits=waits)
    assert said == [("another apply is running: alex@ci pid 7", 60)]
    lease.release()


@pytest.mark.parametrize("holder", [None, "one that just ended"])
def test_nothing_is_said_of_a_lease_that_comes_at_once(holder: str | None) -> None:
    member, said = Member(leading=True), list[str]()
    lease = Lease.acquire(
        lambda: member, lambda: holder, timeout_s=5, waits=lambda what, _: said.append(what)
    )
    assert said == []
    lease.release()


def test_what_keeps_it_from_joining_is_said() -> None:
    def join() -> Member:
        raise Unreachable(Diagnostic("kafka.unreachable", "nobody there"))

    with pytest.raises(Unreachable, match="nobody there"):
        Lease.acquire(join, lambda: None, timeout_s=5)


def test_a_broken_membership_is_a_lost_lease() -> None:
    breaks = threading.Event()

    class Breaking(Member):
        def poll(self, timeout_s: float = 0.0) -> None:
            if breaks.is_set():
                raise Unreachable(Diagnostic("kafka.unreachable", "gone"))
            super().poll(timeout_s)

    member = Breaking(leading=True)
    lease = Lease.acquire(lambda: member, lambda: None, timeout_s=5)
    breaks.set()
    wait_until(lambda: lease.lost, what="the lease to be lost")
    with pytest.raises(LeaseLost):
        lease.keep()
    lease.release()


def test_who_wants_to_take_over_gets_the_lease() -> None:
    member = Member(leading=True)
    rivals = iter([None, "alex@ci pid 7 --takeover"])
    lease = Lease.acquire(
        lambda: member, lambda: None, timeout_s=5, rival=lambda: next(rivals, None)
    )
    wait_until(lambda: lease.lost, what="the lease to be lost")
    for _ in range(2):
        with pytest.raises(LeaseLost, match="alex@ci pid 7") as lost:
            lease.keep()
        assert lost.value.diagnostics[0].code == "apply.taken-over"
        assert lost.value.exit_code is ExitCode.FAILED
    lease.release()


def test_identity_tells_who_and_since_when() -> None:
    assert identity(1_795_269_600_000).endswith(" since 2026-11-21T14:00:00Z")
