"""The health gate on our own runtime, its tasks in threads: what it said before a change is no
health, and no tasks are none."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from connect_reconciler.apply.context import ApplyContext, Limits
from connect_reconciler.apply.report import ConnectorReport, Health
from connect_reconciler.apply.scheduler import apply_plan
from connect_reconciler.apply.status_observer import StatusObserver
from connect_reconciler.backend import open_backend
from connect_reconciler.backend.backend import FollowedTopics
from connect_reconciler.backend.followed_topics import ConfigTopic, StatusTopic
from connect_reconciler.backend.ledger import Ledger
from connect_reconciler.backend.runtime import InProcessCluster
from connect_reconciler.model.live import Live
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.workflow.user import Choices
from connect_runtime.rest.app import create_app
from connect_specs.desired import DesiredConnector, Project, TargetState
from connect_specs.diagnostics import ExitCode, Location
from support.applying import HeldLease, desired_of
from support.broker import BrokerAddress, create_topic, produce
from support.command import Command
from support.connectors import SINK, SOURCE
from support.projects import project_of
from support.rest_project import RestProject
from support.serving import serving
from support.thread_cluster import ThreadCluster, thread_cluster

WELL = Limits(healthy_s=0.5, every_s=0.05)
NEVER_WELL = Limits(health_s=3, healthy_s=0.5, every_s=0.05)


class WithTasks(InProcessCluster):
    """A herder of this process that runs tasks."""

    @property
    def runs_tasks(self) -> bool:
        return True


@dataclass
class Ours:
    """A project on a runtime of ours."""

    cluster: ThreadCluster
    project: Project
    kafka: dict[str, str]

    def apply(self, spec: DesiredConnector, limits: Limits = WELL) -> tuple[ExitCode, Health, str]:
        """The exit code, and what was seen of the connector."""
        logs, topics, desired = self.cluster.logs, self.project.topics, desired_of(spec)
        read_back = ConfigTopic(logs.reader(topics.config))
        statuses = StatusTopic(logs.reader(topics.status))
        observer = StatusObserver(
            FollowedTopics(read_back, statuses, ours=True, tasks_follow=lambda: True)
        )
        context = ApplyContext(
            WithTasks(self.cluster.verbs, lambda: None),
            Ledger.open(logs, topics.ledger, self.project.group_id),
            HeldLease(),
            read_back,
            by="test",
            limits=limits,
            observer=observer,
        )

        def look() -> Live:
            return open_backend(self.project, self.kafka).observe(desired)

        plan = make_plan(desired, look(), group_id=self.project.group_id)
        report = apply_plan(plan, desired, self.project, look(), context)
        found: ConnectorReport = report.connectors[0]
        return report.exit_code, found.health, found.health_detail


@pytest.fixture
def ours(broker: BrokerAddress, unique: str, tmp_path: Path) -> Iterator[Ours]:
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    create_topic(broker.bootstrap_servers, f"{unique}-out")
    with thread_cluster(broker.bootstrap_servers, unique) as cluster:
        yield Ours(cluster, project_of(unique, kafka=kafka, folder=tmp_path), kafka)


@pytest.fixture
def spec(unique: str) -> Callable[..., DesiredConnector]:
    def made(**config: str) -> DesiredConnector:
        common = {"name": "a", "connector.class": SOURCE, "topic": f"{unique}-out"}
        common["tasks.max"] = "2"
        return DesiredConnector("a", common | config, Location("a.yaml", 1, 1))

    return made


def test_every_change_is_seen_to_its_end(ours: Ours, spec: Callable[..., DesiredConnector]) -> None:
    """Created, changed while it runs, paused, changed while paused, run again, stopped."""
    paused = TargetState.PAUSED
    changes = [
        (spec(), Health.RUNNING),
        (spec(tasks="2"), Health.RUNNING),
        (spec(tasks="2", last="20"), Health.RUNNING),
        (replace(spec(tasks="2", last="20"), state=paused), Health.PAUSED),
        (replace(spec(tasks="1"), state=paused), Health.PAUSED),
        (replace(spec(tasks="1"), state=TargetState.RUNNING), Health.RUNNING),
        (replace(spec(tasks="2"), state=TargetState.STOPPED), Health.STOPPED),
    ]
    for number, (change, health) in enumerate(changes):
        assert ours.apply(change, Limits(healthy_s=0.2)) == (ExitCode.OK, health, ""), number


def test_a_connector_without_tasks_is_well_only_if_its_spec_says_so(
    ours: Ours, spec: Callable[..., DesiredConnector]
) -> None:
    code, health, detail = ours.apply(spec(tasks="0"), NEVER_WELL)
    assert (code, health) == (ExitCode.FAILED, Health.TIMED_OUT)
    assert detail.startswith(
        "it has no tasks; if it is to have none, its spec says so with health:"
    )
    allowed = replace(spec(tasks="0", more="1"), allow_zero_tasks=True)
    assert ours.apply(allowed, WELL.healthy_for(0.5)) == (
        ExitCode.OK,
        Health.RUNNING,
        "it has no tasks",
    )


def test_what_ran_before_is_no_health(
    ours: Ours, spec: Callable[..., DesiredConnector], tmp_path: Path
) -> None:
    """Its tasks of before run on, because the connector does not say what the new ones are."""
    file, gate = tmp_path / "in.txt", tmp_path / "gate"
    file.touch()
    slow = {"connector.class": "support.gated.SlowToStart", "file": str(file), "gate": str(gate)}
    gate.touch()
    assert ours.apply(spec(**slow))[0] is ExitCode.OK
    gate.unlink()
    code, health, detail = ours.apply(spec(**slow, **{"batch.size": "7"}), NEVER_WELL)
    assert (code, health) == (ExitCode.FAILED, Health.TIMED_OUT)
    assert (
        detail
        == "its tasks are not made from its new config yet; if they cannot be, the log says why"
    )
    gate.touch()
    assert ours.apply(spec(**slow, **{"batch.size": "8"}))[0] is ExitCode.OK


def test_a_config_that_cannot_work_fails(ours: Ours, spec: Callable[..., DesiredConnector]) -> None:
    assert ours.apply(spec())[0] is ExitCode.OK
    code, health, detail = ours.apply(spec(fail="start"))
    assert (code, health) == (ExitCode.FAILED, Health.FAILED)
    assert "start throws" in detail
    # asked again and again, as in Connect
    code, health, detail = ours.apply(spec(fail="task_configs"), NEVER_WELL)
    assert (code, health) == (ExitCode.FAILED, Health.TIMED_OUT)
    assert "if they cannot be, the log says why" in detail


def test_one_that_has_polled_is_healthy_at_once_and_one_that_has_not_is_watched(
    ours: Ours, spec: Callable[..., DesiredConnector], tmp_path: Path, unique: str
) -> None:
    """The trap: what runs for two seconds without having done anything counts as healthy."""
    began = time.monotonic()
    assert ours.apply(spec(last="4"), Limits())[0] is ExitCode.OK
    assert ours.apply(spec(last="4", more="1"), Limits())[0] is ExitCode.OK
    assert time.monotonic() - began < 10, "each is proven after a moment"
    file, gate = tmp_path / "in.txt", tmp_path / "gate"
    file.touch()
    breaks = {"connector.class": "support.gated.BreaksLate", "file": str(file), "gate": str(gate)}
    threading.Timer(4, gate.touch).start()
    code, health, detail = ours.apply(spec(**breaks), Limits())
    assert (code, health) == (ExitCode.FAILED, Health.FAILED)
    assert "the database refuses the login" in detail


@pytest.mark.parametrize("values", [[b'"1"'], []])
def test_a_sink_is_healthy_once_it_has_put_records_or_there_are_none(
    ours: Ours,
    spec: Callable[..., DesiredConnector],
    broker: BrokerAddress,
    unique: str,
    values: list[bytes],
) -> None:
    topic = f"{unique}-out"
    produce(broker.bootstrap_servers, topic, [(None, value) for value in values])
    sink = {"connector.class": SINK, "topics": topic, "tasks.max": "1"}
    began = time.monotonic()
    made = spec(**sink)
    config = {key: value for key, value in made.config.items() if key != "topic"}
    assert ours.apply(replace(made, config=config), Limits())[0] is ExitCode.OK
    assert time.monotonic() - began < 9


def test_running_a_failed_apply_again_fails_until_the_connector_runs(
    ours: Ours, broker: BrokerAddress, unique: str, tmp_path: Path
) -> None:
    """The trap: the second run finds nothing to change, and a job is green over what has failed."""
    app = create_app(
        lambda: ours.cluster.verbs, {}, cluster_id=lambda: broker.cluster_id, commit="c"
    )
    connect = Command(tmp_path)
    file = tmp_path / "no" / "lines"
    config = {"connector.class": "FileStreamSink", "topics": f"{unique}-out", "file": str(file)}
    connect.write("connectors/a.yaml", json.dumps({"name": "a", "config": config}))
    quick = ("--yes", "--settle", "0.5", "--healthy-for", "0.5")
    with serving(app) as address:
        kafka = f"{{bootstrap.servers: '{broker.bootstrap_servers}'}}"
        connect.write(
            "connect.yaml",
            f"project: p\ncluster:\n  group.id: {unique}\n  kafka: {kafka}\n"
            f"  target: {{rest: 'http://{address}'}}\n",
        )
        connect("plan", "--out", "saved")
        first = connect("apply", "saved", *quick)
        assert (first.returncode, "a: failed" in first.stdout) == (1, True), first.stderr
        for words in (("apply",), ("apply", "saved")):
            again = connect(*words, *quick)
            assert again.returncode == 1, again.stderr
            assert (
                "no changes" in again.stdout and "a: failed: task 0 failed before" in again.stdout
            )
            assert "a was changed by an earlier apply that did not see it healthy" in again.stderr
        planned = connect("plan", "--detailed-exitcode")
        assert planned.returncode == 0, "what failed is no change"
        assert "warning[plan.failed]: failed: a" in planned.stdout
        assert "why: a: FileNotFoundError: " in planned.stdout, planned.stdout
        file.parent.mkdir()
        assert connect("restart", "--failed").returncode == 0
        assert connect("apply", *quick).returncode == 0
        done = connect("apply", *quick)
        assert (done.returncode, "checking" in done.stderr) == (0, False)


def test_what_can_be_rolled_back_is_also_its_former_secret(
    ours: Ours, broker: BrokerAddress, unique: str, tmp_path: Path
) -> None:
    """The trap: one connector is protected, or its former secret is in no file any more, and none
    is rolled back."""
    app = create_app(
        lambda: ours.cluster.verbs, {}, cluster_id=lambda: broker.cluster_id, commit="c"
    )
    connect = Command(tmp_path)
    quick = ("apply", "--yes", "--settle", "0.5", "--healthy-for", "0.5")

    def sink(name: str, file: str, secret: str, **more: object) -> None:
        config = {"connector.class": "FileStreamSink", "topics": f"{unique}-out"}
        config |= {"file": str(tmp_path / file), "db.password": secret}
        connect.write(
            f"connectors/{name}.json", json.dumps({"name": name, "config": config, **more})
        )

    with serving(app) as address:
        kafka = f"{{bootstrap.servers: '{broker.bootstrap_servers}'}}"
        connect.write(
            "connect.yaml",
            f"project: p\ncluster:\n  group.id: {unique}\n  kafka: {kafka}\n"
            f"  target: {{rest: 'http://{address}'}}\n",
        )
        sink("changed", "out", "first")
        assert connect(*quick).returncode == 0
        sink("changed", "out", "second")
        sink("bad", "no/out", "x")
        guard = {"lifecycle": {"prevent_delete": True}}
        sink("kept", "kept", "x", **guard)
        done = connect(*quick, "--rollback-on-failure")
        assert done.returncode == 1, done.stderr
        assert "changed: change config done" in done.stderr and "bad: delete done" in done.stderr
        assert "error[plan.protected]: kept: kept was not there before apply" in done.stderr
        assert "hint: apply its spec with prevent_delete: false" in done.stderr
        assert "Rolled back in part: apply " in done.stdout
        assert "is reverted, but for kept" in done.stdout
        verbs = ours.cluster.verbs
        assert verbs.config("changed")["db.password"] == "first"
        assert sorted(verbs.connectors()) == ["changed", "kept"]
        assert "partly rolled back by" in connect("history").stdout
        for secret in ("first", "second"):
            assert secret not in done.stdout + done.stderr


def test_a_runtime_that_is_named_as_the_target(
    ours: Ours, spec: Callable[..., DesiredConnector], broker: BrokerAddress
) -> None:
    """The trap: it is taken for Apache's workers, which repeat what they said, and times out."""
    app = create_app(
        lambda: ours.cluster.verbs, {}, cluster_id=lambda: broker.cluster_id, commit="c"
    )
    with serving(app) as address:
        choices = Choices(settle=0.5, healthy_for=0.5, health_timeout=5)
        project = RestProject(
            f"http://{address}", ours.project.group_id, ours.kafka, choices=choices
        )
        for number, change in enumerate((spec(), spec(last="20"), spec(tasks="2", last="30"))):
            project.want(change)
            report = project.apply()
            assert report.exit_code == 0, (number, report)
        project.specs = {}
        assert project.apply().exit_code == 0
