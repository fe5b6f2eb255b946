"""What `connect validate` says of specs, with file, line and column: the cases of specs.yaml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_reconciler.backend.plugins import InstalledPlugins, locked
from connect_reconciler.validation.configs import check_specs
from connect_specs.desired import Desired, Project
from connect_specs.project import load_project
from support.spec_files import load_connectors

CASES = yaml.safe_load(Path(__file__).with_name("specs.yaml").read_text())
CHAIN = CASES[0]["spec"]
PROJECT = 'project: p\ncluster:\n  group.id: g\n  kafka: {bootstrap.servers: "localhost:1"}\n'
TARGET = "  target: {rest: 'http://localhost:8083'}\n"


def project(folder: Path, more: str = "") -> Project:
    (folder / "connect.yaml").write_text(PROJECT + more)
    return load_project(folder / "connect.yaml")


def desired(folder: Path, spec: str) -> Desired:
    (folder / "a.yaml").write_text(spec)
    return Desired("p", load_connectors([folder / "a.yaml"], folder))


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_specs(case: dict[str, Any], tmp_path: Path) -> None:
    targets = case.get("target", False)
    for is_elsewhere in targets if isinstance(targets, list) else [targets]:
        found = [
            (each.code, each.severity, str(each.where), each.what, each.hint)
            for each in check_specs(
                project(tmp_path, TARGET if is_elsewhere else ""), desired(tmp_path, case["spec"])
            )
        ]
        assert len(found) == len(case["found"]), found
        for (code, severity, where, what, hint), expected in zip(found, case["found"], strict=True):
            assert [code, severity, where] == [*expected[:2], f"a.yaml:{expected[2]}"], found
            assert "".join(expected[3:4]) in what, what
            assert [hint] == (expected[4:] or [hint]), hint
            assert case.get("hint has", "") in hint
    assert "this" not in sys.modules


def test_a_lock_holds_the_transformations_and_predicates_that_specs_name(tmp_path: Path) -> None:
    found = {
        plugin.class_name.rpartition(".")[2]: plugin
        for plugin in locked(InstalledPlugins(), desired(tmp_path, CHAIN)).plugins
    }
    chain = {
        name for name, plugin in found.items() if plugin.type in ("transformation", "predicate")
    }
    assert chain == {"MaskField$Value", "RegexRouter", "RecordIsTombstone"}
    assert found["MaskField$Value"].keys["fields"].required
    assert found["MaskField$Value"].version == found["FileStreamSinkConnector"].version
    assert not found["RecordIsTombstone"].keys


def test_a_class_that_does_not_load_is_told_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: a typo in the module counts as one that is not installed."""
    (tmp_path / "broken_plugin.py").write_text("x = (")
    monkeypatch.syspath_prepend(tmp_path)
    spec = "name: a\nconfig: {connector.class: 'broken_plugin:Source', topics: t}\n"
    listed = project(tmp_path, "  worker: {plugin.modules: broken_plugin}\n")
    (found,) = check_specs(listed, desired(tmp_path, spec))
    assert found.code == "config.unknown-class"
    assert "broken_plugin:Source cannot be imported: SyntaxError: " in found.why
