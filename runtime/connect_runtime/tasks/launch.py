"""Defines what the herder passes to a task at its start, and the result that a task returns.

Both cross process borders as JSON, so a Spark executor needs only this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from connect_runtime.storage.snapshots import TaskId
from connect_specs.names import ClusterTopics


@dataclass(frozen=True, slots=True)
class TaskLaunch:
    """One attempt at running a task.

    `assignments_offset`: where in the assignments topic to start reading; all records of this
    attempt are at or after it. `leader_term` is the status generation to write. `config` is the
    task's config, `connector_config` the connector's (converters and client overrides come from
    it), both with references unresolved. `worker` holds worker properties in Apache's names;
    `worker_id` is the runtime's advertised host:port for status records. `count` is the number of
    the connector's tasks. `java`: its plugins are Java classes; `sink`: its connector is a sink.
    `socket` is the path of the socket at which a standalone worker serves the topics; None: they
    are in Kafka. `logger_levels` is the path of the file with the levels of the loggers of JVMs.
    """

    id: TaskId
    attempt: int
    generation: int
    leader_term: int
    assignments_offset: int
    group_id: str
    topics: ClusterTopics
    worker_id: str
    config: Mapping[str, str]
    connector_config: Mapping[str, str]
    worker: Mapping[str, str]
    socket: str | None = None
    count: int = 1
    java: bool = False
    sink: bool = False
    logger_levels: str | None = None

    @property
    def transactional(self) -> bool:
        """Returns whether it is a source's that writes in transactions."""
        return not self.sink and exactly_once(self.worker)


def exactly_once(worker: Mapping[str, str]) -> bool:
    """Returns True if sources write in transactions: unless `exactly.once.source.support` is
    `disabled`. `preparing` behaves like `enabled`: all workers of this cluster do so.
    """
    return worker.get("exactly.once.source.support", "").strip().lower() != "disabled"


class AttemptEnd(StrEnum):
    """The way in which an attempt ended."""

    STOPPED = "stopped"  # as requested; everything was committed
    SUPERSEDED = "superseded"  # a newer assignment exists; nothing was done after it was seen
    FAILED = "failed"  # the task threw; stays failed until restarted
    FENCED = "fenced"  # a newer producer of the same id exists, or its transaction expired
    INTERRUPTED = "interrupted"  # Kafka failed, not the task: launched again after a pause
    ORPHANED = "orphaned"  # the runtime that launched it is gone
    LOST = "lost"  # the worker process died or was killed; only the launcher reports this


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an attempt; `trace` is set when it FAILED, was FENCED, INTERRUPTED or LOST.

    `dead`: its process is known to have ended or to have stopped working. False for a LOST one
    whose process may still be running. `killed`: a signal ended the JVM that ran it.
    """

    id: TaskId
    attempt: int
    ended: AttemptEnd
    trace: str | None = None
    dead: bool = True
    killed: bool = False
