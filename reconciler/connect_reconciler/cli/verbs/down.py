"""`connect down`: ends what `up` started in this project, and nothing else.

The runtime ends first, by its own order: tasks, Spark, broker. Whatever it leaves behind is ended
after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from connect_reconciler.cli.interruption import may_change
from connect_reconciler.cli.invocation import AsJson, invocation
from connect_reconciler.cli.output import progress, result, result_json

if TYPE_CHECKING:
    from connect_runtime.kafka.embedded import BrokerRecord
    from connect_specs.desired import Project

# Tasks have 5 s to commit and the broker 15 s to write everything down; the rest is Spark's.
_RUNTIME_S = 45.0
_BROKER_S = 15.0


def down(context: typer.Context, as_json: AsJson = False) -> None:
    """Stop the runtime that `connect up` started here, and its Kafka.

    Everything stays in .connect/, and the next `connect up` resumes from it.
    """
    project = invocation(context).project()
    broker = _broker(project)
    ended = _end_runtime(project)
    if broker is not None:
        may_change()
        _end("Kafka", broker.pid, broker.started, _BROKER_S)
        ended.append("kafka")
    if as_json:
        result_json({"stopped": ended})
    elif ended:
        result(f"stopped: {', '.join(ended)}")
    else:
        result("nothing is up here")


def _end_runtime(project: Project) -> list[str]:
    from connect_reconciler.cli.running.process import find_runtime

    running = find_runtime(project)
    if running is None:
        return []
    may_change()
    progress(f"stopping the runtime (pid {running.pid}): tasks flush and commit")
    _end("the runtime", running.pid, running.started, _RUNTIME_S)
    return ["runtime"]


def _broker(project: Project) -> BrokerRecord | None:
    """The broker that is there for a runtime; one that another verb has in use is not."""
    from connect_reconciler.cli.connecting import broker_folder, has_own_broker, is_for_verbs
    from connect_runtime.kafka.embedded import find_broker

    if not has_own_broker(project):
        return None
    broker = find_broker(broker_folder(project))
    return None if broker is None or is_for_verbs(project, broker.pid) else broker


def _end(what: str, pid: int, started: float, patience_s: float) -> None:
    from connect_runtime.kafka.process import end_process

    if not end_process(pid, started, patience_s=patience_s):
        progress(f"{what} did not end within {patience_s:.0f} s and was killed (SIGKILL)")
