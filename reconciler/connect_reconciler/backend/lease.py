"""The lease: one apply at a time owns the ledger's partition in a consumer group of its own.

Kafka's group coordinator decides who holds it, no clock of ours. A thread keeps the membership
alive while the apply waits for something else. An apply that lost the lease notices between two
actions, and the ledger fences it as well. An apply that takes the lease over fences the ledger and
joins under a name that ends with --takeover: the holder then leaves, and the coordinator removes
one that hangs.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeAlias

from connect_runtime.kafka.client_checks import READ, WRITE, check_rights
from connect_runtime.kafka.election import Election, find_leader, leader_of, members_of
from connect_runtime.kafka.groups import GroupActive, alter_group_offsets, list_group_offsets
from connect_runtime.kafka.librdkafka import Coordinators
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage.log import InternalTopic, Logs
from connect_specs.desired import Project
from connect_specs.diagnostics import ConnectError, Diagnostic, ExitCode, Failed, Invalid
from connect_specs.names import ledger_group, ledger_transactional_id
from connect_specs.plain_text import time_text

TAKES_OVER = " --takeover"

# A killed apply keeps its lease until Kafka notices, after 6 s
_LEASE_S = 12.0
# The holder may wait for the answer to a request in flight before it leaves
_TAKEOVER_S = 150.0
_HOLDER_S = 2.0

# A free lease is acquired sooner
_FREE_S = 0.5
_POLL_S = 0.2
_LEAVE_S = 10.0
# Polls between two checks for an apply that takes over
_CHECK_EVERY = 5


# Called with a text on a wait, and its limit in seconds
OnWait: TypeAlias = Callable[[str, float], None]


def no_progress(text: str, limit_s: float) -> None:
    """Ignores a wait."""


class LeaseLost(Failed):
    """Another apply has the lease now; this one must not go on."""


class LeaseRefused(ConnectError):
    """Another apply holds the lease. Nothing was touched."""

    exit_code = ExitCode.UNREACHABLE


class Lease:
    """The lease of one apply. `join` enters its election, and `rival` names another member
    that takes it over, if there is one."""

    def __init__(
        self, join: Callable[[], Election], rival: Callable[[], str | None] = lambda: None
    ) -> None:
        self._join = join
        self._rival = rival
        self._taken_by: str | None = None
        self._membership: Election | None = None
        self._term: int | None = None
        self._settled = threading.Event()
        self._released = threading.Event()
        self._broken: ConnectError | None = None
        self._thread = threading.Thread(target=self._keep_alive, name="lease", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(
        cls,
        join: Callable[[], Election],
        holder: Callable[[], str | None],
        *,
        timeout_s: float,
        rival: Callable[[], str | None] = lambda: None,
        waits: OnWait = no_progress,
    ) -> Lease:
        """Acquires the lease within `timeout_s`. `waits` is called at once if another apply has it.

        Raises LeaseRefused, which names the holder.
        """
        # Before joining: while the group rebalances, it shows no holder
        earlier = holder()
        lease = cls(join, rival)
        try:
            if earlier is not None and not lease._wait(min(_FREE_S, timeout_s)):
                waits(lease_held_message(earlier), timeout_s)
            if lease._wait(timeout_s):
                return lease
            identity = holder() or earlier
        except BaseException:
            lease.release()
            raise
        lease.release()
        problem = lease_held_message(identity) if identity else "the lease of this cluster is taken"
        hint = (
            "wait until it ends, or take the lease over with --takeover; a killed apply loses its"
            " lease within seconds"
        )
        raise LeaseRefused(Diagnostic("apply.leased", problem, hint=hint))

    @property
    def lost(self) -> bool:
        """Returns True if the lease is lost. A lost lease never comes back to this apply."""
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
            problem = "another apply may have the lease of this cluster now"
            reason = "" if self._broken is None else str(self._broken)
            hint = "see what the other one did, then plan again"
            raise LeaseLost(Diagnostic("apply.lease-lost", problem, why=reason, hint=hint))

    def release(self) -> None:
        """Leaves the group, so that the next apply does not wait."""
        self._released.set()
        self._thread.join(_LEAVE_S)

    def _raise_if_taken(self) -> None:
        if self._taken_by is None and self._broken is None and not self._released.is_set():
            self._taken_by = self._rival()
        if self._taken_by is not None:
            problem = (
                f"another apply has taken over: {self._taken_by}; this one starts nothing more"
            )
            hint = "see what the other one did with `connect history`, then plan again"
            raise LeaseLost(Diagnostic("apply.taken-over", problem, hint=hint))

    def _wait(self, timeout_s: float) -> bool:
        is_held = self._settled.wait(timeout_s)
        if self._broken is not None:
            raise self._broken
        return is_held

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


def lease_held_message(identity: str) -> str:
    """Returns the message on an apply that this one has to wait for."""
    return f"another apply is running: {identity}"


def identity(now_ms: int | None = None) -> str:
    """Returns the name of this process for the group and the journal, from now on:
    `user@host pid 12 since 2026-11-21T14:00:00Z`."""
    since_ms = time.time() * 1000 if now_ms is None else now_ms
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or f"uid-{os.getuid()}"
    return f"{user}@{socket.gethostname()} pid {os.getpid()} since {time_text(since_ms)}"


def ledger_topic(name: str) -> InternalTopic:
    """Returns the settings of the ledger topic."""
    return InternalTopic(name, 1, "what was applied to connectors", key="cluster.topics.ledger")


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
    named_topics = {of for of, _ in list_group_offsets(kafka, group)}
    for other_topic in sorted(named_topics - {topic}):
        raise _other_ledger(project, other_topic)
    return topic in named_topics


def _name_ledger(project: Project, kafka: Mapping[str, str]) -> None:
    group, topic = ledger_group(project.group_id), project.topics.ledger
    # While an apply is in the group only members can commit: that one has named its topic
    with suppress(GroupActive):
        alter_group_offsets(kafka, group, {(topic, 0): 0})
    # Two that begin at once may both have found none
    ensure_one_ledger(project, kafka)


def _other_ledger(project: Project, other_topic: str) -> Invalid:
    group, topic = project.group_id, project.topics.ledger
    problem = (
        f"applies of group.id {group} keep their ledger in topic {other_topic},"
        f" and this one in {topic}"
    )
    reason = "neither project would see what the other one owns, and their applies would collide"
    hint = (
        f"write `topics: {{ledger: {other_topic}}}` under cluster: in connect.yaml, or give each"
        f" cluster a group.id of its own; if {other_topic} is not in use any more:"
        f" kafka-consumer-groups.sh"
        f" --delete-offsets --group {ledger_group(group)} --topic {other_topic}"
    )
    return Invalid(Diagnostic("cluster.other-ledger", problem, str(project.file), reason, hint))


def acquired(
    project: Project,
    kafka: Mapping[str, str],
    logs: Logs,
    by: str,
    waits: OnWait = no_progress,
    *,
    timeout_s: float = _LEASE_S,
) -> Lease:
    """Acquires the lease of the project's cluster for `by`. Raises LeaseRefused; Invalid if others
    keep the ledger of this cluster in another topic."""
    topic, group = project.topics.ledger, ledger_group(project.group_id)
    is_named = ensure_one_ledger(project, kafka)
    logs.ensure_compacted(ledger_topic(topic))
    if not is_named:
        _name_ledger(project, kafka)
    coordinators = Coordinators(kafka)

    def holder() -> str | None:
        leader = leader_of(coordinators, kafka, group, topic, _HOLDER_S)
        return None if leader is None else leader.identity

    def rival() -> str | None:
        members = (member for member in members_of(coordinators, group, _HOLDER_S) if member != by)
        return next((member for member in members if member.endswith(TAKES_OVER)), None)

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
    topic, group = project.topics.ledger, ledger_group(project.group_id)
    logs = KafkaLogs(kafka)
    try:
        logs.ensure_compacted(ledger_topic(topic))
        leader = find_leader(kafka, group, topic, _HOLDER_S)
        logs.fence([ledger_transactional_id(project.group_id)])
        if leader is not None:
            say(f"taking over from {leader.identity}, which ends after the actions in flight")
        lease = acquired(project, kafka, logs, identity() + TAKES_OVER, timeout_s=_TAKEOVER_S)
    finally:
        logs.close()
    try:
        yield lease
    finally:
        lease.release()
