"""Pins that cannot fit are refused without a cluster, where the class is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_reconciler.observe.pin_checks import check_pins
from connect_specs.desired import Desired
from connect_specs.loader import load_connectors
from connect_specs.plugin_definitions import PluginDefinition, PluginSet

PLUGINS = PluginSet(
    tuple(
        PluginDefinition(name, kind, "1")
        for name, kind in (
            ("com.example.Orders", "source"),
            ("com.example.Archive", "sink"),
            ("org.apache.kafka.connect.file.FileStreamSourceConnector", "source"),
        )
    )
)
SINK_SET = "set: [{partition: {kafka_topic: t, kafka_partition: 0}, offset: {kafka_offset: 5}}]"
SOURCE_SET = "set: [{partition: {table: t}, offset: {id: 5}}]"


def checked(folder: Path, name: str, offsets: str) -> list[tuple[str, str]]:
    file = folder / "a.yaml"
    config = f"{{connector.class: {name}, topics: t, file: /f, topic: t}}"
    file.write_text(f"name: a\nconfig: {config}\noffsets:\n  {offsets}\n  pin: p\n")
    errors, warnings = check_pins(Desired("p", load_connectors([file], folder)), PLUGINS)
    return [(str(each.where), each.what) for each in (*errors, *warnings)]


@pytest.mark.parametrize(
    ("name", "offsets", "says"),
    [
        ("com.example.Orders", "to: earliest", "'to' names a place in topics"),
        ("com.example.Orders", "to: 2026-11-20T10:00:00Z", "'to' names a place in topics"),
        ("com.example.Orders", SINK_SET, "a source has offsets of its own"),
        ("com.example.Archive", SOURCE_SET, "a sink's offsets are those of topic partitions"),
        ("com.example.Archive", SINK_SET.replace("kafka_topic: t", "kafka_topic: u"), "topic u"),
        ("FileStreamSource", "to: latest", "'to' names a place in topics"),
        ("FileStreamSource", SOURCE_SET, "contain the key 'position'"),
        (
            "FileStreamSource",
            "set: [{partition: {file: a}, offset: {position: 5}}]",
            "contain the key 'filename'",
        ),
        ("FileStreamSource", "set: [{partition: {filename: a}, offset: {position: '5'}}]", "Long"),
        ("com.example.Unheard", "to: earliest", None),
        ("com.example.Orders", SOURCE_SET, None),
        ("com.example.Archive", "to: earliest", None),
        ("com.example.Archive", SINK_SET, None),
        ("com.example.Orders", "reset: true", None),
        ("FileStreamSource", "set: [{partition: {filename: a}, offset: {position: 5}}]", None),
        ("FileStreamSource", "set: [{partition: {filename: a}, offset: null}]", None),
    ],
)
def test_what_does_not_fit_is_told(
    tmp_path: Path, name: str, offsets: str, says: str | None
) -> None:
    found = checked(tmp_path, name, offsets)
    if says is None:
        assert found == []
    else:
        ((where, what),) = found
        assert where == "a.yaml:5:8"
        assert says in what
