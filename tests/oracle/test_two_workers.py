"""A Connect cluster of two real workers: either takes requests, and one of them follows late.

Workers pass writes on to their leader, answer reads from what they have read so far, and refuse
requests with 409 or 500 while they rebalance.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from connect_specs.desired import TargetState
from connect_specs.diagnostics import Stale
from support import http
from support.balancing import Balancer, balancing
from support.broker import BrokerAddress
from support.oracle import Oracle
from support.rest_project import RestProject, pin_at, sink
from support.wait import wait_until

pytestmark = pytest.mark.oracle

PAUSED, STOPPED = TargetState.PAUSED, TargetState.STOPPED


@dataclass(frozen=True)
class Workers:
    """Two workers of one group, and how to start one more."""

    group_id: str
    urls: tuple[str, str]
    bootstrap_servers: str

    def one_more(self, folder: Path) -> Oracle:
        return Oracle.start(folder, self.bootstrap_servers, group_id=self.group_id)


@pytest.fixture(scope="module")
def workers(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    group_id = f"two-{secrets.token_hex(4)}"
    started: list[Oracle] = []
    try:
        for name in ("first", "second"):
            folder = tmp_path_factory.mktemp(name)
            started.append(Oracle.start(folder, broker.bootstrap_servers, group_id=group_id))
        first, second = (each.url for each in started)
        yield Workers(group_id, (first, second), broker.bootstrap_servers)
    finally:
        for each in started:
            each.kill()


@pytest.fixture
def balancer(workers: Workers) -> Iterator[Balancer]:
    with balancing(workers.urls) as found:
        yield found


def project_at(url: str, workers: Workers, kafka: str) -> RestProject:
    client = {"bootstrap.servers": workers.bootstrap_servers} if kafka == "kafka" else {}
    return RestProject(url, workers.group_id, client, name=f"orders-{secrets.token_hex(4)}")


def change_everything(project: RestProject, topic: str, out: Path) -> None:
    """Creates a connector, changes its config and state, moves its offsets and deletes it."""
    spec = sink(topic, out, topic)
    project.want(spec)
    project.settle()
    wait_until(lambda: project.offsets(topic), what="committed offsets")
    project.want(replace(sink(topic, out, topic, **{"tasks.max": "1"}), state=PAUSED))
    project.settle()
    pinned = replace(spec, state=STOPPED, pin=pin_at("back", topic, 3))
    project.want(pinned)
    project.settle()
    assert project.offsets(topic) == pinned.pin.set  # type: ignore[union-attr]
    project.specs = {}
    project.settle()


@pytest.mark.long
@pytest.mark.parametrize(("asked", "kafka"), [(0, "kafka"), (1, "rest-alone")])
def test_each_worker_passes_writes_on_to_the_leader(
    workers: Workers, topic: str, tmp_path: Path, asked: int, kafka: str
) -> None:
    """Only one of the two leads; what the other one is asked for takes place all the same."""
    change_everything(project_at(workers.urls[asked], workers, kafka), topic, tmp_path / "out.txt")
    other = http.get(f"{workers.urls[1 - asked]}/connectors/{topic}", timeout=30)
    assert other.status_code in (404, 500)


@pytest.mark.long
@pytest.mark.parametrize("kafka", ["kafka", "rest-alone"])
def test_a_worker_that_follows_late_is_waited_for(
    workers: Workers, balancer: Balancer, topic: str, tmp_path: Path, kafka: str
) -> None:
    """The trap: a write is accepted by one worker, and the next request goes to another one that
    has not read it yet. Nothing fails, nothing is done twice, and nothing is left to do."""
    change_everything(project_at(balancer.url, workers, kafka), topic, tmp_path / "out.txt")
    for worker in workers.urls:
        assert balancer.changes(worker), "every request went to the other worker"
    creations = [each for each in balancer.passed if each.method == "POST" and each.status == 201]
    assert len(creations) == 1


def settle_again(project: RestProject) -> None:
    """Applies until nothing is left, as a user does who is told that the plan is stale: while a
    worker is gone, statuses do not tell what was asked of a connector."""

    def settled() -> bool:
        try:
            return project.apply().exit_code == 0 and project.plan().empty
        except Stale:
            return False

    wait_until(settled, what="an apply that leaves nothing to do", timeout_s=90)


@pytest.mark.long
def test_refusals_while_workers_join_and_leave_are_waited_out(
    workers: Workers, balancer: Balancer, unique: str, tmp_path: Path
) -> None:
    """A third worker joins and leaves during the applies, and each of many creations rebalances the
    workers: some requests are refused with 409 or 500, and every change takes place."""
    project = project_at(balancer.url, workers, "rest-alone")
    specs = [sink(f"{unique}-{n}", tmp_path / f"{n}.txt", unique) for n in range(12)]
    third: list[Oracle] = []

    def join() -> None:
        third.append(workers.one_more(tmp_path / "third"))

    joining = threading.Thread(target=join)
    joining.start()
    try:
        project.want(*(replace(spec, state=PAUSED) for spec in specs))
        settle_again(project)
        joining.join(90)
        leaving = threading.Thread(target=third[0].kill)
        leaving.start()
        project.want(*(replace(spec, state=STOPPED) for spec in specs))
        settle_again(project)
        leaving.join(30)
        project.specs = {}
        settle_again(project)
    finally:
        joining.join(90)
        for each in third:
            each.kill()
    assert [each for each in balancer.passed if each.rebalancing], "no request was refused"
    left = http.get(f"{workers.urls[0]}/connectors", timeout=30).json()
    assert not [name for name in left if name.startswith(unique)]
