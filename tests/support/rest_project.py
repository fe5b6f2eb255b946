"""A project whose Connect cluster is reached by REST, with its Kafka or without it.

Plans and applies as the verbs do, in this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply.report import ApplyReport
from connect_reconciler.apply.scheduler import apply_plan
from connect_reconciler.backend import open_backend
from connect_reconciler.backend.backend import Backend
from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.client import RestClient, connector_path
from connect_reconciler.drift.compare import compare
from connect_reconciler.drift.model import Drift
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.workflow.apply import apply_context
from connect_reconciler.workflow.rollback import FromSnapshots
from connect_reconciler.workflow.user import Choices
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, Pin, Project, RestTarget
from connect_specs.diagnostics import Location
from support.projects import project_of


@dataclass
class RestProject:
    """`kafka` holds client properties; empty: REST alone. `specs` are as of now. `reached` says how
    the cluster is reached, if it takes more than `url`; `worker` and `choices` are as a project and
    a command line have them, `unknown_s` is how long what was not answered is read back."""

    url: str
    group_id: str
    kafka: Mapping[str, str] = field(default_factory=dict)
    name: str = "orders"
    specs: dict[str, DesiredConnector] = field(default_factory=dict)
    reached: RestTarget | None = None
    worker: Mapping[str, str] = field(default_factory=dict)
    choices: Choices = field(default_factory=lambda: Choices(healthy_for=2.0, settle=2.0))
    unknown_s: float | None = None

    @property
    def project(self) -> Project:
        return project_of(
            self.group_id,
            name=self.name,
            kafka=self.kafka or None,
            target=self.reached or RestTarget(self.url),
            worker=self.worker,
        )

    @property
    def backend(self) -> Backend:
        """The cluster, opened anew."""
        return open_backend(self.project, self.kafka)

    @property
    def desired(self) -> Desired:
        return Desired(self.name, dict(sorted(self.specs.items())))

    def want(self, *specs: DesiredConnector) -> None:
        """These specs in addition, or in place of those of the same names."""
        self.specs |= {spec.name: spec for spec in specs}

    def observe(self) -> Live:
        return self.backend.observe(self.desired)

    def offsets(self, name: str) -> tuple[OffsetEntry, ...]:
        """A connector's offsets as the cluster has them; a plan knows only those that it needs."""
        with RestClient(self.reached or RestTarget(self.url)) as client:
            found: tuple[OffsetEntry, ...] = client.must(
                connector_path(name, "offsets"), shapes.offsets
            )
            return found

    def plan(self) -> Plan:
        return make_plan(self.desired, self.observe(), group_id=self.group_id)

    def apply(self, plan: Plan | None = None) -> ApplyReport:
        """Raises what an apply raises; `plan` in place of one that is made now."""
        project, desired = self.project, self.desired
        made = plan or self.plan()
        with apply_context(self.backend, desired, self.choices) as opened:
            limits = opened.limits
            if self.unknown_s is not None:
                limits = replace(limits, unknown_s=self.unknown_s)
            context = replace(opened, limits=limits)
            return apply_plan(made, desired, project, self.observe(), context)

    def drift(self) -> Drift:
        return compare(self.desired, self.backend.observe_with_history(self.desired))

    def roll_back(self, apply_id: str) -> ApplyReport:
        """The way back from an apply; only with Kafka, which has the journal."""
        backend, project = self.backend, self.project
        planned = FromSnapshots(
            backend=backend, policies=(), apply_id=apply_id, files=self.desired
        ).plan()
        desired = planned.desired
        with apply_context(backend, desired, self.choices) as context:
            return apply_plan(planned.plan, desired, project, backend.observe(desired), context)

    def settle(self) -> ApplyReport:
        """One apply that must do all of it, and leave nothing to do."""
        report = self.apply()
        assert report.exit_code == 0, report
        left = self.plan()
        assert left.empty, left
        return report


def source(name: str, file: Path, topic: str, **more: str) -> DesiredConnector:
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}
    return _spec(name, config | more)


def sink(name: str, file: Path, topic: str, **more: str) -> DesiredConnector:
    config = {"connector.class": "FileStreamSink", "file": str(file), "topics": topic}
    return _spec(name, config | more)


def _spec(name: str, config: Mapping[str, str]) -> DesiredConnector:
    texts = {
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    return DesiredConnector(name, {"name": name, **texts, **config}, Location(f"{name}.yaml"))


def pin_at(pin: str, topic: str, offset: int) -> Pin:
    """The first partition of a sink's topic, at an offset."""
    partition = {"kafka_topic": topic, "kafka_partition": 0}
    return Pin(pin, (OffsetEntry(partition, {"kafka_offset": offset}),))
