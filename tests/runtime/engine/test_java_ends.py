"""Java connectors as the runtime ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.storage.snapshots import State
from connect_specs.desired import TargetState
from support.broker import BrokerAddress
from support.java_cluster import START_S, add_unruly, java_cluster

pytestmark = pytest.mark.long


def test_connectors_are_stopped(broker: BrokerAddress, unique: str, tmp_path: Path) -> None:
    """They may give back what they hold elsewhere. One that hangs then holds up no other."""
    plugin_path, stopped = add_unruly(tmp_path / "plugins"), tmp_path / "stopped"
    config = {"connector.class": "Unruly", "topic": unique, "where": "stop"}
    with java_cluster(broker.bootstrap_servers, unique, plugin_path) as cluster:
        for name, how in (("notes", f"writes {stopped}"), ("hangs", "hangs")):
            cluster.verbs.create(name, {"name": name, **config, "how": how}, TargetState.RUNNING)
            cluster.wait_for(name, State.RUNNING, State.RUNNING, timeout_s=START_S)
        assert not stopped.exists()
    assert stopped.exists()
