"""Real Connect workers that are reached by REST alone: every change, and what a plan says after it.

What versions differ in runs on the oldest that is supported and the newest tried.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connect_reconciler.actions import Create
from connect_reconciler.backend.http import HttpCluster
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest_only import RestOnlyCluster
from connect_reconciler.model.config_values import LEDGER_KEY
from connect_reconciler.workflow.rollback import ledger_of
from connect_runtime import KAFKA_VERSION
from connect_runtime.storage.snapshots import State
from connect_specs.desired import Pin, TargetState
from support import http
from support.applying import names
from support.broker import BrokerAddress, create_topic, produce
from support.connect_jars import VERSIONS
from support.dooming import Doom, Killed
from support.masking import masking
from support.oracle import Oracle
from support.rest_project import RestProject, pin_at, sink, source
from support.rig import lines_of
from support.wait import wait_until

pytestmark = pytest.mark.oracle

# The pinned one is the worker of the other modules
OTHERS = [pytest.param(version, marks=pytest.mark.long) for version in VERSIONS]
every_version = pytest.mark.parametrize(
    "worker", [KAFKA_VERSION, *OTHERS], indirect=True, scope="module"
)
pinned_version = pytest.mark.parametrize("worker", [KAFKA_VERSION], indirect=True, scope="module")

RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED


@pytest.fixture(scope="module")
def worker(
    request: pytest.FixtureRequest, broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Oracle]:
    started = Oracle.start(
        tmp_path_factory.mktemp("worker"),
        broker.bootstrap_servers,
        group_id=f"alone-{secrets.token_hex(4)}",
        version=request.param,
    )
    try:
        yield started
    finally:
        started.kill()


@pytest.fixture
def project(worker: Oracle) -> Iterator[RestProject]:
    made = RestProject(worker.url, worker.group_id, name=f"orders-{secrets.token_hex(4)}")
    yield made
    made.specs = {}
    assert made.apply().exit_code == 0


def config_of(worker: Oracle, name: str) -> dict[str, str]:
    found: dict[str, str] = http.get(f"{worker.url}/connectors/{name}/config").json()
    return found


@every_version
def test_a_project_from_its_first_apply_to_a_deletion(
    worker: Oracle, project: RestProject, topic: str, tmp_path: Path
) -> None:
    out, other, into = tmp_path / "out.txt", tmp_path / "other.txt", tmp_path / "in.txt"
    into.write_text("one\ntwo\n")
    snk, src = f"{topic}-snk", f"{topic}-src"
    project.want(sink(snk, out, topic), source(src, into, f"{topic}-in"))
    project.settle()
    wait_until(lambda: len(lines_of(out)) == 10, what="ten records")

    # Config and state in one apply: the new file gets nothing before it is resumed
    project.want(replace(sink(snk, other, topic), state=PAUSED))
    assert names(project.plan()) == [f"Pause {snk}", f"UpdateConfig {snk}"]
    project.settle()
    assert lines_of(other) == []

    # Three records again, from a pin that is applied once
    wait_until(lambda: project.offsets(snk), what="committed offsets")
    project.want(replace(sink(snk, other, topic), state=RUNNING, pin=pin_at("back", topic, 7)))
    project.settle()
    wait_until(lambda: lines_of(other) == ["7", "8", "9"], what="three records")
    assert project.plan().empty

    # All records again
    reset = Pin("again", reset=True)
    project.want(replace(sink(snk, out, topic), state=RUNNING, pin=reset))
    project.settle()
    wait_until(lambda: len(lines_of(out)) == 20, what="ten records again")

    # The source from its second line, while it stays stopped
    (entry,) = wait_until(lambda: project.offsets(src), what="its offset")
    at = Pin("second", (replace(entry, offset={"position": 4}),))
    project.want(replace(source(src, into, f"{topic}-in"), state=STOPPED, pin=at))
    project.settle()
    assert project.offsets(src)[0].offset == {"position": 4}

    # What the spec no longer names, and is ours, goes
    del project.specs[src]
    assert names(project.plan()) == [f"Delete {src}"]
    project.settle()
    assert http.get(f"{worker.url}/connectors/{src}").status_code == 404


@every_version
def test_created_with_offsets_and_a_state(
    worker: Oracle, project: RestProject, topic: str, tmp_path: Path
) -> None:
    out = tmp_path / "out.txt"
    spec = replace(sink(topic, out, topic), state=PAUSED, pin=pin_at("from", topic, 8))
    project.want(spec)
    plan = project.plan()
    old = project.observe().version.startswith("3.6")
    assert ("plan.created-idle" in {each.code for each in plan.warnings}) is old
    assert isinstance(plan.actions[0], Create)
    project.settle()
    project.want(replace(spec, state=RUNNING))
    project.settle()
    wait_until(lambda: lines_of(out) == ["8", "9"], what="two records")


@pytest.mark.long
@pytest.mark.parametrize("worker", VERSIONS[:1], indirect=True, scope="module")
def test_a_rename_where_nothing_can_be_created_stopped(
    worker: Oracle,
    project: RestProject,
    topic: str,
    tmp_path: Path,
    broker: BrokerAddress,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before 3.7: the new name has no task that could run until it has the old one's offsets, even
    if it takes long until it is stopped."""
    into, copied, out, new = (tmp_path / name for name in ("in", "copied", "out", "new"))
    kafka = broker.bootstrap_servers
    into.write_text("one\ntwo\n")
    snk, src = sink(f"{topic}-snk", out, topic), source(f"{topic}-src", into, f"{topic}-in")
    create_topic(kafka, f"{topic}-in")
    project.want(snk, src)
    project.settle()
    wait_until(lambda: len(lines_of(out)) == 10, what="ten records")
    for name in (snk.name, src.name):
        wait_until(lambda name=name: project.offsets(name), what="offsets")

    set_target = RestOnlyCluster.set_target

    def late(cluster: RestOnlyCluster, name: str, target: TargetState) -> None:
        if name.endswith("2") and target is STOPPED:
            wait_until(lambda: failed_tasks(cluster, name), what=f"{name} to fail")
        set_target(cluster, name, target)

    monkeypatch.setattr(RestOnlyCluster, "set_target", late)
    project.specs = {}
    project.want(
        replace(sink(f"{topic}-snk2", new, topic), renamed_from=snk.name),
        replace(source(f"{topic}-src2", into, f"{topic}-in"), renamed_from=src.name),
        sink(f"{topic}-copy", copied, f"{topic}-in"),
    )
    project.settle()
    with into.open("a") as more:
        more.write("three\n")
    produce(kafka, topic, [(None, b"10")])
    wait_until(
        lambda: lines_of(new) and len(lines_of(copied)) > 2, what="what came after the rename"
    )
    assert (lines_of(new), lines_of(copied)) == (["10"], ["one", "two", "three"])


def failed_tasks(cluster: HttpCluster, name: str) -> bool:
    status = cluster.status(name)
    tasks = status.tasks.values() if status else ()
    return bool(tasks) and all(task.state is State.FAILED for task in tasks)


@pytest.mark.long
@pytest.mark.parametrize("worker", VERSIONS[:1], indirect=True, scope="module")
def test_masks_where_the_whole_config_is_written(
    worker: Oracle, project: RestProject, topic: str, tmp_path: Path
) -> None:
    """Before 3.8 a pin is recorded by writing the whole config: with the spec's true values."""
    key = "consumer.override.ssl.key.password"
    spec = sink(topic, tmp_path / "out.txt", topic, **{key: "hunter2"})
    with masking(worker.url, [key], "****") as (url, sent):
        masked = replace(project, url=url, specs={})
        masked.want(replace(spec, state=STOPPED, pin=pin_at("from", topic, 3)))
        masked.settle()
        assert masked.observe().ledger.pins.keys() == {(topic, "from")}
        stored = config_of(worker, topic)
        assert (stored[key], "hunter2" in stored[LEDGER_KEY]) == ("hunter2", False)
        assert not [body for body in sent if "****" in body]
        masked.specs = {}
        masked.settle()


@pinned_version
def test_what_is_not_ours_is_left_alone(
    worker: Oracle, project: RestProject, topic: str, tmp_path: Path
) -> None:
    spec = replace(sink(topic, tmp_path / "out.txt", topic), prevent_delete=True)
    other = RestProject(worker.url, worker.group_id, name="others", specs={topic: spec})
    other.settle()
    assert project.plan().empty
    project.want(spec)
    assert [error.code for error in project.plan().errors] == ["plan.owned-by-other"]
    project.specs = {}
    other.specs = {}
    assert [error.code for error in other.plan().errors] == ["plan.protected"]
    other.want(replace(spec, prevent_delete=False, config={**spec.config, "tasks.max": "2"}))
    other.settle()
    other.specs = {}
    other.settle()


@every_version
def test_the_ledger_in_a_config_is_no_setting(
    worker: Oracle, project: RestProject, topic: str, tmp_path: Path
) -> None:
    spec = sink(topic, tmp_path / "out.txt", topic, **{"consumer.override.client.id": "${a:b:c}"})
    project.want(replace(spec, state=STOPPED))
    project.settle()
    config = config_of(worker, topic)
    assert LEDGER_KEY in config and "$" not in config[LEDGER_KEY]
    answer = http.put(
        f"{worker.url}/connector-plugins/FileStreamSink/config/validate",
        json={key: text for key, text in config.items() if not text.startswith("${")},
    ).json()
    assert answer["error_count"] == 0


@pinned_version
def test_what_was_made_by_hand_is_adopted_with_its_next_config(
    worker: Oracle, project: RestProject, topic: str, tmp_path: Path
) -> None:
    spec = sink(topic, tmp_path / "out.txt", topic)
    body = {"name": topic, "config": dict(spec.config)}
    http.post(f"{worker.url}/connectors", json=body).raise_for_status()
    wait_until(lambda: project.observe().connectors[topic].state == "RUNNING", what="it to run")
    project.want(spec)
    assert project.plan().empty
    project.want(sink(topic, tmp_path / "new.txt", topic))
    project.settle()
    assert project.name in config_of(worker, topic)[LEDGER_KEY]


@pinned_version
@pytest.mark.parametrize("last", [2, pytest.param(5, marks=pytest.mark.long)])
def test_a_half_done_rewind_is_finished(
    worker: Oracle,
    project: RestProject,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    last: int,
) -> None:
    """Killed after the stop, and between the last record and the resume."""
    out = tmp_path / "out.txt"
    project.want(sink(topic, out, topic))
    project.settle()
    wait_until(lambda: project.offsets(topic), what="committed offsets")
    project.want(replace(sink(topic, out, topic), pin=pin_at("back", topic, 7)))
    with monkeypatch.context() as patched:
        patched.setattr(RestClient, "change", dying(Doom(last, before=False)))
        with pytest.raises(Killed):
            project.apply()
    # the worker answers before its status follows
    wait_until(lambda: project.observe().connectors[topic].target is STOPPED, what="the stop")
    found = [each.code for each in project.plan().warnings if each.code != "plan.rest-alone"]
    assert found == ["plan.unfinished-apply"]
    project.settle()
    wait_until(lambda: lines_of(out)[-3:] == ["7", "8", "9"], what="three records")
    assert len(lines_of(out)) == 13
    wait_until(lambda: project.observe().connectors[topic].target is RUNNING, what="the resume")


def dying(doom: Doom) -> Callable[..., object]:
    """In place of `RestClient.change`: the process is killed by what `doom` says."""
    change = RestClient.change

    def changed(client: RestClient, *args: Any, **more: Any) -> object:
        return doom.around(lambda: change(client, *args, **more))

    return changed


@pinned_version
@pytest.mark.long
def test_a_project_that_gets_its_kafka_and_loses_it(
    worker: Oracle, project: RestProject, topic: str, tmp_path: Path, broker: BrokerAddress
) -> None:
    """The ledger moves from the config to its topic: no pin is applied twice."""
    out = tmp_path / "out.txt"
    spec = replace(sink(topic, out, topic), prevent_delete=True, pin=pin_at("from", topic, 8))
    project.want(spec)
    project.settle()
    wait_until(lambda: lines_of(out) == ["8", "9"], what="two records")
    project.kafka = {"bootstrap.servers": broker.bootstrap_servers}
    assert project.plan().empty
    other = RestProject(worker.url, worker.group_id, project.kafka, "others", {topic: spec})
    assert [error.code for error in other.plan().errors] == ["plan.owned-by-other"]

    # From its first change on the topic holds it, and what would grow old in the config is gone
    project.want(replace(spec, pin=pin_at("back", topic, 7)))
    assert names(project.plan()) == [f"Stop {topic}", f"AlterOffsets {topic}", f"Resume {topic}"]
    project.settle()
    wait_until(lambda: lines_of(out)[2:] == ["7", "8", "9"], what="three records")
    ledger = ledger_of(project.backend).state
    assert {pin for of, pin in ledger.pins if of == topic} == {"from", "back"}
    assert ledger.connectors[topic].prevent_delete
    assert LEDGER_KEY not in config_of(worker, topic)

    # The other way round the pin would be applied again, and the plan says that
    project.kafka = {}
    codes = {each.code for each in project.plan().warnings}
    assert "plan.pin-perhaps-applied" in codes
    project.kafka = {"bootstrap.servers": broker.bootstrap_servers}
    project.want(replace(spec, prevent_delete=False))
    project.settle()
    project.specs = {}
    project.settle()
