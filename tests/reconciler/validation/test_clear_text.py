"""Secrets that specs hold in clear text are warned of, with the reference to write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from connect_reconciler.validation.configs import check_specs
from connect_specs.desired import Desired, Project, RestTarget
from connect_specs.diagnostics import Diagnostic
from connect_specs.plugin_definitions import KeyDefinition, PluginDefinition, PluginSet
from connect_specs.plugins_lock import PLUGINS_LOCK, lock_text
from support.projects import project_of
from support.spec_files import load_connectors

VAULT = PluginDefinition(
    "com.example.VaultSink",
    "sink",
    "1.0",
    {"vendor.pin": KeyDefinition("vendor.pin", "PASSWORD"), "url": KeyDefinition("url", "STRING")},
)
BASE = "name: a\nconfig:\n  connector.class: com.example.VaultSink\n  topics: t\n"
KAFKAS = "org.apache.kafka.common.config.provider."


def project(folder: Path, **worker: str) -> Project:
    (folder / PLUGINS_LOCK).write_text(lock_text(PluginSet((VAULT,))))
    return project_of(
        name="p", kafka={"bootstrap.servers": "127.0.0.1:1"}, worker=worker, folder=folder
    )


def warnings(of: Project, text: str) -> list[Diagnostic]:
    file = of.folder / "a.yaml"
    file.write_text(BASE + text)
    desired = Desired("p", load_connectors([file], of.folder))
    found = check_specs(of, desired)
    assert "hunter2" not in repr(found)
    return [each for each in found if each.code == "config.secret-in-clear-text"]


@pytest.mark.parametrize(
    "text",
    [
        "  vendor.pin: hunter2\n",
        "  db.password: hunter2\n",
        "  url: jdbc:db://me:hunter2@host/x\n",
        "  other: hunter2\nsensitive: [other]\n",
        "  consumer.override.sasl.jaas.config: x required username=${env:U} password=hunter2;\n",
    ],
)
def test_a_secret_is_warned_of_at_its_place(tmp_path: Path, text: str) -> None:
    (found,) = warnings(project(tmp_path), text)
    assert str(found.where).startswith("a.yaml:5")
    assert "${env:A_" in found.hint


@pytest.mark.parametrize(
    "text",
    [
        "  vendor.pin: ${env:PIN}\n",
        "  url: jdbc:db://me:${file:/x:p}@host/x\n",
        "  consumer.override.sasl.jaas.config: x required username=u password=${env:P};\n",
        "  vendor.pin: ${env:U}:${env:P}\n",
        "  vendor.pin: ''\n",
        "  vendor.pin: '****'\n",
        "  url: jdbc:db://host/x\n",
    ],
)
def test_references_and_plain_values_are_not(tmp_path: Path, text: str) -> None:
    assert not warnings(project(tmp_path), text)


def test_several_are_named_in_one_warning(tmp_path: Path) -> None:
    (found,) = warnings(project(tmp_path), "  vendor.pin: hunter2\n  db.password: hunter2\n")
    assert "vendor.pin, db.password hold secrets" in found.what


@pytest.mark.parametrize(
    ("provider", "kind", "reference"),
    [
        ("env", f"{KAFKAS}EnvVarConfigProvider", "${env:A_VENDOR_PIN}"),
        ("props", f"{KAFKAS}FileConfigProvider", "${props:/path/to/secrets.properties:vendor.pin}"),
        ("dir", "Directory", "${dir:/path/to/folder:vendor.pin}"),
        ("vault", "com.example.VaultProvider", "${vault:path:key}"),
    ],
)
def test_the_reference_is_one_of_the_declared_provider(
    tmp_path: Path, provider: str, kind: str, reference: str
) -> None:
    worker = {"config.providers": provider, f"config.providers.{provider}.class": kind}
    for of in (
        project(tmp_path, **worker),
        replace(project(tmp_path, **worker), target=RestTarget("http://connect.test")),
    ):
        (found,) = warnings(of, "  vendor.pin: hunter2\n")
        assert reference in found.hint
