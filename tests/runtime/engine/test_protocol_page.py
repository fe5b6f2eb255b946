"""docs/engine-protocol.md names each call and event of the engine's sources, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
JAVA = "\n".join(
    source.read_text()
    for source in (ROOT / "runtime/connect_runtime/engine/source").rglob("*.java")
)
PAGE = (ROOT / "docs/engine-protocol.md").read_text()
TABLES = {
    "## Calls of the runtime": r'calls\.put\(\s*"([a-z-]+)"',
    "## Calls of the JVM": r'wire\.ask\(\s*"([a-z-]+)"',
    "## Events": r'(?:\w+\.event|report)\(\s*"([a-z-]+)"',
}


@pytest.mark.parametrize("title", TABLES)
def test_a_table_of_the_page_has_what_the_sources_have(title: str) -> None:
    section = PAGE.partition(title)[2].partition("\n## ")[0]
    cells = (line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))
    described = {name for cell in cells for name in re.findall(r"`([a-z-]+)`", cell)}
    assert described == set(re.findall(TABLES[title], JAVA))
    assert described
