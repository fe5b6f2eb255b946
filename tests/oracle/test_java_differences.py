"""Rows of docs/architecture.md about differences from Apache's workers, with a Java connector on
either: what its tasks do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from oracle.java_sides import (
    OurSide,
    Side,
    TheirSide,
    lines,
    our_side,
    reach,
    records,
    their_side,
    wait_for_line,
)
from support.broker import BrokerAddress, create_topic
from support.java_plugins import SINK, SOURCE, add_compiled
from support.thread_cluster import STRING
from support.wait import wait_until

pytestmark = [pytest.mark.oracle, pytest.mark.long]

JSON = "org.apache.kafka.connect.json.JsonConverter"
FILES = "org.apache.kafka.common.config.provider.FileConfigProvider"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Without exactly-once support, as Apache's workers are by default."""
    folder = tmp_path_factory.mktemp("differing")
    add_compiled("Differing", {SOURCE: "tests.Differing"}, folder / "plugins")
    add_compiled("Counting", {SINK: "tests.Counting$Lines"}, folder / "plugins")
    (folder / "allowed").mkdir()
    (folder / "secret").write_text("key=from outside\n")
    (folder / "allowed" / "link").symlink_to(folder / "secret")
    return {
        "plugin.path": str(folder / "plugins"),
        "key.converter": STRING,
        "value.converter": STRING,
        "exactly.once.source.support": "disabled",
        "offset.flush.interval.ms": "500",
        "connector.client.config.override.policy": "Allowlist",
        "connector.client.config.override.allowlist": "bootstrap.servers",
        "config.providers": "files",
        "config.providers.files.class": FILES,
        "config.providers.files.param.allowed.paths": str(folder / "allowed"),
    }


@pytest.fixture(scope="module")
def sides(
    broker: BrokerAddress, settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Side, Side]]:
    folder = tmp_path_factory.mktemp("differences")
    with (
        their_side(broker, folder, settings, exactly_once=False) as theirs,
        our_side(broker, f"ours-{folder.name}", settings) as ours,
    ):
        yield theirs, ours


Run = Callable[..., tuple[Any, Any]]


@pytest.fixture
def run(sides: tuple[Side, Side], tmp_path: Path, unique: str) -> Iterator[Run]:
    """Runs a connector on both sides, and returns what a function of the side and its config
    observes on each, without what differs by name; both are deleted in the end."""
    ran: list[tuple[Side, str]] = []

    def both(observe: Callable[[Side, Mapping[str, str]], Any], **more: str) -> tuple[Any, Any]:
        seen = []
        for side in sides:
            name = f"{side.letter}-{unique}"
            config = {
                "name": name,
                "connector.class": "tests.Differing",
                "tasks.max": "1",
                "topic": name,
                "reports": str(tmp_path / side.letter),
                **more,
            }
            side.put(config)
            ran.append((side, name))
            seen.append(observe(side, config))
        return seen[0], seen[1]

    yield both
    for side, name in ran:
        side.delete(name)


def reports(config: Mapping[str, str]) -> list[str]:
    return lines(Path(config["reports"]))


def test_a_task_is_not_stopped_while_it_polls(run: Run) -> None:
    """One whose `poll` does not return is given up."""

    def observe(side: Side, config: Mapping[str, str]) -> list[str]:
        wait_for_line(Path(config["reports"]), "poll waits")
        side.stop(config["name"])
        reach(side, config["name"], "S")
        wait_for_line(Path(config["reports"]), "connector stops")
        return reports(config)

    theirs, ours = run(observe, mode="poll waits")
    # ours is interrupted then, as nothing of it may be left for the next attempt
    assert ours[: len(theirs)] == theirs
    assert theirs[-1] == "connector stops"


@pytest.mark.parametrize(
    ("mode", "converter"),
    [("dates", STRING), ("dates", JSON), ("", JSON), ("texts", STRING)],
)
def test_records_are_the_same(
    sides: tuple[Side, Side], run: Run, mode: str, converter: str
) -> None:
    """Maps without schema, dates in headers, and dates before 1582 and after 9999."""

    def observe(side: Side, config: Mapping[str, str]) -> Any:
        return records(side, config["topic"], 3)

    more = {"value.converter": converter, "value.converter.schemas.enable": "false", "mode": mode}
    theirs, ours = run(observe, **more)
    assert ours == theirs


def test_a_reference_without_a_value_is_passed_on_as_its_text(run: Run) -> None:
    def observe(side: Side, config: Mapping[str, str]) -> list[str]:
        reach(side, config["name"], "RR")
        wait_for_line(Path(config["reports"]), f"task starts with {config['value']}")
        return [line for line in reports(config) if "starts" in line]

    theirs, ours = run(observe, value="${files:/none/such:key}")
    assert ours == theirs


def test_a_link_leads_out_of_allowed_paths(run: Run, settings: Mapping[str, str]) -> None:
    def observe(side: Side, config: Mapping[str, str]) -> list[str]:
        reach(side, config["name"], "RR")
        wait_for_line(Path(config["reports"]), "task starts with from outside")
        return [line for line in reports(config) if "starts" in line]

    link = f"{settings['config.providers.files.param.allowed.paths']}/link"
    theirs, ours = run(observe, value=f"${{files:{link}:key}}")
    assert ours == theirs


def test_a_record_that_the_broker_refuses_is_skipped_alone(
    run: Run, broker: BrokerAddress, unique: str
) -> None:
    """With tolerated errors; the others are there."""

    def observe(side: Side, config: Mapping[str, str]) -> Any:
        return [key for key, _, _ in records(side, config["topic"], 2)]

    for letter in "ao":
        topic, config = f"{letter}-{unique}", {"max.message.bytes": "1000"}
        create_topic(broker.bootstrap_servers, topic, config=config)
    theirs, ours = run(observe, mode="large", **{"errors.tolerance": "all"})
    assert ours == theirs == [b"1", b"3"]


def test_offsets_are_those_of_each_partition_whose_records_are_acknowledged(
    run: Run, broker: BrokerAddress, unique: str
) -> None:
    """The other topic takes no records, as it lacks a replica: the task waits, and is RUNNING."""
    for letter in "ao":
        topic, config = f"{letter}-{unique}-other", {"min.insync.replicas": "2"}
        create_topic(broker.bootstrap_servers, topic, config=config)

    def observe(side: Side, config: Mapping[str, str]) -> Any:
        def moved() -> Any:
            found = side.offsets(config["name"])
            return found or None

        offsets = wait_until(moved, what="an offset", timeout_s=60)
        return json.dumps(offsets).replace(config["name"], "NAME"), side.status(config["name"])

    theirs, ours = run(observe, mode="two topics")
    assert ours == theirs


def test_a_record_for_a_partition_that_is_not_there_is_tried_on(run: Run) -> None:
    def observe(side: Side, config: Mapping[str, str]) -> Any:
        records(side, config["topic"], 1)
        wait_for_line(Path(config["reports"]), "task starts with null")
        return side.status(config["name"]).letters

    theirs, ours = run(observe, mode="partition")
    assert ours == theirs == "RR"


@pytest.mark.parametrize(
    ("mode", "reason"), [("no configs", "NullPointerException"), ("configs throw", "No tasks")]
)
def test_a_connector_that_gives_no_tasks_says_so(run: Run, mode: str, reason: str) -> None:
    """By Apache's worker it is RUNNING, without a word."""

    def observe(side: Side, config: Mapping[str, str]) -> Any:
        wait_for_line(Path(config["reports"]), "connector starts with null")
        return reach(side, config["name"], "R", "" if isinstance(side, TheirSide) else reason)

    theirs, ours = run(observe, mode=mode)
    assert not theirs.traces[0]
    assert ours.traces[0]


def test_a_connector_whose_stop_throws_is_paused(run: Run) -> None:
    def observe(side: Side, config: Mapping[str, str]) -> str:
        reach(side, config["name"], "RR")
        side.pause(config["name"])
        letters = "PP" if isinstance(side, OurSide) else "FP"
        reach(side, config["name"], letters)
        side.resume(config["name"])
        if isinstance(side, OurSide):
            reach(side, config["name"], "RR")
        return letters

    run(observe, mode="stop throws")


def test_a_stored_sink_with_an_empty_topic_fails(
    sides: tuple[Side, Side], tmp_path: Path, unique: str
) -> None:
    """Connect took such a config until 4.1."""
    _, ours = sides
    config = {"name": unique, "connector.class": "tests.Counting$Lines", "tasks.max": "1"}
    ours.put({**config, "topics": f"{unique},,", "path": str(tmp_path / "lines")})
    reach(ours, unique, "F", "must not be empty")
    ours.delete(unique)


def test_overrides_of_an_admin_client_are_checked_as_by_apaches_worker(
    sides: tuple[Side, Side],
) -> None:
    """Of a sink only if it has a dead letter queue."""
    config = {"name": "c", "connector.class": "tests.Counting$Lines", "topics": "t", "path": "p"}
    checked = {"errors.deadletterqueue.topic.name": "d", "errors.tolerance": "all"}
    for more, count in (({}, 0), (checked, 1)):
        theirs, ours = (
            side.errors({**config, **more, "admin.override.retries": "5"}) for side in sides
        )
        assert ours == theirs
        assert len(theirs) == count


def test_a_version_that_is_not_there_is_refused_each_time(sides: tuple[Side, Side]) -> None:
    """Apache's worker answers so once."""
    config = {"name": "c", "connector.class": "tests.Differing", "connector.plugin.version": "9.9"}
    theirs, ours = (side.errors(config) for side in sides)
    assert ours == theirs
    assert sides[1].errors(config) == ours


def test_a_task_that_repeats_its_poll_is_running_without_a_word(run: Run) -> None:
    def observe(side: Side, config: Mapping[str, str]) -> Any:
        wait_for_line(Path(config["reports"]), "poll is retried", 3)
        return reach(side, config["name"], "RR")

    theirs, ours = run(observe, mode="poll is retried")
    assert ours == theirs
    assert ours.letters == "RR"
