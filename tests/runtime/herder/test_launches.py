"""What an attempt at a task is told when it is launched."""

from __future__ import annotations

import pytest

from support.connectors import SINK, SOURCE
from support.memory_cluster import MemoryCluster


@pytest.mark.parametrize(("connector_class", "transactional"), [(SOURCE, True), (SINK, False)])
def test_a_source_may_have_topics_too(connector_class: str, transactional: bool) -> None:
    """As MirrorMaker's: its class says that it writes in transactions, not the key `topics`."""
    config = {"name": "c", "connector.class": connector_class, "tasks.max": "1", "topics": "t"}
    (attempt,) = MemoryCluster().running(config).launcher.live
    assert attempt.launch.transactional is transactional
