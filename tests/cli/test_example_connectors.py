"""examples/connectors: connectors to copy from. Each is valid, and has tests that pass."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from support.command import Command

EXAMPLES = Path(__file__).parents[2] / "examples" / "connectors"
SPECS = {file.stem for file in (EXAMPLES / "connectors").glob("*.yaml") if ".test" not in file.name}


def test_each_example_is_valid_and_its_tests_pass(tmp_path: Path) -> None:
    connect = Command(tmp_path / "examples")
    shutil.copytree(EXAMPLES, tmp_path / "examples", dirs_exist_ok=True)

    validated = connect("validate")
    assert (validated.returncode, validated.stderr) == (0, ""), validated.stdout
    tested = connect("test", "--json")

    assert tested.returncode == 0, tested.stdout
    assert {each["connector"] for each in json.loads(tested.stdout)["tests"]} == SPECS
