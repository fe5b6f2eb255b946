"""What an apply asks for and finds done: by somebody else, or by a request that seemed to fail."""

from __future__ import annotations

import pytest

from connect_reconciler.apply.report import Outcome
from connect_reconciler.cluster.port import OutcomeUnknown
from connect_reconciler.ledger.topic import owned_record
from connect_reconciler.plan.live import Owned
from connect_specs.diagnostics import Diagnostic, ExitCode
from connect_specs.states import TargetState
from support.applying import Applying, desired_of
from support.fake_cluster import TOPICS, FakeCluster, refused

CONFIG = {"name": "a", "connector.class": "FileStreamSink", "topics": "t"}


@pytest.fixture
def world() -> Applying:
    """A connector of ours that no spec names any more."""
    made = Applying(key=b"key")
    made.kafka.create_topics()
    FakeCluster(made.kafka).create("a", CONFIG, TargetState.RUNNING)
    made.kafka.logs.writer("setup").write(
        [owned_record(TOPICS.ledger, "a", Owned("orders", CONFIG, None))]
    )
    return made


def test_404_on_delete_is_done(world: Applying) -> None:
    """The trap: what another one deleted a moment before fails, and is mended by hand."""
    cluster = FakeCluster(world.kafka)

    def late(name: str) -> None:
        FakeCluster.delete(cluster, name)
        raise refused(f"Connector {name} not found", 404)

    cluster.delete = late  # type: ignore[method-assign]
    report = world.apply(desired_of(), cluster=cluster)
    assert report.exit_code is ExitCode.OK
    assert world.ledger().connectors == {}


@pytest.mark.parametrize("took_place", [True, False])
def test_a_delete_that_timed_out_is_read_again(world: Applying, took_place: bool) -> None:
    """The trap: a timeout is taken for a failure, although the change is live."""
    cluster = FakeCluster(world.kafka)

    def silent(name: str) -> None:
        if took_place:
            FakeCluster.delete(cluster, name)
        raise OutcomeUnknown(Diagnostic("cluster.no-answer", "no answer came"))

    cluster.delete = silent  # type: ignore[method-assign]
    report = world.apply(desired_of(), cluster=cluster)
    expected = Outcome.DONE if took_place else Outcome.UNKNOWN
    assert [each.outcome for each in report.connectors[0].results] == [expected]
    assert ("a" in world.ledger().connectors) is not took_place


def test_connects_own_timeout_is_read_again_too(world: Applying) -> None:
    """The trap: Connect says "Request timed out", goes on, and is done a moment later."""
    cluster = FakeCluster(world.kafka)

    def slow(name: str) -> None:
        FakeCluster.delete(cluster, name)
        raise refused("Request timed out. The worker is currently flushing updates", 500)

    cluster.delete = slow  # type: ignore[method-assign]
    assert world.apply(desired_of(), cluster=cluster).exit_code is ExitCode.OK
