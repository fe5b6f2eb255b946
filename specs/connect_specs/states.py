"""The target states of a connector, in the words of a spec (KIP-875, KIP-980)."""

from __future__ import annotations

from enum import StrEnum


class TargetState(StrEnum):
    """What was asked of a connector; what it does is its status."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
