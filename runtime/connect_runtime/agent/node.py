"""The agent of a Spark node: with Kafka clients that its tasks share."""

from __future__ import annotations

import faulthandler
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from connect_runtime.agent.assignment_tail import AssignmentTail, kafka_records
from connect_runtime.agent.messages import (
    Follow,
    JoinJvm,
    ReadAssignment,
    ReadOffsets,
    Request,
    WriteOffsets,
    WriteStatus,
)
from connect_runtime.agent.server import AgentServer, Service, raise_descriptor_limit
from connect_runtime.agent.topic_reads import TopicCache, TopicReads, task_of
from connect_runtime.agent.writes import StatusWrites
from connect_runtime.kafka.background_writer import KafkaStatuses
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.storage.offsets_topic import changed_connector

# The agent ends, and is replaced, if its serving thread hangs for so long
_HANGS_S: Final = 30
_ARMED_EVERY_S: Final = 1.0


def serve_node(door: socket.socket, parent: int) -> None:
    """Serves until the process that forked this one is gone."""
    armed_at = 0.0

    def is_over() -> bool:
        nonlocal armed_at
        if time.monotonic() - armed_at > _ARMED_EVERY_S:
            armed_at = time.monotonic()
            with suppress(RuntimeError):  # no thread is left: the next second may have one
                faulthandler.dump_traceback_later(_HANGS_S, exit=True)
        return os.getppid() != parent

    AgentServer(door, kafka_service, is_over, raise_descriptor_limit()).serve()


def kafka_service(request: Request, properties: Mapping[str, str]) -> Service:
    """Returns a service with a Kafka client of these properties. Raises ValueError for a request
    that is none of a node's task."""
    match request:
        case Follow(topic=topic):
            return AssignmentTail(partial(kafka_records, topic, properties))
        case ReadAssignment(topic=topic):
            return TopicReads(topic, lambda: TopicCache(topic, KafkaLogs(properties), task_of))
        case ReadOffsets(topic=topic):
            return TopicReads(
                topic, lambda: TopicCache(topic, KafkaLogs(properties), changed_connector)
            )
        case WriteStatus():
            return StatusWrites(lambda: KafkaStatuses(properties))
        case JoinJvm():
            # most nodes have no Java tasks, and none of their agents needs this
            from connect_runtime.agent.node_jvms import NodeJvms

            return NodeJvms(watched=True)
        case WriteOffsets():
            raise ValueError("its offsets are in Kafka")
