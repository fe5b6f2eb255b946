"""Marks what was changed outside connect since the last apply, and what a plan does to it. Pure.

Without the mark, a manual change that a plan reverts looks as if the specs had changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from connect_reconciler.actions import FieldChange
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.ledger import Owned
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.model.secrets import ConfigRedactor, is_mask, same_as_recorded
from connect_reconciler.plan.diff import ConnectorDiff


def outside_marked(changes: ConnectorDiff, live: Live, project: str) -> ConnectorDiff:
    """The diff with an effect at each key that was changed outside since the last apply."""
    owned, connector = changes.owned, changes.live
    if owned is None or connector is None or owned.project != project:
        return changes
    found = tuple(_marked(each, changes, owned, connector, live) for each in changes.config)
    return replace(changes, config=found)


def outside_state(changes: ConnectorDiff, live: Live) -> tuple[str, ...]:
    """The same of the target state, for the action that sets another one."""
    owned, connector = changes.owned, changes.live
    if owned is None or connector is None or owned.state is None or owned.restore_to is not None:
        return ()
    if connector.target in (owned.state, changes.goal):
        return ()
    since = live.targets_since.get(changes.name)
    return (_mark(since, reverts=owned.state is changes.goal),)


def changed_outside(
    key: str, owned: Owned, config: Mapping[str, str], redactor: ConfigRedactor
) -> bool:
    """Whether the key's value in the cluster is not the one that was applied last."""
    now = config.get(key)
    if not owned.config or (now is not None and is_mask(now)):
        # Nothing tells what was applied, or what it is now
        return False
    return not same_as_recorded(owned.config.get(key), now, key, redactor)


def _marked(
    change: FieldChange,
    changes: ConnectorDiff,
    owned: Owned,
    connector: LiveConnector,
    live: Live,
) -> FieldChange:
    key, redactor = change.key, changes.redactor
    if not changed_outside(key, owned, without_reserved(connector.config), redactor):
        return change
    wanted = (changes.written or {}).get(key)
    reverts = same_as_recorded(owned.config.get(key), wanted, key, redactor)
    mark = _mark(live.keys_since.get((changes.name, key)), reverts=reverts)
    return replace(change, effects=(mark, *change.effects))


def _mark(since_ms: int | None, *, reverts: bool) -> str:
    since = ""
    if since_ms is not None:
        at = datetime.fromtimestamp(since_ms / 1000, UTC)
        since = f" since {at.strftime('%Y-%m-%dT%H:%M:%SZ')}"
    if reverts:
        return f"changed outside{since}, reverted by this plan"
    return f"changed outside{since}, and in the specs: overwritten by this plan"
