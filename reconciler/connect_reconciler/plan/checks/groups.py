"""Checks of sinks that share a consumer group, and with it one set of offsets. Pure.

Kafka refuses to move a group's offsets while any of its readers runs, which would leave the
connector stopped half-way; where none runs, they move for all readers.
"""

from __future__ import annotations

from collections.abc import Iterator

from connect_reconciler.actions.connector_state import SINK_SERVERS
from connect_reconciler.plan.context import Context, place_of
from connect_reconciler.plan.diff import ConnectorDiff
from connect_reconciler.plan.offsets.sink_positions import sink_topics
from connect_specs.diagnostics import Blocks, Diagnostic, Location, warning
from connect_specs.names import ledger_group, sink_group
from connect_specs.plain_text import listed
from connect_specs.states import TargetState


def lease_group(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses a sink in the group that keeps two applies apart: it would take the lease, or be
    fenced."""
    if context.live.rest_alone or _group(changes, context) != ledger_group(context.group_id):
        return
    yield Diagnostic(
        "plan.lease-group",
        f"{changes.name} is to read with consumer group {ledger_group(context.group_id)}, which"
        f" holds the lease of applies to {context.group_id}",
        place_of(changes),
        hint="give it another name, or a consumer.override.group.id",
        blocks="connector",
    )


def carried_offsets_in_use(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses a rename that moves offsets of groups that others read with."""
    if changes.carries:
        yield from _in_use(changes, context, "connector")


def pinned_offsets_in_use(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses a pin that moves offsets of a group that others read with."""
    if not changes.carries:
        yield from _in_use(changes, context, "offsets")


def moves_of_others(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Warns of a pin that moves the offsets of other sinks as well."""
    group = _group(changes, context)
    if group is None or changes.pin is None:
        return
    if readers := _other_readers(group, changes, context):
        effect = "are forgotten" if changes.pin.entries is None else "move"
        text = f"{', '.join(readers)} reads with consumer group {_shown_group(changes, context)}"
        text += f" too, so its offsets {effect} as well"
        yield warning("plan.shared-group", text, _place(changes))


def shared_records(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Warns of a sink that is going to get only a part of its topics' records."""
    group = _group(changes, context)
    if group is None or not _joins(changes, context):
        return
    readers = _other_readers(group, changes, context)
    if sharing := [name for name in readers if _shares_records(name, group, changes, context)]:
        yield warning(
            "plan.shared-group",
            f"{changes.name} and {', '.join(sharing)} read the same topics with consumer group"
            f" {_shown_group(changes, context)}: each record is delivered to one of them only",
            _place(changes),
            hint="with a consumer group of its own, each gets all records",
        )


def read_by_strangers(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Warns of consumers in a sink's group that are no tasks of this cluster."""
    names = [changes.name]
    if changes.rename is not None and changes.carries:
        names.append(changes.rename.old)
    for name in names:
        strangers = context.live.strangers.get(name, ())
        connector = context.live.connectors.get(name)
        if not strangers or connector is None:
            continue
        group = sink_group(name, changes.redactor.shown(connector.config), context.worker)
        reason = "each record is delivered to one member of the group only"
        if changes.moves_offsets:
            reason += ", and its offsets cannot move while they are there"
        yield warning(
            "plan.group-members",
            f"consumer group {group} of {name} has members that are no tasks of this cluster:"
            f" {listed(map(str, strangers))}",
            _place(changes),
            why=reason,
            hint="another Connect cluster on this Kafka may have a sink of the same name",
        )


# --- details ---


def _in_use(changes: ConnectorDiff, context: Context, blocks: Blocks) -> Iterator[Diagnostic]:
    """Returns the first reason not to move the offsets of the connector or of its old name."""
    for group in _moved_groups(changes, context):
        readers = _other_readers(group, changes, context)
        if reading := [name for name in readers if _reads_on(name, changes, context)]:
            names = ", ".join(reading)
            yield Diagnostic(
                "plan.group-in-use",
                f"the offsets of {changes.name} cannot move while {names} reads with the same"
                " consumer group",
                _place(changes),
                why="Kafka moves a group's offsets only while nobody reads with it",
                hint=f"apply state: stopped for {names} first, or use a consumer group that is"
                f" {changes.name}'s alone",
                blocks=blocks,
            )
            return
        foreign = [name for name in readers if _is_foreign(name, context)]
        if foreign and changes.pin is not None:
            text = f"its pin moves offsets of consumer group {_shown_group(changes, context)}"
            text += f", and {', '.join(foreign)} of another project reads with it too"
            hint = "give the connector a consumer group of its own"
            yield Diagnostic("plan.owned-by-other", text, _place(changes), hint=hint, blocks=blocks)
            return


def _group(changes: ConnectorDiff, context: Context) -> str | None:
    """Returns the group that a sink is to read with; None of a source, or of a connector without
    a spec."""
    if changes.kind != "sink" or changes.written is None:
        return None
    return sink_group(changes.name, changes.written, context.worker)


def _moved_groups(changes: ConnectorDiff, context: Context) -> Iterator[str]:
    group = _group(changes, context)
    if group is None:
        return
    if changes.pin is not None:
        yield group
    old_connector = changes.rename.live if changes.rename and changes.carries else None
    if old_connector is not None and old_connector.kind == "sink":
        yield sink_group(old_connector.name, old_connector.config, context.worker)


def _other_readers(group: str, changes: ConnectorDiff, context: Context) -> tuple[str, ...]:
    """Returns its other readers, without those that the plan deletes before."""
    planned = context.changes.values()
    gone = {diff.name for diff in planned if diff.existence == "delete"}
    if _is_new(changes):
        gone |= {diff.rename.old for diff in planned if diff.rename}
    old_name = changes.rename.old if changes.rename else changes.name
    readers = context.other_readers(group, changes.name, old_name)
    return tuple(
        name for name in readers if name not in gone and _same_kafka(name, changes, context)
    )


def _same_kafka(name: str, changes: ConnectorDiff, context: Context) -> bool:
    connector, diff = context.live.connectors.get(name), context.changes.get(name)
    configs = (connector.config if connector else None, diff.written if diff else None)
    servers = (changes.written or {}).get(SINK_SERVERS)
    return any(config is not None and config.get(SINK_SERVERS) == servers for config in configs)


def _reads_on(name: str, mover: ConnectorDiff, context: Context) -> bool:
    """Returns whether it may read while the offsets of `mover` move."""
    connector, diff = context.live.connectors.get(name), context.changes.get(name)
    if connector is not None and connector.target is not TargetState.STOPPED:
        return True
    together = connector is not None or _is_new(mover)
    return together and diff is not None and diff.goal is not TargetState.STOPPED


def _is_foreign(name: str, context: Context) -> bool:
    return context.live.ledger.owner(name) not in (None, context.desired.project)


def _shares_records(name: str, group: str, changes: ConnectorDiff, context: Context) -> bool:
    """Returns whether it is going to read the same topics with the group."""
    connector, diff = context.live.connectors.get(name), context.changes.get(name)
    config = diff.written if diff else connector.config if connector else None
    target = diff.goal if diff else connector.target if connector else None
    if config is None or TargetState.STOPPED in (target, changes.goal):
        return False
    topics = context.live.logs_of(changes.name).topics
    shared = {*sink_topics(config, topics)} & {*sink_topics(changes.written or {}, topics)}
    return bool(shared) and sink_group(name, config, context.worker) == group


def _joins(changes: ConnectorDiff, context: Context) -> bool:
    """Returns whether it reads there because of the plan."""
    if changes.live is None:
        return _is_new(changes)
    live_group = sink_group(changes.name, changes.live.config, context.worker)
    keys = {change.key for change in changes.config} & {"topics", "topics.regex"}
    return bool(keys) or live_group != _group(changes, context)


def _is_new(changes: ConnectorDiff) -> bool:
    """Returns whether it is created, which comes after all changes and renames."""
    return changes.existence == "create" and changes.rename is None


def _shown_group(changes: ConnectorDiff, context: Context) -> str:
    """Returns the group's name, unless the config hides it."""
    config = changes.redactor.shown(changes.written or {})
    return sink_group(changes.name, config, context.worker)


def _place(changes: ConnectorDiff) -> Location | str:
    spec = changes.spec
    if spec is None:
        return changes.name
    if spec.pin is not None and changes.pin is not None and spec.pin.where is not None:
        return spec.pin.where
    return spec.renamed_from_where or spec.where
