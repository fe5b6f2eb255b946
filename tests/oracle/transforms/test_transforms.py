"""Each transformation and predicate with many configurations and records, compared with Connect's
own class: the same record, or the same error."""

from __future__ import annotations

import pytest
import yaml

from connect_runtime.plugins import built_in, registry
from connect_runtime.plugins.registry import PluginKind
from support.applying_transforms import TABLES, Configuration, configurations, ours
from support.connect_classes import ConnectClasses
from support.connect_json import comparable
from support.record_tables import record_of

pytestmark = pytest.mark.oracle

RECORDS = {
    name: record_of(given)
    for name, given in yaml.safe_load((TABLES / "records.yaml").read_text()).items()
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


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in (*built_in.TRANSFORMATIONS, *built_in.PREDICATES)
        if name.startswith("org.apache.kafka.")
    ],
)
def test_options(connect_classes: ConnectClasses, name: str) -> None:
    kind: PluginKind = "predicate" if ".predicates." in name else "transformation"
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
        for key in registry.plugin(kind, "type", name).cls().config()
    ]
    assert found == connect_classes.ask({"describe": name})["options"]


@pytest.mark.parametrize("case", list(configurations()), ids=str)
def test_as_connect_does(connect_classes: ConnectClasses, case: Configuration) -> None:
    records = list(RECORDS.values())
    expected = connect_classes.apply(case.name, case.config, records)
    found = ours(case.name, case.config, records)
    if "results" not in expected:
        assert found == comparable(expected)
        return
    assert "results" in found, found
    different = {
        record: (comparable(was), comparable(should))
        for record, was, should in zip(RECORDS, found["results"], expected["results"], strict=True)
        if comparable(was) != comparable(should)
        and not any(str(case).endswith(end) and record == known for end, known in DIFFERENCES)
    }
    assert different == {}
