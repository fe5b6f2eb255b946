"""Which kind of cluster a project has is decided once, and each kind says what it cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from connect_reconciler.backend import on_kafka, open_backend
from connect_reconciler.backend.backend import Backend
from connect_reconciler.backend.lease import no_progress
from connect_reconciler.backend.observe.observe import Topics
from connect_reconciler.backend.observe.same_cluster import RestSide
from connect_reconciler.backend.on_kafka import ConnectBackend
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest_only import RestOnlyBackend
from connect_reconciler.backend.runtime import RuntimeBackend
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.model.live import Live
from connect_runtime import KAFKA_VERSION
from connect_runtime.storage.snapshots import ConfigSnapshot, OffsetSnapshot, StatusSnapshot
from connect_specs.desired import Desired, RestTarget
from connect_specs.diagnostics import Diagnostic, Invalid, Unreachable
from support.projects import project_of

KAFKA = {"bootstrap.servers": "127.0.0.1:1"}
TARGET = RestTarget("http://user:zq9@connect.test:8083")
NOTHING = Desired("orders", {})
TOPICS = Topics(
    "K", ConfigSnapshot(), StatusSnapshot(), OffsetSnapshot(), LedgerSnapshot(), records={}
)


def backend(target: RestTarget | None, kafka: Mapping[str, str]) -> Backend:
    return open_backend(project_of(kafka=kafka, target=target), kafka)


def test_the_kind_follows_from_target_and_kafka() -> None:
    kinds = [backend(None, KAFKA), backend(TARGET, KAFKA), backend(TARGET, {})]
    assert [type(each) for each in kinds] == [RuntimeBackend, ConnectBackend, RestOnlyBackend]
    assert [each.address for each in kinds] == ["g", *["http://connect.test:8083"] * 2]


def test_over_rest_alone_there_is_no_lease_and_no_ledger_topic() -> None:
    alone = backend(TARGET, {})
    for refuses in (alone.ensure_lease, lambda: alone.take_over(print)):
        with pytest.raises(Invalid) as refused:
            refuses()
        assert refused.value.diagnostics[0].code == "apply.no-lease"
    assert not alone.ledger().applies
    alone.ensure_kafka()


class Compared:
    """Counts comparisons of REST with topics; the first ones raise these errors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> None:
        self.count, self.errors = 0, list(errors)
        monkeypatch.setattr(on_kafka, "ensure_same_cluster", self)
        monkeypatch.setattr(RestClient, "checked", lambda target, *_: RestClient(target))
        monkeypatch.setattr(on_kafka, "ConfirmedCluster", lambda *_: "cluster")
        monkeypatch.setattr(on_kafka, "ConfigTopic", lambda reader: reader)
        monkeypatch.setattr(ConnectBackend, "ledger", lambda _: LedgerSnapshot())

    def __call__(self, *_: Any, **named: Any) -> RestSide:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return RestSide("K", {}, KAFKA_VERSION)


class Logs:
    """Logs whose readers do nothing."""

    def reader(self, topic: str) -> Any:
        return ExitStack()


def seen_and_opened(opened: ConnectBackend) -> Live:
    live = opened._with_workers(NOTHING, Live(), TOPICS)
    with ExitStack() as stack:
        opened._cluster_to_change(NOTHING, Logs(), stack, no_progress)  # type: ignore[arg-type]
    return live


def test_an_apply_compares_rest_with_topics_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Compared(monkeypatch)
    opened = backend(TARGET, KAFKA)
    assert isinstance(opened, ConnectBackend)
    assert seen_and_opened(opened).version == KAFKA_VERSION
    assert compared.count == 1


def test_where_no_worker_answered_the_plan_an_apply_compares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = Unreachable(Diagnostic("cluster.unreachable", "no worker answers"))
    compared = Compared(monkeypatch, silent)
    opened = backend(TARGET, KAFKA)
    assert isinstance(opened, ConnectBackend)
    live = seen_and_opened(opened)
    assert [each.code for each in live.warnings] == ["cluster.not-compared"]
    assert compared.count == 2


def test_workers_of_another_cluster_refuse_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    Compared(monkeypatch, Invalid(Diagnostic("cluster.other-group", "others")))
    opened = backend(TARGET, KAFKA)
    assert isinstance(opened, ConnectBackend)
    with pytest.raises(Invalid):
        seen_and_opened(opened)


def test_an_open_apply_needs_the_answer_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind its address there may be other workers by then than those that answered the plan."""
    silent = Unreachable(Diagnostic("cluster.unreachable", "no worker answers"))
    compared = Compared(monkeypatch)
    opened = backend(TARGET, KAFKA)
    assert isinstance(opened, ConnectBackend)
    seen_and_opened(opened)

    def look() -> Live:
        return opened._with_workers(NOTHING, Live(), TOPICS)

    with ExitStack() as stack:
        opened._cluster_to_change(NOTHING, Logs(), stack, no_progress)  # type: ignore[arg-type]
        compared.errors = [silent]
        assert look().version == KAFKA_VERSION
        compared.errors = [silent, silent]
        with pytest.raises(Unreachable):
            look()
    compared.errors = [silent]
    assert [each.code for each in look().warnings] == ["cluster.not-compared"]
