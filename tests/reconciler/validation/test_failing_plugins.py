"""A plugin that fails when it is asked is an error of the connectors that name it: the others are
checked as if it was not there."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from connect_reconciler.backend import plugins as plugins_module
from connect_reconciler.backend.plugins import (
    ChainedDefinitions,
    ClusterDefinitions,
    InstalledDefinitions,
    InstalledPlugins,
    LockedDefinitions,
    locked,
)
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest.refusals import Retries
from connect_reconciler.validation.configs import check_specs
from connect_runtime.plugins import registry
from connect_runtime.plugins.modules import PLUGIN_MODULES, allow_modules
from connect_runtime.validation import validate as validate_module
from connect_runtime.waiting import SharedCalls
from connect_specs.desired import Desired, Project, RestTarget
from connect_specs.diagnostics import Diagnostic
from connect_specs.plugin_definitions import (
    CONNECTORS,
    PluginDefinition,
    PluginSet,
    passwords_in,
)
from connect_specs.plugins_lock import PLUGINS_LOCK, lock_text
from connect_specs.project import load_project
from support import broken_plugins as broken
from support.spec_files import load_connectors

PROJECT = f"""\
project: p
cluster:
  group.id: g
  kafka: {{bootstrap.servers: "localhost:1"}}
  worker: {{plugin.modules: "{broken.MODULE}"}}
"""
SPEC = """\
name: {name}
config:
  connector.class: {cls}
  topic: t
  tasks.max: {tasks}
"""


def project(folder: Path, text: str = PROJECT) -> Project:
    file = folder / "connect.yaml"
    file.write_text(text)
    return load_project(file)


def desired(folder: Path, *classes: str) -> Desired:
    """A spec for each class, and `zoo`, whose tasks.max is wrong."""
    files = []
    specs = [*((f"c{number}", cls, "1") for number, cls in enumerate(classes))]
    for name, cls, tasks in (*specs, ("zoo", "FileStreamSource", "many")):
        files.append(folder / f"{name}.yaml")
        files[-1].write_text(SPEC.format(name=name, cls=cls, tasks=tasks))
    return Desired("p", load_connectors(files, folder))


def said(found: tuple[Diagnostic, ...]) -> list[tuple[str, str, str]]:
    return [(each.severity, str(each.where), f"{each.what} {each.why}") for each in found]


def name_of(cls: type) -> str:
    return f"{cls.__module__}:{cls.__name__}"


def test_each_is_one_error_beside_those_of_other_connectors(tmp_path: Path) -> None:
    """The trap: one class stops the check of all."""
    broken.CreatedOnce.created = False
    classes = list(broken.CONNECTORS)
    found = said(check_specs(project(tmp_path), desired(tmp_path, *map(name_of, classes))))
    assert [severity for severity, _, _ in found] == ["error"] * (len(classes) + 1)
    by_file = {where: text for _, where, text in found}
    assert "Not a number of type INT" in by_file["zoo.yaml:5:3"]
    for number, cls in enumerate(classes):
        assert broken.CONNECTORS[cls] in by_file[f"c{number}.yaml:3:3"]


def test_two_connectors_of_a_class_that_cannot_be_created_are_two_errors(tmp_path: Path) -> None:
    cls = name_of(broken.NeedsArguments)
    found = said(check_specs(project(tmp_path), desired(tmp_path, cls, cls)))
    assert [where for severity, where, _ in found if severity == "error"] == [
        "c0.yaml:3:3",
        "c1.yaml:3:3",
        "zoo.yaml:5:3",
    ]


def test_a_lock_does_not_hide_that_the_class_fails(tmp_path: Path) -> None:
    """The trap: the lock knows the keys, so nobody asks the class."""
    name = f"{broken.MODULE}.ConfigRaises"
    lock = PluginSet((PluginDefinition(name, "source", "1", {}),))
    (tmp_path / PLUGINS_LOCK).write_text(lock_text(lock))
    found = said(check_specs(project(tmp_path), desired(tmp_path, name)))
    assert ("error", "c0.yaml:3:3") in [(severity, where) for severity, where, _ in found]


def test_connectors_of_a_class_that_hangs_are_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(validate_module, "PATIENCE_S", 0.2)
    broken.RELEASE.clear()
    broken.ValidateHangs.calls = 0
    cls = name_of(broken.ValidateHangs)
    try:
        found = said(check_specs(project(tmp_path), desired(tmp_path, cls, cls, cls)))
    finally:
        broken.RELEASE.set()
    assert broken.ValidateHangs.calls == 1
    assert [where for _, where, text in found if "has not returned in" in text] == [
        "c0.yaml:3:3",
        "c1.yaml:3:3",
        "c2.yaml:3:3",
    ]


def test_a_module_that_hangs_when_it_is_imported_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(sys, "modules_release", over, raising=False)
    (tmp_path / "plugin_that_hangs_on_import.py").write_text(
        "import sys\nsys.modules_release.wait(60)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins_module, "_imports", SharedCalls[registry.Plugin | None](0.2))
    listed = project(tmp_path, PROJECT.replace(broken.MODULE, "plugin_that_hangs_on_import"))
    try:
        found = said(check_specs(listed, desired(tmp_path, "plugin_that_hangs_on_import:A")))
        assert InstalledDefinitions().find("plugin_that_hangs_on_import:A", CONNECTORS) is None
    finally:
        over.set()
    assert [(severity, where) for severity, where, _ in found] == [
        ("error", "c0.yaml:3:3"),
        ("error", "zoo.yaml:5:3"),
    ]
    assert "plugin_that_hangs_on_import:A has not been imported in" in found[0][2]


def test_a_cluster_tells_the_keys_of_its_other_plugins() -> None:
    """The trap: the answer 500 for one plugin counts as a cluster that is gone."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/connector-plugins":
            names = ("com.acme.Broken", "com.acme.Good")
            return httpx.Response(200, json=[{"class": name, "type": "sink"} for name in names])
        if "Broken" in request.url.path:
            return httpx.Response(500, json={"error_code": 500, "message": "no keys today"})
        return httpx.Response(200, json=[])

    client = RestClient(
        RestTarget("http://connect.test"),
        retries=Retries(0, 0),
        transport=httpx.MockTransport(answer),
    )
    cluster = ClusterDefinitions(lambda: client)
    assert cluster.find("com.acme.Broken", CONNECTORS) is None
    good = cluster.find("com.acme.Good", CONNECTORS)
    assert good is not None
    assert good.class_name == "com.acme.Good"


@pytest.mark.parametrize(("listed", "hidden"), [("2.0", {"acme.pin"}), ("1.0", set())])
def test_a_lock_of_another_version_says_nothing_of_passwords(listed: str, hidden: set[str]) -> None:
    """The trap: a key of the new version is shown, as the lock knows the class and not the key."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/connector-plugins":
            plugin = {"class": "com.acme.Sink", "type": "sink", "version": listed}
            return httpx.Response(200, json=[plugin])
        pin = {"name": "acme.pin", "type": "PASSWORD", "required": False, "default_value": None}
        return httpx.Response(200, json=[{**pin, "importance": "HIGH", "dependents": []}])

    client = RestClient(RestTarget("http://connect.test"), transport=httpx.MockTransport(answer))
    lock = PluginSet((PluginDefinition("com.acme.Sink", "sink", "1.0"),))
    cluster = ClusterDefinitions(lambda: client)
    definitions = ChainedDefinitions((LockedDefinitions(lock, cluster), cluster))
    config = {"connector.class": "com.acme.Sink", "acme.pin": "1234"}
    assert passwords_in(config, definitions) == hidden


def test_a_lock_is_written_without_what_a_plugin_does_not_tell(tmp_path: Path) -> None:
    """The trap: a plugin without keys, so that each key of its connectors is a warning."""

    class Source(InstalledPlugins):
        def listed(self) -> Any:
            return [
                {"class": f"{broken.MODULE}.ConfigRaises", "type": "source", "version": "2"},
                {"class": f"{broken.MODULE}.ConfigIsNone", "type": "source", "version": "2"},
                {"class": "FileStreamSource", "type": "source", "version": "2"},
            ]

    allow_modules({PLUGIN_MODULES: broken.MODULE})
    old = PluginSet((PluginDefinition(f"{broken.MODULE}.ConfigIsNone", "source", "1"),))
    warnings: list[str] = []
    found = locked(Source(), Desired("p", {}), old, warnings.append)
    assert [(each.class_name.rpartition(".")[2], each.version) for each in found.plugins] == [
        ("ConfigIsNone", "1"),
        ("FileStreamSource", "2"),
    ]
    assert [text.partition(": ")[0].rpartition(".")[2] for text in warnings] == [
        "ConfigRaises does not tell its keys, so it is not locked",
        "ConfigIsNone does not tell its keys, so the lock keeps what it has",
    ]
