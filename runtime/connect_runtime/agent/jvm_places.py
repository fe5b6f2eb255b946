"""Decides which tasks of a node share a JVM. Pure.

All share one, until it ends and nobody can be named. Then they start in about as many JVMs as the
root of their number, and those of a JVM that ends, too, in one each. So the task at fault stands
alone in the third, and others have been interrupted twice. It stays alone until its config changes.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

# Connector and task
TaskKey: TypeAlias = tuple[str, int]

SHARED: Final = "shared"
# After so long without another end, tasks that were not named share one again
_SUSPECTED_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class JvmMember:
    """A task in a JVM; `config` identifies its config."""

    task: TaskKey
    config: str


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A task's place since a JVM ended; `reason`: of the end of a JVM that it caused."""

    config: str
    place: str
    since: float
    reason: str | None = None


class JvmPlaces:
    """The places of tasks, by what has happened. Times are of a clock in seconds."""

    def __init__(self) -> None:
        self._suspects: dict[TaskKey, _Suspect] = {}
        self._ends = 0
        self._killed_at = -math.inf

    def place(self, member: JvmMember, time_s: float) -> str:
        """Returns the name of the JVM in which a task starts."""
        suspect = self._suspects.get(member.task)
        if suspect is None:
            return SHARED
        over = suspect.reason is None and time_s - suspect.since > _SUSPECTED_S
        if over or suspect.config != member.config:
            del self._suspects[member.task]
            return SHARED
        return suspect.place

    def reason(self, member: JvmMember) -> str | None:
        """Returns why a JVM ended, if this task has ended it with this config."""
        suspect = self._suspects.get(member.task)
        if suspect is None or suspect.config != member.config:
            return None
        return suspect.reason

    def ended(
        self,
        members: Collection[JvmMember],
        time_s: float,
        reason: str,
        *,
        killed: bool,
        threads_left: bool = False,
    ) -> JvmMember | None:
        """Takes note of the end of a JVM with these members. Returns the one that has ended it, if
        that is known: alone, and without threads left by tasks before it. One end by a signal from
        outside accuses nobody, and one that was alone is named by the second."""
        if killed and time_s - self._killed_at > _SUSPECTED_S:
            self._killed_at = time_s
            return None
        ordered = sorted(members, key=lambda member: member.task)
        if len(ordered) == 1 and killed and not self._is_alone(ordered[0]):
            self._keep_alone(ordered[0], time_s)
            return None
        if len(ordered) == 1 and not threads_left:
            return self._name(ordered[0], time_s, reason)
        self._ends += 1
        grouped = any(member.task in self._suspects for member in ordered)
        count = len(ordered) if grouped else math.isqrt(len(ordered) - 1) + 1
        for number, member in enumerate(ordered):
            place = f"{self._ends}.{number % count}"
            self._suspects[member.task] = _Suspect(member.config, place, time_s)
        return None

    def _is_alone(self, member: JvmMember) -> bool:
        suspect = self._suspects.get(member.task)
        return suspect is not None and suspect.place == alone(member.task)

    def _keep_alone(self, member: JvmMember, time_s: float) -> None:
        """Keeps a suspect apart, such as one that takes all memory of a machine."""
        suspect = self._suspects.get(member.task)
        if suspect is not None:
            place = alone(member.task)
            self._suspects[member.task] = replace(suspect, place=place, since=time_s)

    def _name(self, member: JvmMember, time_s: float, reason: str) -> JvmMember:
        """Leaves one alone for good, and accuses the others no more."""
        self._suspects = {task: s for task, s in self._suspects.items() if s.reason is not None}
        place = alone(member.task)
        self._suspects[member.task] = _Suspect(member.config, place, time_s, reason)
        return member


def alone(task: TaskKey) -> str:
    """Returns the name of a JVM for this task only."""
    return f"{task[0]}-{task[1]}"
