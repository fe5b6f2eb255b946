"""Runtimes of one group, of which one leads: started, ended, and asked by REST."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from support import http
from support.distributed import Runtime, start_runtime
from support.processes import Process, task_processes
from support.rig import Rig
from support.spark_cluster import SparkCluster
from support.wait import wait_until

_START_S = 120
_END_S = 60
_ASK_S = 20
# The runtime is about to know who leads, or to reach it
_BUSY = (408, 409, 500, 503)


def _as_it_is(_: Path) -> None:
    """Prepares nothing."""


@dataclass(slots=True, kw_only=True)
class Runtimes:
    """Those of a rig, with tasks on this machine or on a cluster. `settings` are of their files."""

    rig: Rig
    settings: Mapping[str, str]
    cluster: SparkCluster | None = None
    running: list[Runtime] = field(default_factory=list)
    started: int = 0

    @property
    def leader(self) -> Runtime:
        """The runtime that leads; waits for one that does."""
        return wait_until(
            lambda: next((each for each in self.running if each.leads), None),
            what="a runtime to lead",
            timeout_s=_START_S,
        )

    def start(self, kafka: str, prepare: Callable[[Path], None] = _as_it_is) -> Runtime:
        """Starts one in a new folder, which is prepared before; returns when it is healthy."""
        self.started += 1
        folder = self.rig.folder / f"runtime-{self.started}"
        folder.mkdir()
        prepare(folder)
        runtime = start_runtime(self.rig, kafka, folder, {**self.settings, **self._of_spark})
        self.running.append(runtime)
        wait_until(
            lambda: runtime.at.get("/health"), what="a runtime to be healthy", timeout_s=_START_S
        )
        return runtime

    def ended(self, runtime: Runtime, *, code: int) -> None:
        """Waits for the end of a runtime, and of all that it started."""
        assert runtime.command.wait(_END_S) == code
        wait_until(lambda: not runtime.processes, what="its processes to be gone")
        self.running.remove(runtime)

    @property
    def _of_spark(self) -> dict[str, str]:
        if self.cluster is None:
            return {}
        return {"spark.master": self.cluster.url} | self.cluster.settings

    @property
    def tasks(self) -> list[Process]:
        """The processes of the leader's tasks, or of all that the cluster runs."""
        if self.cluster is None:
            return self.leader.tasks
        return task_processes(self.cluster.processes())

    def assert_alive(self) -> None:
        """No runtime has ended by itself."""
        for each in self.running:
            code = each.command.poll()
            assert code is None, f"ended with {code}:\n{each.last_words()}"

    @property
    def logged(self) -> int:
        """How many bytes the runtimes have written to their logs."""
        return sum(file.stat().st_size for file in self.rig.folder.rglob("runtime-*/**/*.log"))

    def health(self, runtime: Runtime) -> int:
        """What GET /health of a runtime answers; 0 if it does not."""
        try:
            return http.get(f"{runtime.at.url}/health", timeout=5).status_code
        except httpx.TransportError:
            return 0

    # --- REST ---

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What the leader answers; waits for one that answers."""

        def answered() -> httpx.Response | None:
            try:
                answer = http.request(
                    method, f"{self.leader.at.url}{path}", json=body, timeout=_ASK_S
                )
            except httpx.TransportError:
                return None
            return answer if answer.status_code not in _BUSY else None

        found = wait_until(answered, what=f"{method} {path}", timeout_s=_START_S, every_s=0.5)
        assert found.is_success, found.text
        return found.json() if found.content else None

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Creates a connector, of one task unless its config says otherwise, or gives it another
        config."""
        self.ask("PUT", f"/connectors/{name}/config", {"tasks.max": "1", **config})

    def delete(self, *names: str) -> None:
        """Deletes connectors; returns when nothing is known of them any more."""
        for name in names:
            self.ask("DELETE", f"/connectors/{name}")
        wait_until(
            lambda: not set(names) & {*self.ask("GET", "/connectors?expand=status")},
            what="connectors to be gone",
            timeout_s=_END_S,
        )

    def state_of(self, connector: str) -> str:
        """The state of a connector and of its tasks, such as `RUNNING/RUNNING`; empty while there
        is none."""
        found = self.ask("GET", "/connectors?expand=status").get(connector)
        if found is None:
            return ""
        status = found["status"]
        return "/".join([status["connector"]["state"], *(t["state"] for t in status["tasks"])])

    def statuses(self, names: Iterable[str]) -> list[Any]:
        """The statuses of connectors, as REST tells them; without tasks where there is none yet."""
        found = self.ask("GET", "/connectors?expand=status")
        return [found.get(name, {"status": {"tasks": []}})["status"] for name in names]
