"""Classifies librdkafka's error codes and turns them into messages for users.

Only this module knows the codes. Texts hold addresses, topics and reasons, never settings.
"""

from __future__ import annotations

import re

from confluent_kafka import KafkaError, KafkaException

from connect_specs.diagnostics import ConnectError, Diagnostic, Failed, Unreachable

END_OF_PARTITION = KafkaError._PARTITION_EOF  # noqa: SLF001
MAX_POLL_EXCEEDED = KafkaError._MAX_POLL_EXCEEDED  # noqa: SLF001
# The client's state does not allow the call, such as a producer whose transaction failed.
WRONG_STATE = KafkaError._STATE  # noqa: SLF001
# A producer's answer to all calls after any failure.
UNSPECIFIC = frozenset({WRONG_STATE, KafkaError._FATAL})  # noqa: SLF001

# The answer to describing a group of Apache's Connect workers.
NOT_A_CONSUMER_GROUP = KafkaError._INVALID_ARG  # noqa: SLF001

# The group's coordinator is starting, as on a Kafka that has just started or when the coordinating
# broker changes; retry.
COORDINATOR_BUSY = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)

# A partition has another leader, or its leader another epoch, than the client thinks.
STALE_LEADER = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,  # a new leader does not know yet what is committed
        KafkaError._NOENT,  # noqa: SLF001 - no partition asked about has a leader
    }
)

# A newer producer of the same transactional id exists.
FENCED = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
# The record, or its batch, is larger than its topic's messages may be.
TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE
# The broker, or the client itself, never takes this record.
RECORD_REFUSED = frozenset(
    {
        TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
    }
)
# The broker does not take this record because of another one in its batch.
OTHER_REFUSED = KafkaError._INVALID_DIFFERENT_RECORD  # noqa: SLF001
AUTHENTICATION = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    }
)
REFUSED = AUTHENTICATION | {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
SILENT = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._SSL,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TIMED_OUT_QUEUE,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        # Kafka names a broker no longer, or none at all, until one that was frozen is accepted
        # again
        KafkaError._DESTROY_BROKER,  # noqa: SLF001
        KafkaError._PARTIAL,  # noqa: SLF001
        KafkaError._NOENT,  # noqa: SLF001 - no partition asked about has a leader
        KafkaError.REQUEST_TIMED_OUT,
    }
)
# Records dropped because another record, or the transaction, failed.
PURGED = frozenset(
    {
        KafkaError._PURGE_QUEUE,  # noqa: SLF001
        KafkaError._PURGE_INFLIGHT,  # noqa: SLF001
    }
)
# Temporary errors, however long they last: the caller may retry later. The next `init_transactions`
# resets the producer's state.
PASSING = (
    SILENT
    | COORDINATOR_BUSY
    | STALE_LEADER
    | {
        KafkaError._MSG_TIMED_OUT,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._RETRY,  # noqa: SLF001
        KafkaError._INTR,  # noqa: SLF001
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
        KafkaError.TRANSACTION_ABORTABLE,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    }
)
# Errors that give a reason; the others only say that nothing works.
SPECIFIC = frozenset(
    {
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._SSL,  # noqa: SLF001
    }
)
# Client and broker do not trust each other.
TLS = frozenset({KafkaError._SSL})  # noqa: SLF001

# The broker's refusal to change the offsets of a group that has members.
GROUP_IN_USE = frozenset(
    {
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)
# The coordinator's refusal of a member that it has removed from the group.
NO_MEMBER = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._ASSIGNMENT_LOST,  # noqa: SLF001
        KafkaError._FENCED,  # noqa: SLF001
    }
)
NO_SUCH_GROUP = frozenset({KafkaError.GROUP_ID_NOT_FOUND})
NO_SUCH_TOPIC = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._NOENT,  # noqa: SLF001
    }
)

# The code of a login that Kafka refuses
REFUSED_LOGIN = "kafka.authentication"
# The code of an error that may pass by itself: no answer, or one of a Kafka that is starting
UNREACHABLE = "kafka.unreachable"
AGAIN_HINT = "Kafka is starting, or a broker is away: try again."
# The code of a refusal, and the end of its text, for any refused operation.
DENIED = "kafka.not-allowed"
REACH_HINT = "Check bootstrap.servers and security.protocol, and whether the broker runs."
RIGHTS_HINT = "docs/security.md lists the least rights of each verb"

_BROKER_PREFIX = re.compile(r"^(\w+://)?[^\s/]+/(bootstrap|\d+): ")
# librdkafka's advice names its own settings, while users write Java's.
_OWN_ADVICE = re.compile(r", verify that ssl\.ca\.location is .*$")
_STATE_SUFFIX = re.compile(r" \(after \d+ms in state .*\)$")


def error_of(exception: KafkaException) -> KafkaError:
    """Returns the error that an exception carries."""
    return exception.args[0]


def reason(error: KafkaError) -> str:
    """Returns the error's own text, without librdkafka's internal state and advice."""
    return _OWN_ADVICE.sub("", _STATE_SUFFIX.sub("", _BROKER_PREFIX.sub("", error.str())))


def passes(error: KafkaError) -> bool:
    """Returns whether the error passes by itself: a later try may succeed."""
    return error.retriable() or error.code() in PASSING


def is_denied(error: ConnectError) -> bool:
    """Returns whether Kafka does not permit this login the operation."""
    return any(diagnostic.code == DENIED for diagnostic in error.diagnostics)


def login_refused(error: KafkaError, place: str) -> Unreachable:
    """Returns the error to raise when Kafka refuses the login at `place`."""
    problem, hint = "Kafka refuses the login", "Check sasl.mechanism and sasl.jaas.config."
    return Unreachable(Diagnostic(REFUSED_LOGIN, problem, place, reason(error), hint))


def as_failure(error: KafkaError, problem: str, place: str) -> Unreachable | Failed:
    """Returns the error to raise for a `problem` at `place`, a topic, group or address."""
    if error.code() in AUTHENTICATION:
        return login_refused(error, place)
    if error.code() in REFUSED:
        return Unreachable(Diagnostic(DENIED, problem, place, reason(error), RIGHTS_HINT))
    if error.code() in SILENT:
        return Unreachable(Diagnostic(UNREACHABLE, problem, place, reason(error), REACH_HINT))
    if error.code() in PASSING:
        return Unreachable(Diagnostic(UNREACHABLE, problem, place, reason(error), AGAIN_HINT))
    return Failed(Diagnostic("kafka.failed", problem, place, reason(error)))
