"""Values of a Java config provider that expire, for a connector on a real worker and on ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

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
from support.broker import BrokerAddress
from support.java_plugins import SOURCE, add_compiled
from support.thread_cluster import STRING

pytestmark = [pytest.mark.oracle, pytest.mark.long]

PROVIDER = "org.apache.kafka.common.config.provider.ConfigProvider"
CONVERTER = "org.apache.kafka.connect.storage.Converter"
PREDICATE = "org.apache.kafka.connect.transforms.predicates.Predicate"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    folder = tmp_path_factory.mktemp("differing") / "plugins"
    services = {
        SOURCE: "tests.Differing",
        PROVIDER: "tests.Differing$Files3s",
        CONVERTER: "tests.Differing$Prefixed",
        PREDICATE: "tests.Differing$Even",
    }
    add_compiled("Differing", services, folder)
    return {
        "plugin.path": str(folder),
        "key.converter": STRING,
        "value.converter": STRING,
        "config.providers": "expiring",
        "config.providers.expiring.class": "tests.Differing$Files3s",
    }


@pytest.fixture(scope="module")
def theirs(
    broker: BrokerAddress, settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TheirSide]:
    folder = tmp_path_factory.mktemp("their-configs")
    with their_side(broker, folder, settings, exactly_once=True) as side:
        yield side


@pytest.fixture(scope="module")
def ours(
    broker: BrokerAddress, settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OurSide]:
    group = tmp_path_factory.mktemp("our-configs").name
    with our_side(broker, group, settings) as side:
        yield side


def config(side: Side, unique: str, folder: Path, **more: str) -> dict[str, str]:
    name = f"{side.letter}-{unique}"
    return {
        "name": name,
        "connector.class": "tests.Differing",
        "tasks.max": "1",
        "topic": name,
        "reports": str(folder / side.letter),
        "value.converter": STRING,
        **more,
    }


@pytest.mark.parametrize("reload", ["restart", "none"])
def test_a_connector_starts_again_when_a_value_expires_as_by_apaches_worker(
    theirs: TheirSide, ours: OurSide, tmp_path: Path, unique: str, reload: str
) -> None:
    """And its task, if the value has changed."""
    secret = tmp_path / "secret"
    for side in (theirs, ours):
        secret.write_text("first")
        given = config(
            side,
            unique,
            tmp_path,
            value=f"${{expiring:{secret}:any}}",
            **{"config.action.reload": reload},
        )
        reports = Path(given["reports"])
        side.put(given)
        reach(side, given["name"], "RR")
        if reload == "restart":
            wait_for_line(reports, "connector starts with first", 3)
            assert lines(reports).count("task starts with first") == 1
            secret.write_text("second")
            wait_for_line(reports, "task starts with second")
            assert "connector starts with second" in lines(reports)
        else:
            # longer than the value lasts, as the other case's starts show
            records(side, given["topic"], 3)
            before = lines(reports)
            secret.write_text("second")
            other = config(side, f"{unique}-other", tmp_path, value=given["value"])
            other["reports"] += "-other"
            side.put(other)
            wait_for_line(Path(other["reports"]), "connector starts with second", 3)
            assert lines(reports) == before
            side.delete(other["name"])
        side.delete(given["name"])
