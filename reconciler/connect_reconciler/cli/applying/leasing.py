"""The lease of this project's cluster: asked for, refused, or taken over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from connect_reconciler.cli.durations import duration_text
from connect_reconciler.cli.output import progress
from connect_reconciler.ledger.lease import TAKES_OVER, Lease, LeaseRefused, identity
from connect_reconciler.ledger.ledger import PURPOSE
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.election import Election, find_leader, members_of
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.kafka.rights import READ, WRITE, check_rights
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.names import ledger_group, ledger_transactional_id

if TYPE_CHECKING:
    from connect_reconciler.cli.signals import Told
    from connect_runtime.storage.log import Logs
    from connect_specs.desired import Project

T = TypeVar("T")

# One that was killed keeps its lease until Kafka notices, after 6 s.
_LEASE_S = 12.0
# One that is taken over may wait for the answer to a request that is in flight.
_TAKEOVER_S = 150.0
_HOLDER_S = 2.0
_AGAIN_S = 1.0


def who() -> str:
    """This process, as others see it in the group and in the journal."""
    return identity(time.time_ns() // 1_000_000)


def check_lease_rights(project: Project, properties: Mapping[str, str]) -> None:
    """Raises Unreachable where this login may not hold the lease or write the ledger: before
    anything is written for an apply that could not record it."""
    check_rights(
        properties,
        topics={project.topics.ledger: (READ, WRITE)},
        groups={ledger_group(project.group_id): (READ,)},
    )


def ensure_lease(project: Project, properties: Mapping[str, str]) -> None:
    """Raises Invalid over REST alone, where nobody can be waited for or taken over from."""
    if not properties:
        what = "over REST alone there is no lease, and no other apply is known of"
        hint = "leave out --takeover and --lock-timeout, or add cluster.kafka to connect.yaml"
        raise Invalid(Diagnostic("apply.no-lease", what, str(project.file), hint=hint))


@contextmanager
def once_free(
    opened: Callable[[], AbstractContextManager[T]], timeout_s: float, told: Told
) -> Iterator[T]:
    """What is opened, tried again for so long while another apply is at work.

    Raises LeaseRefused, KeyboardInterrupt where the user was `told` to stop meanwhile.
    """
    deadline, said = time.monotonic() + timeout_s, False
    with ExitStack() as stack:
        found: T | None = None
        while found is None:
            try:
                found = stack.enter_context(opened())
            except LeaseRefused as refused:
                if told.is_set():
                    raise KeyboardInterrupt from None
                if time.monotonic() >= deadline:
                    raise
                if not said:
                    limit = duration_text(timeout_s)
                    progress(f"{refused.diagnostics[0].what}; waiting up to {limit} for its end")
                said = True
                if told.wait(_AGAIN_S):
                    raise KeyboardInterrupt from None
        yield found


def lease_for(
    project: Project,
    properties: Mapping[str, str],
    logs: Logs,
    by: str,
    timeout_s: float = _LEASE_S,
) -> Lease:
    """The lease, for `by`. Raises LeaseRefused."""
    topic, group = project.topics.ledger, ledger_group(project.group_id)
    logs.ensure_compacted(topic, 1, PURPOSE, key="cluster.topics.ledger")
    client = admin(properties)

    def rival() -> str | None:
        others = (each for each in members_of(client, group, _HOLDER_S) if each != by)
        return next((each for each in others if each.endswith(TAKES_OVER)), None)

    return Lease.acquire(
        lambda: Election(properties, group, topic, by),
        _holder(project, properties),
        timeout_s=timeout_s,
        rival=rival,
    )


@contextmanager
def taken_over(project: Project, properties: Mapping[str, str]) -> Iterator[Lease]:
    """The lease, whoever holds it now: that one is fenced, and waited for until it lets go.

    Raises Invalid over REST alone, LeaseRefused if it does not let go.
    """
    ensure_lease(project, properties)
    check_lease_rights(project, properties)
    logs = KafkaLogs(properties)
    try:
        logs.ensure_compacted(project.topics.ledger, 1, PURPOSE, key="cluster.topics.ledger")
        found = _holder(project, properties)()
        logs.fence([ledger_transactional_id(project.group_id)])
        if found is not None:
            progress(f"taking over from {found}, which ends after the actions in flight")
        lease = lease_for(project, properties, logs, who() + TAKES_OVER, _TAKEOVER_S)
    finally:
        logs.close()
    try:
        yield lease
    finally:
        lease.release()


def _holder(project: Project, properties: Mapping[str, str]) -> Callable[[], str | None]:
    def holder() -> str | None:
        group = ledger_group(project.group_id)
        found = find_leader(properties, group, project.topics.ledger, _HOLDER_S)
        return None if found is None else found.identity

    return holder
