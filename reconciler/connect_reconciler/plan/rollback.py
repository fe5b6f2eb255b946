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
    """What to plan for, and the snapshots of its connectors from before the apply: the plan touches
    no others."""

    apply_id: str
    desired: Desired
    before: Mapping[str, ConnectorSnapshot]
    errors: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]


def in_scope(before: Mapping[str, ConnectorSnapshot], scope: Scope) -> dict[str, ConnectorSnapshot]:
    """The connectors to roll back; a renamed connector counts under both names. Raises Invalid for
    a glob that matches none."""
    chosen(before, scope)
    names = {name: {name, snapshot.renamed_from or name} for name, snapshot in before.items()}
    for name, snapshot in before.items():
        if snapshot.renamed_from in names:
            names[snapshot.renamed_from].add(name)
    return {name: snapshot for name, snapshot in before.items() if scope.holds(names[name])}


def specs_to_observe(
    apply_id: str, before: Mapping[str, ConnectorSnapshot], project: str
) -> Desired:
    """What has to be observed for a rollback: the connectors as they were, without secrets."""
    renamed = {snapshot.renamed_from: snapshot.offsets or () for snapshot in before.values()}
    specs = {}
    for name, snapshot in before.items():
        if snapshot.config is None:
            continue
        moved = (*(snapshot.offsets or ()), *renamed.get(name, ()))
        plain = {key: each.text for key, each in snapshot.config.items() if isinstance(each, Plain)}
        specs[name] = DesiredConnector(
            name=name,
            config=plain,
            where=Location(name),
            state=snapshot.target,
            pin=Pin(_pin_id(apply_id), moved) if moved else None,
        )
    return Desired(project, specs)


def rollback_of(
    apply_id: str,
    before: Mapping[str, ConnectorSnapshot],
    later: Mapping[str, Later],
    files: Desired,
    live: Live,
    *,
    times: int,
    former: Configs = MappingProxyType({}),
) -> Rollback:
    """The rollback to `before`. `later` says which connectors later applies changed, and `times`
    how often this apply was rolled back before.

    Secrets are looked up where they may still be: on the cluster, in the specs of now, and in
    `former`, the configs from before the apply where this process has read them.
    """
    new_names = {each.renamed_from: name for name, each in before.items() if each.renamed_from}
    # An earlier apply may have begun the rename; then both names have a snapshot
    returned_with_old = {
        new for old, new in new_names.items() if old in before and before[old].config is not None
    }
    ignored = ignored_globs(before, files, live)
    specs: dict[str, DesiredConnector] = {}
    errors: list[Diagnostic] = []
    failed: set[str] = set()
    for name, snapshot in sorted(before.items()):
        new = new_names.get(name)
        found = renamed_since(name, {new, snapshot.renamed_from}, later, live)
        if not found and snapshot.config is not None and name not in returned_with_old:
            ignore = ignored.get(name, ())
            builder = _SpecBuilder(before, files, live, name, new, ignore, former)
            found = [*builder.missing_secrets(), *rename_unfinished(name, new, live)]
            specs[name] = builder.spec(_pin_id(apply_id, times))
        if found:
            errors += found
            failed |= {name, snapshot.renamed_from or name, new or name}
    touched = {name: each for name, each in before.items() if name not in failed}
    return Rollback(
        apply_id,
        Desired(files.project, {name: specs[name] for name in specs if name not in failed}),
        touched,
        tuple(errors),
        (
            *changed_since(before, later, live, ignored),
            *stays_ignored(touched, ignored, live),
            *not_rolled_back(before, files, live),
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
    """The plan for it, with no other connectors. `env` is the project's environment."""
    before = rollback.before
    owned = {name: each for name, each in live.ledger.connectors.items() if name in before}
    scoped = replace(live, ledger=replace(live.ledger, connectors=owned))
    made = make_plan(rollback.desired, scoped, group_id=group_id, worker=worker, env=env)
    return replace(
        made,
        rolls_back=rollback.apply_id,
        actions=tuple(_as_before(_with_pins(action, before), before) for action in made.actions),
        errors=(*rollback.errors, *_for_rollback(made.errors, rollback)),
        warnings=(*rollback.warnings, *_for_rollback(made.warnings, rollback)),
    )


def _for_rollback(problems: Iterable[Diagnostic], rollback: Rollback) -> Iterator[Diagnostic]:
    for each in problems:
        # What is wrong with one connector keeps only that one from being rolled back
        place = each.where.file if isinstance(each.where, Location) else each.where
        worded = for_rollback(replace(each, where=place), rollback.apply_id)
        if worded is not None:
            yield worded


def _as_before(action: act.Action, before: Mapping[str, ConnectorSnapshot]) -> act.Action:
    """Returns the action with the state before the apply as its reason, unless the action itself
    says which it is; the plan names the apply."""
    match action:
        case act.Create(renamed_from=None):
            return replace(action, reason="it was there before", reason_code="was-there")
        case act.Create(connector=name) | act.Stop(renamed_to=str(name)):
            reason = f"its name was {name} before"
            return replace(action, reason=reason, reason_code="had-this-name")
        case act.Delete(renamed_to=str()):
            return action
        case act.Delete(connector=name) if before[name].config is not None:
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


def _with_pins(action: act.Action, before: Mapping[str, ConnectorSnapshot]) -> act.Action:
    """What is created again keeps its applied pins: its file, put back, must not move offsets."""
    if not isinstance(action, act.Create):
        return action
    return replace(action, pins=before[action.connector].pins)


def _pin_id(apply_id: str, times: int = 0) -> str:
    """A pin is applied once, so each rollback has one of its own; a rollback that was killed and
    runs again has the same."""
    return f"{ROLLBACK_PIN}-{apply_id}" + (f"-{times + 1}" if times else "")


@dataclass(frozen=True, slots=True)
class _SpecBuilder:
    """Builds the spec that restores one connector to its snapshot. `new` is the name that the apply
    gave it, if it renamed it."""

    before: Mapping[str, ConnectorSnapshot]
    files: Desired
    live: Live
    name: str
    new: str | None
    ignore: tuple[str, ...]
    former: Configs

    def spec(self, pin_id: str) -> DesiredConnector:
        """The spec, without secrets that are not known any more."""
        snapshot = self.before[self.name]
        target = snapshot.target
        if self.new is not None and self.before[self.new].config is not None:
            target = self.before[self.new].target
        files = [
            self.files.connectors[each] for each in self._names if each in self.files.connectors
        ]
        wanted = DesiredConnector(
            name=self.name,
            config={key: text for key, text in self._config().items() if text is not None},
            where=Location(self.name),
            state=target,
            prevent_delete=snapshot.prevent_delete,
            sensitive=_sensitive(snapshot, files),
            renamed_from=self.new,
            # The ledger does not hold this: the specs of now decide
            allow_zero_tasks=bool(files) and files[0].allow_zero_tasks,
            ignore=self.ignore,
        )
        rename = rename_of(wanted, self.live)
        if rename is None or rename.stage == "unrelated":
            wanted, rename = replace(wanted, renamed_from=None), None
        carries = rename is not None and rename.stage != "carried"
        return replace(
            wanted, pin=self._pin(pin_id, rename.old if rename and carries else self.name)
        )

    def missing_secrets(self) -> Iterator[Diagnostic]:
        """An error for each secret whose value is not known any more."""
        for key, text in self._config().items():
            if text is None:
                what = (
                    f"the value that {key} of {self.name} had then is neither on the cluster nor in"
                    " the specs"
                )
                hint = f"put it into a spec of {self.name} and run this again: only fingerprints"
                yield Diagnostic("rollback.secret-gone", what, self.name, hint=f"{hint} are kept")

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.name,) if self.new is None else (self.name, self.new)

    def _config(self) -> dict[str, str | None]:
        """The config with its secrets, each found by its fingerprint; None where it is not found.
        Ignored keys are left as they are on the cluster."""
        known: list[Mapping[str, str]] = []
        for each in self._names:
            known += [self.live.connectors[each].config] if each in self.live.connectors else []
            known += [self.files.connectors[each].config] if each in self.files.connectors else []
            known += [self.former[each]] if each in self.former else []
        found: dict[str, str | None] = {}
        mark = self.live.ledger.fingerprint_key
        for key, value in (self.before[self.name].config or {}).items():
            if ignores(self.ignore, f"config.{key}"):
                continue
            if isinstance(value, Plain):
                found[key] = value.text
                continue
            texts = (config[key] for config in known if key in config and value.fingerprint)
            same = (
                text
                for text in texts
                if fingerprint(mark, self.name, key, text) == value.fingerprint
            )
            found[key] = next(same, None)
        return found

    def _pin(self, pin_id: str, offsets_of: str) -> Pin | None:
        """Sets the offsets of the snapshot, unless the connector has them already: its own, or
        those of `offsets_of`, from which it is renamed back."""
        wanted, live = self._moved_offsets(), self.live
        if wanted is None or (self.name, pin_id) in live.ledger.pins:
            return None
        now = live.offsets_of(offsets_of)
        # Offsets that could not be read may be any
        if offsets_of not in live.unread_offsets and wanted == now:
            return None
        if not wanted:
            return Pin(pin_id, reset=True)
        gone = tuple(each for each in now.removed() if each.partition not in wanted)
        return Pin(pin_id, (*wanted, *gone))

    def _moved_offsets(self) -> Offsets | None:
        """The offsets from before the apply; None where it moved none. A renamed connector takes
        its offsets along, and has others only if a pin set them under its new name."""
        name, new, live = self.name, self.new, self.live
        if new is None or self.before[new].offsets is not None:
            return self.before[new or name].offsets
        there = name in live.connectors or new in live.connectors
        return None if there else self.before[name].offsets


def _sensitive(snapshot: ConnectorSnapshot, files: Iterable[DesiredConnector]) -> tuple[str, ...]:
    """Keys that were secrets then, and those that a spec of now calls sensitive."""
    config = snapshot.config or {}
    then = (glob.escape(key) for key, each in config.items() if isinstance(each, Secret))
    return tuple(dict.fromkeys([*then, *(key for spec in files for key in spec.sensitive)]))
