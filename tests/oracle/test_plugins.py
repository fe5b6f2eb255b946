"""Plugins, their keys and validation, asked of a real Connect worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from connect_reconciler.backend import open_backend
from connect_reconciler.backend.plugins import InstalledPlugins, RestPlugins, locked
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.model.live import Live
from connect_reconciler.render.plugin_changes import plugin_changes
from connect_reconciler.validation.configs import checked
from connect_specs.desired import Desired, DesiredConnector, Project, RestTarget
from connect_specs.diagnostics import Location
from connect_specs.plugin_definitions import PluginSet, passwords_in
from connect_specs.plugins_lock import PLUGINS_LOCK, load_lock, lock_text
from support.oracle import Oracle
from support.projects import project_of
from support.spec_files import load_connectors

pytestmark = pytest.mark.oracle

FILE = "org.apache.kafka.connect.file.FileStream"
MASK = "org.apache.kafka.connect.transforms.MaskField$Value"


@pytest.fixture(scope="module")
def rest(oracle: Oracle) -> Iterator[RestPlugins]:
    with RestClient(RestTarget(oracle.url)) as client:
        yield RestPlugins(client)


def project(folder: Path, url: str) -> Project:
    return project_of(name="p", target=RestTarget(url), folder=folder)


def specs(**config: str) -> Desired:
    found = {"name": "a", **{key.replace("_", "."): value for key, value in config.items()}}
    return Desired("p", {"a": DesiredConnector("a", found, Location("a.yaml", 1, 1))})


def test_file_connectors_have_the_same_keys_here_and_there(rest: RestPlugins) -> None:
    theirs, ours = (
        PluginSet(tuple(p for p in locked(each, specs()).plugins if p.class_name.startswith(FILE)))
        for each in (rest, InstalledPlugins())
    )
    assert len(theirs.plugins) == 2
    assert [
        (change.class_name, [line for line in change.lines if "plugin.version" not in line])
        for change in plugin_changes(theirs, ours)
        if any("plugin.version" not in line for line in change.lines)
    ] == []


def test_a_lock_of_a_real_cluster(rest: RestPlugins, tmp_path: Path) -> None:
    desired = specs(
        connector_class="FileStreamSink",
        topics="t",
        value_converter="JsonConverter",
        transforms="m",
        transforms_m_type=MASK,
    )
    found = locked(rest, desired)
    classes = {each.class_name: each for each in found.plugins}
    assert {f"{FILE}SinkConnector", f"{FILE}SourceConnector", MASK} < classes.keys()
    assert "org.apache.kafka.connect.json.JsonConverter" in classes
    assert "org.apache.kafka.connect.storage.StringConverter" not in classes
    assert classes[MASK].keys["fields"].required
    assert classes[f"{FILE}SourceConnector"].keys["batch.size"].default == "2000"
    text = lock_text(found)
    assert text == lock_text(locked(rest, desired))
    (tmp_path / PLUGINS_LOCK).write_text(text)
    again = load_lock(tmp_path)
    assert again is not None
    assert plugin_changes(found, again) == ()


SPEC = f"""\
name: a
config:
  connector.class: FileStreamSink
  topics: t
  tasks.max: none
  fil: out.txt
  consumer.override.sasl.jaas.config: s3cret
  transforms: m
  transforms.m.type: {MASK}
  transforms.m.replacment: s3cret
  errors.tolerance: some
  config.action.reload: ${{env:RELOAD}}
"""


def test_a_plan_says_what_the_worker_says_and_where(oracle: Oracle, tmp_path: Path) -> None:
    """The cluster validates configs while it is planned: unknown, wrong, not checkable."""
    file = tmp_path / "a.yaml"
    file.write_text(SPEC)
    desired = Desired("p", load_connectors([file], tmp_path))
    live = checked(Live(), desired, open_backend(project(tmp_path, oracle.url), {}))
    assert [(str(each.where), each.what) for each in live.errors] == [
        (
            "a.yaml:5:3",
            "a: Invalid value none for configuration tasks.max: Not a number of type INT",
        ),
        (
            "a.yaml:9:3",
            'a: Missing required configuration "transforms.m.fields" which has no default value.',
        ),
        ("a.yaml:10:3", f"a: {MASK} has no option replacment"),
        (
            "a.yaml:11:3",
            "a: Invalid value some for configuration errors.tolerance: String must be one of: "
            "none, all",
        ),
    ]
    said = {each.code: each for each in live.warnings}
    coming = "config.override-allowlist"
    clear = "config.secret-in-clear-text"
    assert said.keys() == {"config.unknown-key", "config.not-checkable", coming, clear}
    assert said["config.not-checkable"].what.endswith("a (config.action.reload)")
    unknown = [each for each in live.warnings if each.code == "config.unknown-key"]
    assert [(str(each.where), each.hint) for each in unknown] == [
        ("a.yaml:6:3", "did you mean file?"),
    ]
    assert "s3cret" not in repr((live.errors, live.warnings))


def test_a_class_that_the_worker_does_not_have(oracle: Oracle, tmp_path: Path) -> None:
    desired = specs(connector_class="com.example.Orders", topics="t")
    live = checked(Live(), desired, open_backend(project(tmp_path, oracle.url), {}))
    what = "a: the cluster has no connector class com.example.Orders"
    assert [each.what for each in live.errors] == [what]


def test_passwords_are_those_that_the_worker_tells(oracle: Oracle, tmp_path: Path) -> None:
    config = {
        "connector.class": "FileStreamSink",
        "consumer.override.ssl.key.password": "x",
    }
    backend = open_backend(project(tmp_path, oracle.url), {})
    with backend.plugins() as plugins:
        assert passwords_in(config, plugins) == frozenset()
    live = checked(
        Live(),
        Desired(
            "p",
            {
                "a": DesiredConnector(
                    "a", {"name": "a", "topics": "t", **config}, Location("a.yaml", 1, 1)
                )
            },
        ),
        backend,
    )
    assert live.password_keys["a"] == {"consumer.override.ssl.key.password"}


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.json.JsonConverter",
        "StringConverter",
        "SimpleHeaderConverter",
        "ByteArray",
        "RegexRouter",
        "org.apache.kafka.connect.transforms.Cast$Key",
        "TopicNameMatches",
        "FileStreamSource",
        f"{FILE}SinkConnector",
    ],
)
def test_keys_as_rest_shows_them(rest: RestPlugins, name: str) -> None:
    theirs, ours = (
        [_comparable(key) for key in each.keys(name) or ()] for each in (rest, InstalledPlugins())
    )
    assert ours == theirs


def _comparable(key: Mapping[str, object]) -> dict[str, object]:
    """Documentation is in words of our own, and versions are those of two programs."""
    found = {field: value for field, value in key.items() if field != "documentation"}
    if str(found["name"]).endswith("plugin.version"):
        del found["default_value"]
    return found
