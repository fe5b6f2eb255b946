"""The diff of desired and live, connector by connector, as values; and the context that checks and
builders of actions look at. No order, no words.

Configs are compared as the maps of strings that Connect stores. Passing statuses do not count.
plan/checks decide whether a change is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from connect_reconciler.actions import FieldChange
from connect_reconciler.actions.connector_state import changes_place
from connect_reconciler.model.config_values import Value, without_reserved
from connect_reconciler.model.ledger import AppliedPin, Owned, begun, carried
from connect_reconciler.model.live import Kind, Live, LiveConnector, kind_of
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.secrets import ConfigRedactor, live_redactor
from connect_reconciler.plan.offsets.sink_positions import entries_at
from connect_specs.desired import (
    DeleteLimits,
    Desired,
    DesiredConnector,
    OffsetEntry,
    Overrides,
    TargetState,
    content_hash,
)
from connect_specs.diagnostics import Location
from connect_specs.names import sink_group

Stage: TypeAlias = Literal["new", "begun", "carried", "unrelated"]
Existence: TypeAlias = Literal["create", "adopt", "keep", "delete", "forget"]


@dataclass(frozen=True, slots=True)
class PinChange:
    """Offsets that are to be set; `entries` None resets all.

    `drifted`: the pin is recorded, and the offsets drifted since.
    """

    pin: str
    content_hash: str
    entries: tuple[OffsetEntry, ...] | None
    drifted: bool
    held: bool


@dataclass(frozen=True, slots=True)
class Rename:
    """A rename from `old` that is to be made or finished. `live` and `owned` are those of `old`.

    `unrelated`: both connectors exist, and no apply began to rename one to the other.
    """

    old: str
    stage: Stage
    live: LiveConnector | None
    owned: Owned | None

    @property
    def carries(self) -> bool:
        """Returns whether the offsets of `old` are still to be carried over."""
        return self.stage in ("new", "begun")


@dataclass(frozen=True, slots=True)
class ConnectorDiff:
    """The differences of one connector: its diff.

    `goal` is the target state that it is to end in. `written` is the whole config as it is to be,
    `config` what of it differs from live. `offsets` are those it has where its new config points.
    `moved` is what differs from the config of the old name, for one that is still to be renamed.
    `prevent_delete` None: it stays as it is. `rename` None: there is nothing to rename, or not any
    more.
    """

    name: str
    existence: Existence
    kind: Kind
    redactor: ConfigRedactor
    goal: TargetState
    spec: DesiredConnector | None = None
    live: LiveConnector | None = None
    owned: Owned | None = None
    written: Mapping[str, str] | None = None
    config: tuple[FieldChange, ...] = ()
    moved: tuple[FieldChange, ...] = ()
    offsets: Offsets = field(default_factory=Offsets)
    pin: PinChange | None = None
    prevent_delete: bool | None = None
    rename: Rename | None = None

    @property
    def carries(self) -> bool:
        """Returns whether the offsets of its old name are still to be carried over."""
        return self.rename is not None and self.rename.carries

    @property
    def moves_offsets(self) -> bool:
        """Returns whether it has to be stopped for its offsets."""
        return self.carries or self.pin is not None

    @property
    def place(self) -> Location | str:
        """Returns the place of its spec; its name if it has none."""
        return self.name if self.spec is None else self.spec.where

    @property
    def rename_place(self) -> Location | str:
        """Returns the place of its spec's `renamed_from`, else that of its spec."""
        return (self.spec and self.spec.renamed_from_where) or self.place

    @property
    def pin_place(self) -> Location | str:
        """Returns the place of its spec's pin, else that of its spec."""
        pin = self.spec and self.spec.pin
        return (pin and pin.where) or self.rename_place

    @property
    def values(self) -> dict[str, Value]:
        """Returns the config to be written, as a plan may hold it."""
        return self.redactor.values(self.written or {})


def diff(desired: Desired, live: Live) -> tuple[ConnectorDiff, ...]:
    """Returns the changes of every connector that a spec names or this project owns, by name; one
    that is renamed is among the changes of its new name.

    A connector that another project owns is among them too: its changes say what would differ.
    """
    return tuple(sorted(_changes(desired, live), key=lambda changes: changes.name))


def written_config(spec: DesiredConnector, live: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the config that an apply writes: the spec's, but ignored keys as `live` has them,
    which is the config on the cluster (see `base_config`)."""
    config = {**without_reserved(spec.config), "name": spec.name}
    if live is None:
        return config
    ignored = {key: text for key, text in live.items() if ignores(spec.ignore, f"config.{key}")}
    managed = {
        key: text for key, text in config.items() if not ignores(spec.ignore, f"config.{key}")
    }
    return managed | ignored | {"name": spec.name}


def field_changes(
    current: Mapping[str, str], desired: Mapping[str, str], redactor: ConfigRedactor
) -> tuple[FieldChange, ...]:
    """Returns the keys that differ, sorted. Secrets are compared here, and leave only as
    fingerprints."""
    return tuple(
        FieldChange(
            key,
            redactor.value(key, current[key]) if key in current else None,
            redactor.value(key, desired[key]) if key in desired else None,
        )
        for key in sorted(current.keys() | desired.keys())
        if current.get(key) != desired.get(key)
    )


def _changes(desired: Desired, live: Live) -> Iterator[ConnectorDiff]:
    # Not deleted: whether an old name's connector may go is for its rename to say
    renamed = {spec.renamed_from for spec in desired.connectors.values()} & live.connectors.keys()
    for spec in desired.connectors.values():
        changes = _of_spec(spec, desired, live)
        if changes.rename is not None:
            renamed.add(changes.rename.old)
        yield changes
    for name, owned in live.ledger.connectors.items():
        if owned.project != desired.project or name in desired.connectors or name in renamed:
            continue
        yield without_spec(name, live)


def without_spec(name: str, live: Live) -> ConnectorDiff:
    """Returns the diff of a connector that no spec names."""
    connector = live.connectors.get(name)
    return ConnectorDiff(
        name,
        "forget" if connector is None else "delete",
        "unknown" if connector is None else connector.kind,
        live_redactor(name, live),
        TargetState.STOPPED,
        live=connector,
        owned=live.ledger.connectors.get(name),
        offsets=Offsets() if connector is None else connector.offsets,
    )


def _of_spec(spec: DesiredConnector, desired: Desired, live: Live) -> ConnectorDiff:
    name, project = spec.name, desired.project
    connector, owned = live.connectors.get(name), live.ledger.connectors.get(name)
    redactor = live_redactor(name, live, spec)
    rename = rename_of(spec, live)
    if rename is not None and rename.stage == "unrelated" and rename.old in desired.connectors:
        rename = None
    stored = None if connector is None else {**without_reserved(connector.config), "name": name}
    config = written_config(spec, base_config(spec, live))
    fields = () if stored is None else field_changes(stored, config, redactor)
    protected = owned is not None and owned.prevent_delete
    existence: Existence = "keep"
    if connector is None:
        existence = "create"
    elif owned is None:
        existence = "adopt"
    predecessor = connector or (rename.live if rename else None)
    kind = kind_of(config, predecessor, live.kinds)
    offsets = live.offsets_of(name)
    other_kind = connector is not None and {kind, connector.kind} == {"source", "sink"}
    if other_kind or changes_place(kind, (change.key for change in fields)):
        offsets = live.offsets_after_change.get(name, Offsets())
    if rename is not None and rename.live is not None and rename.carries:
        offsets = rename.live.offsets
    owner = owned if connector is not None or rename is None else rename.owned
    return ConnectorDiff(
        name,
        existence,
        kind,
        redactor,
        _goal(spec, predecessor, owner if owner and owner.project == project else None, rename),
        spec=spec,
        live=connector,
        owned=owned,
        written=config,
        config=fields,
        moved=_rename_changes(rename, name, config, redactor),
        offsets=offsets,
        pin=_pin_change(spec, kind, config, live, offsets),
        prevent_delete=None if spec.prevent_delete == protected else spec.prevent_delete,
        rename=rename,
    )


def _rename_changes(
    rename: Rename | None, name: str, config: Mapping[str, str], redactor: ConfigRedactor
) -> tuple[FieldChange, ...]:
    """Returns the changes that a rename makes besides the name."""
    if rename is None or rename.live is None or not rename.carries:
        return ()
    stored = {**without_reserved(rename.live.config), "name": name}
    return field_changes(stored, config, redactor)


def _goal(
    spec: DesiredConnector,
    connector: LiveConnector | None,
    owned: Owned | None,
    rename: Rename | None,
) -> TargetState:
    """Returns the target state to end in: the spec's, else the one before an apply stopped it, else
    as is."""
    state = managed_state(spec)
    if state is not None:
        return state
    if connector is None:
        return TargetState.RUNNING
    if rename is not None and rename.stage == "begun" and owned is not None:
        # Created for the old one's offsets, and not let run since; old versions create it running
        return owned.restore_to or TargetState.STOPPED
    if connector.target is TargetState.STOPPED and owned and owned.restore_to is not None:
        return owned.restore_to
    return connector.target


def managed_state(spec: DesiredConnector) -> TargetState | None:
    """Returns the target state that the spec manages, if any."""
    return None if ignores(spec.ignore, "state") else spec.state


def _pin_change(
    spec: DesiredConnector,
    kind: Kind,
    config: Mapping[str, str],
    live: Live,
    offsets: Offsets,
) -> PinChange | None:
    pin = spec.pin
    if pin is None:
        return None
    applied = recorded_pin(spec, live)
    stopped = managed_state(spec) is TargetState.STOPPED
    digest = content_hash(pin)
    if applied is None:
        entries = None if pin.reset else pin.set
        if pin.to is not None:
            entries = entries_at(pin.to, config, live.logs_of(spec.name)) if kind == "sink" else ()
        return PinChange(pin.id, digest, entries, drifted=False, held=stopped)
    # Once-only: a pin with other content is for plan/checks to refuse, and one that was let go of
    # stays satisfied however far the connector has moved
    if applied.content_hash != digest or not (stopped and applied.held):
        return None
    if spec.name in live.unread_offsets or not applied.moved(offsets):
        return None
    return PinChange(pin.id, digest, applied.resolved, drifted=True, held=True)


def ignores(globs: Iterable[str], path: str) -> bool:
    """Returns whether these globs of `lifecycle.ignore` hold `state`, or `config.<key>`."""
    return path != "config.name" and any(fnmatchcase(path, glob) for glob in globs)


# --- renames ---


def rename_of(spec: DesiredConnector, live: Live) -> Rename | None:
    """Returns the spec's rename; None if there is none, if it is done (also where somebody has
    created another connector with the old name since), or if the old connector is gone."""
    old_name = spec.renamed_from
    if old_name is None or old_name == spec.name:
        return None
    renames = live.ledger.renames_of(spec.name)
    old_connector, exists = live.connectors.get(old_name), spec.name in live.connectors
    owned, owner = live.ledger.connectors.get(old_name), live.ledger.owner(spec.name)
    # A project owns both names until its rename is done
    if exists and not begun(renames, old_name) and owner not in (None, owned and owned.project):
        return None
    stage: Stage
    # A rename owns the connector that it stopped: one without an owner was created later
    if carried(renames, old_name) and owned is not None:
        stage = "carried"
    elif not exists:
        stage = "new"
    elif begun(renames, old_name) or is_taken_back(spec.name, old_name, live):
        stage = "begun"
    else:
        stage = "unrelated"
    if old_connector is None and (not exists or stage == "unrelated"):
        return None
    return Rename(old_name, stage, old_connector, owned)


def with_recorded_renames(desired: Desired, live: Live) -> Desired:
    """Returns the specs, with the renames to finish that only the ledger holds: to take one back,
    if the spec of the old name is back and none has the new name, or to delete the rest of one."""
    specs = dict(desired.connectors)
    for name, spec in desired.connectors.items():
        renames = live.ledger.renames_of(name)
        for old_name in sorted({*renames, *live.ledger.carried_to(name)}):
            owned = live.ledger.owner(old_name) == desired.project and old_name not in specs
            if owned and (carried(renames, old_name) or is_taken_back(name, old_name, live)):
                specs[name] = replace(spec, renamed_from=old_name)
    return replace(desired, connectors=specs)


def is_taken_back(name: str, new_name: str, live: Live) -> bool:
    """Returns whether the connector that a rename stopped is to have its offsets back from
    `new_name`, which still exists unless an apply was killed before it recorded its deletion."""
    connector = live.connectors.get(name)
    stopped = connector is None or connector.target is TargetState.STOPPED
    ledger = live.ledger
    exists = (
        new_name in live.connectors and ledger.owner(name) == ledger.owner(new_name) is not None
    )
    return stopped and exists and new_name in ledger.carried_to(name)


def base_config(spec: DesiredConnector, live: Live) -> Mapping[str, str] | None:
    """Returns the config whose ignored keys stay: the connector's own, or that of its old name."""
    connector = live.connectors.get(spec.name)
    if connector is None and spec.renamed_from is not None:
        connector = live.connectors.get(spec.renamed_from)
    if connector is None:
        return None
    return {**without_reserved(connector.config), "name": spec.name}


def recorded_pin(spec: DesiredConnector, live: Live) -> AppliedPin | None:
    """Returns the ledger's record of the spec's pin; it counts if it was applied under the old
    name."""
    if spec.pin is None:
        return None
    applied = live.ledger.pins.get((spec.name, spec.pin.id))
    rename = rename_of(spec, live)
    if applied is None and rename is not None and rename.carries:
        return live.ledger.pins.get((rename.old, spec.pin.id))
    return applied


# --- the diffs of a plan, and what surrounds them ---

# Names of sinks by consumer group. Offsets belong to the group: what a rename moves or forgets
# there is every reader's.
Readers: TypeAlias = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Context:
    """All that is known while a plan is made.

    `desired` and `whole` are the project and the cluster. `live` is the cluster without connectors
    that the plan is not about, and `changes` has the others by name. `worker` holds the worker's
    properties as far as they are known, `readers` the sinks by consumer group.
    """

    desired: Desired
    whole: Live
    live: Live
    changes: Mapping[str, ConnectorDiff]
    worker: Mapping[str, str]
    readers: Readers
    group_id: str
    env: str | None
    deletes: DeleteLimits
    overrides: Overrides | None

    def other_readers(self, group: str, *names: str) -> tuple[str, ...]:
        """Returns the connectors that read with the group besides those of these names."""
        return tuple(sorted(self.readers.get(group, frozenset()) - {*names}))


def readers_of(changes: Iterable[ConnectorDiff], live: Live, worker: Mapping[str, str]) -> Readers:
    """Returns the sinks that read now or once the plan is carried out. One that is deleted reads
    until then."""
    readers: dict[str, set[str]] = {}
    for connector in live.connectors.values():
        if connector.kind == "sink":
            group = sink_group(connector.name, connector.config, worker)
            readers.setdefault(group, set()).add(connector.name)
    for diff in changes:
        if diff.kind == "sink" and diff.written is not None:
            readers.setdefault(sink_group(diff.name, diff.written, worker), set()).add(diff.name)
    return {group: frozenset(names) for group, names in readers.items()}
