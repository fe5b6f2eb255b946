"""A project of the test's own, and the command in it."""

from pathlib import Path

import pytest

from support.command import Command


@pytest.fixture
def connect(tmp_path: Path) -> Command:
    """The command in an empty folder."""
    return Command(tmp_path)
