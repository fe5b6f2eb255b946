"""Defines what other threads put on the herder's queue: requests, and results of started work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from connect_runtime.herder.runs import Kind
from connect_runtime.tasks.launch import Outcome


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
