"""Tests that kill processes. Their moments are announced or observed, so a busy machine only makes
them come later."""

import sys
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests look at processes by /proc."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.chaos)
            item.add_marker(pytest.mark.spark)
            if sys.platform != "linux":
                item.add_marker(pytest.mark.skip(reason="needs /proc"))
