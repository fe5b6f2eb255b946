"""Looks for members of sinks' consumer groups that are no tasks of this cluster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial

from connect_reconciler.backend.observe.connector_clusters import ConnectorClusters, attempt
from connect_reconciler.backend.observe.kafka_view import View
from connect_reconciler.model.group_members import GroupMember, strangers
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.storage.snapshots import ConfigSnapshot
from connect_specs.names import sink_group


def strangers_of_sinks(
    sinks: Mapping[str, ConnectorClients], stored: ConfigSnapshot, clusters: ConnectorClusters
) -> dict[str, tuple[GroupMember, ...]]:
    """Those in the group of each sink that is there, if any. A cluster that cannot be asked, or
    does not let this login see the groups, tells of none."""
    tasks: dict[str, dict[str, int]] = defaultdict(dict)
    for name, state in stored.connectors.items():
        tasks[sink_group(name, state.config, clusters.worker)][name] = len(state.task_configs)
    asked: dict[int, tuple[View, dict[str, str]]] = {}
    for name, clients in sinks.items():
        view = clusters.of(clients).view
        if name in stored.connectors and view is not None:
            asked.setdefault(id(view), (view, {}))[1][name] = clients.group
    found: dict[str, tuple[GroupMember, ...]] = {}
    for view, groups in asked.values():
        members = attempt(partial(view.group_members, tuple(groups.values())))
        if isinstance(members, str):
            continue
        for name, group in groups.items():
            if others := strangers(members.get(group, ()), tasks[group]):
                found[name] = others
    return found
