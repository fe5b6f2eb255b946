"""What makes a plan impossible, or needs a warning: ownership, guards, pins. Every problem at once.

Decides from the same values as the plan; a connector with errors keeps its other changes shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from connect_reconciler.plan.checks.addressable import name_error
from connect_reconciler.plan.checks.belonging import (
    environment_error,
    environment_warning,
    pin_forgotten,
)
from connect_reconciler.plan.checks.group_readers import Readers
from connect_reconciler.plan.checks.groups import Groups
from connect_reconciler.plan.checks.pin_shape import (
    mistyped_partitions,
    shape_problem,
    unread_topics,
)
from connect_reconciler.plan.diff import Changes, PinChange
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.offsets.amounts import offsets
from connect_reconciler.plan.offsets.moves import sink_offset, sink_partition
from connect_reconciler.plan.offsets.positions import Problem, position_problem
from connect_reconciler.plan.renames.checks import group_error, rename_error, rename_warning
from connect_reconciler.plan.renames.rename import recorded_pin
from connect_reconciler.plan.unfinished import unfinished
from connect_specs.desired import Desired, OffsetEntry, Pin
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.offsets import content_hash
from connect_specs.states import TargetState

# Names in one warning
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Problems:
    """What was found. `blocked` connectors get no actions, `unpinned` ones none for offsets."""

    errors: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]
    blocked: frozenset[str]
    unpinned: frozenset[str]


def check_changes(
    changes: tuple[Changes, ...],
    desired: Desired,
    live: Live,
    worker: Mapping[str, str],
    readers: Readers,
    *,
    group_id: str,
    env: str | None = None,
) -> Problems:
    """All problems, in the order of the connectors."""
    errors: list[Diagnostic] = []
    warnings: list[Diagnostic] = [*unfinished(live, desired.project), *_failed(changes)]
    blocked, unpinned = set(), set()
    named = {each.name: each for each in changes}
    groups = Groups(named, live, worker, readers, desired.project, group_id)
    for each in changes:
        refused = (
            _ownership(each, desired.project)
            or _protection(each)
            or name_error(each, live)
            or environment_error(each, desired, env)
            or rename_error(each, desired, live)
            or group_error(each, worker, readers)
            or groups.lease_error(each)
            or (groups.error(each) if each.carries else None)
        )
        if refused is not None:
            errors.append(refused)
            blocked.add(each.name)
            continue
        nothing = rename_warning(each, live)
        if nothing is not None:
            warnings.append(nothing)
        warnings.extend(environment_warning(each, desired, env))
        warnings.extend(groups.shares(each))
        pin = each.spec.pin if each.spec else None
        if pin is None:
            continue
        crowded = groups.error(each)
        wrong = [*_pin_errors(each, pin, live), *filter(None, (crowded,))]
        errors.extend(wrong)
        if wrong:
            unpinned.add(each.name)
        elif each.pin is not None:
            warnings.extend(pin_forgotten(each, pin, live))
            warnings.extend(_pin_warnings(each, pin, live.around(each.name)))
            warnings.extend(groups.moves_of_others(each))
    return Problems(tuple(errors), tuple(warnings), frozenset(blocked), frozenset(unpinned))


def _failed(changes: tuple[Changes, ...]) -> Iterator[Diagnostic]:
    """What should run, failed, and is not started anew by the plan."""
    names = [each.name for each in changes if _stays_failed(each)]
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        what = f"failed: {', '.join(names[:_NAMED])}{more}; this plan does not restart what failed"
        hint = "`connect status` shows why, `connect restart --failed` restarts what failed"
        yield Diagnostic("plan.failed", what, hint=hint)


def _stays_failed(changes: Changes) -> bool:
    live = changes.live
    if changes.spec is None or live is None or changes.config or changes.moves_offsets:
        return False
    runs = live.target is changes.goal is TargetState.RUNNING
    return runs and "FAILED" in (live.state, *live.task_states)


def _ownership(changes: Changes, project: str) -> Diagnostic | None:
    owned = changes.owned
    if owned is None or owned.project == project:
        return None
    return Diagnostic(
        "plan.owned-by-other",
        f"connector {changes.name} belongs to project {owned.project}",
        _where(changes),
        hint=f"remove this spec, or remove the connector from project {owned.project} first",
    )


def _protection(changes: Changes) -> Diagnostic | None:
    if changes.existence != "delete" or changes.owned is None or not changes.owned.prevent_delete:
        return None
    return Diagnostic(
        "plan.protected",
        f"connector {changes.name} has no spec any more, but is protected against deletion",
        changes.name,
        hint="put the spec back with prevent_delete: false and apply, then remove the file",
    )


def _pin_errors(changes: Changes, pin: Pin, live: Live) -> Iterator[Diagnostic]:
    applied = None if changes.spec is None else recorded_pin(changes.spec, live)
    if applied is not None and applied.content_hash != content_hash(pin):
        yield Diagnostic(
            "plan.pin-reused",
            f"pin {pin.id} of {changes.name} was applied before with other offsets",
            pin.where or changes.name,
            why="a pin is applied once, and its id says which one it was",
            hint="give the new offsets a new id",
        )
        return
    if changes.pin is None:
        return
    if changes.kind == "unknown":
        yield Diagnostic(
            "plan.unknown-kind",
            f"whether {changes.name} is a source or a sink is not known, so its offsets are not",
            pin.where or changes.name,
            why=f"no class {_class(changes)} is known here",
            hint="check connector.class, or make the plan where the plugin is installed",
        )
        return
    around = live.around(changes.name)
    for code, what, hint in _entry_errors(changes, changes.pin, pin, around):
        place = pin.where or changes.name
        yield Diagnostic(code, f"pin {pin.id} of {changes.name}: {what}", place, hint=hint)


def _entry_errors(changes: Changes, change: PinChange, pin: Pin, live: Live) -> Iterator[Problem]:
    misfit = shape_problem(pin, changes.kind)
    if misfit is not None:
        yield misfit
        return
    if pin.to is not None and not change.again:
        written = changes.written or {}
        shown = changes.cover.shown(written)
        problem = position_problem(pin.to, written, live)
        if any(shown.get(key) != written.get(key) for key in ("topics", "topics.regex")):
            what = "the sink's topics are sensitive, and the offsets of 'to' would name them"
            problem = ("plan.hidden-topics", what, "take them out of 'sensitive', or reset: true")
        if problem is not None:
            yield problem
            return
    for entry in change.entries or ():
        problem = _log_error(entry, live) if changes.kind == "sink" else None
        if problem is not None:
            yield problem


def _log_error(entry: OffsetEntry, live: Live) -> Problem | None:
    partition = sink_partition(entry.partition)
    log = None if partition is None else live.logs.get(partition)
    if partition is None or (log is None and not live.logs_unknown):
        topic, number = entry.partition["kafka_topic"], entry.partition["kafka_partition"]
        return "plan.no-partition", f"{topic}-{number} does not exist", "check topic and partition"
    wanted = sink_offset(entry.offset)
    label = f"{partition[0]}-{partition[1]}"
    if entry.offset is not None and (wanted is None or wanted < 0):
        return "plan.bad-offset", f"{label} needs a whole number of at least 0 as offset", ""
    if log is not None and wanted is not None and wanted > log.latest:
        what = f"{label} ends at {log.latest}, and {wanted} lies {wanted - log.latest} beyond"
        hint = f"write {log.latest} to pass over everything that is there"
        return "plan.beyond-end", what, hint
    return None


def _pin_warnings(changes: Changes, pin: Pin, live: Live) -> Iterator[Diagnostic]:
    if changes.kind == "source" and changes.pin is not None:
        yield from _mistyped(changes, changes.pin, pin)
    if changes.kind != "sink" or changes.pin is None:
        return
    where = pin.where or changes.name
    unread = set(unread_topics(pin, changes.written or {}))
    for entry in changes.pin.entries or ():
        partition, wanted = sink_partition(entry.partition), sink_offset(entry.offset)
        if partition is None:
            continue
        label = f"{partition[0]}-{partition[1]}"
        log = live.logs.get(partition)
        if log is not None and wanted is not None and wanted < log.earliest:
            gone = log.earliest - wanted
            yield Diagnostic(
                "plan.below-start",
                f"pin {pin.id} of {changes.name}: {label} starts at {log.earliest} by now, so"
                f" {offsets(gone)} that the pin asks for {'are' if gone != 1 else 'is'} gone",
                where,
            )
        if partition[0] in unread:
            yield Diagnostic(
                "plan.pin-not-read",
                f"pin {pin.id} of {changes.name}: the sink does not read topic {partition[0]}",
                where,
            )


def _mistyped(changes: Changes, change: PinChange, pin: Pin) -> Iterator[Diagnostic]:
    for text, there in mistyped_partitions(change.entries or (), changes.offsets):
        yield Diagnostic(
            "plan.pin-other-type",
            f"pin {pin.id} of {changes.name}: it has no offset of partition {text}, but one of"
            f" {there}, which stays as it is",
            pin.where or changes.name,
            why="Connect compares partitions with the types of their values",
            hint="write the partition as `connect offsets list` shows it",
        )


def _class(changes: Changes) -> str:
    return changes.cover.shown(changes.written or {}).get("connector.class", "(none)")


def _where(changes: Changes) -> Location | str:
    return changes.spec.where if changes.spec else changes.name
