"""One apply after another over a fake cluster, as separate processes would run them.

Each has its own observation, plan, cluster, ledger and lease; only Kafka is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event as Flag

from connect_reconciler.actions import AlterOffsets
from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply.context import ApplyContext, Clock, Limits
from connect_reconciler.apply.health import Lags
from connect_reconciler.apply.report import (
    ApplyReport,
    Event,
)
from connect_reconciler.apply.scheduler import apply_plan
from connect_reconciler.backend.backend import Cluster
from connect_reconciler.backend.followed_topics import ConfigTopic
from connect_reconciler.backend.lease import Lease
from connect_reconciler.backend.ledger import Ledger, read_ledger
from connect_reconciler.backend.observe.kafka_view import KafkaPort
from connect_reconciler.backend.observe.observe import observe_topics, read_topics
from connect_reconciler.backend.plugins import ChainedDefinitions, InstalledDefinitions
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_runtime.storage.log import Logs
from connect_specs.desired import Desired, DesiredConnector, Project
from connect_specs.diagnostics import Diagnostic
from connect_specs.plugin_definitions import Definitions
from support.dooming import Doom, DoomedCluster, DoomedLogs, Killed
from support.fake_cluster import GROUP_ID, TOPICS, FakeCluster, FakeKafka

PROJECT = Project(
    name="orders",
    file=Path("connect.yaml"),
    group_id=GROUP_ID,
    topics=TOPICS,
    kafka={},
    target=None,
    worker={},
    specs=(),
)
# looked up once by all applies of a test process
INSTALLED = ChainedDefinitions([InstalledDefinitions()])


def desired_of(*specs: DesiredConnector) -> Desired:
    return Desired("orders", {spec.name: spec for spec in sorted(specs, key=lambda s: s.name)})


@dataclass(slots=True)
class FakeTime:
    """A clock that only sleeping moves."""

    at: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.at += seconds

    def clock(self) -> Clock:
        return Clock(lambda: self.at, self.sleep, lambda: 1_000 + int(self.at * 1000))


class HeldLease(Lease):
    """A lease without a group behind it."""

    def __init__(self) -> None:
        self.gone = False
        self._broken = self._taken_by = None
        self._released = Flag()
        self._released.set()

    @property
    def lost(self) -> bool:
        return self.gone

    def release(self) -> None:
        pass


@dataclass(slots=True)
class Applying:
    """Where applies happen."""

    kafka: FakeKafka = field(default_factory=FakeKafka)
    key: bytes | None = None
    plugins: Definitions = INSTALLED
    lease: HeldLease = field(default_factory=HeldLease)
    time: FakeTime = field(default_factory=FakeTime)
    events: list[Event] = field(default_factory=list)
    parallelism: int = 1
    fail_fast: bool = False
    limits: Limits = field(default_factory=Limits)
    lags: Callable[[str], Lags] | None = None
    denials: Callable[[AlterOffsets], Sequence[Diagnostic]] = lambda action: ()
    view_of_sink: Callable[[str, Mapping[str, str]], KafkaPort] | None = None

    def observe(self, desired: Desired) -> Live:
        live = observe_topics(
            PROJECT,
            desired,
            read_topics(TOPICS, self.kafka),
            self.kafka,
            now_ms=lambda: 1_000,
            fingerprint_key=self.key,
            plugins=self.plugins,
        )
        # The newest that address every name that the ledger can hold
        return replace(live, version="3.9.1")

    def plan(self, desired: Desired) -> Plan:
        return make_plan(desired, self.observe(desired), group_id=GROUP_ID)

    def ledger(self) -> LedgerState:
        return read_ledger(self.kafka.logs, TOPICS.ledger).state

    def apply(
        self,
        desired: Desired,
        plan: Plan | None = None,
        *,
        cluster: Cluster | None = None,
        ledger_logs: Logs | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> ApplyReport:
        """One apply; `ledger_logs` and `cluster` may be such that kill it."""
        plan = plan if plan is not None else self.plan(desired)
        context = ApplyContext(
            cluster=cluster or FakeCluster(self.kafka),
            ledger=Ledger.open(ledger_logs or self.kafka.logs, TOPICS.ledger, GROUP_ID),
            lease=self.lease,
            read_connector=ConfigTopic(self.kafka.logs.reader(TOPICS.config)),
            by="test",
            progress=self.events.append,
            stop=stop,
            parallelism=self.parallelism,
            fail_fast=self.fail_fast,
            limits=self.limits,
            clock=self.time.clock(),
            lags=self.lags,
            view_of_sink=self.view_of_sink or (lambda name, config: self.kafka),
            denials=self.denials,
        )
        return apply_plan(
            plan,
            desired,
            PROJECT,
            self.observe(desired),
            context,
            unproven=self.observe(desired).ledger.unproven if context.cluster.runs_tasks else (),
        )

    def killed(
        self,
        desired: Desired,
        doom: Doom,
        plan: Plan | None = None,
        *,
        runs_tasks: bool = False,
        watch: Callable[[FakeCluster], object] = lambda cluster: None,
    ) -> bool:
        """One apply that `doom` kills, unless it ends before: false then. `watch` may ask the
        cluster to call."""
        cluster = DoomedCluster(self.kafka, runs_tasks=runs_tasks)
        cluster.doom = doom
        watch(cluster)
        try:
            logs = DoomedLogs(self.kafka.logs, doom)
            report = self.apply(desired, plan, cluster=cluster, ledger_logs=logs)
        except Killed:
            return True
        assert report.exit_code == 0, report
        return False


def names(plan: Plan) -> Sequence[str]:
    """The plan's actions in short."""
    return [f"{type(action).__name__} {action.connector}" for action in plan.actions]
