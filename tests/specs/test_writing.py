"""What we write, read by our own loader: the same connector, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from connect_specs.desired import DesiredConnector, OffsetEntry, Pin, TargetState
from connect_specs.diagnostics import Invalid, Location
from connect_specs.writing import ENDINGS, ExportFormat, export_text, lost_in, spec_text
from support.spec_files import load_connectors

ODD = (
    "on", "off", "no", "y", "010", "0x1f", "1_000", "1e3", "1E+5", ".5", "5.", "0o7", "0b1",
    "10.0.0.1", "22:22", "2026-11-20", "1.0", "-", "",
    " ", "  leading", "trailing  ", "#", "a #b", "# a", "a: b", "a:", ": ", "? a", "- a", "---",
    "...", "null", "~", "Null", "true", "<<", "=", "*a", "&a", "!a", "%a", "@a", "`a`", "{a: 1}",
    "[a]", "'a'", '"a"', "\\", "\\n", "a\nb", "a\nb\n", "a\n\n", "\na", " a\nb", "a \nb", "a\n b",
    "a\n\n  b\n#c\n\td", "\t", "a\tb", "\r", "a\r\nb", "\x00", "\x07", "\x7f", "\x85", "\xa0",
    "\u2028", "\u2029", "\ufeff", "\ufeffa", "é", "日本", "😀", "\uffff", "${env:X}",
    "${file:/a:b}", "a,b", "https://u@h:1/p?q=1&r=%20#f", "SELECT *\nFROM t\nWHERE a = 1 -- d\n",
    "{{ a }}", "x{{{{a", "{% a %}", "{# a #}", "$${a}", "x" * 2000, "a" + " b" * 200,
)  # fmt: skip

characters = st.characters(blacklist_categories=("Cs",))
values = st.one_of(st.sampled_from(ODD), st.text(characters, max_size=40))
keys = st.one_of(st.sampled_from([odd for odd in ODD if odd.strip()]), st.text(characters))
keys = keys.filter(lambda key: key.strip() != "" and key not in ("name", "connector.class"))
classes = values.filter(bool)
names = st.text(characters, min_size=1, max_size=30).filter(
    lambda name: (
        name == name.strip()
        and name not in (".", "..")
        and not any(c < " " or "\x7f" <= c <= "\x9f" for c in name)
    )
)
json_values = st.one_of(
    values,
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
)
maps = st.dictionaries(
    values.filter(lambda key: key not in ("kafka_topic", "kafka_partition", "kafka_offset")),
    json_values,
    max_size=4,
)
entries = st.lists(
    st.builds(OffsetEntry, maps.filter(bool), st.one_of(st.none(), maps)),
    min_size=1,
    max_size=3,
    unique_by=lambda entry: repr(entry.partition),
)
pins = st.one_of(
    st.builds(Pin, values.filter(bool), reset=st.just(True)),
    st.builds(lambda pin, found: Pin(pin, tuple(found)), values.filter(bool), entries),
    st.builds(
        lambda pin, to: Pin(pin, to=to),
        values.filter(bool),
        st.one_of(st.sampled_from(["earliest", "latest"]), st.integers(0, 4 * 10**12)),
    ),
)


@st.composite
def connectors(draw: st.DrawFn, *, pinned: bool = False) -> DesiredConnector:
    name = draw(names)
    config = draw(st.dictionaries(keys, values, max_size=6))
    config = {"name": name, "connector.class": draw(classes)} | config
    made = DesiredConnector(
        name, config, Location("x"), draw(st.sampled_from([None, *TargetState]))
    )
    if not pinned:
        return made
    texts = st.lists(keys, max_size=3).map(tuple)
    return replace(
        made,
        pin=draw(st.one_of(st.none(), pins)),
        prevent_delete=draw(st.booleans()),
        ignore=tuple(f"config.{key}" for key in draw(texts)),
        sensitive=draw(texts),
        renamed_from=draw(st.one_of(st.none(), names.filter(lambda old: old != name))),
        allow_zero_tasks=draw(st.booleans()),
    )


def begins_a_template(text: str) -> bool:
    return any(mark in text for mark in ("{{", "{%", "{#"))


def with_values(**config: str) -> DesiredConnector:
    found = {"name": "a", "connector.class": "X"} | config
    return DesiredConnector("a", found, Location("x"))


def with_offsets(*values: dict[str, Any]) -> DesiredConnector:
    entries = tuple(OffsetEntry(each, each) for each in values)
    return replace(with_values(), pin=Pin("p", entries))


# A key of more than 1,024 characters before its colon is no YAML: `{xxx…: v}`, `xxx…: v`
LONG = "x" * 1100


def read(text: str, ending: str, folder: Path) -> DesiredConnector:
    file = folder / f"written{ending}"
    file.write_text(text, encoding="utf-8", newline="")
    (found,) = load_connectors([file], folder).values()
    return found


def content(connector: DesiredConnector) -> dict[str, Any]:
    """All but the places."""
    pin = connector.pin and replace(connector.pin, where=None)
    # as text, because 1, 1.0 and true are equal
    return {
        "name": connector.name,
        "config": dict(connector.config),
        "state": connector.state,
        "pin": repr(pin),
        "prevent_delete": connector.prevent_delete,
        "ignore": connector.ignore,
        "sensitive": connector.sensitive,
        "renamed_from": connector.renamed_from,
        "allow_zero_tasks": connector.allow_zero_tasks,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@given(connectors(pinned=True))
@example(with_values(**{f"k{number}": text for number, text in enumerate(ODD)}))
@example(with_values(**{text: "v" for text in ODD if text.strip()}))
@example(with_offsets({LONG: "v", "a": 1}, {f"{LONG}: ": LONG, f"é{LONG}": None}))
@example(with_values(**{LONG: "v", f"{LONG}: ": "a\nb\n", f'"{LONG}': LONG}))
def test_a_written_spec_is_read_as_the_same_connector(
    folder: Path, connector: DesiredConnector
) -> None:
    text = spec_text(connector, ["a note\nof two lines: # --- {{"])
    assert content(read(text, ".yaml", folder)) == content(connector)
    assert not begins_a_template(text)


def test_text_in_offsets_stays_text(folder: Path) -> None:
    offset = {f"k{number}": text for number, text in enumerate(ODD)}
    pin = Pin("p", (OffsetEntry({"f": "1e3"}, offset),))
    connector = replace(with_values(), pin=pin)
    assert content(read(spec_text(connector), ".yaml", folder)) == content(connector)


@given(connectors(), st.sampled_from(get_args(ExportFormat)))
@example(with_values(**{f"k{number}": text for number, text in enumerate(ODD)}), "json")
@example(with_values(**{f"k{number}": text for number, text in enumerate(ODD)}), "properties")
@example(with_values(**{f"k{number}": text for number, text in enumerate(ODD)}), "strimzi")
def test_what_is_exported_is_read_as_the_same_connector(
    folder: Path, connector: DesiredConnector, written: ExportFormat
) -> None:
    if written == "strimzi":
        config = dict(connector.config) | {"name": "a-b.c", "tasks.max": "3"}
        connector = replace(connector, name="a-b.c", config=config)
    text = export_text(connector, written, strimzi_cluster="my: cluster")
    kept = connector
    if "state" in lost_in(connector, written):
        kept = replace(connector, state=None)
    assert content(read(text, ENDINGS[written], folder)) == content(kept)
    assert not begins_a_template(text)


@pytest.mark.parametrize("odd", ODD)
def test_other_yaml_readers_take_every_value_for_text(odd: str) -> None:
    """But for whole numbers, true and false, which read better without quotes."""
    found = yaml.safe_load(spec_text(with_values(k=odd)))["config"]["k"]
    assert found == (odd if odd != "true" else True)


@pytest.mark.parametrize("loader", [yaml.CSafeLoader, yaml.SafeLoader])
@pytest.mark.parametrize("key", [each for each in ODD if each.strip()])
def test_other_yaml_readers_find_every_key(key: str, loader: Any) -> None:
    spec = spec_text(replace(with_offsets({key: "v"}), config={key: "v"}))
    found = yaml.load(spec, loader)
    offset = found["offsets"]["set"][0]["offset"]
    assert list(found["config"]) == list(offset) == [key if key != "true" else True]


def test_a_spec_reads_as_a_person_would_write_it() -> None:
    connector = DesiredConnector(
        "orders archive",
        {
            "name": "orders archive",
            "zebra": "on",
            "query": "SELECT *\nFROM t\n",
            "topics": "a,b",
            "tasks.max": "2",
            "connector.class": "FileStreamSink",
            "file": "/tmp/a b",
            "url": "jdbc:postgresql://db:5432/x?a=b",
        },
        Location("x"),
        TargetState.STOPPED,
        Pin("p", (OffsetEntry({"kafka_topic": "a", "kafka_partition": 0}, {"kafka_offset": 5}),)),
        prevent_delete=True,
        ignore=("config.password",),
        allow_zero_tasks=True,
    )
    assert spec_text(connector, ["Written by hand."]) == (
        "# Written by hand.\n"
        "name: orders archive\n"
        "state: stopped\n"
        "config:\n"
        "  connector.class: FileStreamSink\n"
        "  tasks.max: 2\n"
        "  topics: a,b\n"
        "  file: /tmp/a b\n"
        "  query: |\n"
        "    SELECT *\n"
        "    FROM t\n"
        "  url: jdbc:postgresql://db:5432/x?a=b\n"
        '  zebra: "on"\n'
        "offsets:\n"
        "  pin: p\n"
        "  set:\n"
        "    - partition:\n"
        "        kafka_topic: a\n"
        "        kafka_partition: 0\n"
        "      offset:\n"
        "        kafka_offset: 5\n"
        "lifecycle:\n"
        "  prevent_delete: true\n"
        "  ignore:\n"
        "    - config.password\n"
        "health:\n"
        "  allow_zero_tasks: true\n"
    )


def test_what_strimzi_cannot_say_is_refused() -> None:
    name, tasks = "Orders_1", "${env:TASKS}"
    connector = DesiredConnector(
        name, {"name": name, "connector.class": "X", "tasks.max": tasks}, Location("x")
    )
    with pytest.raises(Invalid) as refused:
        export_text(connector, "strimzi")
    codes = [problem.code for problem in refused.value.diagnostics]
    assert codes == ["export.strimzi-name", "export.strimzi-tasks"]


def test_a_strimzi_resource_names_its_cluster() -> None:
    text = export_text(with_values(), "strimzi", strimzi_cluster="my-connect")
    resource = yaml.safe_load(text)
    assert resource["metadata"] == {"name": "a", "labels": {"strimzi.io/cluster": "my-connect"}}
    assert resource["spec"] == {"class": "X", "config": {}}
    assert resource["apiVersion"] == "kafka.strimzi.io/v1"
    older = yaml.safe_load(export_text(with_values(), "strimzi", strimzi_version="v1beta2"))
    assert older["apiVersion"] == "kafka.strimzi.io/v1beta2"


def test_what_a_format_has_no_place_for() -> None:
    full = replace(
        with_values(),
        state=TargetState.PAUSED,
        prevent_delete=True,
        sensitive=("k",),
        allow_zero_tasks=True,
    )
    assert lost_in(full, "json") == ("lifecycle", "health", "sensitive")
    assert lost_in(full, "properties") == ("state", "lifecycle", "health", "sensitive")
    assert lost_in(with_values(), "properties") == ()
