"""What can this cluster not do, by its version or because there is only REST? Pure.

Over REST alone the ledger lies in the connectors' configs, which are written only together with a
config change or while the connector is stopped: what needs the ledger alone is put off until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from connect_reconciler.plan.actions import Action, Adopt, Protect
from connect_reconciler.plan.diff import Changes
from connect_reconciler.plan.live import Live
from connect_reconciler.plan.secrets.masked import masked_keys
from connect_reconciler.plan.versions import Feature, knows, too_old
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.states import TargetState

_STOPPED = TargetState.STOPPED


def without_put_off(actions: Iterable[Action], live: Live) -> tuple[Action, ...]:
    """The actions without those that only tell the ledger something, where that has to wait."""
    kept: list[Action] = []
    for name, each in groupby(actions, key=lambda action: action.connector):
        group = tuple(each)
        only_ledger = all(isinstance(action, Adopt | Protect) for action in group)
        if not (live.rest_alone and only_ledger and not _is_stopped(name, live)):
            kept.extend(group)
    return tuple(kept)


def check_limits(changes: tuple[Changes, ...], live: Live) -> Iterator[Diagnostic]:
    """Warnings of what is done in another way here, or later, or not at all."""
    if live.rest_alone:
        what = "over REST alone there is no lease, no journal and no rollback"
        hint = "see that one apply runs at a time, or add cluster.kafka to connect.yaml"
        yield Diagnostic("plan.rest-alone", what, hint=hint)
    if too_old(live.version):
        what = f"the cluster runs Connect {live.version}, which cannot alter offsets"
        yield Diagnostic("plan.old-connect", what, hint="versions from 3.6 on are supported")
    for each in changes:
        if each.existence == "create" and not knows(live.version, Feature.INITIAL_STATE):
            yield from _created_idle(each, live.version)
        if live.rest_alone and each.guard is not None and not _is_written(each):
            verb = "kept" if each.guard else "lifted"
            yield Diagnostic(
                "plan.guard-put-off",
                f"{each.name}: its protection is {verb} with its next config change",
                _where(each),
                why="over REST alone it lies in the config, and writing that restarts the tasks",
                hint="it is also written while the connector is stopped",
            )


def check_masks(changes: Iterable[Changes]) -> Iterator[Diagnostic]:
    """Errors where a mask would be written in a secret's place."""
    for each in changes:
        if each.written is not None and (each.config or each.existence == "create"):
            for key in sorted(masked_keys(each.written)):
                yield _masked(each, key)


def _masked(changes: Changes, key: str) -> Diagnostic:
    spec = changes.spec
    where = None if spec is None else spec.key_locations.get(key)
    kept = spec is not None and key not in spec.config
    hint = "put the true value into the spec, or a ${provider:…} reference"
    if kept:
        hint = f"stop ignoring {key} and put its true value into the spec, or a reference"
    return Diagnostic(
        "plan.masked-value",
        f"{changes.name}: {key} holds a mask, not a value, and a mask is never written",
        where or _where(changes),
        why="the cluster masks its secrets, and the key is ignored" if kept else "",
        hint=hint,
    )


def _created_idle(changes: Changes, version: str) -> Iterator[Diagnostic]:
    if changes.goal is TargetState.RUNNING and not changes.moves_offsets:
        return
    paused = changes.goal is TargetState.PAUSED and not changes.moves_offsets
    state = "paused" if paused else "stopped"
    yield Diagnostic(
        "plan.created-idle",
        f"{changes.name}: it is created with a converter that fails its tasks, {state}, and given"
        " its own config then; it reads and writes nothing before",
        _where(changes),
        why=f"Connect {version} cannot create a connector {state}; 3.7 and later can",
    )


def _is_written(changes: Changes) -> bool:
    """Whether the plan writes its config, or has it stopped."""
    if changes.existence not in ("adopt", "keep") or changes.live is None:
        return True
    stops = changes.moves_offsets or changes.goal is _STOPPED or changes.live.target is _STOPPED
    return bool(changes.config) or stops


def _is_stopped(name: str, live: Live) -> bool:
    connector = live.connectors.get(name)
    return connector is not None and connector.target is _STOPPED


def _where(changes: Changes) -> Location | str:
    return changes.spec.where if changes.spec else changes.name
