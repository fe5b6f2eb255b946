"""The lease: one apply at a time owns the ledger's partition in a consumer group of its own.

Kafka's group coordinator decides who holds it, no clock of ours. A thread keeps the membership
alive while the apply waits for something else. An apply that lost the lease notices between two
actions, and the ledger fences it as well. An apply that takes the lease over fences the ledger and
joins under a name that says so: the holder then leaves, and the coordinator removes one that hangs.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

from connect_runtime.kafka.client_checks import READ, WRITE, check_rights
from connect_runtime.kafka.election import Election, find_leader, leader_of, members_of
from connect_runtime.kafka.groups import GroupActive, alter_group_offsets, list_group_offsets
from connect_runtime.kafka.librdkafka import Coordinators
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage.log import InternalTopic, Logs
from connect_specs.desired import Project
from connect_specs.diagnostics import ConnectError, Diagnostic, ExitCode, Failed, Invalid
from connect_specs.names import ledger_group, ledger_transactional_id

TAKES_OVER = " --takeover"
# Why the ledger topic is created
PURPOSE = "what was applied to connectors"

# A killed apply keeps its lease until Kafka notices, after 6 s
_LEASE_S = 12.0
# The holder may wait for the answer to a request in flight before it leaves
_TAKEOVER_S = 150.0
_HOLDER_S = 2.0

# A free lease is acquired sooner
_FREE_S = 0.5
_POLL_S = 0.2
_LEAVE_S = 10.0
# How many polls lie between two checks for an apply that takes over
_CHECK_EVERY = 5


# Says what is waited for, and for how many seconds at most
Waits: TypeAlias = Callable[[str, float], None]


def silently(what: str, limit_s: float) -> None:
    """Says nothing of a wait."""


class LeaseLost(Failed):
    """Another apply has the lease now; this one must not go on."""


class LeaseRefused(ConnectError):
    """Another apply holds the lease. Nothing was touched."""

    exit_code = ExitCode.UNREACHABLE


class Membership(Protocol):
    """Membership in the group whose only partition is the lease. One thread polls it, and any may
    read it. `term` grows each time the lease is acquired."""

    @property
    def leading(self) -> bool: ...
    @property
    def term(self) -> int: ...
    def poll(self, timeout_s: float = 0.0) -> None: ...
    def close(self) -> None: ...


class Lease:
    """The lease of one apply. `rival` names another member that takes it over, if there is one."""

    def __init__(
        self, join: Callable[[], Membership], rival: Callable[[], str | None] = lambda: None
    ) -> None:
        self._join = join
        self._rival = rival
        self._taken_by: str | None = None
        self._membership: Membership | None = None
        self._term: int | None = None
        self._settled = threading.Event()
        self._released = threading.Event()
        self._broken: ConnectError | None = None
        self._thread = threading.Thread(target=self._keep_alive, name="lease", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(
        cls,
        join: Callable[[], Membership],
        holder: Callable[[], str | None],
        *,
        timeout_s: float,
        rival: Callable[[], str | None] = lambda: None,
        waits: Waits = silently,
    ) -> Lease:
        """Acquires the lease within `timeout_s`. `waits` is called at once if another apply has it.

        Raises LeaseRefused, which says who holds it.
        """
        # Before joining: while the group rebalances, nobody is seen to hold it
        before = holder()
        lease = cls(join, rival)
        try:
            if before is not None and not lease._wait(min(_FREE_S, timeout_s)):
                waits(another_runs(before), timeout_s)
            if lease._wait(timeout_s):
                return lease
            who = holder() or before
        except BaseException:
            lease.release()
            raise
        lease.release()
        what = another_runs(who) if who else "the lease of this cluster is taken"
        hint = (
            "wait until it ends, or take the lease over with --takeover; a killed apply loses its"
            " lease within seconds"
        )
        raise LeaseRefused(Diagnostic("apply.leased", what, hint=hint))

    @property
    def lost(self) -> bool:
        """Whether the lease is lost. A lost lease never comes back to this apply."""
        member = self._membership
        return (
            self._broken is not None
            or self._taken_by is not None
            or self._released.is_set()
            or member is None
            or not member.leading
            or member.term != self._term
        )

    def keep(self) -> None:
        """Raises LeaseLost if the lease is lost."""
        if self.lost:
            self._raise_if_taken()
            what = "another apply may have the lease of this cluster now"
            why = "" if self._broken is None else str(self._broken)
            hint = "see what the other one did, then plan again"
            raise LeaseLost(Diagnostic("apply.lease-lost", what, why=why, hint=hint))

    def release(self) -> None:
        """Leaves the group, so that the next apply does not wait."""
        self._released.set()
        self._thread.join(_LEAVE_S)

    def _raise_if_taken(self) -> None:
        if self._taken_by is None and self._broken is None and not self._released.is_set():
            self._taken_by = self._rival()
        if self._taken_by is not None:
            what = f"another apply has taken over: {self._taken_by}; this one starts nothing more"
            hint = "see what the other one did with `connect history`, then plan again"
            raise LeaseLost(Diagnostic("apply.taken-over", what, hint=hint))

    def _wait(self, timeout_s: float) -> bool:
        held = self._settled.wait(timeout_s)
        if self._broken is not None:
            raise self._broken
        return held

    def _keep_alive(self) -> None:
        try:
            membership = self._join()
            try:
                self._membership = membership
                polls = 0
                while not self._released.is_set():
                    membership.poll(_POLL_S)
                    polls += 1
                    if polls % _CHECK_EVERY == 0 and membership.leading and self._taken_by is None:
                        self._taken_by = self._rival()
                    if membership.leading and self._term is None:
                        self._term = membership.term
                        self._settled.set()
            finally:
                membership.close()
        except ConnectError as error:
            self._broken = error
            self._settled.set()


def another_runs(who: str) -> str:
    """What is said of an apply that this one has to wait for."""
    return f"another apply is running: {who}"


def identity(now_ms: int) -> str:
    """Who acquires the lease: `user@host pid 12 since 2026-11-21T14:00:00Z`."""
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or f"uid-{os.getuid()}"
    since = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{user}@{socket.gethostname()} pid {os.getpid()} since {since}"


def who() -> str:
    """This process, as the group and the journal name it."""
    return identity(time.time_ns() // 1_000_000)


def check_lease_rights(project: Project, kafka: Mapping[str, str]) -> None:
    """Raises Unreachable where this login may not hold the lease or write the ledger. Called before
    anything is written that could not be recorded."""
    check_rights(
        kafka,
        topics={project.topics.ledger: (READ, WRITE)},
        groups={ledger_group(project.group_id): (READ,)},
    )


def ensure_one_ledger(project: Project, kafka: Mapping[str, str]) -> bool:
    """Raises Invalid if applies of this group.id keep their ledger in another topic. Returns
    whether the group's offsets name this one already.

    An apply commits an offset of its ledger topic, which only means that the topic is in use.
    """
    group, topic = ledger_group(project.group_id), project.topics.ledger
    named = {of for of, _ in list_group_offsets(kafka, group)}
    for other in sorted(named - {topic}):
        raise _other_ledger(project, other)
    return topic in named


def _name_ledger(project: Project, kafka: Mapping[str, str]) -> None:
    group, topic = ledger_group(project.group_id), project.topics.ledger
    # While an apply is in the group only members can commit: that one has named its topic
    with suppress(GroupActive):
        alter_group_offsets(kafka, group, {(topic, 0): 0})
    # Two that begin at once may both have found none
    ensure_one_ledger(project, kafka)


def _other_ledger(project: Project, other: str) -> Invalid:
    group, topic = project.group_id, project.topics.ledger
    what = (
        f"applies of group.id {group} keep their ledger in topic {other}, and this one in {topic}"
    )
    why = "neither project would see what the other one owns, and their applies would collide"
    hint = (
        f"write `topics: {{ledger: {other}}}` under cluster: in connect.yaml, or give each cluster"
        f" a group.id of its own; if {other} is not in use any more: kafka-consumer-groups.sh"
        f" --delete-offsets --group {ledger_group(group)} --topic {other}"
    )
    return Invalid(Diagnostic("cluster.other-ledger", what, str(project.file), why, hint))


def acquired(
    project: Project,
    kafka: Mapping[str, str],
    logs: Logs,
    by: str,
    waits: Waits = silently,
    *,
    timeout_s: float = _LEASE_S,
) -> Lease:
    """Acquires the lease of the project's cluster for `by`. Raises LeaseRefused; Invalid if others
    keep the ledger of this cluster in another topic."""
    topic, group = project.topics.ledger, ledger_group(project.group_id)
    is_named = ensure_one_ledger(project, kafka)
    logs.ensure_compacted(InternalTopic(topic, 1, PURPOSE, key="cluster.topics.ledger"))
    if not is_named:
        _name_ledger(project, kafka)
    coordinators = Coordinators(kafka)

    def holder() -> str | None:
        found = leader_of(coordinators, kafka, group, topic, _HOLDER_S)
        return None if found is None else found.identity

    def rival() -> str | None:
        others = (each for each in members_of(coordinators, group, _HOLDER_S) if each != by)
        return next((each for each in others if each.endswith(TAKES_OVER)), None)

    return Lease.acquire(
        lambda: Election(kafka, group, topic, by),
        holder,
        timeout_s=timeout_s,
        rival=rival,
        waits=waits,
    )


@contextmanager
def taken_over(
    project: Project, kafka: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[Lease]:
    """Takes the lease over: fences the apply that holds it, and waits until that leaves.

    Raises LeaseRefused if it does not leave.
    """
    check_lease_rights(project, kafka)
    ensure_one_ledger(project, kafka)
    logs = KafkaLogs(kafka)
    try:
        logs.ensure_compacted(
            InternalTopic(project.topics.ledger, 1, PURPOSE, key="cluster.topics.ledger")
        )
        found = _holder(project, kafka)
        logs.fence([ledger_transactional_id(project.group_id)])
        if found is not None:
            say(f"taking over from {found}, which ends after the actions in flight")
        lease = acquired(project, kafka, logs, who() + TAKES_OVER, timeout_s=_TAKEOVER_S)
    finally:
        logs.close()
    try:
        yield lease
    finally:
        lease.release()


def _holder(project: Project, kafka: Mapping[str, str]) -> str | None:
    group = ledger_group(project.group_id)
    found = find_leader(kafka, group, project.topics.ledger, _HOLDER_S)
    return None if found is None else found.identity
