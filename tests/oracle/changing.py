"""A real connector in our runtime whose spec changes: the plan's words, and what follows.

A change is applied while the connector is stopped, so that what comes before, during and after it
is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connect_reconciler.actions import UpdateConfig
from connect_reconciler.apply.report import Outcome
from connect_specs.desired import DesiredConnector, Pin, TargetState
from connect_specs.diagnostics import Location
from support import http
from support.connect_jars import add_plugin
from support.distributed import start_runtime
from support.rest_project import RestProject
from support.rig import Rig
from support.wait import wait_until

START_S = 180
JSON = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of config keys; NAME stands for the connector's name, and None for no such key.

    `said` are words that the plan says of the first key, with its `consequence`. `then` are what
    arrives from then on, or words of the task's trace. `before` are further keys from the start;
    `ahead` is SQL that is run while it still runs.
    """

    changes: Mapping[str, str | None]
    said: str
    then: Sequence[Any] | str
    consequence: str = "restart"
    before: Mapping[str, str] = field(default_factory=dict)
    ahead: str = ""


@dataclass(frozen=True, slots=True)
class Changing:
    """Our runtime with plugins, and a project that has one connector at a time."""

    url: str
    project: RestProject

    def apply(
        self, name: str, config: Mapping[str, Any], pin: Pin | None = None, old: str = ""
    ) -> None:
        """Applies the config, which need not become healthy."""
        self.project.specs = {}
        spec = DesiredConnector(
            name,
            {
                key: value.replace("NAME", name)
                for key, value in config.items()
                if value is not None
            },
            Location(f"{name}.yaml"),
            state=TargetState.RUNNING,
            pin=pin,
            renamed_from=old or None,
        )
        self.project.want(spec)
        report = self.project.apply()
        results = [result for connector in report.connectors for result in connector.results]
        assert {result.outcome for result in results} <= {Outcome.DONE}, report

    def said(self, name: str, config: Mapping[str, Any], key: str) -> tuple[str, str]:
        """Returns the consequence of the change of a key, and all words of that to this config."""
        texts = {k: v.replace("NAME", name) for k, v in config.items() if v is not None}
        spec = DesiredConnector(name, texts, Location(f"{name}.yaml"), state=TargetState.RUNNING)
        self.project.want(spec)
        (update,) = (a for a in self.project.plan().actions if isinstance(a, UpdateConfig))
        (change,) = (change for change in update.changes if change.key == key)
        return change.consequence, "\n".join(update.effects)

    def status(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = http.get(
            f"{self.url}/connectors/{name}/status", timeout=60
        ).json()
        return found

    def trace(self, name: str) -> str:
        """Returns the trace of a task that has failed; empty if none has."""
        tasks = self.status(name).get("tasks", [])
        return next((task["trace"] for task in tasks if task["state"] == "FAILED"), "")

    def stop(self, name: str) -> None:
        assert http.put(f"{self.url}/connectors/{name}/stop", timeout=90).is_success
        wait_until(lambda: not self.status(name)["tasks"], what=f"{name} to stop", timeout_s=90)

    def delete_all(self) -> None:
        self.project.specs = {}
        self.project.apply()

    def wait_for(
        self, name: str, expected: Sequence[Any] | str, arrived: Callable[[], Any]
    ) -> None:
        """Waits until so much has arrived, or the task has failed; either must be as expected."""

        def over() -> bool:
            if isinstance(expected, str):
                return bool(self.trace(name))
            return len(arrived()) >= len(expected) or bool(self.trace(name))

        try:
            wait_until(over, what=f"{name}: {expected}", timeout_s=90)
        except AssertionError as error:
            raise AssertionError(f"{error}; it has {arrived()}, {self.status(name)}") from None
        if isinstance(expected, str):
            assert expected in self.trace(name)
        else:
            assert (arrived(), self.trace(name)) == (expected, "")

    def wait_until_equal(
        self, name: str, expected: Sequence[Any] | str, arrived: Callable[[], Any]
    ) -> None:
        """Waits for exactly this, which may come and go on the way; or for the task's failure."""
        if isinstance(expected, str):
            self.wait_for(name, expected, list)
            return
        wait_until(
            lambda: arrived() == expected or bool(self.trace(name)),
            what=f"{name}: {expected}",
            timeout_s=90,
        )
        assert (arrived(), self.trace(name)) == (expected, "")


@contextmanager
def changing(folder: Path, kafka: str, plugins: Sequence[str]) -> Iterator[Changing]:
    """A runtime of its own with these plugins."""
    for name in plugins:
        add_plugin(name, folder / "plugins")
    rig = Rig(folder / "rig")
    settings = {
        "plugin.path": str(folder / "plugins"),
        "plugin.discovery": "service_load",
        "key.converter": JSON,
        "value.converter": JSON,
    }
    ours = start_runtime(rig, kafka, folder, settings)
    wait_until(lambda: ours.at.get("/connectors") == [], what="the runtime", timeout_s=START_S)
    project = RestProject(ours.at.url, rig.name, {"bootstrap.servers": kafka}, name=rig.name)
    yield Changing(ours.at.url, project)
    ours.command.terminate()
    ours.command.wait(60)
    assert rig.end() == []
