"""Deletes single partitions' offsets of a consumer group, which confluent-kafka cannot.

The librdkafka that it ships can: `rd_kafka_DeleteConsumerGroupOffsets`, called here through ctypes
with its own client. Deleting the group and adding the other offsets back would lose offsets if
killed in between.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError

from connect_runtime.kafka.client_config import client_config
from connect_runtime.kafka.clients import QUICK_CONNECTING
from connect_runtime.kafka.coordinators import UNENDING_S
from connect_specs.diagnostics import Diagnostic, Failed, Invalid

_PRODUCER = 0
_DELETE_OFFSETS_OPERATION = 8
_TEXT_SIZE = 512
_TIMEOUT_MS = 15_000


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
    with ExitStack() as held:
        client = _client(call, properties)
        held.callback(call["destroy"], client)
        queue = call["queue_new"](client)
        held.callback(call["queue_destroy"], queue)
        options = call["AdminOptions_new"](client, _DELETE_OFFSETS_OPERATION)
        held.callback(call["AdminOptions_destroy"], options)
        text = ctypes.create_string_buffer(_TEXT_SIZE)
        # coordinators.py says why it must not time out
        unending_ms = int(UNENDING_S * 1000)
        call["AdminOptions_set_request_timeout"](options, unending_ms, text, _TEXT_SIZE)
        listed = call["topic_partition_list_new"](len(partitions))
        held.callback(call["topic_partition_list_destroy"], listed)
        for topic, number in partitions:
            call["topic_partition_list_add"](listed, topic.encode(), number)
        request = c_void_p(call["DeleteConsumerGroupOffsets_new"](group.encode(), listed))
        held.callback(call["DeleteConsumerGroupOffsets_destroy"], request)
        call["DeleteConsumerGroupOffsets"](client, ctypes.byref(request), 1, options, queue)
        event = call["queue_poll"](queue, _TIMEOUT_MS)
        if not event:
            return [KafkaError(KafkaError.REQUEST_TIMED_OUT)]
        held.callback(call["event_destroy"], event)
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
        for found in sorted(folder.glob("librdkafka[-.]*")):
            return str(found)
    found_by_system = ctypes.util.find_library("rdkafka")
    if found_by_system is None:
        raise _unusable("its shared library was not found")
    return found_by_system


def _unusable(why: str) -> Failed:
    return Failed(Diagnostic("kafka.librdkafka", "librdkafka cannot be called directly", why=why))
