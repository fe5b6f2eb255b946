"""What the doctor says of Java plugins, of a runtime and before one starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.doctor.java import missing_rights, problems_here
from connect_reconciler.doctor.look import _runtime_problem
from connect_runtime.storage.snapshots import ConnectorState
from support.broker import BrokerAddress
from support.guarded_broker import PASSWORD, GuardedBroker, binding
from support.projects import project_of

USER = "reader"


class Runtime:
    def __init__(self, **body: Any) -> None:
        self.body = body

    def read(self, path: str, shape: object) -> Mapping[str, Any]:
        return self.body


def test_plugins_that_a_runtime_cannot_use_are_named() -> None:
    of_runtime = Runtime(problem=None, plugin_problems=["a.jar is not a jar that can be read"])
    (finding,) = _runtime_problem(of_runtime, "http://a")  # type: ignore[arg-type]
    assert (finding.code, finding.severity) == ("doctor.java-plugin", "warning")
    assert finding.what == "a.jar is not a jar that can be read"
    assert not [*_runtime_problem(Runtime(problem=None), "http://a")]  # type: ignore[arg-type]


def test_tasks_that_have_ended_their_jvm_are_named() -> None:
    runtime = Runtime(problem=None, own_jvms=[{"connector": "orders", "task": 2}])
    (finding,) = _runtime_problem(runtime, "http://a")  # type: ignore[arg-type]
    assert (finding.code, finding.severity) == ("doctor.own-jvm", "warning")
    assert finding.where == "orders"
    assert finding.what.startswith("task 2 has ended its JVM")


@pytest.mark.long
def test_plugins_that_no_runtime_could_use_are_named(broker: BrokerAddress, tmp_path: Path) -> None:
    bad = tmp_path / "plugins" / "bad" / "bad.jar"
    bad.parent.mkdir(parents=True)
    bad.write_bytes(b"no jar")
    client = {"bootstrap.servers": broker.bootstrap_servers}
    worker = {"plugin.path": str(bad.parents[1])}
    findings = [*problems_here(project_of(kafka=client, worker=worker), client)]
    assert findings[0].what.startswith(f"{bad} is not a jar that can be read")
    assert {finding.code for finding in findings} == {"doctor.java-plugin"}
    nothing = project_of(kafka=client, worker={"plugin.path": str(tmp_path / "none")})
    assert not [*problems_here(nothing, client)]


@pytest.mark.long
def test_rights_that_a_source_will_lack_are_named(guarded: GuardedBroker, unique: str) -> None:
    """Of each of its clients with a login of its own, and nothing of one that has them. For
    connectors in Python alone no JVM starts, and nothing is asked."""
    client = {"bootstrap.servers": guarded.open["bootstrap.servers"]}
    login = guarded.client(USER)

    def overrides(kind: str) -> dict[str, str]:
        return {f"{kind}.override.{key}": value for key, value in login.items()}

    tasks = ({}, {})
    source = "org.example.Source"
    states = [
        ConnectorState(f"{unique}-a", {"connector.class": source, **overrides("producer")}),
        ConnectorState(f"{unique}-b", {"connector.class": source, **overrides("admin")}),
        ConnectorState(
            f"{unique}-c", {"connector.class": source, **overrides("producer")}, task_configs=tasks
        ),
        ConnectorState(f"{unique}-d", {"connector.class": source}),
    ]
    right = binding(USER, "TRANSACTIONAL_ID", f"g-{unique}-a-0", "WRITE")
    guarded.set_rights([right])
    try:
        findings = [*missing_rights(project_of(kafka=client), client, states)]
        in_python = [
            replace(state, config={**state.config, "connector.class": name})
            for state in states
            for name in ("FileStreamSource", "acme.sources:Source")
        ]
        assert not [*missing_rights(project_of(kafka=client), client, in_python)]
    finally:
        guarded.take_rights([right])
    assert [(finding.code, finding.what) for finding in findings] == [
        (
            "doctor.transactional-id",
            f"the producer of {unique}-c lacks Write on g-{unique}-c-0, g-{unique}-c-1",
        )
    ]
    assert PASSWORD not in str(findings)
    disabled = project_of(kafka=client, worker={"exactly.once.source.support": "disabled"})
    assert not [*missing_rights(disabled, client, states)]
