"""Values that the leader keeps in memory: connector instances and attempts.

Frozen, replaced as a whole. They start empty after a failover: the topics hold all that must
survive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal, TypeAlias

from connect_runtime.storage.snapshots import ConnectorState, TaskId
from connect_runtime.tasks.launch import Outcome
from connect_specs.states import TargetState

Kind: TypeAlias = Literal["source", "sink", "unknown"]


class InstancePhase(Enum):
    """Phases of a connector instance."""

    STARTING = auto()
    STARTED = auto()
    FAILED = auto()
    STOPPING = auto()


@dataclass(frozen=True, slots=True)
class Instance:
    """A connector's plugin object. `config` is what it was started with, `serial` tells two
    instances of one name apart, `task_configs` is its newest answer, if there is one, and
    `published` the generation under which that answer was published. `deadline` is when one that is
    STARTING or STOPPING has taken too long, `reload_at` when a value that a config provider gave
    expires. `thrown` counts how often in a row it threw when asked for task configs, `ask_at` is
    when it is asked again (all three in seconds of the herder's clock). `trace` is why it has
    FAILED, or what it threw last when asked. `fingerprint` stands for what its config resolved
    to."""

    serial: int
    phase: InstancePhase
    config: Mapping[str, str]
    kind: Kind = "unknown"
    version: str | None = None
    task_configs: tuple[Mapping[str, str], ...] | None = None
    published: int | None = None
    trace: str | None = None
    fingerprint: str = ""
    deadline: float = math.inf
    reload_at: float = math.inf
    thrown: int = 0
    ask_at: float = math.inf


class RunPhase(Enum):
    """Phases of an attempt."""

    LAUNCHED = auto()
    STOPPING = auto()
    KILLED = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class Run:
    """One attempt at a task. `failures` counts attempts in a row that were lost or fenced;
    `deadline` is when a STOPPING one is killed, a KILLED one once more, or an ENDED one may be
    launched again, `ended_at` when it ended (seconds of the herder's clock)."""

    id: TaskId
    attempt: int
    generation: int
    state: TargetState
    phase: RunPhase = RunPhase.LAUNCHED
    launched_at: float = 0.0
    ended_at: float = 0.0
    deadline: float = 0.0
    failures: int = 0
    outcome: Outcome | None = None

    @property
    def active(self) -> bool:
        """Whether the attempt may still be running."""
        return self.phase is not RunPhase.ENDED

    def may_be_followed(self, now: float) -> bool:
        """Whether it has ended, and the pause before the next attempt has passed."""
        return not self.active and now >= self.deadline


@dataclass(frozen=True, slots=True)
class Fencing:
    """A round of fencing for the task configs of `generation`, with the clients of `config`;
    `serial` tells rounds apart."""

    serial: int
    generation: int
    config: Mapping[str, str]
    done: bool = False

    def is_for(self, state: ConnectorState | None) -> bool:
        """Whether the connector still needs it: it was not stopped, deleted or changed."""
        return (
            state is not None
            and bool(state.task_configs)
            and state.generation == self.generation
            and state.config == self.config
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a connector cannot be brought to its wanted state.

    It lasts until the wanted state changes, a restart is requested or, if Kafka was the cause,
    until `retry_at` (seconds of the herder's clock). `not_reported`: even its status cannot
    be written.
    """

    trace: str
    asked: ConnectorState | None
    retry_at: float = math.inf
    not_reported: bool = False

    def is_about(self, state: ConnectorState | None) -> bool:
        """Whether the connector's wanted state is still the one that failed."""
        asked = self.asked
        if asked is None or state is None:
            return asked is state
        return (
            asked.config == state.config
            and asked.null_keys == state.null_keys
            and asked.target is state.target
            and asked.generation == state.generation
        )
