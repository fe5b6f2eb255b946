"""Derives names from other names: topics, consumer groups, transactional ids.

In one place, because the runtime, Apache's workers and a plan must agree on each of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# The key that names a sink's consumer group
GROUP_KEY: Final = "consumer.override.group.id"
_TOPIC = re.compile(r"(?!\.\.?\Z)[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Returns True if Kafka allows a topic of that name."""
    return _TOPIC.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class ClusterTopics:
    """The topics of one Connect cluster. The first three are Connect's, the others ours."""

    config: str
    offsets: str
    status: str
    assignments: str
    ledger: str

    @classmethod
    def of(cls, group_id: str, overrides: Mapping[str, str] | None = None) -> ClusterTopics:
        """Returns the topics of `group_id`; `overrides` replaces some of them, by field name."""
        names = {
            "config": f"{group_id}-configs",
            "offsets": f"{group_id}-offsets",
            "status": f"{group_id}-status",
            "assignments": f"{group_id}-assignments",
            "ledger": f"{group_id}-ledger",
        }
        return cls(**(names | dict(overrides or {})))

    @property
    def internal(self) -> tuple[str, ...]:
        """Returns the topics that runtimes use."""
        return (self.config, self.offsets, self.status, self.assignments)


def ledger_group(group_id: str) -> str:
    """Returns the consumer group whose ownership of the ledger's partition is an apply's lease."""
    return f"{group_id}-ledger"


def leader_transactional_id(group_id: str) -> str:
    """Returns the leader's transactional id (KIP-618): each leader fences its predecessor."""
    return f"connect-cluster-{group_id}"


def ledger_transactional_id(group_id: str) -> str:
    """Returns the ledger writer's transactional id: each apply fences its predecessor."""
    return f"connect-ledger-{group_id}"


def task_transactional_id(group_id: str, connector: str, task: int) -> str:
    """Returns a source task's transactional id (KIP-618)."""
    return f"{group_id}-{connector}-{task}"


def sink_group(
    connector: str, config: Mapping[str, str], worker: Mapping[str, str] | None = None
) -> str:
    """Returns the consumer group of a sink connector: the connector's override, else the worker's,
    else `connect-<name>`."""
    return (
        config.get(GROUP_KEY) or (worker or {}).get("consumer.group.id") or f"connect-{connector}"
    )
