"""The lock file: read back as written, stable, and refused where it is no lock file."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_specs.diagnostics import Invalid, Location
from connect_specs.plugin_definitions import (
    CONNECTORS,
    KeyDefinition,
    PluginDefinition,
    PluginSet,
    nearest_class,
)
from connect_specs.plugins_lock import PLUGINS_LOCK, load_lock, lock_text

KEYS = {
    "b": KeyDefinition("b", "INT", required=True, importance="HIGH"),
    "a": KeyDefinition("a", "STRING", default="", importance="LOW", dependents=("b",)),
}
SINK = PluginDefinition("com.example.Sink", "sink", "1.2", KEYS)
BARE = PluginDefinition("com.example.Bare", "transformation", None, {})


def test_a_lock_is_read_back_as_it_was(tmp_path: Path) -> None:
    (tmp_path / PLUGINS_LOCK).write_text(lock_text(PluginSet((BARE, SINK))))
    assert load_lock(tmp_path) == PluginSet((SINK, BARE))


def test_no_lock(tmp_path: Path) -> None:
    assert load_lock(tmp_path) is None


def test_the_order_does_not_matter_and_a_key_is_a_line() -> None:
    turned = PluginDefinition("com.example.Sink", "sink", "1.2", dict(reversed(KEYS.items())))
    text = lock_text(PluginSet((SINK, BARE)))
    assert text == lock_text(PluginSet((BARE, turned)))
    assert [line.strip() for line in text.splitlines() if '"name"' in line] == [
        '{"name": "a", "type": "STRING", "default": "", "importance": "LOW", "dependents": ["b"]},',
        '{"name": "b", "type": "INT", "required": true, "importance": "HIGH"}',
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{\n  "format": 1,\n  oops', Location(PLUGINS_LOCK, 3, 3)),
        ('{"format": 2, "plugins": []}', Location(PLUGINS_LOCK, 1, 1)),
        ("[]", Location(PLUGINS_LOCK, 1, 1)),
        ('{"format": 1}', Location(PLUGINS_LOCK, 1, 1)),
        (
            '{"format": 1, "plugins": [{"class": "a", "type": "sink"}]}',
            Location(PLUGINS_LOCK, 1, 27),
        ),
        ('{"format": 1, "plugins": [1]}', Location(PLUGINS_LOCK, 1, 27)),
    ],
)
def test_what_is_no_lock(tmp_path: Path, text: str, where: Location) -> None:
    (tmp_path / PLUGINS_LOCK).write_text(text)
    with pytest.raises(Invalid) as error:
        load_lock(tmp_path)
    assert error.value.diagnostics[0].where == where
    assert "connect plugins lock" in error.value.diagnostics[0].hint


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("OrderSink", "OrdersSink"),
        ("OrderSinkConnector", "OrdersSinkConnector"),
        ("OrdersSinkConector", "OrdersSinkConnector"),
        ("com.exmaple.OrdersSinkConnector", "com.example.OrdersSinkConnector"),
        ("org.acme.OrderSinkConnector", "com.example.OrdersSinkConnector"),
        ("com.acme.KinesisSinkConnector", None),
        ("AvroSourceConnector", None),
        ("Connector", None),
    ],
)
def test_the_class_that_a_name_may_mean(name: str, meant: str | None) -> None:
    known = ["com.example.OrdersSinkConnector", "com.example.OrdersSourceConnector"]
    assert nearest_class(name, known, CONNECTORS) == meant


def test_converters_are_not_alike_by_their_suffix() -> None:
    known = ["org.apache.kafka.connect.json.JsonConverter"]
    assert nearest_class("io.confluent.AvroConverter", known, ("converter",)) is None
    assert nearest_class("JsonConvertor", known, ("converter",)) == "JsonConverter"


@pytest.mark.parametrize("name", ["HoistField$Value", "HoistFeild$Value"])
def test_a_nested_class_has_no_short_name_that_could_be_meant(name: str) -> None:
    """The trap: "did you mean" what was written."""
    known = [f"org.apache.kafka.connect.transforms.HoistField${half}" for half in ("Key", "Value")]
    assert nearest_class(name, known, ("transformation",)) == known[1]
