"""Waits until the coordinators of consumer groups answer.

If one is about to move, or its broker has just started, requests about a group fail, and librdkafka
2.16's request for a group's offsets ends the whole process. So a harmless request goes first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from connect_runtime.kafka.errors import COORDINATOR_BUSY, error_of

_TIMEOUT_S = 10.0
_RETRY_S = 0.05


def wait_for_coordinators(client: AdminClient, groups: Iterable[str]) -> None:
    """Waits until they answer, or 10 s have passed."""
    deadline = time.monotonic() + _TIMEOUT_S
    pending = list(groups)
    while pending and time.monotonic() < deadline:
        asked = client.describe_consumer_groups(pending, request_timeout=_TIMEOUT_S)
        pending = [group for group, answer in asked.items() if _busy(answer)]
        if pending:
            time.sleep(_RETRY_S)


def _busy(answer: Future[object]) -> bool:
    try:
        answer.result()
    except KafkaException as error:
        return error_of(error).code() in COORDINATOR_BUSY
    return False
