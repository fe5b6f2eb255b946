"""Properties files are read and written as java.util.Properties does."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect_specs.desired import DesiredConnector
from connect_specs.diagnostics import Location
from connect_specs.documents import Map, Scalar
from connect_specs.properties_documents import parse_properties
from connect_specs.writing import export_text
from support.jvm import running_jvm


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    with running_jvm() as jvm:
        yield jvm


def properties_samples() -> list[str]:
    chosen = random.Random(11)
    pieces = ["a", "b", "=", ":", " ", "#", "!", "\\", "\n", "\r", "\r\n", "\t", "\f", "\\\n", "é"]
    pieces += ["\\u0041", "\\ud83d\\ude00", "\\n", "\\\\", "\n  ", "\\:", "\xa0", "\u2028"]
    return ["".join(chosen.choices(pieces, k=chosen.randint(1, 14))) for _ in range(600)]


def test_properties_against_java(java: Any) -> None:
    compared = 0
    table = json.loads(Path(__file__).with_name("properties.json").read_text())
    for text in [*(sample["text"] for sample in table), *properties_samples()]:
        if re.search(r"(^|[\r\n])[ \t\f]*\\[\r\n]*\Z", text):
            # a last line of one backslash is an entry in Java or none, as the line end has it
            continue
        parsed = parse_properties(text, "f")
        if parsed.problems:
            # a key twice, or half of a surrogate pair: Java takes both, we do not
            continue
        loaded = java.java.util.Properties()
        loaded.load(java.java.io.StringReader(text))
        (node,) = parsed.documents
        assert isinstance(node, Map)
        found = {key.text: value.text for key, value in node.entries if isinstance(value, Scalar)}
        assert dict(loaded) == found, repr(text)
        compared += 1
    assert compared > 400


def test_java_reads_an_exported_config_as_it_is(java: Any, tmp_path: Path) -> None:
    odd = (
        "",
        " ",
        "  both  ",
        "a=b:c",
        "#!",
        "C:\\new\\u0041",
        "a\tb\r\nc\f",
        "é 日本 😀",
        "a\\\nb",
    )
    odd += ("${file:/a:b}", "{{ a }}{% b %}", "key = value", "'\"", "\x7f\x01", "a" * 5000)
    config = {"name": "a b", "connector.class": "X"}
    config |= {f"k{number}": text for number, text in enumerate(odd)}
    config |= {text: "v" for text in odd if text.strip()}
    file = tmp_path / "a.properties"
    file.write_text(
        export_text(DesiredConnector("a b", config, Location("x")), "properties"), newline=""
    )
    loaded = java.java.util.Properties()
    loaded.load(java.java.io.FileInputStream(str(file)))
    assert dict(loaded) == config
