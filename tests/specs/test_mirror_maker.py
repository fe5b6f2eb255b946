"""The conversion of a dedicated MirrorMaker's file; `oracle/test_mirror_maker.py` compares it with
what MirrorMaker makes of it."""

from __future__ import annotations

import pytest

from connect_specs.diagnostics import Invalid
from connect_specs.mirror_maker import flows, refuse_mirror_maker

CLUSTERS = {"clusters": "a, b", "a.bootstrap.servers": "a:1", "b.bootstrap.servers": "b:1"}


def test_only_files_of_mirror_maker_are_refused() -> None:
    refuse_mirror_maker({"bootstrap.servers": "a:1", "group.id": "g", "clusters": "mine"}, "w")
    with pytest.raises(Invalid, match="dedicated MirrorMaker"):
        refuse_mirror_maker(CLUSTERS, "mm2.properties")


def test_a_file_without_an_enabled_flow_has_none() -> None:
    assert flows(CLUSTERS) == ()
    with pytest.raises(Invalid) as caught:
        refuse_mirror_maker(CLUSTERS, "mm2.properties")
    assert caught.value.diagnostics[0].hint == "enable a flow: SOURCE->TARGET.enabled=true"


def test_an_enabled_flow_has_three_connectors_and_the_other_direction_its_heartbeats() -> None:
    there, back = flows({**CLUSTERS, "a->b.enabled": "true"})
    names = [config["name"] for config in there.connectors]
    assert names == [
        "MirrorSourceConnector",
        "MirrorCheckpointConnector",
        "MirrorHeartbeatConnector",
    ]
    assert there.worker["bootstrap.servers"] == "b:1"
    assert [config["name"] for config in back.connectors] == ["MirrorHeartbeatConnector"]
    assert back.worker["bootstrap.servers"] == "a:1"


def test_properties_of_a_flow_and_of_a_cluster_win_over_those_of_all() -> None:
    properties = {
        **CLUSTERS,
        "a->b.enabled": "true",
        "emit.heartbeats.enabled": "false",
        "tasks.max": "1",
        "a->b.tasks.max": "4",
        "sasl.mechanism": "PLAIN",
        "b.sasl.mechanism": "GSSAPI",
    }
    (flow,) = flows(properties)
    config = flow.connectors[0]
    assert config["tasks.max"] == "4"
    assert config["source.cluster.sasl.mechanism"] == "PLAIN"
    assert config["target.cluster.sasl.mechanism"] == "GSSAPI"
    assert flow.worker["producer.sasl.mechanism"] == "GSSAPI"
