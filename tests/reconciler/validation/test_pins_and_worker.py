"""What is wrong in pins and in properties of the worker is found without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_reconciler.validation.configs import check_pins, check_project
from connect_specs.desired import Desired, Project
from connect_specs.plugin_definitions import PluginDefinition, PluginSet
from connect_specs.project import load_project
from support.spec_files import load_connectors

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


def of_pin(folder: Path, name: str, offsets: str) -> list[tuple[str, str]]:
    file = folder / "a.yaml"
    config = f"{{connector.class: {name}, topics: t, file: /f, topic: t}}"
    file.write_text(f"name: a\nconfig: {config}\noffsets:\n  {offsets}\n  pin: p\n")
    found = check_pins(Desired("p", load_connectors([file], folder)), PLUGINS)
    return [(str(each.where), each.what) for each in found]


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
    found = of_pin(tmp_path, name, offsets)
    if says is None:
        assert found == []
    else:
        ((where, what),) = found
        assert where == "a.yaml:5:8"
        assert says in what


WORKER = """\
project: p
cluster:
  group.id: g
  kafka: {bootstrap.servers: "localhost:1"}
  worker:
    offset.flush.interval.ms: soon
    tasks.max: 3
"""
ELSEWHERE = WORKER + "  target: {rest: 'http://localhost:8083'}\n"


def project(folder: Path, text: str) -> Project:
    file = folder / "connect.yaml"
    file.write_text(text)
    return load_project(file)


def test_properties_of_the_worker_are_checked(tmp_path: Path) -> None:
    found = check_project(project(tmp_path, WORKER))
    assert [(each.severity, str(each.where)) for each in found] == [
        ("error", "connect.yaml:6:5"),
        ("warning", "connect.yaml:7:5"),
    ]
    assert "offset.flush.interval.ms" in found[0].what
    assert "tasks.max" in found[1].what


def test_of_other_workers_only_unknown_properties_are_told(tmp_path: Path) -> None:
    found = check_project(project(tmp_path, ELSEWHERE.replace("soon", "'500'")))
    assert [(each.severity, str(each.where)) for each in found] == [("warning", "connect.yaml:7:5")]


def test_an_interval_that_an_apply_reads_is_a_number(tmp_path: Path) -> None:
    """The trap: of workers elsewhere it is read by an apply alone, after its confirmation."""
    found = check_project(project(tmp_path, ELSEWHERE))
    assert [(each.severity, str(each.where)) for each in found] == [
        ("error", "connect.yaml:6:5"),
        ("warning", "connect.yaml:7:5"),
    ]
