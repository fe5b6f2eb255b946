"""When what failed is restarted, and what is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import cast

import httpx
import pytest

from connect_reconciler.backend.backend import Backend
from connect_reconciler.backend.http import HttpCluster
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.cli.verbs import restart as verb
from connect_reconciler.cli.verbs.restart import Tried, failed_parts, next_try
from connect_reconciler.plan.scope import Scope
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import State
from connect_specs.desired import RestTarget, TargetState
from connect_specs.diagnostics import Failed, Unreachable
from connect_specs.project import load_project
from support.fake_worker import FakeWorker, Stored


def status(connector: State, *tasks: State) -> ConnectorStatus:
    parts: Mapping[int, InstanceStatus] = {
        number: InstanceStatus(state, "w") for number, state in enumerate(tasks)
    }
    return ConnectorStatus("a", InstanceStatus(connector, "w"), parts, "source")


@pytest.mark.parametrize(
    ("found", "parts"),
    [
        (None, ()),
        (status(State.RUNNING, State.RUNNING), ()),
        (status(State.RUNNING, State.FAILED, State.RUNNING, State.FAILED), ("task 0", "task 2")),
        (status(State.FAILED), ("connector",)),
        (status(State.PAUSED, State.FAILED), ()),
        (status(State.STOPPED), ()),
        (status(State.RUNNING, State.UNASSIGNED), ()),
    ],
)
def test_what_failed_and_should_run(found: ConnectorStatus | None, parts: tuple[str, ...]) -> None:
    assert failed_parts(found) == parts


def test_pauses_double_up_to_an_hour() -> None:
    tried: Tried | None = None
    restarts = []
    for now in range(0, 5 * 3600, 10):
        tried, restart = next_try(tried, failed=True, now=now)
        if restart:
            restarts.append(now)
    pauses = [after - before for before, after in pairwise(restarts)]
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_what_stayed_up_starts_from_new() -> None:
    tried, _ = next_try(Tried(5, at=0), failed=False, now=959)
    assert tried == Tried(5, at=0)
    tried, restart = next_try(tried, failed=False, now=960)
    assert (tried, restart) == (None, False)
    assert next_try(None, failed=True, now=961) == (Tried(1, at=961), True)


def test_what_is_up_for_a_moment_is_no_reason_to_hurry() -> None:
    tried, restart = next_try(Tried(3, at=0), failed=True, now=239)
    assert (tried, restart) == (Tried(3, at=0), False)
    assert next_try(tried, failed=True, now=240) == (Tried(4, at=240), True)


def test_a_stopped_connector_is_not_said_to_be_restarted() -> None:
    worker = FakeWorker()
    worker.connectors["a"] = Stored({"name": "a"}, TargetState.STOPPED, with_tasks=False)
    client = RestClient(RestTarget("http://connect.test"), transport=worker.transport)
    with closing(HttpCluster(client)) as cluster:
        with pytest.raises(Failed, match="a is stopped: nothing of it runs"):
            verb._restart("a", cluster)
        assert worker.asked == []
        cluster.set_target("a", TargetState.RUNNING)
        verb._restart("a", cluster)
    assert worker.asked[1:] == ["POST /connectors/a/restart"]


class Leaving(httpx.MockTransport):
    """A cluster that is gone after so many restarts."""

    def __init__(self, worker: FakeWorker, restarts: int) -> None:
        super().__init__(worker.transport.handler)
        self._worker, self._restarts = worker, restarts

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if len(self._worker.asked) >= self._restarts:
            raise httpx.ConnectError("gone", request=request)
        return super().handle_request(request)


def look(folder: Path, transport: httpx.MockTransport) -> verb._Look:
    """One look of `restart --failed` at a cluster, for specs of `a` and `b`."""
    file = folder / "connect.yaml"
    file.write_text("project: p\ncluster: {group.id: g, target: {rest: 'http://connect.test'}}\n")
    (folder / "connectors").mkdir()
    for name in ("a", "b"):
        spec = f"name: {name}\nconfig: {{connector.class: X}}\n"
        (folder / "connectors" / f"{name}.yaml").write_text(spec)

    class Reached:
        project = load_project(file)
        rest = staticmethod(
            lambda: RestClient(RestTarget("http://connect.test"), transport=transport)
        )

    return verb._look(cast(Backend, Reached()), Scope(), {})


def failing(*names: str) -> FakeWorker:
    worker = FakeWorker()
    for name in names:
        worker.connectors[name] = Stored({"name": name}, TargetState.RUNNING, "FAILED")
    return worker


def test_what_was_restarted_is_told_although_the_cluster_is_gone_then(tmp_path: Path) -> None:
    """The trap: one is restarted, and the error of the next one is all that is said."""
    found = look(tmp_path, Leaving(failing("a", "b"), 1))
    assert found.restarted == {"a": ("connector", "task 0")}
    assert found.refused.keys() == {"b"}
    assert "cannot be reached" in found.refused["b"]


def test_a_cluster_that_is_gone_before_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        look(tmp_path, Leaving(failing("a", "b"), 0))


def test_a_connector_that_was_deleted_is_not_one_that_did_not_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = look(tmp_path, failing("a").transport)
    assert (found.restarted.keys(), found.missing) == ({"a"}, ["b"])
    verb._show(found, once=True, as_json=False)
    assert (
        "not on the cluster: b (`connect apply` creates what is missing)" in capsys.readouterr().err
    )
