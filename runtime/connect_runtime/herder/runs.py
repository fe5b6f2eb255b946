"""Connector instances and attempts in the leader's memory, and events that change them.

Values are frozen, and replaced as a whole. They start empty after a failover: the topics hold all
that must survive. Other threads put events on the herder's queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Literal, TypeAlias

from connect_runtime.storage.snapshots import ConnectorState, TaskId
from connect_runtime.tasks.launch import Outcome
from connect_specs.desired import TargetState

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
    STARTING or STOPPING has taken too long, `slow_at` when its status says that it still starts,
    `reload_at` when a value that a config provider gave
    expires. `thrown` counts how often in a row it threw when asked for task configs, `ask_at` is
    when it is asked again (all four in seconds of the herder's clock). `trace` is why it has
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
    slow_at: float = math.inf
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
    """One attempt at a task. `failures` counts attempts in a row that were lost, killed ones less;
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
    failures: float = 0.0
    outcome: Outcome | None = None

    @property
    def active(self) -> bool:
        """Returns whether the attempt may still be running."""
        return self.phase is not RunPhase.ENDED

    def may_be_followed(self, now: float) -> bool:
        """Returns whether it has ended, and the pause before the next attempt has passed."""
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
        """Returns whether the connector still needs it: it was not stopped, deleted or changed."""
        return (
            state is not None
            and bool(state.task_configs)
            and state.generation == self.generation
            and state.config == self.config
        )


@dataclass(frozen=True, slots=True)
class ConnectorFailure:
    """A failure to bring a connector to its target state.

    It lasts until the wanted state changes, a restart is requested or, if Kafka was the cause,
    until `retry_at` (seconds of the herder's clock). `not_reported`: even its status cannot
    be written.
    """

    trace: str
    state: ConnectorState | None
    retry_at: float = math.inf
    not_reported: bool = False

    def is_about(self, state: ConnectorState | None) -> bool:
        """Returns whether the connector's wanted state is still the one that failed."""
        failed = self.state
        if failed is None or state is None:
            return failed is state
        return (
            failed.config == state.config
            and failed.null_keys == state.null_keys
            and failed.target is state.target
            and failed.generation == state.generation
        )


@dataclass(frozen=True, slots=True)
class Request:
    """Work to do on the herder's thread; the caller waits for `answer`."""

    work: Callable[[], Any]
    answer: Future[Any] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class InstanceStarted:
    """A connector instance has started, and answered with its task configs; None if it threw when
    it was asked for them, which `trace` tells of.

    `fingerprint` tells whether its config resolves to the same as another instance's; after
    `reload_in_s` seconds a value from a config provider expires.
    """

    name: str
    serial: int
    kind: Literal["source", "sink"]
    version: str | None
    task_configs: tuple[Mapping[str, str], ...] | None
    fingerprint: str = ""
    reload_in_s: float | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class InstanceFailed:
    """A connector instance threw an exception or could not be created."""

    name: str
    serial: int
    trace: str
    version: str | None = None
    reload_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class InstanceStopped:
    """A connector instance has stopped."""

    name: str
    serial: int


@dataclass(frozen=True, slots=True)
class Identified:
    """Says whether a connector class is a source or a sink, and its version; unknown if it cannot
    be loaded."""

    class_name: str
    kind: Kind
    version: str | None = None


@dataclass(frozen=True, slots=True)
class FencingEnded:
    """A round of fencing ended; `error` says why it failed."""

    name: str
    serial: int
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """An attempt ended, for any reason."""

    outcome: Outcome


InstanceEvent: TypeAlias = InstanceStarted | InstanceFailed | InstanceStopped
Event: TypeAlias = Request | InstanceEvent | Identified | FencingEnded | TaskEnded
