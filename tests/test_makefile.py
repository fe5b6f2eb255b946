"""`make test` runs every test: those of faults by the folders where they lie."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
MAKEFILE = (REPOSITORY / "Makefile").read_text()


def test_every_test_of_faults_is_where_make_test_looks_for_it() -> None:
    found = re.search(r"^FAULTS := (.+)$", MAKEFILE, re.MULTILINE)
    assert found
    folders = [REPOSITORY / each for each in found[1].split()]
    marked = re.compile(r"^pytestmark = .*\bmark\.chaos\b|^@pytest\.mark\.chaos\b", re.MULTILINE)
    files = [
        file
        for file in (REPOSITORY / "tests").rglob("test_*.py")
        if marked.search(file.read_text()) or file.parent.name == "chaos"
    ]
    assert len(files) > 5
    for file in files:
        assert any(folder in file.parents for folder in folders), file
