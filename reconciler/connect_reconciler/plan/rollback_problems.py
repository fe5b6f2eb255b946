"""What a rollback cannot or does not do, and what it undoes beyond its apply. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from connect_reconciler.model.config_values import Plain, Value, recorded, without_reserved
from connect_reconciler.model.ledger import ConnectorSnapshot, Later, Owned, carried
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.model.secrets import fingerprint
from connect_reconciler.plan.checks.ownership import SPECS_DISJOINT, SPECS_EMPTY
from connect_reconciler.plan.diff import ignores, is_taken_back
from connect_specs.desired import ROLLBACK_PIN, Desired
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.plain_text import listed
from connect_specs.states import TargetState


def for_rollback(problem: Diagnostic, apply_id: str) -> Diagnostic | None:
    """The problem in the words of a rollback; None for one that a rollback does not have."""
    if problem.code in (SPECS_EMPTY, SPECS_DISJOINT):
        # Deleting all that an apply created is what was asked for
        return None
    if problem.code == "plan.protected":
        what = f"{problem.where} was not there before apply {apply_id}, and is protected"
        hint = "apply its spec with prevent_delete: false, then run this again"
        return replace(problem, what=f"{what} against deletion", hint=hint)
    if problem.code == "plan.pin-too-large":
        hint = "leave it out with --exclude, and set its offsets with `connect offsets alter`"
        return replace(problem, hint=hint)
    return problem


# --- renames that are in the way ---


def renamed_since(
    name: str, own: set[str | None], later: Mapping[str, Later], live: Live
) -> list[Diagnostic]:
    """An error where a later apply renamed the connector: a rollback would create it a second time.
    `own` are the names of the rename that is rolled back itself."""
    renamed = later[name].renamed if name in later else {}
    new = next((new for new in renamed if new in live.connectors and new not in own), None)
    if new is None or name in live.connectors:
        return []
    what = f"{name} is {new} since apply {renamed[new]}"
    hint = f"`connect rollback {renamed[new]}` first, then run this again"
    return [Diagnostic("rollback.renamed-since", what, name, hint=hint)]


def rename_unfinished(old: str, new: str | None, live: Live) -> list[Diagnostic]:
    """An error where both names exist, and the new one has run with the offsets of the old one,
    and cannot give them back. One that still waits for the end of the rename has not run."""
    connector = live.connectors.get(new or "")
    if new is None or connector is None or old not in live.connectors:
        return []
    owned = live.ledger.connectors.get(new)
    waiting = connector.target is TargetState.STOPPED and owned and owned.restore_to is not None
    gone_on = carried(live.ledger.renames_of(new), old) and not is_taken_back(old, new, live)
    if waiting or not gone_on:
        return []
    what = f"{old} has not gone yet, although {new} goes on in its place"
    hint = "finish the rename with `connect apply`, then run this again"
    return [Diagnostic("rollback.rename-unfinished", what, new, hint=hint)]


# --- later changes, which are undone as well ---


def changed_since(
    before: Mapping[str, ConnectorSnapshot],
    later: Mapping[str, Later],
    live: Live,
    ignored: Mapping[str, tuple[str, ...]],
) -> Iterator[Diagnostic]:
    """Warnings for connectors that later applies changed, and for those that were changed manually,
    with what is undone. `ignored` holds the globs of what stays as it is, by connector."""
    for name in sorted(before):
        ignore = ignored.get(name, ())
        if name in later:
            ids = " and ".join(later[name].applies)
            changed = _by_applies(name, before[name], later[name], live, ignore)
            what = f"{name} was changed since by apply {ids}"
            end = f"; that is undone too: {changed}" if changed else ", and is as it was left then"
            yield warning("rollback.changed-since", what + end, name)
        owned, connector = live.ledger.connectors.get(name), live.connectors.get(name)
        if owned is None:
            continue
        if connector is None:
            what = f"{name} was deleted manually since"
            yield warning("rollback.changed-by-hand", what, name)
        elif changed := _manually(owned, connector, live, ignore):
            what = f"{name} was changed manually since; that is undone too: {changed}"
            yield warning("rollback.changed-by-hand", what, name)


def _by_applies(
    name: str, snapshot: ConnectorSnapshot, later: Later, live: Live, ignore: tuple[str, ...]
) -> str:
    then, now = later.snapshot, live.connectors.get(name)
    if then.config is None or now is None:
        if now is not None:
            return "its creation"
        return "" if then.config is None else "its deletion"
    parts = [_keys(recorded(then.config), now, live, ignore)]
    target = intended_target(live.ledger.connectors.get(name), now)
    if then.target and then.target is not target and not ignores(ignore, "state"):
        parts.append(f"{then.target.value} → {target.value}")
    if later.moved and snapshot.offsets is not None:
        parts.append("its offsets")
    return "; ".join(filter(None, parts))


def _manually(owned: Owned, connector: LiveConnector, live: Live, ignore: tuple[str, ...]) -> str:
    parts = [_keys(owned.config, connector, live, ignore)]
    target = intended_target(owned, connector)
    settled = owned.restore_to is None and not ignores(ignore, "state")
    if settled and owned.state and owned.state is not target:
        parts.append(f"{owned.state.value} → {target.value}")
    return "; ".join(filter(None, parts))


def intended_target(owned: Owned | None, connector: LiveConnector) -> TargetState:
    """The target state, or the one to restore where an apply holds the connector stopped."""
    held = owned.restore_to if owned is not None else None
    return held if held and connector.target is TargetState.STOPPED else connector.target


def _keys(
    then: Mapping[str, str],
    connector: LiveConnector,
    live: Live,
    ignore: tuple[str, ...],
) -> str:
    """The keys whose values differ from the recorded ones, where secrets are fingerprints."""
    now, mark = without_reserved(connector.config), live.ledger.fingerprint_key
    return listed(
        key
        for key in sorted(then.keys() | now.keys())
        if not ignores(ignore, f"config.{key}")
        and (
            key not in then
            or key not in now
            or then[key] not in (now[key], fingerprint(mark, connector.name, key, now[key]))
        )
    )


# --- what stays as it is ---


def not_rolled_back(
    before: Mapping[str, ConnectorSnapshot], files: Desired, live: Live
) -> Iterator[Diagnostic]:
    """A warning for each adopted connector, which stays owned, and for each pin that stays used."""
    for name, snapshot in sorted(before.items()):
        if snapshot.config is None:
            continue
        if snapshot.owner is None and name in live.ledger.connectors:
            what = "it was unmanaged before, and stays owned by this project"
            yield warning("rollback.stays-adopted", what, name)
        used = {
            pin for of, pin in live.ledger.pins if of == name and not pin.startswith(ROLLBACK_PIN)
        }
        spec = files.connectors.get(name)
        if spec is not None and spec.pin is not None and spec.pin.id in used - snapshot.pins.keys():
            what = f"pin {spec.pin.id} of {name} stays used: its spec does not move offsets again"
            hint = "to apply these offsets later, give the pin a new id"
            yield warning("rollback.pin-used", what, name, hint=hint)


def ignored_globs(
    before: Mapping[str, ConnectorSnapshot], files: Desired, live: Live
) -> dict[str, tuple[str, ...]]:
    """The globs of `lifecycle.ignore` by connector, now and at that apply: a rollback leaves alone
    what they match.

    There are none for a connector that exists under neither of its names: it is created again as it
    was. A connector that the apply renamed has the globs of both names.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name, snapshot in before.items():
        names = {name, snapshot.renamed_from or name}
        names |= {new for new, each in before.items() if each.renamed_from == name}
        if names.isdisjoint(live.connectors):
            continue
        globs: list[str] = []
        for each in sorted(names):
            globs += files.connectors[each].ignore if each in files.connectors else ()
            globs += before[each].ignore if each in before else ()
        found[name] = tuple(dict.fromkeys(globs))
    return found


def stays_ignored(
    before: Mapping[str, ConnectorSnapshot], ignore: Mapping[str, tuple[str, ...]], live: Live
) -> Iterator[Diagnostic]:
    """A warning for each connector that keeps ignored values as they are now."""
    for name, snapshot in sorted(before.items()):
        connector = live.connectors.get(name)
        if connector is None or snapshot.config is None:
            continue
        globs = ignore.get(name, ())
        kept = [
            key
            for key in sorted(snapshot.config.keys() | connector.config.keys())
            if ignores(globs, f"config.{key}")
            and not _same(snapshot.config.get(key), connector, key, live)
        ]
        target = intended_target(live.ledger.connectors.get(name), connector)
        if snapshot.target is not target and ignores(globs, "state"):
            kept.append("the state")
        if kept:
            what = f"lifecycle.ignore leaves these of {name} as they are now: {', '.join(kept)}"
            yield warning("rollback.ignored", what, name)


def _same(then: Value | None, connector: LiveConnector, key: str, live: Live) -> bool:
    now = connector.config.get(key)
    if then is None or now is None:
        return then is None and now is None
    if isinstance(then, Plain):
        return then.text == now
    return fingerprint(live.ledger.fingerprint_key, connector.name, key, now) == then.fingerprint
