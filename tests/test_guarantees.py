"""docs/exactly-once.md: every guarantee names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
TEXT = (REPOSITORY / "docs" / "exactly-once.md").read_text()
ROWS = [
    line for line in TEXT.splitlines() if line.startswith("| ") and "guarantee | mech" not in line
]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@pytest.mark.parametrize("row", [row for row in ROWS if not row.startswith("| ---")])
def test_a_guarantee_names_tests_that_exist(row: str) -> None:
    named = NAMED.findall(row)
    assert named
    for file, name in named:
        tree = ast.parse((REPOSITORY / file).read_text())
        held = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        held |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not name or name in held, f"{file} has no {name}"
