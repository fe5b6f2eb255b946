"""How often is a cluster asked over REST alone for a plan, and does what is not asked matter?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from connect_reconciler.backend.observe import rest
from connect_reconciler.backend.observe.plugin_facts import (
    SpecSecrets,
    with_statuses,
    without_secrets,
)
from connect_reconciler.backend.observe.rest import observe_rest
from connect_reconciler.backend.plugins import InstalledDefinitions
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.drift.compare import compare
from connect_reconciler.drift.model import LiveWithHistory
from connect_reconciler.ledger.config_entry import Entry, dump_entry
from connect_reconciler.model.config_values import LEDGER_KEY
from connect_reconciler.model.ledger import AppliedPin, Owned
from connect_reconciler.model.live import Live
from connect_reconciler.plan.consequences.explain import RULES
from connect_reconciler.plan.planner import make_plan
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State
from connect_runtime.traces import own_jvm_trace
from connect_specs.desired import (
    Desired,
    DesiredConnector,
    OffsetEntry,
    Pin,
    RestTarget,
    TargetState,
    content_hash,
)
from connect_specs.diagnostics import Location
from connect_specs.plugin_definitions import PluginSet
from support.applying import desired_of
from support.fake_worker import FakeWorker, Stored

TARGET = RestTarget("http://connect.test")
AT = OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7})
PIN = Pin("back", (AT,))


def spec(name: str, **more: Any) -> DesiredConnector:
    config = {"name": name, "connector.class": "FileStreamSink", "file": "x", "topics": "t"}
    return replace(DesiredConnector(name, config, Location(f"{name}.yaml")), **more)


def stored(wanted: DesiredConnector, *, pin: AppliedPin | None = None) -> Stored:
    """As an apply over REST alone leaves it: its ledger entry in its config."""
    pins = {} if pin is None else {"back": pin}
    entry = dump_entry(Entry(Owned("orders", dict(wanted.config), None), pins))
    target = wanted.state or TargetState.RUNNING
    return Stored({**wanted.config, LEDGER_KEY: entry}, target)


def worker_with(*connectors: Stored) -> FakeWorker:
    worker = FakeWorker(connectors={each.config["name"]: each for each in connectors})
    for name in worker.connectors:
        worker.set_offsets(name, [{"partition": AT.partition, "offset": {"kafka_offset": 100}}])
    return worker


def look(worker: FakeWorker, desired: Desired) -> Live:
    with RestClient(TARGET, transport=worker.transport) as client:
        return observe_rest(
            desired, client, now_ms=lambda: 0, fingerprint_key=None, plugins=InstalledDefinitions()
        )


def test_300_connectors_take_three_calls() -> None:
    """The trap: one call for each connector's offsets, of which the plan looks at none."""
    specs = [spec(f"c{number}") for number in range(300)]
    worker, desired = worker_with(*map(stored, specs)), desired_of(*specs)
    assert make_plan(desired, look(worker, desired), group_id="g").empty
    assert sorted(worker.reads) == ["/", "/connectors", "/connectors?expand=info&expand=status"]


def test_connectors_without_a_status_take_two_calls_more() -> None:
    """A worker that has just started tells none, and leaves them out of the expanded list."""
    specs = [spec(f"c{number}") for number in range(300)]
    worker, desired = worker_with(*map(stored, specs)), desired_of(*specs)
    worker.silent = len(worker.connectors)
    assert make_plan(desired, look(worker, desired), group_id="g").empty
    assert len(worker.reads) == 5, worker.reads


def test_offsets_are_read_where_a_plan_looks_at_them() -> None:
    same, moved, pinned = spec("a"), spec("b"), spec("c", pin=PIN)
    worker = worker_with(stored(same), stored(moved), stored(pinned))
    wanted = replace(moved, config={**moved.config, "topics": "t,u"})
    look(worker, desired_of(same, wanted, pinned))
    asked = [each for each in worker.reads if each.endswith("/offsets")]
    assert sorted(asked) == ["/connectors/b/offsets", "/connectors/c/offsets"]


def changed_keys() -> Iterator[tuple[str, str, str]]:
    """A key of each rule, with a kind and a class that it is about."""
    for rule in RULES:
        kind = rule.kind or "sink"
        class_name = rule.classes.split()[0].replace("*", f"FileStream{kind.title()}")
        for glob in rule.keys.split():
            yield glob.replace("*", "x"), kind, class_name


def variants() -> Iterator[tuple[str, Stored, DesiredConnector]]:
    """A connector as it is, and as it is to be."""
    for key, kind, class_name in changed_keys():
        topics = "topics" if kind == "sink" else "topic"
        config = {"name": "a", "connector.class": class_name, topics: "t"}
        base = DesiredConnector("a", config, Location("a.yaml"))
        for value in ("u", "t,u", "false"):
            then = replace(base, config={**config, key: "t", "name": "a"})
            now = replace(base, config={**config, key: value, "name": "a"})
            yield f"{key}={value} of {class_name}", stored(then), now
            yield f"new {key}={value} of {class_name}", stored(base), now
    held = AppliedPin(content_hash(PIN), (AT,), held=True)
    base, stopped = spec("a"), TargetState.STOPPED
    yield "the same", stored(base), base
    yield "a new pin", stored(base), replace(base, pin=PIN)
    yield "a reset", stored(base), replace(base, pin=Pin("back", reset=True))
    yield "an applied pin", stored(base, pin=replace(held, held=False)), replace(base, pin=PIN)
    still = replace(base, pin=PIN, state=stopped)
    yield "a held pin", stored(still, pin=held), still
    yield "a held pin that runs on", stored(still, pin=held), replace(base, pin=PIN)
    yield "a held pin that is gone", stored(still, pin=held), replace(base, state=stopped)
    yield "a rename", stored(spec("b")), replace(base, renamed_from="b")
    yield "a delete", stored(spec("b")), base
    yield "another state", stored(base), replace(base, state=stopped)
    yield "nobody's", Stored(dict(base.config), TargetState.RUNNING), base


@pytest.mark.long
def test_what_is_not_read_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same plan and the same drift as with the offsets of all connectors."""
    unread = 0
    for label, there, wanted in variants():
        worker, desired = worker_with(there), desired_of(wanted)
        name = there.config["name"]
        on_u = {"kafka_topic": "u", "kafka_partition": 0}
        worker.set_offsets(name, [{"partition": on_u, "offset": {"kafka_offset": 1}}])
        few = look(worker, desired)
        with monkeypatch.context() as patch:
            patch.setattr(rest, "offsets_needed", lambda desired, found, ledger: {*found})
            every = look(worker, desired)
        assert every.connectors[name].offsets
        unread += not few.connectors[name].offsets
        plans = [make_plan(desired, live, group_id="g") for live in (few, every)]
        assert plans[0] == plans[1], label
        assert compare(desired, LiveWithHistory(few)) == compare(desired, LiveWithHistory(every)), (
            label
        )
    assert unread > 100


def test_each_reason_of_failed_tasks_is_shown_once_without_secrets() -> None:
    """Over REST and from topics alike, what the spec calls sensitive is redacted."""
    wanted = spec("a", sensitive=("file",))
    wanted = replace(wanted, config={**wanted.config, "file": "hunter2"})
    live = look(worker_with(stored(wanted)), desired_of(wanted))
    runs = InstanceStatus(State.RUNNING, "w", "of an earlier attempt")
    trace = "org.apache.kafka.X: no\nCaused by: java.io.IOException: no hunter2 here\n\tat x"
    failed = InstanceStatus(State.FAILED, "w", trace)
    other = replace(failed, trace="org.apache.kafka.Y: full")
    statuses = {"a": (runs, [failed, other, failed])}
    found = with_statuses(live, statuses, desired_of(wanted), PluginSet()).connectors["a"]
    assert (found.state, found.task_states) == ("RUNNING", ("FAILED",) * 3)
    assert found.failure == "IOException: no (hidden) here; Y: full"
    assert live.connectors["a"].failure == ""


def test_the_error_of_a_connector_that_runs_is_no_failure_and_shown_without_secrets() -> None:
    wanted = spec("a", sensitive=("file",))
    wanted = replace(wanted, config={**wanted.config, "file": "hunter2"})
    live = look(worker_with(stored(wanted)), desired_of(wanted))
    runs = InstanceStatus(State.RUNNING, "w", "org.apache.kafka.X: no hunter2 here")
    waits = InstanceStatus(State.UNASSIGNED, "w", "it waits for a slot")
    found = with_statuses(live, {"a": (runs, [waits])}, desired_of(wanted), PluginSet())
    connector = found.connectors["a"]
    assert (connector.error, connector.failure) == ("X: no (hidden) here", "")


def test_a_task_that_has_a_jvm_of_its_own_runs_without_an_error() -> None:
    wanted = spec("a")
    live = look(worker_with(stored(wanted)), desired_of(wanted))
    runs = InstanceStatus(State.RUNNING, "w")
    alone = InstanceStatus(State.RUNNING, "w", own_jvm_trace("exit code 7\nCaused by: earlier"))
    found = with_statuses(live, {"a": (runs, [alone])}, desired_of(wanted), PluginSet())
    assert (found.connectors["a"].error, found.connectors["a"].failure) == ("", "")


class Counted(dict[str, str]):
    """A task's config that counts how often it is searched for secrets."""

    searched = 0

    def items(self) -> Any:
        self.searched += 1
        return super().items()


def test_many_failed_tasks_cost_little_and_are_shown_in_a_line() -> None:
    """The trap: each of many traces is redacted with the configs of all tasks."""
    wanted = spec("a", sensitive=("file",))
    live = look(worker_with(stored(wanted)), desired_of(wanted))
    configs = [Counted({"file": "hunter2", "task.id": str(task)}) for task in range(300)]
    traces = [f"org.apache.kafka.X: task {task} has hunter2" for task in range(300)]
    statuses = {"a": (None, [InstanceStatus(State.FAILED, "w", trace) for trace in traces])}
    found = with_statuses(live, statuses, desired_of(wanted), PluginSet(), lambda name: configs)
    shown = "; ".join(f"X: task {task} has (hidden)" for task in range(5))
    assert found.connectors["a"].failure == f"{shown}; and 295 more"
    assert {each.searched for each in configs} == {1}


def test_a_status_of_many_failed_tasks_is_redacted_at_once() -> None:
    configs = [Counted({"file": "hunter2", "task.id": str(task)}) for task in range(300)]
    failed = InstanceStatus(State.FAILED, "w", "X: no hunter2")
    status = ConnectorStatus("a", failed, dict.fromkeys(range(300), failed), "sink")
    found = without_secrets(
        status, configs, InstalledDefinitions(), SpecSecrets(lambda name: ("file",))
    )
    assert {each.trace for each in (found.connector, *found.tasks.values())} == {"X: no (hidden)"}
    assert max(each.searched for each in configs) < 5


def test_a_reason_is_without_values_that_the_cluster_masks() -> None:
    """Whoever looks without the project's key cannot see through a mask, but knows the spec."""
    wanted = replace(spec("a"), config={**spec("a").config, "db.password": "hunter2"})
    masked = Stored({**wanted.config, "db.password": "****"}, TargetState.RUNNING)
    live = look(worker_with(masked), desired_of(wanted))
    hidden = replace(live.connectors["a"], config=masked.config)
    live = replace(live, connectors={"a": hidden})
    failed = InstanceStatus(State.FAILED, "w", "IOException: no hunter2 here")
    found = with_statuses(live, {"a": (failed, [])}, desired_of(wanted), PluginSet())
    assert found.connectors["a"].failure == "IOException: no (hidden) here"
