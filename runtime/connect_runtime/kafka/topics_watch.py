"""Watches a cluster's own topics, and says which of them cannot be used now.

Clients do not say so: they wait for a partition without a leader as for a slow one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, TopicCollection

from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.coordinators import settled
from connect_runtime.kafka.errors import NO_SUCH_TOPIC, REFUSED, reason
from connect_specs.names import ClusterTopics

_log = logging.getLogger(__name__)

_EVERY_S: Final = 5.0
_REQUEST_S: Final = 5.0


class TopicsWatch:
    """Asks Kafka every few seconds, from `start` to `close`. `problem` is about the topics that no
    request can be answered without, `degraded` about the others."""

    def __init__(self, properties: Mapping[str, str], topics: ClusterTopics) -> None:
        self._properties = properties
        self._needed = (topics.config, topics.assignments)
        self._topics = list(topics.internal)
        self._over = threading.Event()
        self.problem: str | None = None
        self.degraded: str | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="watch-topics", daemon=True).start()

    def close(self) -> None:
        self._over.set()

    def _run(self) -> None:
        client = admin(self._properties)
        wanted = TopicCollection(self._topics)
        while not self._over.wait(_EVERY_S):
            try:
                asked = client.describe_topics(wanted, request_timeout=_REQUEST_S)
                self._take(settled(asked, 2 * _REQUEST_S))
            except Exception:
                _log.exception("The cluster's topics cannot be watched; it is tried again")

    def _take(self, answers: Mapping[str, Any]) -> None:
        before = (self.problem, self.degraded)
        needed = {name: each for name, each in answers.items() if name in self._needed}
        others = {name: each for name, each in answers.items() if name not in self._needed}
        self.problem = topics_problem(needed, self.problem)
        self.degraded = topics_problem(others, self.degraded)
        found = (self.problem, self.degraded)
        if any(found) and found != before:
            _log.warning("%s", ". ".join(filter(None, found)))
        elif not any(found) and any(before):
            _log.info("All topics of the cluster can be used again")


def topics_problem(answers: Mapping[str, Any], before: str | None) -> str | None:
    """Returns which topics are gone, refused, or have partitions without a leader; `before` if
    Kafka does not answer, which others tell."""
    found = []
    for name, answer in sorted(answers.items()):
        if not isinstance(answer, KafkaError):
            led = {each.id: each.leader is not None for each in answer.partitions}
            offline = ", ".join(str(number) for number in sorted(led) if not led[number])
            if offline:
                found.append(f"topic {name}: no broker leads partition {offline}")
        elif answer.code() in NO_SUCH_TOPIC:
            found.append(f"topic {name} does not exist any more")
        elif answer.code() in REFUSED:
            found.append(f"topic {name}: this login may not describe it ({reason(answer)})")
        else:
            return before
    return f"Topics of the cluster cannot be used: {'; '.join(found)}" if found else None
