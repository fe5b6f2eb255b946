"""A rename on a real Connect worker, with its Kafka and over REST alone: nothing is read twice."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connect_reconciler.backend.http import HttpCluster
from connect_runtime.herder.verbs import RequestError
from connect_specs.desired import OffsetEntry, Pin, TargetState, partition_key
from support import http
from support.applying import names
from support.broker import BrokerAddress, create_topic, produce
from support.oracle import Oracle
from support.rest_project import RestProject, sink, source
from support.rig import Ends, committed_lines
from support.wait import wait_until

pytestmark = pytest.mark.oracle


@pytest.fixture(params=["with its Kafka", pytest.param("REST alone", marks=pytest.mark.long)])
def project(
    request: pytest.FixtureRequest, oracle: Oracle, broker: BrokerAddress
) -> Iterator[RestProject]:
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    alone = request.param == "REST alone"
    name = f"orders-{secrets.token_hex(4)}"
    made = RestProject(oracle.url, oracle.group_id, {} if alone else kafka, name=name)
    yield made
    made.specs = {}
    assert made.apply().exit_code == 0


def offsets(oracle: Oracle, name: str) -> dict[str, dict[str, int]]:
    found = http.get(f"{oracle.url}/connectors/{name}/offsets").json()["offsets"]
    return {partition_key(each["partition"]): each["offset"] for each in found}


def test_a_source_goes_on_where_it_was(
    project: RestProject, oracle: Oracle, broker: BrokerAddress, unique: str, tmp_path: Path
) -> None:
    """A rename carries the source's offsets."""
    file, kafka = tmp_path / "in", broker.bootstrap_servers
    create_topic(kafka, unique)
    file.write_text("".join(f"{n}\n" for n in range(100)))
    old, new = f"{unique}-old", f"{unique}-new"
    project.want(source(old, file, unique))
    project.settle()
    wait_until(lambda: len(list(committed_lines(kafka, unique))) == 100, what="100 lines")
    project.specs = {}
    project.want(replace(source(new, file, unique, **{"batch.size": "50"}), renamed_from=old))
    plan = project.plan()
    assert names(plan) == [
        f"Stop {old}",
        *(f"{step} {new}" for step in ("Create", "CopyOffsets", "Resume")),
        f"Delete {old}",
    ]
    project.settle()
    with file.open("a") as more:
        more.writelines(f"{n}\n" for n in range(100, 120))
    wait_until(lambda: len(list(committed_lines(kafka, unique))) >= 120, what="120 lines")
    assert list(committed_lines(kafka, unique)) == [str(n) for n in range(120)]
    # A later connector of the old name begins anew
    project.want(replace(source(old, file, unique), state=TargetState.STOPPED))
    project.specs[new] = replace(project.specs[new], renamed_from=None)
    project.settle()
    assert offsets(oracle, old) == {}
    assert offsets(oracle, new) != {}


@pytest.mark.long
def test_a_rename_that_could_not_delete_the_old_name_is_reverted(
    project: RestProject,
    broker: BrokerAddress,
    unique: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trap: the offsets of the old name are gone by then, and it reads everything again."""
    file, kafka = tmp_path / "in", broker.bootstrap_servers
    create_topic(kafka, unique)
    file.write_text("".join(f"{n}\n" for n in range(100)))
    old, new = f"{unique}-old", f"{unique}-new"
    project.want(source(old, file, unique))
    project.settle()
    wait_until(lambda: len(list(committed_lines(kafka, unique))) == 100, what="100 lines")
    project.specs = {}
    project.want(replace(source(new, file, unique), renamed_from=old))

    def refuse(cluster: HttpCluster, name: str) -> None:
        raise RequestError(409, "Cannot complete request momentarily due to stale configuration")

    with monkeypatch.context() as refusing:
        refusing.setattr(HttpCluster, "delete", refuse)
        assert project.apply().exit_code == 1
    with file.open("a") as more:
        more.writelines(f"{n}\n" for n in range(100, 120))
    wait_until(lambda: len(list(committed_lines(kafka, unique))) >= 120, what="120 lines")
    project.specs = {}
    project.want(source(old, file, unique))
    assert names(project.plan()) == [
        f"Stop {new}",
        f"CopyOffsets {old}",
        f"Resume {old}",
        f"Delete {new}",
    ]
    project.settle()
    with file.open("a") as more:
        more.writelines(f"{n}\n" for n in range(120, 130))
    wait_until(lambda: len(list(committed_lines(kafka, unique))) >= 130, what="130 lines")
    assert list(committed_lines(kafka, unique)) == [str(n) for n in range(130)]


def test_a_sink_takes_its_groups_offsets_along(
    project: RestProject, broker: BrokerAddress, unique: str, tmp_path: Path
) -> None:
    """A rename carries the offsets of the sink's group."""
    kafka, before, after = broker.bootstrap_servers, tmp_path / "before", tmp_path / "after"
    create_topic(kafka, unique)
    produce(kafka, unique, [(None, str(n).encode()) for n in range(10)])
    old, new = f"{unique}-old", f"{unique}-new"
    project.want(sink(old, before, unique))
    project.settle()
    wait_until(
        lambda: before.exists() and len(before.read_text().splitlines()) == 10, what="10 records"
    )
    project.specs = {}
    project.want(replace(sink(new, after, unique), renamed_from=old))
    project.settle()
    produce(kafka, unique, [(None, str(n).encode()) for n in range(10, 15)])
    wait_until(
        lambda: after.exists() and len(after.read_text().splitlines()) >= 5, what="5 records"
    )
    assert after.read_text().splitlines() == [str(n) for n in range(10, 15)]
    assert Ends(kafka).committed(f"connect-{old}", unique) == 0


def test_a_source_that_was_stopped_by_hand_is_renamed(
    project: RestProject, oracle: Oracle, unique: str, tmp_path: Path
) -> None:
    """The trap: workers that are asked to stop it once more answer each further change of its
    offsets with 500, so that both names stay stopped."""
    old, new, file = f"{unique}-old", f"{unique}-new", tmp_path / "in"
    kept = Pin("p", (OffsetEntry({"filename": str(file)}, {"position": 5}),))
    stopped, url = TargetState.STOPPED, f"{oracle.url}/connectors/{old}"
    project.want(replace(source(old, file, unique), state=stopped))
    project.settle()
    assert http.put(f"{url}/stop").status_code == 204
    project.want(replace(source(old, file, unique), state=stopped, pin=kept))
    project.settle()
    project.specs = {}
    project.want(replace(source(new, file, unique), state=stopped, renamed_from=old))
    project.settle()
    assert list(offsets(oracle, new).values()) == [{"position": 5}]
    assert http.get(url).status_code == 404
