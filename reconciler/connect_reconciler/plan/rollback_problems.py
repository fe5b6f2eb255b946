"""The errors and warnings of a rollback: obstacles, and changes that it undoes beyond its apply.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from connect_reconciler.model.config_values import recorded, without_reserved
from connect_reconciler.model.ledger import ConnectorSnapshot, Later, Owned, carried
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.model.secrets import fingerprint
from connect_reconciler.plan.checks.ownership import SPECS_DISJOINT, SPECS_EMPTY
from connect_reconciler.plan.diff import ignores, is_taken_back
from connect_specs.desired import ROLLBACK_PIN, Desired, TargetState
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.plain_text import listed


def for_rollback(problem: Diagnostic, apply_id: str) -> Diagnostic | None:
    """Returns the problem in the words of a rollback; None for one that a rollback does not
    have."""
    if problem.code in (SPECS_EMPTY, SPECS_DISJOINT):
        # Deleting all that an apply created is what was asked for
        return None
    if problem.code == "plan.protected":
        text = f"{problem.where} was not there before apply {apply_id}, and is protected"
        hint = "apply its spec with prevent_delete: false, then run this again"
        return replace(problem, what=f"{text} against deletion", hint=hint)
    if problem.code == "plan.pin-too-large":
        hint = "leave it out with --exclude, and set its offsets with `connect offsets alter`"
        return replace(problem, hint=hint)
    return problem


# --- renames that are in the way ---


def renamed_since(
    name: str, own: set[str | None], later: Mapping[str, Later], live: Live
) -> list[Diagnostic]:
    """Returns an error where a later apply renamed the connector: a rollback would create it a
    second time. `own` are the names of the rename that is rolled back itself."""
    renamed = later[name].renamed if name in later else {}
    successor = next(
        (
            successor
            for successor in renamed
            if successor in live.connectors and successor not in own
        ),
        None,
    )
    if successor is None or name in live.connectors:
        return []
    problem = f"{name} is {successor} since apply {renamed[successor]}"
    hint = f"`connect rollback {renamed[successor]}` first, then run this again"
    return [Diagnostic("rollback.renamed-since", problem, name, hint=hint)]


def rename_unfinished(renamed: str, successor: str | None, live: Live) -> list[Diagnostic]:
    """Returns an error where both names exist, and the new one has run with the offsets of the old
    one, and cannot give them back. One that still waits for the end of the rename has not run."""
    connector = live.connectors.get(successor or "")
    if successor is None or connector is None or renamed not in live.connectors:
        return []
    owned = live.ledger.connectors.get(successor)
    waiting = connector.target is TargetState.STOPPED and owned and owned.restore_to is not None
    gone_on = carried(live.ledger.renames_of(successor), renamed) and not is_taken_back(
        renamed, successor, live
    )
    if waiting or not gone_on:
        return []
    problem = f"{renamed} has not gone yet, although {successor} goes on in its place"
    hint = "finish the rename with `connect apply`, then run this again"
    return [Diagnostic("rollback.rename-unfinished", problem, successor, hint=hint)]


# --- later changes, which are undone as well ---


def changed_since(
    snapshots: Mapping[str, ConnectorSnapshot],
    later: Mapping[str, Later],
    live: Live,
    ignored: Mapping[str, tuple[str, ...]],
) -> Iterator[Diagnostic]:
    """Warnings for connectors that later applies changed, and for those that were changed manually,
    with what is undone. `ignored` holds the globs of what stays as it is, by connector."""
    for name in sorted(snapshots):
        ignore = ignored.get(name, ())
        if name in later:
            ids = " and ".join(later[name].applies)
            changed = _by_applies(name, snapshots[name], later[name], live, ignore)
            problem = f"{name} was changed since by apply {ids}"
            end = f"; that is undone too: {changed}" if changed else ", and is as it was left then"
            yield warning("rollback.changed-since", problem + end, name)
        owned, connector = live.ledger.connectors.get(name), live.connectors.get(name)
        if owned is None:
            continue
        if connector is None:
            problem = f"{name} was deleted manually since"
            yield warning("rollback.changed-by-hand", problem, name)
        elif changed := _manually(owned, connector, live, ignore):
            problem = f"{name} was changed manually since; that is undone too: {changed}"
            yield warning("rollback.changed-by-hand", problem, name)


def _by_applies(
    name: str, snapshot: ConnectorSnapshot, later: Later, live: Live, ignore: tuple[str, ...]
) -> str:
    later_snapshot, current = later.snapshot, live.connectors.get(name)
    if later_snapshot.config is None or current is None:
        if current is not None:
            return "its creation"
        return "" if later_snapshot.config is None else "its deletion"
    changes = [_keys(recorded(later_snapshot.config), current, live, ignore)]
    target = intended_target(live.ledger.connectors.get(name), current)
    if (
        later_snapshot.target
        and later_snapshot.target is not target
        and not ignores(ignore, "state")
    ):
        changes.append(f"{later_snapshot.target.value} → {target.value}")
    if later.moved and snapshot.offsets is not None:
        changes.append("its offsets")
    return "; ".join(filter(None, changes))


def _manually(owned: Owned, connector: LiveConnector, live: Live, ignore: tuple[str, ...]) -> str:
    changes = [_keys(owned.config, connector, live, ignore)]
    target = intended_target(owned, connector)
    settled = owned.restore_to is None and not ignores(ignore, "state")
    if settled and owned.state and owned.state is not target:
        changes.append(f"{owned.state.value} → {target.value}")
    return "; ".join(filter(None, changes))


def intended_target(owned: Owned | None, connector: LiveConnector) -> TargetState:
    """Returns the target state, or the one to restore where an apply holds the connector
    stopped."""
    restore_to = owned.restore_to if owned is not None else None
    return (
        restore_to if restore_to and connector.target is TargetState.STOPPED else connector.target
    )


def _keys(
    recorded_config: Mapping[str, str],
    connector: LiveConnector,
    live: Live,
    ignore: tuple[str, ...],
) -> str:
    """Returns the keys that differ and that are not ignored."""
    keys = _differing_keys(recorded_config, connector, live)
    return listed(key for key in keys if not ignores(ignore, f"config.{key}"))


def _differing_keys(
    recorded_config: Mapping[str, str], connector: LiveConnector, live: Live
) -> list[str]:
    """Returns the keys whose values differ from the recorded ones, where secrets are
    fingerprints."""
    current, mark = without_reserved(connector.config), live.ledger.fingerprint_key
    in_both = recorded_config.keys() & current.keys()
    return [
        key
        for key in sorted(recorded_config.keys() | current.keys())
        if key not in in_both
        or recorded_config[key]
        not in (current[key], fingerprint(mark, connector.name, key, current[key]))
    ]


# --- what stays as it is ---


def not_rolled_back(
    snapshots: Mapping[str, ConnectorSnapshot], files: Desired, live: Live
) -> Iterator[Diagnostic]:
    """Yields a warning for each adopted connector, which stays owned, and for each pin that stays
    used."""
    for name, snapshot in sorted(snapshots.items()):
        if snapshot.config is None:
            continue
        if snapshot.owner is None and name in live.ledger.connectors:
            problem = "it was unmanaged before, and stays owned by this project"
            yield warning("rollback.stays-adopted", problem, name)
        used = {
            pin for of, pin in live.ledger.pins if of == name and not pin.startswith(ROLLBACK_PIN)
        }
        spec = files.connectors.get(name)
        if spec is not None and spec.pin is not None and spec.pin.id in used - snapshot.pins.keys():
            problem = (
                f"pin {spec.pin.id} of {name} stays used: its spec does not move offsets again"
            )
            hint = "to apply these offsets later, give the pin a new id"
            yield warning("rollback.pin-used", problem, name, hint=hint)


def ignored_globs(
    snapshots: Mapping[str, ConnectorSnapshot], files: Desired, live: Live
) -> dict[str, tuple[str, ...]]:
    """Returns the globs of `lifecycle.ignore` by connector, now and at that apply: a rollback
    leaves alone what they match.

    There are none for a connector that exists under neither of its names: it is created again as it
    was. A connector that the apply renamed has the globs of both names.
    """
    globs_by_name: dict[str, tuple[str, ...]] = {}
    for name, snapshot in snapshots.items():
        names = {name, snapshot.renamed_from or name}
        names |= {
            successor for successor, renaming in snapshots.items() if renaming.renamed_from == name
        }
        if names.isdisjoint(live.connectors):
            continue
        globs: list[str] = []
        for alias in sorted(names):
            globs += files.connectors[alias].ignore if alias in files.connectors else ()
            globs += snapshots[alias].ignore if alias in snapshots else ()
        globs_by_name[name] = tuple(dict.fromkeys(globs))
    return globs_by_name


def stays_ignored(
    snapshots: Mapping[str, ConnectorSnapshot], ignore: Mapping[str, tuple[str, ...]], live: Live
) -> Iterator[Diagnostic]:
    """Yields a warning for each connector that keeps ignored values as they are now."""
    for name, snapshot in sorted(snapshots.items()):
        connector = live.connectors.get(name)
        if connector is None or snapshot.config is None:
            continue
        globs = ignore.get(name, ())
        differing = _differing_keys(recorded(snapshot.config), connector, live)
        ignored_keys = [key for key in differing if ignores(globs, f"config.{key}")]
        target = intended_target(live.ledger.connectors.get(name), connector)
        if snapshot.target is not target and ignores(globs, "state"):
            ignored_keys.append("the state")
        if ignored_keys:
            keys = ", ".join(ignored_keys)
            problem = f"lifecycle.ignore leaves these of {name} as they are now: {keys}"
            yield warning("rollback.ignored", problem, name)
