"""What an apply tells while it is at it: events for a callback, which draws them.

The callback is called on the apply's thread, after the fact: once `Started` is told, the journal
holds it, so whoever kills the process on hearing an event knows what is on the topics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from connect_reconciler.apply.report import ActionResult, ConnectorReport
from connect_reconciler.plan.actions import Action


@dataclass(frozen=True, slots=True)
class Began:
    """All preconditions hold, and the journal is open."""

    apply_id: str
    actions: int


@dataclass(frozen=True, slots=True)
class Started:
    """The journal holds that this action begins. `number` counts from 1."""

    number: int
    action: Action


@dataclass(frozen=True, slots=True)
class Performed:
    """The cluster has done it; the journal does not hold that yet."""

    number: int
    action: Action


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of an action; the journal holds it if it was done."""

    number: int
    result: ActionResult


@dataclass(frozen=True, slots=True)
class Waiting:
    """For what the apply waits now."""

    connector: str
    what: str


@dataclass(frozen=True, slots=True)
class ConnectorDone:
    """All that this apply has to say about one connector."""

    report: ConnectorReport


Event: TypeAlias = Began | Started | Performed | Finished | Waiting | ConnectorDone
Progress: TypeAlias = Callable[[Event], None]
