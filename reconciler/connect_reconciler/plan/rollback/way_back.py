"""The way back from an apply: what its connectors were before, as specs to plan for. Pure.

The config, target state and guard of each connector that it changed; the offsets only where it
moved them. What it created is to go, what it renamed gets its old name back, and what it deleted is
created again: its offsets outlived it.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from connect_reconciler.plan.actions import Action, Create
from connect_reconciler.plan.diff import ignores
from connect_reconciler.plan.journal import Before, Later
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.renames.rename import carried, renames_of
from connect_reconciler.plan.rollback.changed_since import changed_since
from connect_reconciler.plan.rollback.ignored import ignored_globs, stays_ignored
from connect_reconciler.plan.rollback.wording import as_before, told_of_the_way_back
from connect_reconciler.plan.scope import Scope, chosen
from connect_reconciler.plan.secrets.sensitive import fingerprint
from connect_reconciler.plan.values import Plain, Secret
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, Pin
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.offsets import ROLLBACK_PIN, canonical_partition
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class WayBack:
    """What to plan for, and how its connectors were `before`: the only ones that the plan may
    touch."""

    apply_id: str
    desired: Desired
    before: Mapping[str, Before]
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


def in_scope(before: Mapping[str, Before], scope: Scope) -> dict[str, Before]:
    """The connectors that are to go back; a renamed one is one, under both names. Raises Invalid
    for a glob that matches none."""
    chosen(before, scope)
    names = {name: {name, past.renamed_from or name} for name, past in before.items()}
    for name, past in before.items():
        if past.renamed_from in names:
            names[past.renamed_from].add(name)
    return {name: past for name, past in before.items() if scope.holds(names[name])}


def to_look_at(apply_id: str, before: Mapping[str, Before], project: str) -> Desired:
    """What has to be observed for the way back: the connectors as they were, but for secrets."""
    renamed = {past.renamed_from: past.offsets or () for past in before.values()}
    specs = {}
    for name, past in before.items():
        if past.config is None:
            continue
        moved = (*(past.offsets or ()), *renamed.get(name, ()))
        specs[name] = DesiredConnector(
            name=name,
            config={key: each.text for key, each in past.config.items() if isinstance(each, Plain)},
            where=_where(apply_id),
            state=past.target,
            pin=Pin(_pin_id(apply_id), moved) if moved else None,
        )
    return Desired(project, specs)


def way_back(
    apply_id: str,
    before: Mapping[str, Before],
    later: Mapping[str, Later],
    files: Desired,
    live: Live,
    *,
    times: int = 0,
) -> WayBack:
    """The way back to `before`. `later` tells which connectors later applies changed, and `times`
    how often this way was gone before.

    Secrets are looked for where they may still be: on the cluster and in the specs of now.
    """
    renamed = {past.renamed_from: name for name, past in before.items() if past.renamed_from}
    # An apply before may have begun the rename: what goes back to its old name goes with it
    gone = {new for old, new in renamed.items() if old in before and before[old].config is not None}
    specs: dict[str, DesiredConnector] = {}
    errors: list[Diagnostic] = []
    lost: set[str] = set()
    ignored = ignored_globs(before, files, live)
    for name, past in sorted(before.items()):
        own = {renamed.get(name), past.renamed_from}
        if gone_on := _renamed_since(name, own, later, live):
            errors += gone_on
            lost |= {name, past.renamed_from or name, renamed.get(name, name)}
            continue
        if past.config is None or name in gone:
            continue
        new = renamed.get(name)
        ignore = ignored.get(name, ())
        config, problems = _config(name, new, past, files, live, ignore)
        problems += _half_renamed(name, new, live)
        if problems:
            errors += problems
            lost |= {name} | ({new} if new else set())
            continue
        back = new if new in live.connectors and name not in live.connectors else None
        target = past.target
        if new is not None and before[new].config is not None:
            target = before[new].target
        specs[name] = DesiredConnector(
            name=name,
            config=config,
            where=_where(apply_id),
            state=target,
            pin=_pin(name, back, _moved(name, new, before, live), _pin_id(apply_id, times), live),
            prevent_delete=past.prevent_delete,
            sensitive=_sensitive(past, [name, *([new] if new else ())], files),
            renamed_from=back,
            allow_zero_tasks=_allows_zero_tasks(name, new, files),
            ignore=ignore,
        )
    desired = Desired(files.project, {name: specs[name] for name in specs if name not in lost})
    touched = {name: past for name, past in before.items() if name not in lost}
    warnings = (
        *changed_since(before, later, live, ignored),
        *stays_ignored(touched, ignored, live),
        *_kept(before, files, live),
    )
    return WayBack(apply_id, desired, touched, tuple(errors), warnings)


def _allows_zero_tasks(name: str, new: str | None, files: Desired) -> bool:
    """What the specs of now say, which is all there is: the ledger does not keep it."""
    now = files.connectors.get(name) or files.connectors.get(new or "")
    return now is not None and now.allow_zero_tasks


def rollback_plan(
    way: WayBack,
    live: Live,
    *,
    group_id: str,
    env: str | None,
    worker: Mapping[str, str] | None = None,
) -> Plan:
    """The plan for it, in which no other connector occurs. `env` is the project's environment."""
    owned = {name: each for name, each in live.ledger.connectors.items() if name in way.before}
    scoped = replace(live, ledger=replace(live.ledger, connectors=owned))
    made = make_plan(way.desired, scoped, group_id=group_id, worker=worker, env=env)
    return replace(
        made,
        rolls_back=way.apply_id,
        actions=tuple(as_before(_with_pins(action, way), way.before) for action in made.actions),
        errors=(*way.errors, *_told(made.errors, way)),
        warnings=(*way.warnings, *_told(made.warnings, way)),
    )


def _told(problems: tuple[Diagnostic, ...], way: WayBack) -> Iterator[Diagnostic]:
    told = (told_of_the_way_back(each, way.apply_id) for each in problems)
    return (each for each in told if each is not None)


def _with_pins(action: Action, way: WayBack) -> Action:
    """What comes back has had its pins: its file, put back, must not move offsets again."""
    if not isinstance(action, Create):
        return action
    return replace(action, pins=way.before[action.connector].pins)


def _where(apply_id: str) -> Location:
    return Location(f"apply {apply_id}")


def _pin_id(apply_id: str, times: int = 0) -> str:
    return f"{ROLLBACK_PIN}-{apply_id}" + (f"-{times + 1}" if times else "")


def _sensitive(past: Before, names: Iterable[str], files: Desired) -> tuple[str, ...]:
    """Keys that were secrets then, and those that a spec of now calls sensitive."""
    then = (
        glob.escape(key) for key, each in (past.config or {}).items() if isinstance(each, Secret)
    )
    specs = (files.connectors[name] for name in names if name in files.connectors)
    return tuple(dict.fromkeys([*then, *(each for spec in specs for each in spec.sensitive)]))


def _config(
    name: str,
    new: str | None,
    past: Before,
    files: Desired,
    live: Live,
    ignore: tuple[str, ...],
) -> tuple[dict[str, str], list[Diagnostic]]:
    """The config with its secrets, where each is one that is still known by its fingerprint. Keys
    that are ignored are left to what is live."""
    known: list[Mapping[str, str]] = []
    for each in filter(None, (name, new)):
        known += [live.connectors[each].config] if each in live.connectors else []
        known += [files.connectors[each].config] if each in files.connectors else []
    found: dict[str, str] = {}
    problems: list[Diagnostic] = []
    key = live.ledger.fingerprint_key
    for config_key, value in (past.config or {}).items():
        if ignores(ignore, f"config.{config_key}"):
            continue
        if isinstance(value, Plain):
            found[config_key] = value.text
            continue
        texts = (config[config_key] for config in known if config_key in config)
        same = [
            text
            for text in texts
            if value.fingerprint and fingerprint(key, name, config_key, text) == value.fingerprint
        ]
        if same:
            found[config_key] = same[0]
        else:
            what = (
                f"the value that {config_key} of {name} had then is neither on the cluster nor in"
                " the specs"
            )
            hint = f"put it into a spec of {name} and run this again: only fingerprints are kept"
            problems.append(Diagnostic("rollback.secret-gone", what, name, hint=hint))
    return found, problems


def _renamed_since(
    name: str, own: set[str | None], later: Mapping[str, Later], live: Live
) -> list[Diagnostic]:
    """It goes on under another name, and not one of the apply's `own` rename: a way back that does
    not know would have it run twice."""
    renamed = later[name].renamed if name in later else {}
    new = next((new for new in renamed if new in live.connectors and new not in own), None)
    if new is None or name in live.connectors:
        return []
    what = f"{name} is {new} since apply {renamed[new]}"
    hint = f"`connect rollback {renamed[new]}` first, then run this again"
    return [Diagnostic("rollback.renamed-since", what, name, hint=hint)]


def _half_renamed(old: str, new: str | None, live: Live) -> list[Diagnostic]:
    """Both names are there, and the new one has gone on from the offsets of the old one. One that
    still waits for the rename's end has not."""
    connector = live.connectors.get(new or "")
    if new is None or connector is None or old not in live.connectors:
        return []
    owned = live.ledger.connectors.get(new)
    waiting = connector.target is TargetState.STOPPED and owned and owned.held_from is not None
    if waiting or not carried(renames_of(live.ledger, new), old):
        return []
    what = f"{old} has not gone yet, although {new} goes on in its place"
    hint = "finish the rename with `connect apply`, then run this again"
    return [Diagnostic("rollback.rename-unfinished", what, new, hint=hint)]


def _moved(
    name: str, new: str | None, before: Mapping[str, Before], live: Live
) -> tuple[OffsetEntry, ...] | None:
    """The offsets that the apply moved, as they were; None where it moved none. What is renamed
    takes its offsets along, and has others only if a pin asked for them under its new name."""
    if new is None or before[new].offsets is not None:
        return before[new or name].offsets
    there = name in live.connectors or new in live.connectors
    return None if there else before[name].offsets


def _pin(
    name: str, back: str | None, past: tuple[OffsetEntry, ...] | None, pin_id: str, live: Live
) -> Pin | None:
    """The offsets from before the apply, unless they are there already. What is renamed back from
    `back` has those.

    Each rollback has a pin of its own, since a pin is applied once: one that was killed and begins
    again does not go back twice.
    """
    if past is None or (name, pin_id) in live.ledger.pins:
        return None
    now_name = back or name
    connector = live.connectors.get(now_name)
    offsets = connector.offsets if connector else live.orphan_offsets.get(now_name, ())
    then, now = _by_partition(past), _by_partition(offsets)
    # of offsets that could not be read nobody can say that they are there already
    if now_name not in live.unknown and {key: entry.offset for key, entry in then.items()} == {
        key: entry.offset for key, entry in now.items()
    }:
        return None
    if not then:
        return Pin(pin_id, reset=True)
    gone = tuple(replace(now[key], offset=None) for key in now if key not in then)
    return Pin(pin_id, (*then.values(), *gone))


def _by_partition(offsets: tuple[OffsetEntry, ...]) -> dict[str, OffsetEntry]:
    return {canonical_partition(entry.partition): entry for entry in offsets if entry.offset}


def _kept(before: Mapping[str, Before], files: Desired, live: Live) -> Iterator[Diagnostic]:
    """What does not go back."""
    for name, past in sorted(before.items()):
        if past.config is None:
            continue
        if past.owner is None and name in live.ledger.connectors:
            what = f"{name} was nobody's before, and stays this project's"
            yield Diagnostic("rollback.stays-adopted", what, name)
        used = {
            pin for of, pin in live.ledger.pins if of == name and not pin.startswith(ROLLBACK_PIN)
        }
        spec = files.connectors.get(name)
        if spec is not None and spec.pin is not None and spec.pin.id in used - past.pins.keys():
            what = f"pin {spec.pin.id} of {name} stays used: its spec does not move offsets again"
            hint = "to apply these offsets later, give the pin a new id"
            yield Diagnostic("rollback.pin-used", what, name, hint=hint)
