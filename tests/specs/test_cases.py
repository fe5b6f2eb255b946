"""Whole projects as a user writes them, beside what loading them must give.

A case is a folder under cases/: its files, and either expected.txt, the diagnostics to the letter,
or expected.json, the connectors with every field that is not its default.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connect_specs.desired import DesiredConnector, Pin, Project
from connect_specs.diagnostics import Invalid
from connect_specs.loader import load_specs
from connect_specs.names import ClusterTopics
from connect_specs.plain_text import render_diagnostics
from connect_specs.project import load_project

CASES = sorted(path for path in (Path(__file__).parent / "cases").iterdir() if path.is_dir())


def project_of(folder: Path) -> Project:
    file = folder / "connect.yaml"
    if file.exists():
        return load_project(file)
    topics = ClusterTopics.of("test")
    return Project("test", file, "test", topics, None, None, {}, ("connectors/",))


def dump_pin(pin: Pin) -> dict[str, Any]:
    entries = [[dict(e.partition), None if e.offset is None else dict(e.offset)] for e in pin.set]
    where = str(pin.where)
    asked = {"reset": True} if pin.reset else {"set": entries}
    return {"id": pin.id, "where": where} | (asked if pin.to is None else {"to": pin.to})


def dump(connector: DesiredConnector) -> dict[str, Any]:
    fields = {
        "where": str(connector.where),
        "config": dict(connector.config),
        "state": connector.state and connector.state.value,
        "pin": connector.pin and dump_pin(connector.pin),
        "prevent_delete": connector.prevent_delete,
        "ignore": list(connector.ignore),
        "sensitive": list(connector.sensitive),
        "renamed_from": connector.renamed_from,
        "allow_zero_tasks": connector.allow_zero_tasks,
    }
    return {key: value for key, value in fields.items() if value}


@pytest.mark.parametrize("folder", CASES, ids=lambda path: path.name)
def test_case(folder: Path) -> None:
    wrong = folder / "expected.txt"
    if wrong.exists():
        with pytest.raises(Invalid) as caught:
            load_specs(project_of(folder))
        assert render_diagnostics(caught.value.diagnostics) == wrong.read_text()
        assert [each for each in caught.value.diagnostics if not each.hint] == []
        return
    desired = load_specs(project_of(folder))
    expected = json.loads((folder / "expected.json").read_text())
    found = {name: dump(connector) for name, connector in desired.connectors.items()}
    # as text, so that 1, 1.0 and true differ, and the order of a config counts
    assert list(found) == sorted(expected)
    for name, connector in found.items():
        assert repr(connector["config"]) == repr(expected[name]["config"])
        assert repr(connector.get("pin", {}).get("set")) == repr(
            expected[name].get("pin", {}).get("set")
        )
    assert found == expected
