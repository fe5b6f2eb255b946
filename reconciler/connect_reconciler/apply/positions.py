"""Where a pin's `to` leads, read once its sink is stopped.

Until then the topics grow and the sink reads on: the numbers of a plan would redeliver what was
delivered since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from connect_reconciler.actions import AlterOffsets
from connect_reconciler.apply.edges import Edges, MoveRefused
from connect_reconciler.backend.observe.sink_logs import logs_of_sink
from connect_reconciler.model.live import Live
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.plan.offsets.moves import MoveContext, moves_to, totals
from connect_reconciler.plan.offsets.sink_positions import entries_at, position_problem, sink_start
from connect_specs.diagnostics import Diagnostic, Failed, Unreachable
from connect_specs.plain_text import counted


def at_final_offsets(action: AlterOffsets, config: Mapping[str, str], edges: Edges) -> AlterOffsets:
    """The action with the offsets that its `to` leads to now, from those that the sink has now.

    Raises MoveRefused where there are none, where they cannot be read, or where the policies deny
    them; Unreachable.
    """
    name, to = action.connector, action.to
    assert edges.view_of_sink is not None
    if to is None:
        return action
    try:
        logs = logs_of_sink(config, to, edges.view_of_sink(name, config))
    except (Failed, Unreachable) as error:
        # It may be a cluster that no other connector reads
        raise MoveRefused(*error.diagnostics) from error
    problem = position_problem(to, config, Live(logs=logs), name)
    if problem is not None:
        raise MoveRefused(problem)
    before = Offsets(edges.cluster.offsets(name))
    start = sink_start(config, edges.worker)
    context = MoveContext("sink", before, logs, config, start, reader=None, unknown="")
    moves = moves_to(entries_at(to, config, logs), context)
    final = replace(action, moves=moves, effects=totals(moves))
    denied = edges.denials(final)
    if denied:
        raise MoveRefused(*(_denied(final, each) for each in denied))
    return final


def _denied(action: AlterOffsets, denial: Diagnostic) -> Diagnostic:
    counts = [move.counts for move in action.moves if move.counts is not None]
    again, skipped = sum(each.again for each in counts), sum(each.skipped for each in counts)
    what = (
        f"once it was stopped, pin {action.pin} redelivers {counted(again, 'offset')} and jumps"
        f" over {skipped:,}: {denial.what}"
    )
    return replace(denial, code="apply.offsets-denied", what=what)
