"""Reads the `errors.*` keys of a connector's config (KIP-298, KIP-610)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_DLQ: Final = "errors.deadletterqueue."


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Where a sink's failed records go. `with_context`: with headers that tell of the error."""

    topic: str
    replication_factor: int = 3
    with_context: bool = False


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """What to do about records that fail. The defaults are Connect's: the first fails the task."""

    tolerates_all: bool = False
    retry_timeout_s: float = 0.0
    retry_delay_max_s: float = 60.0
    logs: bool = False
    logs_messages: bool = False
    dead_letters: DeadLetters | None = None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> ErrorPolicy:
        """Returns a connector's policy. Raises ValueError for invalid numbers; validation reports
        those before."""
        timeout_ms = int(config.get("errors.retry.timeout") or 0)
        topic = (config.get(f"{_DLQ}topic.name") or "").strip()
        return cls(
            tolerates_all=config.get("errors.tolerance", "").strip().lower() == "all",
            retry_timeout_s=math.inf if timeout_ms < 0 else timeout_ms / 1000,
            retry_delay_max_s=int(config.get("errors.retry.delay.max.ms") or 60_000) / 1000,
            logs=_is_true(config, "errors.log.enable"),
            logs_messages=_is_true(config, "errors.log.include.messages"),
            dead_letters=None
            if not topic
            else DeadLetters(
                topic,
                int(config.get(f"{_DLQ}topic.replication.factor") or 3),
                _is_true(config, f"{_DLQ}context.headers.enable"),
            ),
        )


def _is_true(config: Mapping[str, str], key: str) -> bool:
    return config.get(key, "").strip().lower() == "true"
