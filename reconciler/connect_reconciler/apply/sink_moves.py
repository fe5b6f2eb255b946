"""Moves of a sink's offsets: the rights for them, whether Kafka will allow one, and the offsets of
a pin's `to`.

The offsets are read once the sink is stopped: until then the topics grow and the sink reads on, and
the numbers of a plan would redeliver records that were delivered since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from connect_reconciler.actions import AlterOffsets, Delete, OffsetsAction, ResetOffsets
from connect_reconciler.actions.plan import Plan
from connect_reconciler.apply.context import ApplyContext, MoveRefused
from connect_reconciler.backend.observe.sink_logs import logs_of_sink
from connect_reconciler.model.live import GroupMember, Live, strangers
from connect_reconciler.model.offsets import Offsets, sink_partition
from connect_reconciler.plan.offsets.moves import MoveContext, moves_to, totals
from connect_reconciler.plan.offsets.sink_positions import entries_at, position_problem, sink_start
from connect_runtime.kafka.client_checks import DELETE, READ, Rights
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import Diagnostic, Failed, Unreachable
from connect_specs.names import sink_group
from connect_specs.plain_text import counted, listed


def rights_to_move(
    plan: Plan, desired: Desired, live: Live, project: Project
) -> tuple[Rights, Rights]:
    """Returns the rights on topics and on groups that the plan needs where this process moves
    offsets.

    Kafka is asked before the first action: a sink whose offsets cannot be moved would be left
    stopped. Only of the worker's cluster: for sinks with a login of their own Kafka decides later.
    """
    topics: dict[str, tuple[str, ...]] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for action in plan.actions:
        if isinstance(action, Delete):
            # An apply that was killed may have deleted it before it could record that
            sink = live.connectors.get(action.connector)
            if sink is None or sink.kind != "sink" or _has_own_login(sink.config):
                continue
            if action.reset_offsets:
                groups[sink_group(sink.name, sink.config, project.worker)] = (DELETE,)
            continue
        if not isinstance(action, OffsetsAction):
            continue
        partitions = (sink_partition(move.entry.partition) for move in action.moves)
        moved_topics = {at[0] for at in partitions if at is not None}
        config = desired.connectors[action.connector].config if moved_topics else {}
        if not moved_topics or _has_own_login(config):
            continue
        group = sink_group(action.connector, config, project.worker)
        if isinstance(action, ResetOffsets):
            groups[group] = (DELETE,)
            continue
        topics |= dict.fromkeys(moved_topics, (READ,))
        forgets = any(move.entry.offset is None for move in action.moves)
        groups[group] = (READ, DELETE) if forgets else (READ,)
    return topics, groups


def _has_own_login(config: Mapping[str, str]) -> bool:
    return ConnectorClients("", "", {}, "", config, "sink").own_login


def ensure_movable(
    name: str, live: Live, context: ApplyContext, waiting: Callable[[str, str], None]
) -> None:
    """Raises Failed if consumers that are no tasks of this cluster read with the sink's group:
    Kafka would not move its offsets, and nothing is to be stopped for that.

    Waits for members that may be earlier tasks, which Kafka has not given up yet. Raises
    Unreachable.
    """
    connector = live.connectors.get(name)
    if connector is None or connector.kind != "sink" or context.view_of_sink is None:
        return
    group, members = sink_group(name, connector.config, context.worker), tuple[GroupMember, ...]()

    def is_movable() -> bool:
        nonlocal members
        members = _strangers(group, live, context, name)
        return not members

    if is_movable():
        return
    waiting(name, "others read with its consumer group")
    if not context.waiter_in_action.until(is_movable, context.limits.group_s):
        problem = (
            f"consumer group {group} has members that are no tasks of this cluster, and Kafka moves"
            f" no offsets while they are there: {listed(map(str, members))}"
        )
        hint = "end them, or give the connector a consumer group of its own"
        raise Failed(Diagnostic("apply.group-in-use", problem, name, hint=hint))


def _strangers(group: str, live: Live, context: ApplyContext, name: str) -> tuple[GroupMember, ...]:
    assert context.view_of_sink is not None
    try:
        view = context.view_of_sink(name, live.connectors[name].config)
        members = view.group_members((group,)).get(group, ())
    except (Failed, Unreachable):
        # As for a plan, a cluster that cannot be asked has none: the move itself will fail
        return ()
    tasks = {}
    for sink, connector in live.connectors.items():
        if connector.kind == "sink" and sink_group(sink, connector.config, context.worker) == group:
            stored = context.read_connector(sink)
            tasks[sink] = 0 if stored is None else stored.tasks
    return strangers(members, tasks)


def at_final_offsets(
    action: AlterOffsets, config: Mapping[str, str], context: ApplyContext
) -> AlterOffsets:
    """Returns the action with the offsets that its `to` stands for now, from the sink's own.

    Raises MoveRefused where there are none, where they cannot be read, or where the policies deny
    them; Unreachable.
    """
    name, to = action.connector, action.to
    assert context.view_of_sink is not None
    if to is None:
        return action
    try:
        logs = logs_of_sink(config, to, context.view_of_sink(name, config))
    except (Failed, Unreachable) as error:
        # It may be a cluster that no other connector reads
        raise MoveRefused(*error.diagnostics) from error
    problem = position_problem(to, config, Live(logs=logs), name)
    if problem is not None:
        raise MoveRefused(problem)
    offsets = Offsets(context.cluster.offsets(name))
    start = sink_start(config, context.worker)
    move_context = MoveContext("sink", offsets, logs, config, start, reader=None, unknown="")
    moves = moves_to(entries_at(to, config, logs), move_context)
    final = replace(action, moves=moves, effects=totals(moves))
    if denials := context.denials(final):
        raise MoveRefused(*(_denied(final, denial) for denial in denials))
    return final


def _denied(action: AlterOffsets, denial: Diagnostic) -> Diagnostic:
    counts = [move.counts for move in action.moves if move.counts is not None]
    redelivered, skipped = sum(c.redelivered for c in counts), sum(c.skipped for c in counts)
    counts_text = f"redelivers {counted(redelivered, 'offset')} and jumps over {skipped:,}"
    problem = f"once it was stopped, pin {action.pin} {counts_text}: {denial.what}"
    return replace(denial, code="apply.offsets-denied", what=problem)
