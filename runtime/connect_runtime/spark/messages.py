"""Encodes what driver and worker exchange: a TaskLaunch and an Outcome, both as JSON.

The launch is encrypted, because it holds configs. An envelope around it names the attempt, so a
worker that cannot decrypt it can still answer. Does not depend on Spark.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

import orjson

from connect_runtime.spark.sealing import seal
from connect_runtime.spark.unfit import Unfit
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch
from connect_specs.names import ClusterTopics

# The property of a Spark job that holds the envelope
ENVELOPE: Final = "connect.envelope"


@dataclass(frozen=True, slots=True)
class Envelope:
    """A sealed launch: `sealed` is encrypted JSON; `lease` the path of the file that the worker
    locks, None if driver and worker share no disk."""

    id: TaskId
    attempt: int
    lease: str | None
    sealed: str


def envelope_json(launch: TaskLaunch, key: str, lease: str | None) -> str:
    """Returns an envelope around the launch, as JSON text."""
    return orjson.dumps(
        {
            "connector": launch.id.connector,
            "task": launch.id.task,
            "attempt": launch.attempt,
            "lease": lease,
            "sealed": seal(launch_json(launch), key),
        }
    ).decode()


def envelope_from_json(text: str) -> Envelope:
    """Parses the text of `envelope_json`, without decrypting the launch."""
    fields = orjson.loads(text)
    task = TaskId(fields["connector"], fields["task"])
    return Envelope(task, fields["attempt"], fields["lease"], fields["sealed"])


def launch_json(launch: TaskLaunch) -> str:
    """Returns the launch as JSON text."""
    return orjson.dumps(
        {
            "id": {"connector": launch.id.connector, "task": launch.id.task},
            "attempt": launch.attempt,
            "generation": launch.generation,
            "leader_term": launch.leader_term,
            "assignments_offset": launch.assignments_offset,
            "group_id": launch.group_id,
            "topics": asdict(launch.topics),
            "worker_id": launch.worker_id,
            "config": dict(launch.config),
            "connector_config": dict(launch.connector_config),
            "worker": dict(launch.worker),
            "socket": launch.socket,
        }
    ).decode()


def launch_from_json(text: str) -> TaskLaunch:
    """Parses the text of `launch_json`."""
    fields = orjson.loads(text)
    fields["id"] = TaskId(**fields["id"])
    fields["topics"] = ClusterTopics(**fields["topics"])
    return TaskLaunch(**fields)


def outcome_json(outcome: Outcome) -> str:
    """Returns the outcome as JSON text. A trace may hold text that UTF-8 cannot, such as half a
    surrogate."""
    trace = outcome.trace
    if trace is not None:
        trace = trace.encode("utf-8", "replace").decode()
    return orjson.dumps(
        {
            "connector": outcome.id.connector,
            "task": outcome.id.task,
            "attempt": outcome.attempt,
            "ended": outcome.ended,
            "trace": trace,
            "dead": outcome.dead,
        }
    ).decode()


def unfit_json(unfit: Unfit) -> str:
    """Returns the answer of a node that cannot run the task, instead of an outcome."""
    return orjson.dumps({"unfit": str(unfit)}).decode()


def outcome_from_json(text: str) -> Outcome:
    """Parses the text of `outcome_json`. Raises Unfit for that of `unfit_json`."""
    fields = orjson.loads(text)
    if "unfit" in fields:
        raise Unfit(fields["unfit"])
    task = TaskId(fields["connector"], fields["task"])
    ended = AttemptEnd(fields["ended"])
    return Outcome(task, fields["attempt"], ended, fields["trace"], fields["dead"])
