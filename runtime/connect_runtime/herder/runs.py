"""What the leader keeps in memory about what it runs: connector instances and attempts at tasks.

Frozen values, replaced as a whole. After a failover they start empty: the topics hold all that must
survive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import Outcome
from connect_specs.states import TargetState


class InstancePhase(Enum):
    """Where a connector instance is in its life."""

    STARTING = auto()
    STARTED = auto()
    FAILED = auto()
    STOPPING = auto()


@dataclass(frozen=True, slots=True)
class Instance:
    """A connector's plugin object. `config` is what it was started with, `serial` tells two
    instances of one name apart, `task_configs` is its answer once STARTED. `fingerprint` stands for
    what its config resolved to; at `reload_at` (seconds of the herder's clock) a value expires."""

    serial: int
    phase: InstancePhase
    config: Mapping[str, str]
    kind: Literal["source", "sink", "unknown"] = "unknown"
    version: str | None = None
    task_configs: tuple[Mapping[str, str], ...] = ()
    trace: str | None = None
    fingerprint: str = ""
    reload_at: float | None = None


class RunPhase(Enum):
    """Where an attempt is in its life."""

    LAUNCHED = auto()
    STOPPING = auto()
    KILLED = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt at a task. `failures` counts attempts in a row that were lost or fenced;
    `deadline` is when a STOPPING one is killed, or an ENDED one may be launched again (seconds of
    the herder's clock)."""

    id: TaskId
    attempt: int
    generation: int
    state: TargetState
    phase: RunPhase = RunPhase.LAUNCHED
    launched_at: float = 0.0
    deadline: float = 0.0
    failures: int = 0
    outcome: Outcome | None = None

    @property
    def active(self) -> bool:
        """Whether the attempt may still be doing something."""
        return self.phase is not RunPhase.ENDED
