"""The target states of a connector, as a spec writes them (KIP-875, KIP-980)."""

from __future__ import annotations

from enum import StrEnum


class TargetState(StrEnum):
    """The state that a connector should have, unlike its status."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
