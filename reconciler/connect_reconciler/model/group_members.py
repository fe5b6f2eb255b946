"""Members of a sink's consumer group that are no tasks of this Connect cluster. Pure.

Kafka gives them a part of the sink's records, and moves no offsets while they are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class GroupMember(NamedTuple):
    """A consumer, as it says itself who it is, and from which address."""

    client_id: str
    host: str

    def __str__(self) -> str:
        return f"{self.client_id} at {self.host.lstrip('/')}"


def strangers(members: Iterable[GroupMember], tasks: Mapping[str, int]) -> tuple[GroupMember, ...]:
    """Returns the members that are no tasks. `tasks` are the numbers of tasks of the sinks that
    read with the group, by name.

    A client id can be configured, and then is the same for all tasks: if no member has the one
    that a task has by default, as many members are taken for tasks as there are.
    """
    ids = [f"connector-consumer-{name}-{n}" for name, count in tasks.items() for n in range(count)]
    missing, unmatched = list(ids), []
    for member in sorted(members):
        if member.client_id in missing:
            missing.remove(member.client_id)
        else:
            unmatched.append(member)
    return tuple(unmatched[len(ids) :] if missing == ids else unmatched)
