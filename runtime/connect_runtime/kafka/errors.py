"""Classifies librdkafka's error codes and turns them into messages for users.

Only this module knows the codes. Texts hold addresses, topics and reasons, never settings.
"""

from __future__ import annotations

import re

from confluent_kafka import KafkaError, KafkaException

from connect_specs.diagnostics import ConnectError, Diagnostic, Failed, Unreachable


def _codes(names: str) -> frozenset[int]:
    """Returns codes by their names in KafkaError; librdkafka's own begin with an underscore."""
    return frozenset(getattr(KafkaError, name) for name in names.split())


END_OF_PARTITION = KafkaError._PARTITION_EOF  # noqa: SLF001
MAX_POLL_EXCEEDED = KafkaError._MAX_POLL_EXCEEDED  # noqa: SLF001
# The client's state does not allow the call, such as a producer whose transaction failed.
WRONG_STATE = KafkaError._STATE  # noqa: SLF001
# The answer to describing a group of Apache's Connect workers.
NOT_A_CONSUMER_GROUP = KafkaError._INVALID_ARG  # noqa: SLF001
# The record, or its batch, is larger than its topic's messages may be.
TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE
# The broker does not take this record because of another one in its batch.
OTHER_REFUSED = KafkaError._INVALID_DIFFERENT_RECORD  # noqa: SLF001

# A producer's answer to all calls after any failure.
UNSPECIFIC = _codes("_STATE _FATAL")
# Errors that give a reason; the others only say that nothing works.
SPECIFIC = _codes("_TRANSPORT _RESOLVE _SSL")
# Client and broker do not trust each other.
TLS = _codes("_SSL")
AUTHENTICATION = _codes("_AUTHENTICATION SASL_AUTHENTICATION_FAILED UNSUPPORTED_SASL_MECHANISM")
REFUSED = AUTHENTICATION | _codes(
    """
    TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    """
)
# The group's coordinator is starting, as on a Kafka that has just started or when the coordinating
# broker changes; retry.
COORDINATOR_BUSY = _codes("COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR")
# A partition has another leader, or its leader another epoch, than the client thinks; a new leader
# does not know yet what is committed; no partition asked about has a leader (_NOENT).
STALE_LEADER = _codes(
    """
    FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION
    OFFSET_NOT_AVAILABLE _NOENT
    """
)
# Kafka does not answer. It names a broker no longer, or none at all (_DESTROY_BROKER, _PARTIAL),
# until one that was frozen is accepted again.
SILENT = SPECIFIC | _codes(
    """
    _TIMED_OUT _TIMED_OUT_QUEUE _ALL_BROKERS_DOWN _DESTROY_BROKER _PARTIAL _NOENT REQUEST_TIMED_OUT
    """
)
# Temporary errors, however long they last: the caller may retry later. The next `init_transactions`
# resets the producer's state.
PASSING = (
    SILENT
    | COORDINATOR_BUSY
    | STALE_LEADER
    | _codes(
        """
    _MSG_TIMED_OUT _WAIT_COORD _RETRY _INTR NETWORK_EXCEPTION BROKER_NOT_AVAILABLE
    REPLICA_NOT_AVAILABLE NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND KAFKA_STORAGE_ERROR
    NOT_CONTROLLER UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED CONCURRENT_TRANSACTIONS
    TRANSACTION_COORDINATOR_FENCED TRANSACTION_ABORTABLE INVALID_TXN_STATE
    INVALID_PRODUCER_ID_MAPPING UNKNOWN_PRODUCER_ID OUT_OF_ORDER_SEQUENCE_NUMBER
    """
    )
)
# A newer producer of the same transactional id exists.
FENCED = _codes("_FENCED PRODUCER_FENCED INVALID_PRODUCER_EPOCH")
# The broker, or the client itself, never takes this record.
RECORD_REFUSED = _codes("MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_RECORD POLICY_VIOLATION")
# Records dropped because another record, or the transaction, failed.
PURGED = _codes("_PURGE_QUEUE _PURGE_INFLIGHT")
# The broker's refusal to change the offsets of a group that has members.
GROUP_IN_USE = _codes(
    """
    NON_EMPTY_GROUP GROUP_SUBSCRIBED_TO_TOPIC UNKNOWN_MEMBER_ID ILLEGAL_GENERATION
    REBALANCE_IN_PROGRESS
    """
)
# The coordinator's refusal of a member that it has removed from the group.
NO_MEMBER = _codes(
    "UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID _ASSIGNMENT_LOST _FENCED"
)
NO_SUCH_GROUP = _codes("GROUP_ID_NOT_FOUND")
NO_SUCH_TOPIC = _codes("UNKNOWN_TOPIC_OR_PART _UNKNOWN_TOPIC _UNKNOWN_PARTITION _NOENT")

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
