"""Each transformation and predicate with many configurations and records, compared with Connect's
own class: the same record, or the same error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_runtime import built_in_plugins, plugins
from connect_runtime.api import ConnectorError
from connect_runtime.api.transforms import ConnectRecord, Predicate, Transformation
from support.connect_classes import ConnectClasses
from support.connect_json import Json, comparable, record_json
from support.record_tables import record_of

pytestmark = pytest.mark.oracle

_HERE = Path(__file__).parent
_JAVA = "org.apache.kafka.connect.transforms"

RECORDS = {
    name: record_of(given)
    for name, given in yaml.safe_load((_HERE / "records.yaml").read_text()).items()
}


# Where we differ on purpose, by the end of a configuration and the record
DIFFERENCES = {
    # Python's times end with the year 9999
    ("Timestamp,format=yyyy-MM-dd HH:mm:ss,field=a", "map with large numbers"),
    # a day is no time of day for Python; Connect's converters refuse it later
    ("exclude=a,renames=a:b", "struct with a day as time"),
    # both refuse it; which field is checked first differs
    ("renames=:b", "struct with nothing in it"),
}


def _cases() -> list[Any]:
    found = []
    for name, of_class in yaml.safe_load((_HERE / "configs.yaml").read_text()).items():
        for half in of_class.get("half", [""]):
            full = f"{_JAVA}.{name}${half}" if half else f"{_JAVA}.{name}"
            for config in of_class["configs"]:
                shown = ",".join(f"{k}={v}" for k, v in config.items())
                found.append(pytest.param(full, config, id=f"{name}{half}-{shown}"))
    return found


def ours(name: str, config: Mapping[str, str], records: list[ConnectRecord]) -> Json:
    """What our class does, as `ConnectClasses.apply` says it."""
    find = plugins.predicate if ".predicates." in name else plugins.transformation
    plugin = find("type", name).cls()
    try:
        plugin.configure(config)
    except ConnectorError as error:
        return _error(error)
    return {"results": [_result(plugin, record) for record in records]}


def _result(plugin: Transformation | Predicate, record: ConnectRecord) -> Json:
    before = record_json(record)
    try:
        if isinstance(plugin, Predicate):
            return {"test": plugin.test(record)}
        changed = plugin.apply(record)
    except ConnectorError as error:
        return _error(error)
    finally:
        assert record_json(record) == before, "the record itself was changed"
    return {"dropped": True} if changed is None else record_json(changed)


def _error(error: ConnectorError) -> Json:
    return {"error": type(error).java_class, "message": str(error)}


@pytest.mark.parametrize("name", [*built_in_plugins.TRANSFORMATIONS, *built_in_plugins.PREDICATES])
def test_options(connect_classes: ConnectClasses, name: str) -> None:
    find = plugins.predicate if ".predicates." in name else plugins.transformation
    found = [
        {
            "name": key.name,
            "type": key.type.value,
            "required": key.required,
            "default": key.default_text,
            "importance": key.importance.value,
            "doc": key.doc,
            "validator": None if key.validator is None else str(key.validator),
        }
        for key in find("type", name).cls().config()
    ]
    assert found == connect_classes.ask({"describe": name})["options"]


@pytest.mark.parametrize(("name", "config"), _cases())
def test_as_connect_does(
    connect_classes: ConnectClasses, name: str, config: dict[str, str]
) -> None:
    shown = ",".join(f"{k}={v}" for k, v in config.items())
    records = list(RECORDS.values())
    expected = connect_classes.apply(name, config, records)
    found = ours(name, config, records)
    if "results" not in expected:
        assert found == comparable(expected)
        return
    assert "results" in found, found
    different = {
        record: (comparable(was), comparable(should))
        for record, was, should in zip(RECORDS, found["results"], expected["results"], strict=True)
        if comparable(was) != comparable(should)
        and not any(shown.endswith(end) and record == known for end, known in DIFFERENCES)
    }
    assert different == {}
