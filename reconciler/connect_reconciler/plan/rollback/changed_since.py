"""What would a way back undo beyond its apply? What later applies and hands changed since. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connect_reconciler.plan.diff import ignores
from connect_reconciler.plan.journal import Before, Later
from connect_reconciler.plan.live import Live, LiveConnector, Owned
from connect_reconciler.plan.reserved import without_reserved
from connect_reconciler.plan.secrets.sensitive import fingerprint
from connect_reconciler.plan.values import Plain
from connect_specs.diagnostics import Diagnostic
from connect_specs.states import TargetState

_KEYS_SHOWN = 5


def changed_since(
    before: Mapping[str, Before],
    later: Mapping[str, Later],
    live: Live,
    ignored: Mapping[str, tuple[str, ...]],
) -> Iterator[Diagnostic]:
    """A warning for each connector that later applies changed, and one for hands, with what.
    `ignored` are the globs of what stays as it is, by connector."""
    for name in sorted(before):
        ignore = ignored.get(name, ())
        if name in later:
            ids = " and ".join(later[name].applies)
            changed = _by_applies(name, before[name], later[name], live, ignore)
            what = f"{name} was changed since by apply {ids}"
            end = f"; that is undone too: {changed}" if changed else ", and is as it was left then"
            yield Diagnostic("rollback.changed-since", what + end, name)
        owned, connector = live.ledger.connectors.get(name), live.connectors.get(name)
        if owned is None:
            continue
        if connector is None:
            what = f"{name} was deleted since by hand"
            yield Diagnostic("rollback.changed-by-hand", what, name)
        elif changed := _by_hand(owned, connector, live, ignore):
            what = f"{name} was changed since by hand; that is undone too: {changed}"
            yield Diagnostic("rollback.changed-by-hand", what, name)


def _by_applies(name: str, past: Before, later: Later, live: Live, ignore: tuple[str, ...]) -> str:
    then, now = later.before, live.connectors.get(name)
    if then.config is None or now is None:
        if now is not None:
            return "its creation"
        return "" if then.config is None else "its deletion"
    recorded = {
        key: value.text if isinstance(value, Plain) else value.fingerprint
        for key, value in then.config.items()
    }
    parts = [_keys(recorded, now, live, ignore)]
    target = meant_target(live.ledger.connectors.get(name), now)
    if then.target and then.target is not target and not ignores(ignore, "state"):
        parts.append(f"{then.target.value} → {target.value}")
    if later.moved and past.offsets is not None:
        parts.append("its offsets")
    return "; ".join(filter(None, parts))


def _by_hand(owned: Owned, connector: LiveConnector, live: Live, ignore: tuple[str, ...]) -> str:
    parts = [_keys(owned.config, connector, live, ignore)]
    target = meant_target(owned, connector)
    settled = owned.held_from is None and not ignores(ignore, "state")
    if settled and owned.state and owned.state is not target:
        parts.append(f"{owned.state.value} → {target.value}")
    return "; ".join(filter(None, parts))


def meant_target(owned: Owned | None, connector: LiveConnector) -> TargetState:
    """The target state that it has but for an apply that holds it stopped."""
    held = owned.held_from if owned is not None else None
    return held if held and connector.target is TargetState.STOPPED else connector.target


def _keys(
    recorded: Mapping[str, str],
    connector: LiveConnector,
    live: Live,
    ignore: tuple[str, ...],
) -> str:
    """The keys whose values are not the recorded ones, which are fingerprints of secrets."""
    now, mark = without_reserved(connector.config), live.ledger.fingerprint_key
    found = [
        key
        for key in sorted(recorded.keys() | now.keys())
        if not ignores(ignore, f"config.{key}")
        and (
            key not in recorded
            or key not in now
            or recorded[key] not in (now[key], fingerprint(mark, connector.name, key, now[key]))
        )
    ]
    more = len(found) - _KEYS_SHOWN
    shown = ", ".join(found[:_KEYS_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
