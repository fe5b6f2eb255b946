"""The examples that a newcomer runs, as `make` runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long]

EXAMPLES = Path(__file__).parents[2] / "examples"
# Each takes a minute or two on two idle cores
_TIMEOUT_S = 900


@pytest.mark.parametrize("name", ["demo", "orders"])
def test_the_example_ends_as_it_should(name: str) -> None:
    command = [sys.executable, str(EXAMPLES / name / "run.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All steps went as they should" in done.stdout
