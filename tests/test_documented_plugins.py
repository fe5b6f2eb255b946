"""README.md, docs/transforms.md and docs/errors.md list what the runtime runs, and only that."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from connect_runtime.api import ConfigDef, DataError
from connect_runtime.data.json_converter import CONFIG as JSON
from connect_runtime.errors.dead_letters import FailureHeaders
from connect_runtime.errors.handler import Failure, Stage
from connect_runtime.plugins import built_in, registry
from connect_runtime.plugins.modules import ENTRY_POINTS
from connect_runtime.transforms.transformation import ColumnTransformation
from connect_runtime.validation.connector_keys import (
    connector_definitions,
)

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text()
TRANSFORMS = (REPOSITORY / "docs" / "transforms.md").read_text()
ERRORS = (REPOSITORY / "docs" / "errors.md").read_text()


class Message:
    """A message of Kafka, as far as headers of a dead letter show it."""

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0


def section(text: str, heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert found, heading
    return found[1]


def rows(text: str) -> list[list[str]]:
    """The cells of the rows of all tables, without their headings."""
    found = []
    lines = text.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("| ") and not line.startswith("| ---") and not after.startswith("| ---"):
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def names(cell: str) -> list[str]:
    """What a cell has in backquotes, without packages."""
    return [each.rpartition(".")[2] for each in re.findall(r"`([^`]+)`", cell)]


def simple(classes: Iterable[str]) -> set[str]:
    return {name.rpartition(".")[2].partition("$")[0] for name in classes}


def error_keys(definitions: ConfigDef) -> dict[str, str | None]:
    """The keys with their defaults, as a config has them."""
    return {key.name: key.default_text for key in definitions if key.name.startswith("errors.")}


OF_SINKS = error_keys(connector_definitions("sink", "1"))
OF_SOURCES = error_keys(connector_definitions("source", "1"))
CONVERTERS = simple(built_in.CONVERTERS)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            "connectors",
            {each.removesuffix("Connector") for each in simple(built_in.CONNECTORS)},
        ),
        ("transformations", simple(built_in.TRANSFORMATIONS)),
        ("predicates", simple(built_in.PREDICATES)),
        ("converters", CONVERTERS),
        ("header converters", simple(built_in.HEADER_CONVERTERS) - CONVERTERS),
    ],
)
def test_the_readme_lists_each_plugin(part: str, expected: set[str]) -> None:
    table = dict(rows(section(README, "What the runtime runs")))
    listed = names(table[part])
    assert listed
    assert set(listed) == expected
    assert len(listed) == len(expected)


def test_the_readme_lists_each_key_about_errors() -> None:
    cell = dict(rows(section(README, "What the runtime runs")))["errors"]
    of_both, of_sinks = (
        re.findall(r"`([^`]+)`", part) for part in cell.split("; of sinks also", maxsplit=1)
    )
    assert set(of_both) == set(OF_SOURCES)
    assert set(of_sinks) == set(OF_SINKS) - set(OF_SOURCES)


def test_the_page_lists_each_transformation_and_what_it_is_of() -> None:
    table, expected = rows(section(TRANSFORMS, "What there is")), built_in.TRANSFORMATIONS
    listed = {names(row[0])[0]: row[1] for row in table if len(row) == 3}
    halves = simple(name for name in expected if "$" in name)
    assert listed == {
        name: "key, value" if name in halves else "record" for name in simple(expected)
    }


def test_the_page_names_the_transformations_that_need_single_records() -> None:
    single = {
        plugin.class_name
        for plugin in registry.plugins("transformation")
        if not issubclass(plugin.cls, ColumnTransformation)
    }
    (line,) = re.findall(r"With a class of your own(.*?)\sin it", TRANSFORMS, re.S)
    assert set(names(line)) == simple(single)


def test_the_page_lists_each_predicate_and_converter() -> None:
    table = rows(section(TRANSFORMS, "What there is"))
    assert {names(row[0])[0] for row in table if len(row) == 2} == simple(built_in.PREDICATES)
    table = rows(section(TRANSFORMS, "Converters"))
    listed = [row for row in table if row[0].startswith("`org.apache.kafka.")]
    assert {name for row in listed for name in names(row[0])} == simple(built_in.HEADER_CONVERTERS)


def test_the_page_lists_the_options_of_json() -> None:
    (listed,) = re.findall(r"Options of JsonConverter: (.*?)\.\n", TRANSFORMS, re.S)
    known = set(JSON.keys) - {"converter.type"}
    assert set(re.findall(r"`([^`]+)`", listed)) == known


def test_the_page_names_every_entry_point_group() -> None:
    text = section(TRANSFORMS, "Your own, in Python")
    groups = {*ENTRY_POINTS, *(group.entry_points for group in registry._GROUPS.values())}
    assert set(re.findall(r"connect\.(?:\w+s)\b(?=[\"`])", text)) == groups


def test_the_page_lists_each_key_about_errors_with_its_default() -> None:
    listed = {row[0].strip("`"): row[1].strip("`") for row in rows(section(ERRORS, "Keys"))}
    assert listed == {key: default or "none" for key, default in OF_SINKS.items()}


def test_the_page_lists_the_stages() -> None:
    listed = [
        stage
        for row in rows(section(ERRORS, "Which errors are tolerated"))
        for stage in names(row[0])
    ]
    assert set(listed) == {stage.name for stage in Stage}


def test_the_page_lists_the_headers_of_dead_letters_in_order() -> None:
    failure = Failure(Stage.TASK_PUT, "C", DataError("no"), cast(Any, Message()))
    written = FailureHeaders("c", 0, str, str).of(failure)
    listed = [row[0].strip("`") for row in rows(section(ERRORS, "The dead letter queue"))]
    assert listed == [name for name, _ in written]
