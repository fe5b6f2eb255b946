"""What crosses between driver and worker: a TaskLaunch there, an Outcome back, both as JSON.

Plain data only, so that either side can be a process of its own. No Spark here.
"""

from __future__ import annotations

from dataclasses import asdict

import orjson

from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import Ended, Outcome, TaskLaunch
from connect_specs.names import ClusterTopics


def launch_json(launch: TaskLaunch) -> str:
    """The launch as JSON text."""
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
        }
    ).decode()


def launch_from_json(text: str) -> TaskLaunch:
    """The launch that `launch_json` wrote."""
    fields = orjson.loads(text)
    fields["id"] = TaskId(**fields["id"])
    fields["topics"] = ClusterTopics(**fields["topics"])
    return TaskLaunch(**fields)


def outcome_json(outcome: Outcome) -> str:
    """The outcome as JSON text. A trace may hold what UTF-8 cannot, such as half a surrogate."""
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
        }
    ).decode()


def outcome_from_json(text: str) -> Outcome:
    """The outcome that `outcome_json` wrote."""
    fields = orjson.loads(text)
    task = TaskId(fields["connector"], fields["task"])
    return Outcome(task, fields["attempt"], Ended(fields["ended"]), fields["trace"])
