"""What an apply asks for and finds done: by somebody else, or by a request that seemed to fail."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect_reconciler.actions import FieldChange, UpdateConfig
from connect_reconciler.apply.cluster_operations import ClusterOperations
from connect_reconciler.apply.context import Limits, Waiter
from connect_reconciler.apply.report import Outcome
from connect_reconciler.backend.followed_topics import ConfigTopic, StoredConnector
from connect_reconciler.backend.rest.client import OutcomeUnknown
from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.model.ledger import Owned
from connect_reconciler.model.ledger_records import owned_record
from connect_specs.desired import TargetState
from connect_specs.diagnostics import Diagnostic, ExitCode, Unreachable
from support.applying import Applying, FakeTime, desired_of
from support.fake_cluster import TOPICS, FakeCluster, FakeKafka, refused

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


@pytest.mark.parametrize(("key", "told"), [("topics", True), ("db.password", False)])
def test_a_masked_secret_does_not_tell_whether_it_was_written(key: str, told: bool) -> None:
    """What is not known to be written is written again; else the ledger would take it for live."""
    found = StoredConnector({**CONFIG, "db.password": "****"}, TargetState.RUNNING)

    class Silent(FakeCluster):
        def update_config(self, name: str, config: Mapping[str, str]) -> None:
            raise OutcomeUnknown(Diagnostic("cluster.no-answer", "no answer came"))

    patience = Waiter(FakeTime().clock(), Limits(), lambda: False)
    operations = ClusterOperations(
        Silent(FakeKafka()), lambda name: found, patience, lambda name, what: None
    )
    update = UpdateConfig(
        connector="a",
        config={},
        changes=(FieldChange(key, Plain("x"), Secret("")),),
    )
    wanted = {**CONFIG, "db.password": "new"}
    if told:
        assert update.perform(operations, wanted) == update
    else:
        with pytest.raises(OutcomeUnknown):
            update.perform(operations, wanted)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [(True, Outcome.DONE), (False, Outcome.FAILED), (None, Outcome.UNKNOWN)],
)
def test_a_write_that_broke_off_is_read_again(
    world: Applying, seen: bool | None, expected: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connect's leader says that it failed to write; its transaction may be committed all the
    same. Where that cannot be read either, nobody knows."""
    cluster = FakeCluster(world.kafka)

    def gone(read_back: ConfigTopic, name: str) -> StoredConnector | None:
        raise Unreachable(Diagnostic("kafka.unreachable", "Kafka is gone"))

    def broken(name: str) -> None:
        if seen:
            FakeCluster.delete(cluster, name)
        if seen is None:
            monkeypatch.setattr(ConfigTopic, "__call__", gone)
        raise refused("Failed to write to config topic; this may be due to a transient error")

    cluster.delete = broken  # type: ignore[method-assign]
    (report,) = world.apply(desired_of(), cluster=cluster).connectors
    assert [each.outcome for each in report.results] == [expected]
