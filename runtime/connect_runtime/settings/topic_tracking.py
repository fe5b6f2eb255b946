"""The worker's settings for recording which topics connectors use (KIP-558)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

ENABLE: Final = "topic.tracking.enable"
ALLOW_RESET: Final = "topic.tracking.allow.reset"


@dataclass(frozen=True, slots=True)
class TopicTracking:
    """`enabled`: tasks record the topics that they use, and REST shows them. `may_reset`: REST may
    forget them."""

    enabled: bool = True
    may_reset: bool = True

    @classmethod
    def of(cls, worker: Mapping[str, str]) -> Self:
        """Returns the settings in valid worker properties."""
        return cls(_is_true(worker, ENABLE), _is_true(worker, ALLOW_RESET))


def _is_true(worker: Mapping[str, str], key: str) -> bool:
    return worker.get(key, "true").strip().lower() == "true"
