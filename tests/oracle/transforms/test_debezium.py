"""ExtractNewRecordState, compared with Debezium's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from connect_runtime.api import ConfigError
from connect_runtime.plugins import registry
from support.applying_transforms import TABLES, ours
from support.connect_classes import ConnectClasses
from support.connect_jars import debezium_jars
from support.connect_json import comparable
from support.record_tables import record_of

pytestmark = pytest.mark.oracle

NAME = "io.debezium.transforms.ExtractNewRecordState"
RECORDS = {
    name: record_of(given)
    for name, given in yaml.safe_load((TABLES / "debezium-records.yaml").read_text()).items()
}
CONFIGS = yaml.safe_load((TABLES / "debezium-configs.yaml").read_text())


@pytest.fixture(scope="module")
def debezium() -> Iterator[ConnectClasses]:
    with ConnectClasses("-Duser.timezone=UTC", more_jars=debezium_jars()) as running:
        yield running


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: ",".join(map("=".join, c.items())))
def test_as_debezium_does(debezium: ConnectClasses, config: dict[str, Any]) -> None:
    records = list(RECORDS.values())
    expected = debezium.apply(NAME, config, records)
    found = ours(NAME, config, records)
    if "results" not in expected:
        assert found == comparable(expected)
        return
    assert "results" in found, found
    different = {
        record: (comparable(was), comparable(should))
        for record, was, should in zip(RECORDS, found["results"], expected["results"], strict=True)
        if comparable(was) != comparable(should)
    }
    assert different == {}


def test_options(debezium: ConnectClasses) -> None:
    listed = debezium.ask({"describe": NAME})["options"]
    config = registry.plugin("transformation", "type", NAME).cls().config()
    found = [(k.name, k.type.value, k.default_text, k.importance.value, k.doc) for k in config]
    assert found == [
        tuple(o[n] for n in ("name", "type", "default", "importance", "doc")) for o in listed
    ]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"delete.tombstone.handling.mode": "none"}, "Value must be one of drop, tombstone,"),
        ({"drop.tombstones": "false"}, r"drop\.tombstones is not supported: Debezium replaced it"),
    ],
)
def test_refused_configs(config: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        registry.plugin("transformation", "type", NAME).cls().configure(config)
