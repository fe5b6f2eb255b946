"""Selects the connectors whose offsets a plan over REST needs: each takes a request. Pure.

They are needed where a pin is to be applied or may have drifted, where a connector is renamed, and
where a change of its config makes it read other offsets, or topics that it may have read before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from connect_reconciler.backend.rest.shapes import Listed
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.plan.diff import managed_state, written_config
from connect_reconciler.plan.renames.rename import pins_of
from connect_specs.desired import Desired, DesiredConnector
from connect_specs.states import TargetState

# After a change of one of these it matters which offsets there are
_RELEVANT = (
    "connector.class",
    "topics",
    "topics.regex",
    "consumer.override.*",
    "producer.override.bootstrap.servers",
    "offsets.storage.topic",
)


def offsets_needed(
    desired: Desired, found: Mapping[str, Listed], ledger: LedgerState
) -> frozenset[str]:
    """The connectors of `found` whose offsets the plan needs."""
    renamed = _renamed(desired, found)
    return renamed | {
        name
        for name, told in found.items()
        if _is_held(name, ledger, desired.project)
        or _is_moved(desired.connectors.get(name), told, ledger)
    }


def _renamed(desired: Desired, found: Mapping[str, Listed]) -> frozenset[str]:
    """Both names of each rename whose old name is still there."""
    return frozenset(
        name
        for spec in desired.connectors.values()
        if spec.renamed_from in found
        for name in (spec.name, spec.renamed_from)
        if name is not None and name in found
    )


def _is_held(name: str, ledger: LedgerState, project: str) -> bool:
    """Whether a pin holds its offsets in place; drift compares them without a spec, too."""
    owned = ledger.connectors.get(name)
    ours = owned is not None and owned.project == project
    return ours and any(applied.held for applied in pins_of(ledger, name).values())


def _is_moved(spec: DesiredConnector | None, told: Listed, ledger: LedgerState) -> bool:
    if spec is None:
        return False
    if spec.pin is not None:
        applied = ledger.pins.get((spec.name, spec.pin.id))
        stopped = managed_state(spec) is TargetState.STOPPED
        if applied is None or (applied.held and stopped):
            return True
    return any(fnmatchcase(key, glob) for key in _changed(spec, told) for glob in _RELEVANT)


def _changed(spec: DesiredConnector, told: Listed) -> Iterator[str]:
    stored = {**without_reserved(told.info.config), "name": spec.name}
    written = written_config(spec, stored)
    for key in stored.keys() | written.keys():
        if stored.get(key) != written.get(key):
            yield key
