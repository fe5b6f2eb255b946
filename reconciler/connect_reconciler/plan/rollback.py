"""Rollback of an apply: the connectors that it changed, as specs that restore them. Pure.

Each gets the config, target state and protection from before the apply; its offsets only where the
apply moved them. A connector that the apply created is deleted, one that it deleted is created
again, with the offsets that outlived it, and one that it renamed is renamed back by a rename like
any other.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from connect_reconciler import actions as act
from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.model.ledger import ConnectorSnapshot, Later
from connect_reconciler.model.live import Live
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.secrets import fingerprint
from connect_reconciler.plan.diff import ignores, rename_of
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.plan.rollback_problems import (
    changed_since,
    for_rollback,
    ignored_globs,
    not_rolled_back,
    rename_unfinished,
    renamed_since,
    stays_ignored,
)
from connect_reconciler.plan.scope import Scope, chosen
from connect_specs.desired import ROLLBACK_PIN, Desired, DesiredConnector, Pin
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.plain_text import counted

# By connector
Configs: TypeAlias = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Rollback:
    """The specs to plan for, and the snapshots of their connectors from before the apply: the plan
    touches no others."""

    apply_id: str
    desired: Desired
    snapshots: Mapping[str, ConnectorSnapshot]
    errors: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]


def snapshots_in_scope(
    snapshots: Mapping[str, ConnectorSnapshot], scope: Scope
) -> dict[str, ConnectorSnapshot]:
    """Returns the connectors to roll back; a renamed connector counts under both names. Raises
    Invalid for a glob that matches none."""
    chosen(snapshots, scope)
    names = {name: {name, snapshot.renamed_from or name} for name, snapshot in snapshots.items()}
    for name, snapshot in snapshots.items():
        if snapshot.renamed_from in names:
            names[snapshot.renamed_from].add(name)
    return {name: snapshot for name, snapshot in snapshots.items() if scope.matches(names[name])}


def specs_to_observe(
    apply_id: str, snapshots: Mapping[str, ConnectorSnapshot], project: str
) -> Desired:
    """Returns what has to be observed for a rollback: the connectors as they were, without
    secrets."""
    renamed = {snapshot.renamed_from: snapshot.offsets or () for snapshot in snapshots.values()}
    specs = {}
    for name, snapshot in snapshots.items():
        if snapshot.config is None:
            continue
        offsets = (*(snapshot.offsets or ()), *renamed.get(name, ()))
        plain = {
            key: value.text for key, value in snapshot.config.items() if isinstance(value, Plain)
        }
        specs[name] = DesiredConnector(
            name=name,
            config=plain,
            where=Location(name),
            state=snapshot.target,
            pin=Pin(_pin_id(apply_id), offsets) if offsets else None,
        )
    return Desired(project, specs)


def rollback_of(
    apply_id: str,
    snapshots: Mapping[str, ConnectorSnapshot],
    later: Mapping[str, Later],
    files: Desired,
    live: Live,
    *,
    times: int,
    former: Configs = MappingProxyType({}),
) -> Rollback:
    """Returns the rollback to `snapshots`. `later` says which connectors later applies changed, and
    `times` how often this apply was rolled back before.

    Secrets are looked up where they may still be: on the cluster, in the specs of now, and in
    `former`, the configs from before the apply where this process has read them.
    """
    new_names = {
        snapshot.renamed_from: name for name, snapshot in snapshots.items() if snapshot.renamed_from
    }
    # An earlier apply may have begun the rename; then both names have a snapshot
    returned_with_old = {
        successor
        for renamed, successor in new_names.items()
        if renamed in snapshots and snapshots[renamed].config is not None
    }
    ignored = ignored_globs(snapshots, files, live)
    specs: dict[str, DesiredConnector] = {}
    errors: list[Diagnostic] = []
    failed: set[str] = set()
    for name, snapshot in sorted(snapshots.items()):
        successor = new_names.get(name)
        problems = renamed_since(name, {successor, snapshot.renamed_from}, later, live)
        if not problems and snapshot.config is not None and name not in returned_with_old:
            ignore = ignored.get(name, ())
            builder = _SpecBuilder(snapshots, files, live, name, successor, ignore, former)
            problems = [*builder.missing_secrets(), *rename_unfinished(name, successor, live)]
            specs[name] = builder.spec(_pin_id(apply_id, times))
        if problems:
            errors += problems
            failed |= {name, snapshot.renamed_from or name, successor or name}
    touched = {name: snapshots[name] for name in snapshots if name not in failed}
    return Rollback(
        apply_id,
        Desired(files.project, {name: specs[name] for name in specs if name not in failed}),
        touched,
        tuple(errors),
        (
            *changed_since(snapshots, later, live, ignored),
            *stays_ignored(touched, ignored, live),
            *not_rolled_back(snapshots, files, live),
        ),
    )


def rollback_plan(
    rollback: Rollback,
    live: Live,
    *,
    group_id: str,
    env: str | None,
    worker: Mapping[str, str] | None = None,
) -> Plan:
    """Returns the plan for it, with no other connectors. `env` is the project's environment."""
    snapshots = rollback.snapshots
    owned = {name: owner for name, owner in live.ledger.connectors.items() if name in snapshots}
    scoped = replace(live, ledger=replace(live.ledger, connectors=owned))
    plan = make_plan(rollback.desired, scoped, group_id=group_id, worker=worker, env=env)
    return replace(
        plan,
        rolls_back=rollback.apply_id,
        actions=tuple(_as_before(action, snapshots) for action in plan.actions),
        errors=(*rollback.errors, *_for_rollback(plan.errors, rollback)),
        warnings=(*rollback.warnings, *_for_rollback(plan.warnings, rollback)),
    )


def _for_rollback(problems: Iterable[Diagnostic], rollback: Rollback) -> Iterator[Diagnostic]:
    for problem in problems:
        # A problem of one connector keeps only that one from being rolled back
        place = problem.where.file if isinstance(problem.where, Location) else problem.where
        worded = for_rollback(replace(problem, where=place), rollback.apply_id)
        if worded is not None:
            yield worded


def _as_before(action: act.Action, snapshots: Mapping[str, ConnectorSnapshot]) -> act.Action:
    """Returns the action with the state before the apply as its reason, unless the action itself
    says which it is; the plan names the apply. A connector that is created again has the pins that
    were applied to it: its spec, put back, must not move offsets."""
    match action:
        case act.Create(connector=name, renamed_from=None):
            action = replace(action, pins=snapshots[name].pins or None)
            return replace(action, reason="it was there before", reason_code="was-there")
        case act.Create(connector=name):
            reason = f"its name was {name} before"
            action = replace(action, pins=snapshots[name].pins or None)
            return replace(action, reason=reason, reason_code="had-this-name")
        case act.Stop(renamed_to=str(name)):
            reason = f"its name was {name} before"
            return replace(action, reason=reason, reason_code="had-this-name")
        case act.Delete(renamed_to=str()):
            return action
        case act.Delete(connector=name) if snapshots[name].config is not None:
            reason = "its new name was only begun before"
            return replace(action, reason=reason, reason_code="was-only-begun")
        case act.Delete():
            return replace(action, reason="it was not there before", reason_code="was-not-there")
        case act.UpdateConfig(changes=changes):
            were = "was" if len(changes) == 1 else "were"
            reason = f"{counted(len(changes), 'key')} {were} different before"
            return replace(action, reason=reason, reason_code="keys-were-different")
        case act.Protect(prevent_delete=prevent_delete):
            reason = f"it was {'' if prevent_delete else 'not '}protected against deletion before"
            return replace(action, reason=reason, reason_code="was-protected")
        case act.AlterOffsets() | act.ResetOffsets():
            reason = "its offsets were others before"
            return replace(action, reason=reason, reason_code="offsets-were-others")
        case _:
            return action


def _pin_id(apply_id: str, times: int = 0) -> str:
    """Returns the pin of this rollback. A pin is applied once, so each rollback has its own; a
    rollback that was killed and runs again has the same."""
    return f"{ROLLBACK_PIN}-{apply_id}" + (f"-{times + 1}" if times else "")


@dataclass(frozen=True, slots=True)
class _SpecBuilder:
    """Builds the spec that restores one connector to its snapshot. `successor` is its name after
    the apply, if that renamed it."""

    snapshots: Mapping[str, ConnectorSnapshot]
    files: Desired
    live: Live
    name: str
    successor: str | None
    ignore: tuple[str, ...]
    former: Configs

    def spec(self, pin_id: str) -> DesiredConnector:
        """Returns the spec, without secrets that are not known any more."""
        snapshot = self.snapshots[self.name]
        target = snapshot.target
        if self.successor is not None and self.snapshots[self.successor].config is not None:
            target = self.snapshots[self.successor].target
        files = [
            self.files.connectors[name] for name in self._names if name in self.files.connectors
        ]
        spec = DesiredConnector(
            name=self.name,
            config={key: text for key, text in self._config().items() if text is not None},
            where=Location(self.name),
            state=target,
            prevent_delete=snapshot.prevent_delete,
            sensitive=_sensitive(snapshot, files),
            renamed_from=self.successor,
            # The ledger does not hold this: the specs of now decide
            allow_zero_tasks=bool(files) and files[0].allow_zero_tasks,
            ignore=self.ignore,
        )
        rename = rename_of(spec, self.live)
        if rename is None or rename.stage == "unrelated":
            spec, rename = replace(spec, renamed_from=None), None
        carries = rename is not None and rename.stage != "carried"
        return replace(spec, pin=self._pin(pin_id, rename.old if rename and carries else self.name))

    def missing_secrets(self) -> Iterator[Diagnostic]:
        """Yields an error for each secret whose value is not known any more."""
        for key, text in self._config().items():
            if text is None:
                problem = (
                    f"the value that {key} of {self.name} had then is neither on the cluster nor in"
                    " the specs"
                )
                hint = f"put it into a spec of {self.name} and run this again: only fingerprints"
                yield Diagnostic(
                    "rollback.secret-gone", problem, self.name, hint=f"{hint} are kept"
                )

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.name,) if self.successor is None else (self.name, self.successor)

    def _config(self) -> dict[str, str | None]:
        """Returns the config with its secrets, each looked up by its fingerprint; None where the
        value is not known. Ignored keys are left as they are on the cluster."""
        candidates: list[Mapping[str, str]] = []
        for name in self._names:
            if name in self.live.connectors:
                candidates.append(self.live.connectors[name].config)
            if name in self.files.connectors:
                candidates.append(self.files.connectors[name].config)
            candidates += [self.former[name]] if name in self.former else []
        config: dict[str, str | None] = {}
        key_bytes = self.live.ledger.fingerprint_key
        for key, value in (self.snapshots[self.name].config or {}).items():
            if ignores(self.ignore, f"config.{key}"):
                continue
            if isinstance(value, Plain):
                config[key] = value.text
                continue
            texts = (candidate[key] for candidate in candidates if key in candidate)
            marks = {fingerprint(key_bytes, self.name, key, text): text for text in texts}
            config[key] = marks.get(value.fingerprint) if value.fingerprint else None
        return config

    def _pin(self, pin_id: str, offsets_of: str) -> Pin | None:
        """Sets the offsets of the snapshot, unless the connector has them already: its own, or
        those of `offsets_of`, from which it is renamed back."""
        offsets, live = self._moved_offsets(), self.live
        if offsets is None or (self.name, pin_id) in live.ledger.pins:
            return None
        current = live.offsets_of(offsets_of)
        # Offsets that could not be read may be any
        if offsets_of not in live.unread_offsets and offsets == current:
            return None
        if not offsets:
            return Pin(pin_id, reset=True)
        gone = tuple(entry for entry in current.removed() if entry.partition not in offsets)
        return Pin(pin_id, (*offsets, *gone))

    def _moved_offsets(self) -> Offsets | None:
        """Returns the offsets from before the apply; None where it moved none. A renamed connector
        takes its offsets along, and has others only if a pin set them under its new name."""
        name, successor, live = self.name, self.successor, self.live
        if successor is None or self.snapshots[successor].offsets is not None:
            return self.snapshots[successor or name].offsets
        existed = name in live.connectors or successor in live.connectors
        return None if existed else self.snapshots[name].offsets


def _sensitive(snapshot: ConnectorSnapshot, files: Iterable[DesiredConnector]) -> tuple[str, ...]:
    """Keys that were secrets then, and those that a spec of now calls sensitive."""
    config = snapshot.config or {}
    secrets = (glob.escape(key) for key, value in config.items() if isinstance(value, Secret))
    return tuple(dict.fromkeys([*secrets, *(key for spec in files for key in spec.sensitive)]))
