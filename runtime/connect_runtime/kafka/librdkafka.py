"""Calls librdkafka where confluent-kafka's own calls end the process, or do not exist.

librdkafka 2.16 ends the whole process if a request to the coordinator of a group times out while no
coordinator answers, and one answers later (an assertion in `rd_kafka_enq_once_del_source_return`).
So these requests never time out: to give up, the caller ends the client, which nothing else uses.

confluent-kafka cannot delete single partitions' offsets of a group; the librdkafka that it ships
can: `rd_kafka_DeleteConsumerGroupOffsets`, called here through ctypes with its own client. Deleting
the group and adding the other offsets back would lose offsets if killed in between.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from connect_runtime.kafka.client_config import client_config
from connect_runtime.kafka.clients import QUICK_CONNECTING, admin
from connect_runtime.kafka.errors import COORDINATOR_BUSY, error_of
from connect_specs.diagnostics import Diagnostic, Failed, Invalid, Unreachable

K = TypeVar("K")
T = TypeVar("T")

# The longest that librdkafka accepts
UNENDING_S: Final = 3600.0
# For the client to say itself that Kafka has not answered
MARGIN_S: Final = 5.0
_WAIT_S: Final = 10.0
# The answer of a broker that is there takes less
_SOON_S: Final = 1.0
_METADATA_S: Final = 2.0
_RETRY_S: Final = 0.05
_PRODUCER = 0
_DELETE_OFFSETS_OPERATION = 8
_TEXT_SIZE = 512
_TIMEOUT_MS = 15_000


class Coordinators:
    """A client, which ends with a `with` block or with this object. Answers are values or Kafka's
    errors, by group; the error is a timeout for those that are missing after `timeout_s`."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._client: AdminClient | None = admin(properties, {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Tracebacks may hold this object, and must not hold the client
        self._client = None

    def describe(
        self, groups: Sequence[str], timeout_s: float, *, rights: bool = False
    ) -> dict[str, Any]:
        """Returns descriptions; `rights`: with what this login may do."""
        futures = self._asks().describe_consumer_groups(
            list(groups), include_authorized_operations=rights, request_timeout=UNENDING_S
        )
        return gather_answers(futures, timeout_s)

    def offsets(self, groups: Sequence[str], timeout_s: float) -> dict[str, Any]:
        """Returns the committed offsets of each group's partitions, asked for at the same time."""
        self._wait(groups)
        futures: dict[str, Future[Any]] = {}
        for group in groups:
            request = [ConsumerGroupTopicPartitions(group)]
            futures |= self._asks().list_consumer_group_offsets(request, request_timeout=UNENDING_S)
        return gather_answers(futures, timeout_s)

    def alter(self, group: str, offsets: Sequence[TopicPartition], timeout_s: float) -> Any:
        """Sets offsets; returns the answer for the group."""
        self._wait((group,))
        request = [ConsumerGroupTopicPartitions(group, list(offsets))]
        futures = self._asks().alter_consumer_group_offsets(request, request_timeout=UNENDING_S)
        return gather_answers(futures, timeout_s)[group]

    def delete(self, group: str, timeout_s: float) -> Any:
        """Deletes the group; returns the answer for it."""
        self._wait((group,))
        futures = self._asks().delete_consumer_groups([group], request_timeout=UNENDING_S)
        return gather_answers(futures, timeout_s)[group]

    def _asks(self) -> AdminClient:
        if self._client is None:
            problem = "The coordinators are not asked any more: their client has ended"
            raise Unreachable(Diagnostic("kafka.client-ended", problem))
        return self._client

    def _wait(self, groups: Sequence[str]) -> None:
        """Waits until the coordinators answer, or 10 s have passed.

        If one is about to move, or its broker has just started, requests about a group fail, and
        librdkafka 2.16's request for a group's offsets ends the whole process. So a harmless
        request goes first.
        """
        deadline = time.monotonic() + _WAIT_S
        pending = list(groups)
        while pending and (left_s := deadline - time.monotonic()) > 0:
            descriptions = self.describe(pending, left_s)
            pending = [
                group
                for group, answer in descriptions.items()
                if isinstance(answer, KafkaError) and answer.code() in COORDINATOR_BUSY
            ]
            if pending:
                time.sleep(_RETRY_S)


def gather_answers(
    futures: Mapping[K, Future[T]], timeout_s: float, client: AdminClient | None = None
) -> dict[K, T | KafkaError]:
    """Waits for answers, and returns each or its error.

    `client` sent these requests to the broker that it takes for the controller. If that is gone,
    they wait for another one, which librdkafka learns of with metadata; a client that knows no
    topics does not ask for metadata by itself.
    """
    deadline = time.monotonic() + timeout_s
    if client is not None:
        while wait(futures.values(), _SOON_S).not_done and time.monotonic() < deadline:
            with suppress(KafkaException):  # the next try may ask a broker that answers
                client.list_topics(timeout=_METADATA_S)
    answers: dict[K, T | KafkaError] = {}
    for name, answer in futures.items():
        try:
            answers[name] = answer.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            answers[name] = KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001
        except KafkaException as exception:
            answers[name] = error_of(exception)
    return answers


class _Partition(Structure):
    _fields_ = (
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("error", c_int),
        ("private", c_void_p),
    )


class _Partitions(Structure):
    _fields_ = (("count", c_int), ("size", c_int), ("elements", POINTER(_Partition)))


_HANDLES = POINTER(c_void_p)
_SIGNATURES: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "conf_new": (c_void_p, ()),
    "conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "conf_destroy": (None, (c_void_p,)),
    "new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "destroy": (None, (c_void_p,)),
    "queue_new": (c_void_p, (c_void_p,)),
    "queue_destroy": (None, (c_void_p,)),
    "queue_poll": (c_void_p, (c_void_p, c_int)),
    "event_destroy": (None, (c_void_p,)),
    "event_error": (c_int, (c_void_p,)),
    "AdminOptions_new": (c_void_p, (c_void_p, c_int)),
    "AdminOptions_destroy": (None, (c_void_p,)),
    "AdminOptions_set_request_timeout": (c_int, (c_void_p, c_int, c_char_p, c_size_t)),
    "topic_partition_list_new": (POINTER(_Partitions), (c_int,)),
    "topic_partition_list_add": (
        POINTER(_Partition),
        (POINTER(_Partitions), c_char_p, c_int32),
    ),
    "topic_partition_list_destroy": (None, (POINTER(_Partitions),)),
    "DeleteConsumerGroupOffsets_new": (c_void_p, (c_char_p, POINTER(_Partitions))),
    "DeleteConsumerGroupOffsets_destroy": (None, (c_void_p,)),
    "DeleteConsumerGroupOffsets": (None, (c_void_p, _HANDLES, c_size_t, c_void_p, c_void_p)),
    "event_DeleteConsumerGroupOffsets_result": (c_void_p, (c_void_p,)),
    "DeleteConsumerGroupOffsets_result_groups": (_HANDLES, (c_void_p, POINTER(c_size_t))),
    "group_result_error": (c_void_p, (c_void_p,)),
    "group_result_partitions": (POINTER(_Partitions), (c_void_p,)),
    "error_code": (c_int, (c_void_p,)),
}


def delete_partition_offsets(
    properties: Mapping[str, str], group: str, partitions: Sequence[tuple[str, int]]
) -> list[KafkaError]:
    """Deletes the group's offsets of these partitions; returns the errors that Kafka answered.

    Raises Failed if librdkafka cannot be called at all.
    """
    call = _librdkafka()
    with ExitStack() as cleanup:
        client = _client(call, properties)
        cleanup.callback(call["destroy"], client)
        queue = call["queue_new"](client)
        cleanup.callback(call["queue_destroy"], queue)
        options = call["AdminOptions_new"](client, _DELETE_OFFSETS_OPERATION)
        cleanup.callback(call["AdminOptions_destroy"], options)
        text = ctypes.create_string_buffer(_TEXT_SIZE)
        # the module's docstring says why it must not time out
        unending_ms = int(UNENDING_S * 1000)
        call["AdminOptions_set_request_timeout"](options, unending_ms, text, _TEXT_SIZE)
        places = call["topic_partition_list_new"](len(partitions))
        cleanup.callback(call["topic_partition_list_destroy"], places)
        for topic, number in partitions:
            call["topic_partition_list_add"](places, topic.encode(), number)
        request = c_void_p(call["DeleteConsumerGroupOffsets_new"](group.encode(), places))
        cleanup.callback(call["DeleteConsumerGroupOffsets_destroy"], request)
        call["DeleteConsumerGroupOffsets"](client, ctypes.byref(request), 1, options, queue)
        event = call["queue_poll"](queue, _TIMEOUT_MS)
        if not event:
            return [KafkaError(KafkaError.REQUEST_TIMED_OUT)]
        cleanup.callback(call["event_destroy"], event)
        return [KafkaError(code) for code in _codes(call, event) if code]


def _codes(call: Mapping[str, Any], event: int) -> Iterator[int]:
    """Yields the error codes of an answer: its own, its group's and each partition's; 0 is none."""
    yield call["event_error"](event)
    result = call["event_DeleteConsumerGroupOffsets_result"](event)
    if not result:
        return
    count = c_size_t()
    groups = call["DeleteConsumerGroupOffsets_result_groups"](result, ctypes.byref(count))
    for at in range(count.value):
        error = call["group_result_error"](groups[at])
        if error:
            yield call["error_code"](error)
        answered = call["group_result_partitions"](groups[at])
        if answered:
            yield from (
                answered.contents.elements[number].error
                for number in range(answered.contents.count)
            )


def _client(call: Mapping[str, Any], properties: Mapping[str, str]) -> int:
    # log_level 0: this client has no Python logger, and must not print
    settings = {**QUICK_CONNECTING, **client_config(properties).settings, "log_level": 0}
    text = ctypes.create_string_buffer(_TEXT_SIZE)
    conf = call["conf_new"]()
    for name, value in settings.items():
        if call["conf_set"](conf, name.encode(), str(value).encode(), text, _TEXT_SIZE) != 0:
            call["conf_destroy"](conf)
            raise Invalid(
                Diagnostic("kafka.properties", "This Kafka client property does not fit", name)
            )
    client = call["new"](_PRODUCER, conf, text, _TEXT_SIZE)
    if not client:
        # only a client that was created owns its settings
        call["conf_destroy"](conf)
        raise _unusable("it makes no client of the client properties")
    return int(client)


@cache
def _librdkafka() -> Mapping[str, Any]:
    """Returns the functions above, by their names without `rd_kafka_`, with signatures declared."""
    try:
        library = ctypes.CDLL(_library_path())
        functions = {}
        for name, (result, arguments) in _SIGNATURES.items():
            function = library[f"rd_kafka_{name}"]
            function.restype = result
            function.argtypes = arguments
            functions[name] = function
    except (OSError, AttributeError) as error:
        raise _unusable(str(error)) from None
    return functions


def _library_path() -> str:
    """Returns the file that confluent_kafka uses: beside it, inside it on macOS, else the
    system's."""
    package = Path(confluent_kafka.__file__).parent
    for folder in (package.with_name("confluent_kafka.libs"), package / ".dylibs"):
        for library in sorted(folder.glob("librdkafka[-.]*")):
            return str(library)
    found_by_system = ctypes.util.find_library("rdkafka")
    if found_by_system is None:
        raise _unusable("its shared library was not found")
    return found_by_system


def _unusable(reason: str) -> Failed:
    return Failed(
        Diagnostic("kafka.librdkafka", "librdkafka cannot be called directly", why=reason)
    )
