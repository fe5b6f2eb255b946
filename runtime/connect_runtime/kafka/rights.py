"""Checks this login's permissions before an operation, so that none stops half-way.

Kafka reports permissions on topics and groups, not on transactional ids. The check creates nothing.
Topics that do not exist yet are not covered: Kafka refuses their creation later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AclOperation

from connect_runtime.kafka.calls import logged
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.coordinators import Coordinators, settled
from connect_runtime.kafka.errors import (
    AUTHENTICATION,
    DENIED,
    RIGHTS_HINT,
    SILENT,
    as_failure,
)
from connect_specs.diagnostics import Diagnostic, Unreachable

# By name of a topic or group: the operations, as Kafka's ACLs call them
Rights: TypeAlias = Mapping[str, Sequence[str]]

READ, WRITE, DESCRIBE, DELETE = "Read", "Write", "Describe", "Delete"

_REQUEST_S = 15.0
_OPERATIONS = {
    READ: AclOperation.READ,
    WRITE: AclOperation.WRITE,
    DESCRIBE: AclOperation.DESCRIBE,
    DELETE: AclOperation.DELETE,
}
_HIDDEN = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


@logged("get the permissions on", "topics", "groups")
def check_rights(
    properties: Mapping[str, str], *, topics: Rights | None = None, groups: Rights | None = None
) -> None:
    """Raises Unreachable with every missing permission."""
    client = admin(properties)
    asked: Mapping[str, Future[Any]] = {}
    of_groups: Mapping[str, Any] = {}
    if topics:
        asked = client.describe_topics(
            TopicCollection(list(topics)),
            include_authorized_operations=True,
            request_timeout=_REQUEST_S,
        )
    if groups:
        with Coordinators(properties) as coordinators:
            of_groups = coordinators.describe(list(groups), _REQUEST_S, rights=True)
    # asked before the groups were, so that both are waited for at once
    of_topics = settled(asked, _REQUEST_S)
    missing = [
        Diagnostic(
            DENIED,
            f"this login lacks {' and '.join(lacking)} on this {kind}",
            name,
            hint=RIGHTS_HINT,
        )
        for kind, wanted, answers in (
            ("topic", topics or {}, of_topics),
            ("group", groups or {}, of_groups),
        )
        for name, lacking in _lacking(wanted, answers)
    ]
    if missing:
        raise Unreachable(*missing)


def _lacking(wanted: Rights, answers: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    for name, operations in wanted.items():
        answer = answers[name]
        if isinstance(answer, KafkaError):
            if answer.code() in _HIDDEN:
                yield name, operations
            elif answer.code() in AUTHENTICATION | SILENT:
                raise as_failure(answer, "This login's permissions cannot be read", name)
            continue
        allowed = answer.authorized_operations
        # A visible object may be described: no operations at all mean that this Kafka does not
        # report them
        lacking = [each for each in operations if _OPERATIONS[each] not in (allowed or ())]
        if allowed and lacking:
            yield name, lacking
