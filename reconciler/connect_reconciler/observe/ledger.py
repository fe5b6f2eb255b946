"""What does the ledger topic say? Read alone, for verbs that need no more of live."""

from __future__ import annotations

from collections.abc import Mapping

from connect_reconciler.ledger.topic import LedgerSnapshot, reduce_all
from connect_reconciler.observe.kafka_view import KafkaView
from connect_specs.desired import Project


def ledger_seen(project: Project, client: Mapping[str, str]) -> LedgerSnapshot:
    """The ledger with its journals; empty where there is none yet. Raises Unreachable."""
    return reduce_all(LedgerSnapshot(), KafkaView(client).records(project.topics.ledger))
