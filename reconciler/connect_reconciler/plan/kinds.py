"""Is a connector a source or a sink? Told by the cluster, else by its class's name and config."""

from __future__ import annotations

from collections.abc import Mapping

from connect_reconciler.plan.live import Kind, LiveConnector

_CLASS = "connector.class"


def kind_of(
    config: Mapping[str, str], live: LiveConnector | None, kinds: Mapping[str, Kind]
) -> Kind:
    """The kind that the connector has under `config`; `kinds` by class, as the cluster says."""
    name = config.get(_CLASS, "")
    if live is not None and live.kind != "unknown" and live.config.get(_CLASS) == name:
        return live.kind
    told: Kind = kinds.get(name, "unknown")
    if told != "unknown":
        return told
    simple = name.rpartition(".")[2].lower()
    if ("sink" in simple) is not ("source" in simple):
        return "sink" if "sink" in simple else "source"
    # Sources may have `topics` too, but only sinks may have a pattern
    return "sink" if "topics.regex" in config else "unknown"
