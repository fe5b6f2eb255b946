"""The way back from an apply: what its connectors were before, as specs to plan for. Pure.

The config, target state and guard of each connector that it changed; the offsets only where it
moved them. What it created is to go, what it renamed gets its old name back, and what it deleted is
created again: its offsets outlived it.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from connect_reconciler.plan.journal import Before
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.plan import Plan
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.rename import carried, pins_of
from connect_reconciler.plan.reserved import without_reserved
from connect_reconciler.plan.sensitive import Veil, fingerprint, veil
from connect_reconciler.plan.values import Plain, Secret
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, Pin
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.offsets import canonical_partition


@dataclass(frozen=True, slots=True)
class WayBack:
    """What to plan for. `names` are the connectors that the plan may touch."""

    apply_id: str
    desired: Desired
    names: frozenset[str]
    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


def way_back(
    apply_id: str,
    before: Mapping[str, Before],
    later: Mapping[str, str],
    files: Desired,
    live: Live,
) -> WayBack:
    """The way back to `before`. `later` tells which connectors a later apply changed, and which.

    Secrets are looked for where they may still be: on the cluster and in the specs of now.
    """
    renamed = {past.renamed_from: name for name, past in before.items() if past.renamed_from}
    # An apply before may have begun the rename: what goes back to its old name goes with it
    gone = {new for old, new in renamed.items() if old in before and before[old].config is not None}
    specs: dict[str, DesiredConnector] = {}
    errors: list[Diagnostic] = []
    lost: set[str] = set()
    for name, past in sorted(before.items()):
        if past.config is None or name in gone:
            continue
        new = renamed.get(name)
        config, problems = _config(name, new, past, files, live)
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
            where=Location(f"apply {apply_id}"),
            state=target,
            pin=None if back else _pin(name, past, apply_id, live),
            prevent_delete=past.prevent_delete,
            sensitive=tuple(
                glob.escape(key) for key, value in past.config.items() if isinstance(value, Secret)
            ),
            renamed_from=back,
        )
    desired = Desired(files.project, {name: specs[name] for name in specs if name not in lost})
    names = frozenset(before) - lost
    warnings = tuple(_changed_since(before, later, live)) + tuple(_kept(before, files, live))
    return WayBack(apply_id, desired, names, tuple(errors), warnings)


def rollback_plan(
    way: WayBack,
    live: Live,
    *,
    group_id: str,
    env: str | None,
    worker: Mapping[str, str] | None = None,
) -> Plan:
    """The plan for it, in which no other connector occurs. `env` is the project's environment."""
    owned = {name: each for name, each in live.ledger.connectors.items() if name in way.names}
    scoped = replace(live, ledger=replace(live.ledger, connectors=owned))
    made = make_plan(way.desired, scoped, group_id=group_id, worker=worker, env=env)
    # Deleting all that an apply created is what was asked for
    warnings = (each for each in made.warnings if each.code != "plan.no-specs")
    return replace(
        made,
        errors=(*way.errors, *made.errors),
        warnings=(*way.warnings, *warnings),
        rolls_back=way.apply_id,
    )


def _config(
    name: str, new: str | None, past: Before, files: Desired, live: Live
) -> tuple[dict[str, str], list[Diagnostic]]:
    """The config with its secrets, where each is one that is still known by its fingerprint."""
    known: list[Mapping[str, str]] = []
    for each in filter(None, (name, new)):
        known += [live.connectors[each].config] if each in live.connectors else []
        known += [files.connectors[each].config] if each in files.connectors else []
    found: dict[str, str] = {}
    problems: list[Diagnostic] = []
    key = live.ledger.fingerprint_key
    for config_key, value in (past.config or {}).items():
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


def _half_renamed(old: str, new: str | None, live: Live) -> list[Diagnostic]:
    """Both names are there, and the new one has gone on from the offsets of the old one."""
    both = new in live.connectors and old in live.connectors
    if new is None or not both or not carried(pins_of(live.ledger, new), old):
        return []
    what = f"{old} has not gone yet, although {new} goes on in its place"
    hint = "finish the rename with `connect apply`, then run this again"
    return [Diagnostic("rollback.rename-unfinished", what, new, hint=hint)]


def _pin(name: str, past: Before, apply_id: str, live: Live) -> Pin | None:
    """The offsets from before the apply, unless they are there already. Each rollback has a pin of
    its own, since a pin is applied once."""
    if past.offsets is None:
        return None
    connector = live.connectors.get(name)
    offsets = connector.offsets if connector else live.orphan_offsets.get(name, ())
    then, now = _by_partition(past.offsets), _by_partition(offsets)
    if {key: entry.offset for key, entry in then.items()} == {
        key: entry.offset for key, entry in now.items()
    }:
        return None
    number = sum(of == name and pin.startswith("rollback-") for of, pin in live.ledger.pins)
    pin_id = f"rollback-{apply_id}" + (f"-{number + 1}" if number else "")
    if not then:
        return Pin(pin_id, reset=True)
    gone = tuple(replace(now[key], offset=None) for key in now if key not in then)
    return Pin(pin_id, (*then.values(), *gone))


def _by_partition(offsets: tuple[OffsetEntry, ...]) -> dict[str, OffsetEntry]:
    return {canonical_partition(entry.partition): entry for entry in offsets if entry.offset}


def _changed_since(
    before: Mapping[str, Before], later: Mapping[str, str], live: Live
) -> Iterator[Diagnostic]:
    for name in sorted(before):
        if name in later:
            what = f"{name} was changed since by apply {later[name]}; that is undone too"
            yield Diagnostic("rollback.changed-since", what, name)
        owned, connector = live.ledger.connectors.get(name), live.connectors.get(name)
        if owned is None:
            continue
        if connector is None:
            what = f"{name} was deleted since by hand"
            yield Diagnostic("rollback.changed-by-hand", what, name)
            continue
        cover = Veil(name, live.ledger.fingerprint_key, live.password_keys.get(name, frozenset()))
        now = veil(without_reserved(connector.config), cover)
        texts = {
            key: value.text if isinstance(value, Plain) else value.fingerprint
            for key, value in now.items()
        }
        elsewhere = owned.state is not None and owned.state is not connector.target
        if texts != dict(owned.config) or (elsewhere and owned.held_from is None):
            what = f"{name} was changed since by hand; that is undone too"
            yield Diagnostic("rollback.changed-by-hand", what, name)


def _kept(before: Mapping[str, Before], files: Desired, live: Live) -> Iterator[Diagnostic]:
    """What does not go back."""
    for name, past in sorted(before.items()):
        if past.config is None:
            continue
        if past.owner is None and name in live.ledger.connectors:
            what = f"{name} was nobody's before, and stays this project's"
            yield Diagnostic("rollback.stays-adopted", what, name)
        used = {
            pin for of, pin in live.ledger.pins if of == name and not pin.startswith("rollback")
        }
        spec = files.connectors.get(name)
        if spec is not None and spec.pin is not None and spec.pin.id in used - set(past.pins):
            what = f"pin {spec.pin.id} of {name} stays used: its spec does not move offsets again"
            hint = "to apply these offsets later, give the pin a new id"
            yield Diagnostic("rollback.pin-used", what, name, hint=hint)
