"""Pages about records show what happens, and the examples are valid with tests that pass."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from support.command import Command
from support.pages import Page, holds

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = Path(__file__).parents[2] / "examples" / "connectors"
SPECS = {file.stem for file in (EXAMPLES / "connectors").glob("*.yaml") if ".test" not in file.name}


@pytest.mark.parametrize("name", ["testing-connectors.md", "transforms.md", "errors.md"])
def test_what_the_page_shows_is_what_happens(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    monkeypatch.setenv("PIP_TARGET", str(packages))
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "false")  # pip reads it as the opposite
    monkeypatch.setenv("PIP_NO_INDEX", "true")
    monkeypatch.setenv("PYTHONPATH", str(packages))

    def followed(text: str) -> str:
        return Page(text, tmp_path / "project", {}).followed()

    holds(DOCS / name, followed, write=bool(os.environ.get("CONNECT_WRITE_PAGES")))


def test_each_example_is_valid_and_its_tests_pass(tmp_path: Path) -> None:
    connect = Command(tmp_path / "examples")
    shutil.copytree(EXAMPLES, tmp_path / "examples", dirs_exist_ok=True)

    validated = connect("validate")
    assert (validated.returncode, validated.stderr) == (0, ""), validated.stdout
    tested = connect("test", "--json")

    assert tested.returncode == 0, tested.stdout
    assert {each["connector"] for each in json.loads(tested.stdout)["tests"]} == SPECS
