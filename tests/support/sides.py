"""An Apache worker and ours, which are asked the same over REST."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from support import http
from support.distributed import Runtime, start_runtime
from support.oracle import Oracle
from support.rig import Rig
from support.wait import wait_until

START_S = 240


@dataclass(frozen=True, slots=True)
class Side:
    """A worker with its own connectors, whose names and topics begin with `name`; `runtime` if it
    is ours."""

    url: str
    name: str
    runtime: Runtime | None = None

    def __call__(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Repeats what a rebalance turns away, and tasks that have not stopped yet."""

        def answer() -> httpx.Response | None:
            found = http.request(method, f"{self.url}{path}", json=body, timeout=90)
            again = found.status_code == 409 or "haven't stopped completely" in found.text
            return None if again else found

        found = wait_until(answer, what=f"{method} {path}", timeout_s=START_S)
        assert found is not None
        return found

    def neutral(self, answer: httpx.Response) -> tuple[int, Any]:
        """Returns the status and the body, without the names of this side."""
        text = answer.text.replace(self.name, "SIDE")
        body = json.loads(text) if text else None
        if isinstance(body, dict) and "offsets" in body:  # Apache's are in the order of a hash map
            body["offsets"].sort(key=partial(json.dumps, sort_keys=True))
        return answer.status_code, body

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Creates or changes a connector."""
        answer = self("PUT", f"/connectors/{name}/config", dict(config))
        assert answer.is_success, answer.text

    def wait_for(self, name: str, *states: str) -> None:
        """Until the connector and its tasks are in these states; no task may fail meanwhile."""

        def reached() -> bool:
            found = http.get(f"{self.url}/connectors/{name}/status", timeout=60)
            if not found.is_success:
                return False
            status = found.json()
            tasks = [task["state"] for task in status["tasks"]]
            assert "FAILED" not in tasks or "FAILED" in states, status
            return [status["connector"]["state"], *tasks] == list(states)

        wait_until(reached, what=f"{name} to be {states}", timeout_s=START_S)


@contextmanager
def two_workers(
    folder: Path, names: tuple[str, str], kafka: str, settings: Mapping[str, str]
) -> Iterator[tuple[Side, Side]]:
    """Apache's, then ours, with these names of groups and worker properties, each in a folder of
    its name."""
    apache = Oracle.start(folder / names[0], kafka, group_id=names[0], settings=settings)
    rig = Rig(folder / names[1], name=names[1])
    try:
        ours = start_runtime(rig, kafka, folder / names[1], settings)
        try:
            wait_until(lambda: ours.at.get("/connectors") == [], what="ours", timeout_s=START_S)
            yield Side(apache.url, names[0]), Side(ours.at.url, names[1], ours)
        finally:
            ours.command.terminate()
            ours.command.wait(60)
    finally:
        apache.kill()
        assert rig.end() == []
