"""Exactly-once sources by a small plugin (KIP-618), on a real worker and on ours: the same records,
and the same reports to the plugin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.settings.worker_config import WorkerConfig, from_properties
from connect_runtime.validation.validate import validate
from connect_specs.desired import TargetState
from support import http
from support.broker import BrokerAddress, read_to_end
from support.java_plugins import SOURCE, add_compiled, java_catalog
from support.oracle import Oracle
from support.rig import Ends
from support.thread_cluster import STRING, ThreadCluster, thread_cluster
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.long]

ABORTED = (7, 13, 14)
ZONE = "-Duser.timezone=Asia/Tokyo"
START_S = 180
# With boundaries of the connector, its transaction is committed
LAST = 18
# What the plugin answers to both questions: nothing, no, yes, or an exception
ANSWERS = ("", "UNSUPPORTED", "SUPPORTED", "failure")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    folder = tmp_path_factory.mktemp("bounded") / "plugins"
    add_compiled("Bounded", {SOURCE: "tests.Bounded"}, folder)
    return {
        "plugin.path": str(folder),
        "key.converter": STRING,
        "value.converter": STRING,
        "exactly.once.source.support": "enabled",
        "java.jvm.options": ZONE,
    }


@pytest.fixture(scope="module")
def apache(
    broker: BrokerAddress, settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Oracle]:
    folder = tmp_path_factory.mktemp("apache")
    worker = Oracle.start(
        folder,
        broker.bootstrap_servers,
        group_id=folder.name,
        settings=settings,
        java_flags=[ZONE],
    )
    yield worker
    worker.kill()


@pytest.fixture(scope="module")
def worker(broker: BrokerAddress, settings: Mapping[str, str]) -> WorkerConfig:
    topics = {f"{kind}.storage.topic": f"bounded-{kind}" for kind in ("config", "offset", "status")}
    address = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "bounded"}
    return from_properties({**address, **topics, **settings})[0]


@pytest.fixture(scope="module")
def ours(
    broker: BrokerAddress,
    worker: WorkerConfig,
    settings: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ThreadCluster]:
    group = tmp_path_factory.mktemp("ours").name
    with (
        java_catalog(worker.properties),
        thread_cluster(broker.bootstrap_servers, f"bounded-{group}", settings) as cluster,
    ):
        yield cluster


def _sides(apache: Oracle, ours: ThreadCluster) -> Sequence[tuple[str, Oracle | ThreadCluster]]:
    return ("a", apache), ("o", ours)


def config(name: str, reports: Path, more: Mapping[str, str]) -> Mapping[str, str]:
    return {
        "name": name,
        "connector.class": "tests.Bounded",
        "tasks.max": "1",
        "topic": name,
        "reports": str(reports),
        "last": str(LAST),
        "support": "SUPPORTED",
        "boundaries": "SUPPORTED",
        **more,
    }


BOUNDARIES: Sequence[Mapping[str, str]] = (
    {},
    {"exactly.once.support": "required"},
    {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "300"},
    {"transaction.boundary": "connector"},
    {"transaction.boundary": "connector", "offsets.storage.topic": "OWN"},
    {"producer.override.transactional.id": "mine"},
)


@pytest.mark.parametrize("more", BOUNDARIES, ids=str)
def test_each_boundary_commits_aborts_and_reports_as_by_apaches_worker(
    apache: Oracle,
    ours: ThreadCluster,
    broker: BrokerAddress,
    tmp_path: Path,
    unique: str,
    more: Mapping[str, str],
) -> None:
    more = {key: value.replace("OWN", f"{unique}-own") for key, value in more.items()}
    theirs = _run(apache, config(f"a-{unique}", tmp_path / "apaches", more))
    of_ours = _run(ours, config(f"o-{unique}", tmp_path / "ours", more))
    assert of_ours == theirs
    assert theirs == [{"partition": {"counter": "only"}, "offset": {"count": LAST}}]
    texts = [_reports(tmp_path / side) for side in ("apaches", "ours")]
    assert texts[1] == texts[0]
    values = [_values(broker, f"{side}-{unique}") for side in ("a", "o")]
    assert values[1] == values[0]
    assert values[0][-1] == str(LAST)
    if more.get("transaction.boundary") != "interval":
        ends = Ends(broker.bootstrap_servers)  # counts the ends of transactions, too
        assert ends.high(f"o-{unique}") == ends.high(f"a-{unique}")


def test_a_source_that_gets_its_own_offsets_topic_continues_but_not_by_apaches_worker(
    apache: Oracle, ours: ThreadCluster, broker: BrokerAddress, tmp_path: Path, unique: str
) -> None:
    further = {"last": str(LAST + 5), "offsets.storage.topic": f"{unique}-own"}
    for side, worker in _sides(apache, ours):
        first = config(f"{side}-{unique}", tmp_path / side, {})
        _run(worker, first, delete=False)
        _run(worker, {**first, **further})
    numbers = {side: [*map(int, _values(broker, f"{side}-{unique}"))] for side in "ao"}
    assert numbers["o"] == [*range(1, LAST + 6)]
    assert numbers["a"] == [*range(1, LAST + 1), *range(1, LAST + 6)]


def test_records_that_are_dropped_move_no_offset(
    apache: Oracle, ours: ThreadCluster, tmp_path: Path, unique: str
) -> None:
    """Unlike those of tasks in Python."""
    drop = {
        "transforms": "drop",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "all",
        "predicates": "all",
        "predicates.all.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.all.pattern": ".*",
    }
    for side, worker in _sides(apache, ours):
        reports = tmp_path / side
        given = config(f"{side}-{unique}", reports, drop)
        _put(worker, given)
        # it commits with each poll, also of those that find nothing
        wait_until(
            lambda file=reports: file.exists() and file.read_text().count("commit") > 2 * LAST,
            what="its polls",
            timeout_s=START_S,
        )
        assert _offsets(worker, given["name"]) == []
        _delete(worker, given)
        assert _reports(reports) == ("start at 0", "stop")


def test_dates_become_texts_in_the_time_zone_of_the_jvm(
    apache: Oracle, ours: ThreadCluster, broker: BrokerAddress, tmp_path: Path, unique: str
) -> None:
    for side, worker in _sides(apache, ours):
        _run(worker, config(f"{side}-{unique}", tmp_path / side, {"dates": "yes"}))
    texts = {side: _values(broker, f"{side}-{unique}") for side in "ao"}
    assert texts["o"] == texts["a"]
    assert "JST" in texts["o"][0]


def _reports(file: Path) -> tuple[str, ...]:
    """Returns the reports. How often offsets were committed depends on time, and so does which
    records Kafka has acknowledged before their transaction is aborted."""
    lines = file.read_text().splitlines()
    passing = ("commit", *(f"record {number}" for number in ABORTED))
    return tuple(line for line in lines if line not in passing)


def _values(broker: BrokerAddress, topic: str) -> list[str]:
    return [(m.value() or b"").decode() for m in read_to_end(broker.bootstrap_servers, topic)]


def _put(worker: Oracle | ThreadCluster, config: Mapping[str, str]) -> None:
    if isinstance(worker, ThreadCluster):
        worker.verbs.put_config(config["name"], dict(config))
    else:
        worker.put(config)


def _delete(worker: Oracle | ThreadCluster, config: Mapping[str, str]) -> None:
    """Returns when its task has stopped."""
    if isinstance(worker, ThreadCluster):
        worker.stop_connector(config["name"])
        worker.verbs.delete(config["name"])
        return
    http.delete(f"{worker.url}/connectors/{config['name']}", timeout=60)
    reports = Path(config["reports"])
    wait_until(lambda: reports.read_text().endswith("stop\n"), what="the task's stop")


def _offsets(worker: Oracle | ThreadCluster, name: str) -> Any:
    if isinstance(worker, ThreadCluster):
        entries = worker.verbs.offsets(name)
        return [{"partition": each.partition, "offset": each.offset} for each in entries]
    answer = http.get(f"{worker.url}/connectors/{name}/offsets", timeout=60)
    return answer.json().get("offsets", [])


def _run(worker: Oracle | ThreadCluster, config: Mapping[str, str], *, delete: bool = True) -> Any:
    """Runs a connector to its last number, and returns its offsets then."""
    _put(worker, config)
    last = {"count": int(config["last"])}

    def offsets() -> Any:
        found = _offsets(worker, config["name"])
        return found if found and found[0]["offset"] == last else None

    found = wait_until(offsets, what="the last offset", timeout_s=START_S)
    if delete:
        _delete(worker, config)
    return found


@pytest.mark.parametrize("support", ANSWERS)
@pytest.mark.parametrize("boundaries", ANSWERS)
def test_what_a_plugin_supports_is_validated_as_by_apaches_worker(
    apache: Oracle, ours: ThreadCluster, worker: WorkerConfig, support: str, boundaries: str
) -> None:
    more = {
        "support": support,
        "boundaries": boundaries,
        "exactly.once.support": "required",
        "transaction.boundary": "connector",
    }
    asked = config("c", Path("reports"), more)
    url = f"{apache.url}/connector-plugins/Bounded/config/validate"
    answer = http.put(url, json=dict(asked), timeout=90).json()
    theirs = {
        each["value"]["name"]: each["value"]["errors"]
        for each in answer["configs"]
        if each["value"]["errors"]
    }
    infos = validate(asked, worker)
    of_ours = {
        info.value.name: list(info.value.errors)
        for info in infos.configs
        if info.value is not None and info.value.errors
    }
    assert of_ours == theirs
    assert bool(theirs) == (not support == boundaries == "SUPPORTED")


@pytest.mark.parametrize(("order", "states"), [("fail", "FR"), ("grow", "RRR")])
def test_a_monitor_fails_its_connector_or_gets_more_tasks(
    apache: Oracle, ours: ThreadCluster, tmp_path: Path, unique: str, order: str, states: str
) -> None:
    """Its tasks run on, as by Apache's worker."""
    file = tmp_path / "order"
    sides = _sides(apache, ours)
    given = {
        side: config(f"{side}-{unique}", tmp_path / side, {"order": str(file), "tasks.max": "2"})
        for side, _ in sides
    }
    for side, worker in sides:
        _put(worker, given[side])

    def wait_for(letters: str) -> list[str]:
        def reached(side: str, worker: Oracle | ThreadCluster) -> Any:
            found = _states(worker, given[side]["name"])
            return found if found[0] == letters else None

        return [
            wait_until(partial(reached, *each), what=f"{letters} of {each[0]}", timeout_s=START_S)[
                1
            ]
            for each in sides
        ]

    wait_for("RR")
    file.write_text(order)
    theirs, of_ours = wait_for(states)
    assert of_ours == theirs
    for side, worker in sides:
        _delete(worker, given[side])


# A request, the states that follow, and how often the task has been started by then
LIFE = (
    ("pause", "P", 0),
    ("resume", "RR", 1),
    ("pause", "PP", 1),
    ("resume", "RR", 1),
    ("stop", "S", 1),
    ("resume", "RR", 2),
    ("restart?includeTasks=true", "RR", 3),
    ("tasks/0/restart", "RR", 4),
    ("restart?includeTasks=true&onlyFailed=true", "RR", 4),
    ("config", "RR", 5),
)


def test_a_connector_is_paused_stopped_and_restarted_as_by_apaches_worker(
    apache: Oracle, ours: ThreadCluster, broker: BrokerAddress, tmp_path: Path, unique: str
) -> None:
    """It is created PAUSED (KIP-980). Each request has the same states, and starts of the task."""
    for side, worker in _sides(apache, ours):
        given = config(f"{side}-{unique}", tmp_path / side, {})
        _create_paused(worker, given)
        for request, states, starts in LIFE:
            _request(worker, {**given, "further": "key"}, request)

            def reached(side: str = side, worker: Oracle | ThreadCluster = worker) -> Any:
                file = tmp_path / side
                reports = _reports(file) if file.exists() else ()
                found = _states(worker, f"{side}-{unique}")[0]
                count = sum(report.startswith("start at") for report in reports)
                return (found, count) == (states, starts)  # noqa: B023

            wait_until(reached, what=f"{states} of {side} after {request}", timeout_s=START_S)
        _delete(worker, given)
        numbers = [int(value) for value in _values(broker, given["topic"])]
        assert numbers == [*range(1, len(numbers) + 1)]
    calls = {
        side: [line.split()[0] for line in _reports(tmp_path / side) if "record" not in line]
        for side in "ao"
    }
    assert calls["o"] == calls["a"]


def _create_paused(worker: Oracle | ThreadCluster, config: Mapping[str, str]) -> None:
    if isinstance(worker, ThreadCluster):
        worker.verbs.create(config["name"], dict(config), TargetState.PAUSED)
        return
    body = {"name": config["name"], "config": dict(config), "initial_state": "PAUSED"}

    def created() -> bool:
        return http.post(f"{worker.url}/connectors", json=body, timeout=90).is_success

    wait_until(created, what="its creation", timeout_s=START_S)


def _request(worker: Oracle | ThreadCluster, config: Mapping[str, str], request: str) -> None:
    name = config["name"]
    if request == "config":
        _put(worker, config)
    elif isinstance(worker, ThreadCluster):
        verbs = worker.verbs
        match request.split("?"):
            case ["restart", flags]:
                verbs.restart(name, include_tasks=True, only_failed="onlyFailed" in flags)
            case ["tasks/0/restart"]:
                verbs.restart_task(name, 0)
            case [verb]:
                getattr(verbs, verb)(name)
    else:
        method = "POST" if "restart" in request else "PUT"
        url = f"{worker.url}/connectors/{name}/{request}"

        def accepted() -> bool:
            answer = http.request(method, url, timeout=90)
            assert answer.is_success or answer.status_code == 409, answer.text
            return answer.is_success

        wait_until(accepted, what=request, timeout_s=START_S)


def _states(worker: Oracle | ThreadCluster, name: str) -> tuple[str, str]:
    """Returns the first letters of the states of a connector and its tasks, and the beginning of
    the connector's trace."""
    if isinstance(worker, ThreadCluster):
        status = worker.verbs.status(name)
        tasks = [status.tasks[number] for number in sorted(status.tasks)]
        parts = [(str(each.state), each.trace) for each in (status.connector, *tasks)]
    else:
        answer = http.get(f"{worker.url}/connectors/{name}/status", timeout=60)
        if not answer.is_success:
            return "", ""
        found = answer.json()
        listed = [found["connector"], *found["tasks"]]
        parts = [(each["state"], each.get("trace")) for each in listed]
    letters = "".join(state[0] for state, _ in parts)
    return letters, (parts[0][1] or "").partition("\n")[0]
