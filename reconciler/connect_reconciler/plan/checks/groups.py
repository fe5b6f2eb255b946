"""Checks of sinks that share a consumer group, and with it one set of offsets. Pure.

Kafka refuses to move a group's offsets while any of its readers runs, which would leave the
connector stopped half-way; where none runs, they move for all readers.
"""

from __future__ import annotations

from collections.abc import Iterator

from connect_reconciler.actions.connector_state import SINK_SERVERS
from connect_reconciler.plan.diff import ConnectorDiff, Context
from connect_reconciler.plan.offsets.sink_positions import sink_topics
from connect_specs.desired import TargetState
from connect_specs.diagnostics import Blocks, Diagnostic, Location, warning
from connect_specs.names import ledger_group, sink_group
from connect_specs.plain_text import listed


def lease_group(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses a sink in the group that keeps two applies apart: it would take the lease, or be
    fenced."""
    if context.live.rest_alone or _group(diff, context) != ledger_group(context.group_id):
        return
    yield Diagnostic(
        "plan.lease-group",
        f"{diff.name} is to read with consumer group {ledger_group(context.group_id)}, which"
        f" holds the lease of applies to {context.group_id}",
        diff.place,
        hint="give it another name, or a consumer.override.group.id",
        blocks="connector",
    )


def carried_offsets_in_use(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses a rename that moves offsets of groups that others read with."""
    if diff.carries:
        yield from _in_use(diff, context, "connector")


def pinned_offsets_in_use(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Refuses a pin that moves offsets of a group that others read with."""
    if not diff.carries:
        yield from _in_use(diff, context, "offsets")


def moves_of_others(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Warns of a pin that moves the offsets of other sinks as well."""
    group = _group(diff, context)
    if group is None or diff.pin is None:
        return
    if readers := _other_readers(group, diff, context):
        effect = "are forgotten" if diff.pin.entries is None else "move"
        text = f"{', '.join(readers)} reads with consumer group {_shown_group(diff, context)}"
        text += f" too, so its offsets {effect} as well"
        yield warning("plan.shared-group", text, _place(diff))


def shared_records(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Warns of a sink that is going to get only a part of its topics' records."""
    group = _group(diff, context)
    if group is None or not _joins(diff, context):
        return
    readers = _other_readers(group, diff, context)
    if sharing := [name for name in readers if _shares_records(name, group, diff, context)]:
        yield warning(
            "plan.shared-group",
            f"{diff.name} and {', '.join(sharing)} read the same topics with consumer group"
            f" {_shown_group(diff, context)}: each record is delivered to one of them only",
            _place(diff),
            hint="with a consumer group of its own, each gets all records",
        )


def read_by_strangers(diff: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """Warns of consumers in a sink's group that are no tasks of this cluster."""
    names = [diff.name]
    if diff.rename is not None and diff.carries:
        names.append(diff.rename.old)
    for name in names:
        strangers = context.live.strangers.get(name, ())
        connector = context.live.connectors.get(name)
        if not strangers or connector is None:
            continue
        group = sink_group(name, diff.redactor.shown(connector.config), context.worker)
        reason = "each record is delivered to one member of the group only"
        if diff.moves_offsets:
            reason += ", and its offsets cannot move while they are there"
        yield warning(
            "plan.group-members",
            f"consumer group {group} of {name} has members that are no tasks of this cluster:"
            f" {listed(map(str, strangers))}",
            _place(diff),
            why=reason,
            hint="another Connect cluster on this Kafka may have a sink of the same name",
        )


# --- details ---


def _in_use(diff: ConnectorDiff, context: Context, blocks: Blocks) -> Iterator[Diagnostic]:
    """Returns the first reason not to move the offsets of the connector or of its old name."""
    live, owners = context.live, (None, context.desired.project)
    for group in _moved_groups(diff, context):
        readers = _other_readers(group, diff, context)
        if reading := [name for name in readers if _reads_on(name, diff, context)]:
            names = ", ".join(reading)
            yield Diagnostic(
                "plan.group-in-use",
                f"the offsets of {diff.name} cannot move while {names} reads with the same"
                " consumer group",
                _place(diff),
                why="Kafka moves a group's offsets only while nobody reads with it",
                hint=f"apply state: stopped for {names} first, or use a consumer group that is"
                f" {diff.name}'s alone",
                blocks=blocks,
            )
            return
        foreign = [name for name in readers if live.ledger.owner(name) not in owners]
        if foreign and diff.pin is not None:
            text = f"its pin moves offsets of consumer group {_shown_group(diff, context)}"
            text += f", and {', '.join(foreign)} of another project reads with it too"
            hint = "give the connector a consumer group of its own"
            yield Diagnostic("plan.owned-by-other", text, _place(diff), hint=hint, blocks=blocks)
            return


def _group(diff: ConnectorDiff, context: Context) -> str | None:
    """Returns the group that a sink is to read with; None of a source, or of a connector without
    a spec."""
    if diff.kind != "sink" or diff.written is None:
        return None
    return sink_group(diff.name, diff.written, context.worker)


def _moved_groups(diff: ConnectorDiff, context: Context) -> Iterator[str]:
    group = _group(diff, context)
    if group is None:
        return
    if diff.pin is not None:
        yield group
    old_connector = diff.rename.live if diff.rename and diff.carries else None
    if old_connector is not None and old_connector.kind == "sink":
        yield sink_group(old_connector.name, old_connector.config, context.worker)


def _other_readers(group: str, diff: ConnectorDiff, context: Context) -> tuple[str, ...]:
    """Returns its other readers, without those that the plan deletes before."""
    planned = context.changes.values()
    gone = {peer.name for peer in planned if peer.existence == "delete"}
    if _is_new(diff):
        gone |= {peer.rename.old for peer in planned if peer.rename}
    old_name = diff.rename.old if diff.rename else diff.name
    readers = context.other_readers(group, diff.name, old_name)
    return tuple(name for name in readers if name not in gone and _same_kafka(name, diff, context))


def _same_kafka(name: str, diff: ConnectorDiff, context: Context) -> bool:
    connector, peer = context.live.connectors.get(name), context.changes.get(name)
    configs = (connector.config if connector else None, peer.written if peer else None)
    servers = (diff.written or {}).get(SINK_SERVERS)
    return any(config is not None and config.get(SINK_SERVERS) == servers for config in configs)


def _reads_on(name: str, mover: ConnectorDiff, context: Context) -> bool:
    """Returns whether it may read while the offsets of `mover` move."""
    connector, peer = context.live.connectors.get(name), context.changes.get(name)
    if connector is not None and connector.target is not TargetState.STOPPED:
        return True
    together = connector is not None or _is_new(mover)
    return together and peer is not None and peer.goal is not TargetState.STOPPED


def _shares_records(name: str, group: str, diff: ConnectorDiff, context: Context) -> bool:
    """Returns whether it is going to read the same topics with the group."""
    connector, peer = context.live.connectors.get(name), context.changes.get(name)
    config = peer.written if peer else connector.config if connector else None
    target = peer.goal if peer else connector.target if connector else None
    if config is None or TargetState.STOPPED in (target, diff.goal):
        return False
    topics = context.live.logs_of(diff.name).topics
    shared = {*sink_topics(config, topics)} & {*sink_topics(diff.written or {}, topics)}
    return bool(shared) and sink_group(name, config, context.worker) == group


def _joins(diff: ConnectorDiff, context: Context) -> bool:
    """Returns whether it reads there because of the plan."""
    if diff.live is None:
        return _is_new(diff)
    live_group = sink_group(diff.name, diff.live.config, context.worker)
    keys = {change.key for change in diff.config} & {"topics", "topics.regex"}
    return bool(keys) or live_group != _group(diff, context)


def _is_new(diff: ConnectorDiff) -> bool:
    """Returns whether it is created, which comes after all changes and renames."""
    return diff.existence == "create" and diff.rename is None


def _shown_group(diff: ConnectorDiff, context: Context) -> str:
    """Returns the group's name, unless the config hides it."""
    config = diff.redactor.shown(diff.written or {})
    return sink_group(diff.name, config, context.worker)


def _place(diff: ConnectorDiff) -> Location | str:
    return diff.rename_place if diff.pin is None else diff.pin_place
