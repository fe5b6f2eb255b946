"""Checks the clients of a worker and its connectors before they are needed: properties and
permissions.

Creates each kind of client that tasks use once, without an address, so nothing connects: invalid
properties are found when a worker starts or a config is validated, not when a task fails. Values
are never shown. References such as `${file:a:b}` are not resolved here, and files may be on other
machines, so both are left out; with a reference the whole login is.

Permissions are checked before an operation, so that none stops half-way. Kafka reports those on
topics and groups, not on transactional ids. Topics that do not exist yet are not covered: Kafka
refuses their creation later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import AclOperation

from connect_runtime.kafka import clients
from connect_runtime.kafka.errors import AUTHENTICATION, DENIED, RIGHTS_HINT, SILENT, as_failure
from connect_runtime.kafka.kafka_logging import logged
from connect_runtime.kafka.librdkafka import Coordinators, gather_answers
from connect_specs.diagnostics import Diagnostic, Invalid, Unreachable

# An overridden assignor must be one of those that revoke only what moves: sinks rely on it.
_EAGER: Final = ("RangeAssignor", "RoundRobinAssignor", "StickyAssignor")
_COOPERATIVE: Final = "CooperativeStickyAssignor"
_STRATEGY: Final = "partition.assignment.strategy"
_LOGIN: Final = ("sasl.", "security.", "ssl.")
_QUIET: Final = {"log_level": 0}
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


@dataclass(frozen=True, slots=True)
class _ClientKind:
    """A kind of client that tasks use: `fixed` overrides the properties."""

    name: str
    make: Callable[[Mapping[str, str], Mapping[str, Any]], Any]
    defaults: Mapping[str, str]
    fixed: Mapping[str, str]


_CLIENT_KINDS: Final = (
    _ClientKind(
        "producer",
        clients.producer,
        {"transaction.timeout.ms": "60000"},
        {"acks": "all", "enable.idempotence": "true", "transactional.id": "check"},
    ),
    _ClientKind(
        "consumer",
        clients.consumer,
        {"session.timeout.ms": "10000"},
        {"group.id": "check", "enable.auto.commit": "false"},
    ),
    _ClientKind("admin", clients.admin, {}, {}),
)


def check_worker_clients(worker: Mapping[str, str]) -> None:
    """Raises Invalid that names every worker property for which no client can be created."""
    problems = [
        Diagnostic("worker.invalid", f"Invalid value for configuration {key}: {error}", key)
        for kind in _CLIENT_KINDS
        for key, error in _invalid(kind, {}, _prefixed(worker, f"{kind.name}."), f"{kind.name}.")
    ]
    if problems:
        raise Invalid(*problems)


def override_errors(
    config: Mapping[str, str | None], worker: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yields invalid keys of `producer.override.`, `consumer.override.` and `admin.override.` with
    their errors."""
    for kind in _CLIENT_KINDS:
        prefix = f"{kind.name}.override."
        overrides = _prefixed(config, prefix)
        if overrides:
            yield from _invalid(kind, _prefixed(worker, f"{kind.name}."), overrides, prefix)


def _invalid(
    kind: _ClientKind, base: Mapping[str, str], overrides: Mapping[str, str], prefix: str
) -> Iterator[tuple[str, str]]:
    """Yields each property that is invalid by itself; if none, the error of all together."""
    strategy = overrides.get(_STRATEGY, "")
    if _COOPERATIVE not in strategy and any(name in strategy for name in _EAGER):
        error = (
            f"tasks of sinks need an assignor that stops only partitions that move: {_COOPERATIVE}"
        )
        yield f"{prefix}{_STRATEGY}", error
        overrides = {key: value for key, value in overrides.items() if key != _STRATEGY}
    together = _error(kind, {**base, **overrides})
    if together is None:
        return
    # a login is only valid as a whole
    login = {key: value for key, value in overrides.items() if key.startswith(_LOGIN)}
    further = sorted(overrides.keys() - login.keys())
    alone = {key: _error(kind, {**base, **login, key: overrides[key]}) for key in further}
    if _error(kind, {**base, **login}) is not None:
        alone = {min(login): together} if login else {}
    wrong = {key: error for key, error in alone.items() if error is not None}
    for key, error in (wrong or {min(overrides, default=""): together}).items():
        yield f"{prefix}{key}", error


def _error(kind: _ClientKind, properties: Mapping[str, str]) -> str | None:
    if any("${" in value for value in properties.values()):
        properties = {
            key: value
            for key, value in properties.items()
            if "${" not in value and not key.startswith(_LOGIN)
        }
    try:
        client = kind.make({**kind.defaults, **properties, **kind.fixed}, _QUIET)
    except Invalid as invalid:
        return "; ".join(diagnostic.why or diagnostic.what for diagnostic in invalid.diagnostics)
    if kind.name == "consumer":
        client.close()
    return None


def _prefixed(config: Mapping[str, str | None], prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value
        for key, value in config.items()
        if key.startswith(prefix)
        and value is not None
        and not key.startswith(f"{prefix}override.")
        and not key.endswith((".bootstrap.servers", ".location"))
    }


@logged("get the permissions on", "topics", "groups")
def check_rights(
    properties: Mapping[str, str], *, topics: Rights | None = None, groups: Rights | None = None
) -> None:
    """Raises Unreachable with every missing permission."""
    client = clients.admin(properties)
    topic_answers: Mapping[str, Future[Any]] = {}
    of_groups: Mapping[str, Any] = {}
    if topics:
        topic_answers = client.describe_topics(
            TopicCollection(list(topics)),
            include_authorized_operations=True,
            request_timeout=_REQUEST_S,
        )
    if groups:
        with Coordinators(properties) as coordinators:
            of_groups = coordinators.describe(list(groups), _REQUEST_S, rights=True)
    # asked before the groups were, so that both are waited for at once
    of_topics = gather_answers(topic_answers, _REQUEST_S, client)
    missing = [
        Diagnostic(
            DENIED,
            f"this login lacks {' and '.join(lacking)} on this {kind}",
            name,
            hint=RIGHTS_HINT,
        )
        for kind, rights, answers in (
            ("topic", topics or {}, of_topics),
            ("group", groups or {}, of_groups),
        )
        for name, lacking in _lacking(rights, answers)
    ]
    if missing:
        raise Unreachable(*missing)


def _lacking(rights: Rights, answers: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    for name, operations in rights.items():
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
        lacking = [
            operation for operation in operations if _OPERATIONS[operation] not in (allowed or ())
        ]
        if allowed and lacking:
            yield name, lacking
