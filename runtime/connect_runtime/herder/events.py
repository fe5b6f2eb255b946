"""What reaches the herder's queue from other threads: requests, and news of what it started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from connect_runtime.herder.runs import Kind
from connect_runtime.tasks.launch import Outcome


@dataclass(frozen=True, slots=True)
class Request:
    """Something to be done on the herder's thread; the asker waits for `answer`."""

    ask: Callable[[], Any]
    answer: Future[Any] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class InstanceStarted:
    """A connector instance answered with its task configs.

    `fingerprint` tells whether its config resolves to the same as another instance's; after
    `reload_in_s` seconds a value from a config provider expires.
    """

    name: str
    serial: int
    kind: Literal["source", "sink"]
    version: str | None
    task_configs: tuple[Mapping[str, str], ...]
    fingerprint: str = ""
    reload_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class InstanceFailed:
    """A connector instance threw, or could not be made."""

    name: str
    serial: int
    trace: str
    version: str | None = None
    reload_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class InstanceStopped:
    """A connector instance is gone."""

    name: str
    serial: int


@dataclass(frozen=True, slots=True)
class Identified:
    """What a connector class turned out to be; unknown where it cannot be loaded."""

    class_name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class FencingEnded:
    """A round of fencing is over; `error` is why it failed."""

    name: str
    serial: int
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """An attempt ended, for whatever reason."""

    outcome: Outcome


InstanceEvent: TypeAlias = InstanceStarted | InstanceFailed | InstanceStopped
Event: TypeAlias = Request | InstanceEvent | Identified | FencingEnded | TaskEnded
