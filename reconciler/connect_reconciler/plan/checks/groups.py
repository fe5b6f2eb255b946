"""Which sinks share a consumer group, and with it one set of offsets? Pure.

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
    """A sink in the group that keeps two applies apart would take the lease, or be fenced."""
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
    """A rename does not move offsets of groups that others read with."""
    if changes.carries:
        yield from _in_use(changes, context, "connector")


def pinned_offsets_in_use(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """A pin does not move offsets of a group that others read with."""
    if not changes.carries:
        yield from _in_use(changes, context, "offsets")


def moves_of_others(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """A warning where a pin moves the offsets of other sinks as well."""
    group = _group(changes, context)
    if group is None or changes.pin is None:
        return
    if others := _others(group, changes, context):
        moved = "are forgotten" if changes.pin.entries is None else "move"
        what = f"{', '.join(others)} reads with consumer group {_shown(changes, context)}"
        what += f" too, so its offsets {moved} as well"
        yield warning("plan.shared-group", what, _place(changes))


def shared_records(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """A warning where a sink is going to get only a part of its topics' records."""
    group = _group(changes, context)
    if group is None or not _joins(changes, context):
        return
    others = _others(group, changes, context)
    if beside := [name for name in others if _beside(name, group, changes, context)]:
        yield warning(
            "plan.shared-group",
            f"{changes.name} and {', '.join(beside)} read the same topics with consumer group"
            f" {_shown(changes, context)}: each record is delivered to one of them only",
            _place(changes),
            hint="with a consumer group of its own, each gets all records",
        )


def read_by_strangers(changes: ConnectorDiff, context: Context) -> Iterator[Diagnostic]:
    """A warning of consumers in a sink's group that are no tasks of this cluster."""
    names = [changes.name]
    if changes.rename is not None and changes.carries:
        names.append(changes.rename.old)
    for name in names:
        others = context.live.strangers.get(name, ())
        connector = context.live.connectors.get(name)
        if not others or connector is None:
            continue
        group = sink_group(name, changes.redactor.shown(connector.config), context.worker)
        why = "each record is delivered to one member of the group only"
        if changes.moves_offsets:
            why += ", and its offsets cannot move while they are there"
        yield warning(
            "plan.group-members",
            f"consumer group {group} of {name} has members that are no tasks of this cluster:"
            f" {listed(map(str, others))}",
            _place(changes),
            why=why,
            hint="another Connect cluster on this Kafka may have a sink of the same name",
        )


# --- details ---


def _in_use(changes: ConnectorDiff, context: Context, blocks: Blocks) -> Iterator[Diagnostic]:
    """Why offsets of the connector, or of its old name, cannot be moved: the first reason."""
    for group in _moved(changes, context):
        others = _others(group, changes, context)
        if reading := [name for name in others if _reads_on(name, changes, context)]:
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
        foreign = [name for name in others if _is_foreign(name, context)]
        if foreign and changes.pin is not None:
            what = f"its pin moves offsets of consumer group {_shown(changes, context)}"
            what += f", and {', '.join(foreign)} of another project reads with it too"
            hint = "give the connector a consumer group of its own"
            yield Diagnostic("plan.owned-by-other", what, _place(changes), hint=hint, blocks=blocks)
            return


def _group(changes: ConnectorDiff, context: Context) -> str | None:
    """The group that a sink is to read with; None of a source, or of a connector without a spec."""
    if changes.kind != "sink" or changes.written is None:
        return None
    return sink_group(changes.name, changes.written, context.worker)


def _moved(changes: ConnectorDiff, context: Context) -> Iterator[str]:
    group = _group(changes, context)
    if group is None:
        return
    if changes.pin is not None:
        yield group
    old = changes.rename.live if changes.rename and changes.carries else None
    if old is not None and old.kind == "sink":
        yield sink_group(old.name, old.config, context.worker)


def _others(group: str, changes: ConnectorDiff, context: Context) -> tuple[str, ...]:
    """Its other readers, without those that the plan deletes before."""
    planned = context.changes.values()
    gone = {each.name for each in planned if each.existence == "delete"}
    if _is_new(changes):
        gone |= {each.rename.old for each in planned if each.rename}
    old = changes.rename.old if changes.rename else changes.name
    found = context.other_readers(group, changes.name, old)
    return tuple(name for name in found if name not in gone and _same_kafka(name, changes, context))


def _same_kafka(name: str, changes: ConnectorDiff, context: Context) -> bool:
    connector, found = context.live.connectors.get(name), context.changes.get(name)
    configs = (connector.config if connector else None, found.written if found else None)
    here = (changes.written or {}).get(SINK_SERVERS)
    return any(config is not None and config.get(SINK_SERVERS) == here for config in configs)


def _reads_on(name: str, beside: ConnectorDiff, context: Context) -> bool:
    """Whether it may read while the offsets of `beside` move."""
    connector, found = context.live.connectors.get(name), context.changes.get(name)
    if connector is not None and connector.target is not TargetState.STOPPED:
        return True
    together = connector is not None or _is_new(beside)
    return together and found is not None and found.goal is not TargetState.STOPPED


def _is_foreign(name: str, context: Context) -> bool:
    return context.live.ledger.owner(name) not in (None, context.desired.project)


def _beside(name: str, group: str, changes: ConnectorDiff, context: Context) -> bool:
    """Whether it is going to read the same topics with the group."""
    connector, found = context.live.connectors.get(name), context.changes.get(name)
    config = found.written if found else connector.config if connector else None
    target = found.goal if found else connector.target if connector else None
    if config is None or TargetState.STOPPED in (target, changes.goal):
        return False
    topics = context.live.logs_of(changes.name).topics
    same = {*sink_topics(config, topics)} & {*sink_topics(changes.written or {}, topics)}
    return bool(same) and sink_group(name, config, context.worker) == group


def _joins(changes: ConnectorDiff, context: Context) -> bool:
    """Whether the plan is what makes it read there."""
    if changes.live is None:
        return _is_new(changes)
    before = sink_group(changes.name, changes.live.config, context.worker)
    keys = {each.key for each in changes.config} & {"topics", "topics.regex"}
    return bool(keys) or before != _group(changes, context)


def _is_new(changes: ConnectorDiff) -> bool:
    """Whether it is created, which comes after all changes and renames."""
    return changes.existence == "create" and changes.rename is None


def _shown(changes: ConnectorDiff, context: Context) -> str:
    """The group's name, unless the config hides it."""
    shown = changes.redactor.shown(changes.written or {})
    return sink_group(changes.name, shown, context.worker)


def _place(changes: ConnectorDiff) -> Location | str:
    spec = changes.spec
    if spec is None:
        return changes.name
    if spec.pin is not None and changes.pin is not None and spec.pin.where is not None:
        return spec.pin.where
    return spec.renamed_from_where or spec.where
