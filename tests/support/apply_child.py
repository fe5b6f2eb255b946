"""A process that applies, and announces each step on stdout, so that a test can kill it there."""

from __future__ import annotations

import sys
from dataclasses import replace

from connect_reconciler.apply.report import (
    Event,
    Performed,
    Started,
)
from connect_reconciler.apply.scheduler import apply_plan
from connect_reconciler.backend import open_backend
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.workflow.apply import apply_context
from connect_reconciler.workflow.user import Choices
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, Pin
from connect_specs.diagnostics import Location
from support.projects import project_of


def desired_of(topic: str, pin: str | None) -> Desired:
    """One source, with offsets pinned under this id."""
    config = {
        "name": "a b",
        "connector.class": "FileStreamSource",
        "file": "f",
        "topic": topic,
    }
    pinned = None
    if pin is not None:
        pinned = Pin(pin, (OffsetEntry({"filename": "f"}, {"position": len(pin)}),))
    spec = DesiredConnector("a b", config, Location("a.yaml", 1, 1), pin=pinned)
    return Desired("orders", {"a b": spec})


def announce(event: Event) -> None:
    if isinstance(event, Started | Performed):
        word, action = type(event).__name__, type(event.action).__name__
        sys.stdout.write(f"{word} {action}\n")
        sys.stdout.flush()


def main(bootstrap: str, group_id: str, topic: str, pin: str) -> int:
    kafka = {"bootstrap.servers": bootstrap}
    project, desired = project_of(group_id, kafka=kafka), desired_of(topic, pin)
    backend = open_backend(project, kafka)

    def look() -> Live:
        return backend.observe(desired)

    plan = make_plan(desired, look(), group_id=group_id)
    with apply_context(backend, desired, Choices()) as context:
        telling = replace(context, progress=announce)
        return apply_plan(plan, desired, project, look(), telling).exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
