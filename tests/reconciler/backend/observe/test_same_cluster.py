"""What tells two Connect clusters apart, of what Kafka and REST say: pure, and looked at again."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from connect_reconciler.backend.observe import same_cluster
from connect_reconciler.backend.observe.same_cluster import (
    KafkaSide,
    RestSide,
    ensure_same_cluster,
    problem_of,
    rest_side,
    signs,
)
from connect_reconciler.backend.rest.client import RestClient
from connect_specs.desired import RestTarget
from connect_specs.diagnostics import Invalid, Location, Unreachable
from support.projects import project_of

PROJECT = replace(
    project_of(kafka={"bootstrap.servers": "kafka:9092"}, target=RestTarget("http://connect:8083")),
    cluster_locations={
        "group.id": Location("connect.yaml", 3, 3),
        "target": Location("connect.yaml", 4, 3),
    },
)
KAFKA = KafkaSide("K", {"a": "one:8083", "b": "two:8083"}, members=True)
REST = RestSide("K", {"a": "one:8083", "b": "two:8083"})


def code(kafka: KafkaSide, rest: RestSide, *concerned: str) -> str | None:
    found = problem_of(signs(kafka, rest), kafka, rest, concerned, PROJECT)
    return None if found is None else found.code


@pytest.mark.parametrize(
    ("kafka", "rest", "concerned", "expected"),
    [
        (KAFKA, REST, ("a", "new"), None),
        (KAFKA, replace(REST, cluster_id="L"), (), "cluster.other-kafka"),
        # A distribution may not say it
        (KAFKA, replace(REST, cluster_id=""), (), None),
        (replace(KAFKA, workers=None), REST, (), "cluster.no-config-topic"),
        (KAFKA, RestSide("K", {}), (), "cluster.other-group"),
        (KAFKA, RestSide("K", {**REST.workers, "c": ""}), (), "cluster.other-group"),
        # A login that may see some connectors only
        (KAFKA, RestSide("K", {"a": "one:8083"}), ("a",), None),
        (KAFKA, RestSide("K", {"a": "one:8083"}), ("b",), "cluster.other-group"),
        # One that moves is no sign, all of them are
        (KAFKA, RestSide("K", {"a": "two:8083", "b": "two:8083"}), (), None),
        (KAFKA, RestSide("K", {"a": "x:8083", "b": "x:8083"}), (), "cluster.other-group"),
        (KAFKA, RestSide("K", {"a": "", "b": ""}), (), None),
        (replace(KAFKA, members=False), REST, (), "cluster.empty-group"),
        # Else the health gate would wait in vain for statuses
        (replace(KAFKA, workers={"a": "", "b": ""}), REST, (), "cluster.other-status-topic"),
        (replace(KAFKA, workers={"a": "", "b": "two:8083"}), REST, (), None),
        (replace(KAFKA, workers={"a": "", "b": ""}, statuses=False), REST, (), None),
        (replace(KAFKA, members=None), REST, (), None),
        (KafkaSide("K", {}, members=True), RestSide("K", {}), ("a",), None),
    ],
)
def test_what_tells_two_clusters_apart(
    kafka: KafkaSide, rest: RestSide, concerned: tuple[str, ...], expected: str | None
) -> None:
    assert code(kafka, rest, *concerned) == expected


def test_it_says_both_sides_and_the_lines_of_connect_yaml() -> None:
    rest = RestSide("K", {f"c-{number}": "" for number in range(9)})
    found = problem_of(signs(KAFKA, rest), KAFKA, rest, (), PROJECT)
    assert found is not None
    assert str(found.where) == "connect.yaml:4:3"
    assert found.why == (
        "REST tells of c-0, c-1, c-2, c-3, c-4 and 4 more, which topic g-configs does not hold; "
        "topic g-configs holds a, b, which REST does not know"
    )
    assert "cluster.target (connect.yaml:4) or cluster.group.id (connect.yaml:3)" in found.hint


class Sides:
    """Answers of both sides in turn, the last one for ever, and a clock that they move."""

    def __init__(self, *looks: tuple[KafkaSide, RestSide]) -> None:
        self.looks = list(looks)
        self.now = 0.0

    def look(self) -> tuple[KafkaSide, RestSide]:
        return self.looks[0] if len(self.looks) == 1 else self.looks.pop(0)

    def compare(self, monkeypatch: pytest.MonkeyPatch, *concerned: str) -> RestSide:
        seen: list[tuple[KafkaSide, RestSide]] = []

        def kafka_side(*_: object) -> KafkaSide:
            seen.append(self.look())
            return seen[-1][0]

        monkeypatch.setattr(same_cluster, "kafka_side", kafka_side)
        monkeypatch.setattr(same_cluster, "rest_side", lambda _: seen[-1][1])

        def sleep(seconds: float) -> None:
            self.now += seconds

        with RestClient(RestTarget("http://connect:8083")) as rest:
            return ensure_same_cluster(
                PROJECT, {}, rest, concerned, clock=lambda: self.now, sleep=sleep
            )


def test_what_is_created_and_deleted_meanwhile_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passing = [
        (KAFKA, RestSide("K", {**REST.workers, f"new-{number}": ""})) for number in range(100)
    ]
    assert Sides(*passing).compare(monkeypatch).cluster_id == "K"
    late = (KAFKA, RestSide("K", {"a": "one:8083"}))
    assert Sides(late, late, (KAFKA, REST)).compare(monkeypatch, "b") == REST


def test_what_stays_different_is_refused_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = Sides((KAFKA, RestSide("K", {"x": ""})))
    with pytest.raises(Invalid):
        sides.compare(monkeypatch)
    assert 5 <= sides.now <= 20


def test_another_kafka_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sides = Sides((KAFKA, replace(REST, cluster_id="L")))
    with pytest.raises(Invalid):
        sides.compare(monkeypatch)
    assert sides.now == 0


@pytest.mark.parametrize("root", [{}, [], "text", 1, {"kafka_cluster_id": None}])
@pytest.mark.parametrize("listed", [{}, [{}], 7, {"a": {}}])
def test_whatever_answers_is_a_side_or_an_error(root: object, listed: object) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=root if request.url.path == "/" else listed)

    target = RestTarget("http://connect:8083")
    with RestClient(target, transport=httpx.MockTransport(answer)) as rest:
        try:
            assert isinstance(rest_side(rest), RestSide)
        except Unreachable as error:
            assert error.diagnostics[0].code == "cluster.not-connect"
