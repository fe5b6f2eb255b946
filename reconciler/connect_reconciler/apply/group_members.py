"""Refuses a move of a sink's offsets before anything is stopped for it, while consumers that are no
tasks of this cluster read with the sink's group: Kafka would not move them."""

from __future__ import annotations

from collections.abc import Callable

from connect_reconciler.apply.edges import Edges
from connect_reconciler.model.group_members import GroupMember, strangers
from connect_reconciler.model.live import Live
from connect_specs.diagnostics import Diagnostic, Failed, Unreachable
from connect_specs.names import sink_group
from connect_specs.plain_text import listed


def ensure_movable(
    name: str, live: Live, edges: Edges, waiting: Callable[[str, str], None]
) -> None:
    """Waits for members that may be tasks of before, which Kafka has not given up yet.

    Raises Failed, Unreachable.
    """
    connector = live.connectors.get(name)
    if connector is None or connector.kind != "sink" or edges.view_of_sink is None:
        return
    group, found = sink_group(name, connector.config, edges.worker), tuple[GroupMember, ...]()

    def alone() -> bool:
        nonlocal found
        found = _strangers(group, live, edges, name)
        return not found

    if alone():
        return
    waiting(name, "others read with its consumer group")
    if not edges.patience_in_action.until(alone, edges.settings.limits.group_s):
        what = (
            f"consumer group {group} has members that are no tasks of this cluster, and Kafka moves"
            f" no offsets while they are there: {listed(map(str, found))}"
        )
        hint = "end them, or give the connector a consumer group of its own"
        raise Failed(Diagnostic("apply.group-in-use", what, name, hint=hint))


def _strangers(group: str, live: Live, edges: Edges, name: str) -> tuple[GroupMember, ...]:
    assert edges.view_of_sink is not None
    try:
        view = edges.view_of_sink(name, live.connectors[name].config)
        members = view.group_members((group,)).get(group, ())
    except (Failed, Unreachable):
        # As for a plan, a cluster that cannot be asked tells of none: the move itself will fail
        return ()
    tasks = {}
    for each, connector in live.connectors.items():
        if connector.kind == "sink" and sink_group(each, connector.config, edges.worker) == group:
            now = edges.read_back(each)
            tasks[each] = 0 if now is None else now.tasks
    return strangers(members, tasks)
