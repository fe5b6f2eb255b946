"""A project with a Kafka and a runtime of its own, which these tests kill in turn."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.rig import Rig


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests look at processes by /proc."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.chaos)
            item.add_marker(pytest.mark.spark)
            if sys.platform != "linux":
                item.add_marker(pytest.mark.skip(reason="needs /proc"))


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """The project. Nothing that was started in it may survive `connect down`."""
    project = Rig(tmp_path_factory.mktemp("chaos") / "project")
    yield project
    assert project.end() == []
