"""The state of the ledger, as far as planning uses it: owners, pins, renames, and of applies the
snapshots of connectors and the actions left unfinished.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, Field, PlainSerializer, StrictBool

from connect_reconciler.model.config_values import Value
from connect_reconciler.model.offsets import Offsets
from connect_specs.desired import RENAME_PIN, OffsetEntry, TargetState

RenameStage: TypeAlias = Literal["begun", "carried"]

_YEAR_10000_MS: Final = 253_402_300_800_000


def _time_ms(time_ms: int) -> int:
    if not 0 <= time_ms < _YEAR_10000_MS:
        raise ValueError("its time is none")
    return time_ms


# --- what is on disk, but for the classes' own fields ---

TimeMs: TypeAlias = Annotated[int, AfterValidator(_time_ms)]
# The target state to return to once a later action is done
RestoreTo: TypeAlias = Annotated[TargetState | None, Field(alias="held_from")]
# Left out if there are none
_Keys: TypeAlias = Annotated[
    frozenset[str], PlainSerializer(sorted), Field(exclude_if=lambda keys: not keys)
]


@dataclass(frozen=True, slots=True)
class Owned:
    """Ledger key `connector/<name>`: which project manages it, and what it applied last.

    `config` holds fingerprints of sensitive values in place of the values. `restore_to` is set
    while an apply has stopped the connector for its own purposes: the target state to return to;
    on disk it is called `held_from`. `resuming` is set with it when an apply was about to restore
    that state and nothing tells whether it did: it marks the offsets that the connector had then.
    `untyped` are keys of fingerprints that stand for values only because types were not known, and
    `added` those that the cluster put into the config when it was written last.
    `env` is the environment that it was last applied with, if any; unless `env_known`, an older
    record does not say. `applied_ms` is 0 where a creation began and nothing says that it took
    place.
    """

    project: str
    config: Mapping[str, str]
    state: TargetState | None
    prevent_delete: StrictBool = False
    restore_to: RestoreTo = None
    applied_ms: TimeMs = 0
    resuming: str | None = None
    env: str | None = None
    env_known: bool = True
    untyped: _Keys = frozenset()
    added: _Keys = frozenset()


@dataclass(frozen=True, slots=True)
class AppliedPin:
    """Ledger key `pin/<name>/<id>`: a pin that was applied, with what it resolved to.

    `resolved` is what the connector's offsets were set to (None for a reset). `held`: the spec said
    stopped when it was applied, and no apply has resumed or paused the connector since, so its
    offsets must still be those of the pin.
    """

    content_hash: str
    resolved: tuple[OffsetEntry, ...] | None
    applied_ms: TimeMs = 0
    held: StrictBool = False

    def moved(self, offsets: Offsets) -> tuple[OffsetEntry, ...]:
        """Returns the changes that would restore the pin's offsets; none if they are in place."""
        entries = offsets.removed() if self.resolved is None else self.resolved
        return tuple(entry for entry in entries if not offsets.hold((entry,)))


@dataclass(frozen=True, slots=True)
class Renaming:
    """Ledger key `rename/<name>/<old>`: a connector that replaces `old`, which still exists.

    `begun` from before the connector is created, `carried` once it has the offsets of `old`.
    `held`: no apply has resumed or paused the connector since it was created.
    """

    stage: RenameStage
    applied_ms: TimeMs = 0
    held: StrictBool = False


Record = TypeVar("Record", AppliedPin, Renaming)


# --- renames ---


def begun(renames: Mapping[str, Renaming], old_name: str) -> bool:
    """Returns whether the connector was created for the rename from `old_name`, and has not run
    since."""
    rename = renames.get(old_name)
    return rename is not None and rename.stage == "begun" and rename.held


def carried(renames: Mapping[str, Renaming], old_name: str) -> bool:
    """Returns whether the connector has the offsets of `old_name`."""
    rename = renames.get(old_name)
    return rename is not None and rename.stage == "carried"


def without_hold(records: Mapping[str, Record]) -> dict[str, Record]:
    """Returns a connector's pins or renames once it may run: its offsets move, and nothing holds
    them."""
    return {key: replace(record, held=False) for key, record in records.items()}


# --- a rename in the form of a pin, in ledgers of earlier versions ---


def pin_of_rename(old_name: str) -> str:
    """Returns the pin id that stands for a rename from `old_name`."""
    return f"{RENAME_PIN}{old_name}"


def old_name_in(pin: str) -> str | None:
    """Returns the old name, if a pin with this id may stand for a rename."""
    return pin.removeprefix(RENAME_PIN) if pin.startswith(RENAME_PIN) else None


def renaming_of(pin: str, applied: AppliedPin) -> tuple[str, Renaming] | None:
    """Returns the rename that an earlier version recorded as this pin, with its old name; None for
    a user's pin, which has a real content hash."""
    match old_name_in(pin), applied.content_hash:
        case str(old_name), ("begun" | "carried") as stage:
            return old_name, Renaming(stage, applied.applied_ms, applied.held)
        case _:
            return None


# --- applies ---


@dataclass(frozen=True, slots=True)
class ConnectorSnapshot:
    """One connector as it was before an apply's first action on it.

    A rollback returns to it. `config` None: it did not exist. `target` is its target state, or the
    state to restore where an earlier apply held it stopped. `offsets` None: the apply did not move
    them. `offsets_after` is where it moved them to, if that is recorded. `pins` by id, as the
    ledger held them. `renamed_from`: the apply created it from the connector of that name. `ignore`
    holds the globs of `lifecycle.ignore` in the applied spec.
    """

    config: Mapping[str, Value] | None
    target: TargetState | None = None
    owner: str | None = None
    prevent_delete: bool = False
    pins: Mapping[str, AppliedPin] = field(default_factory=dict)
    offsets: Offsets | None = None
    offsets_after: Offsets | None = None
    renamed_from: str | None = None
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Later:
    """The later applies on a connector: their ids, oldest first, and the connector as it was before
    the first of them. `moved`: one of them moved its offsets. `renamed` holds those that
    renamed it, by its new name."""

    applies: tuple[str, ...]
    snapshot: ConnectorSnapshot
    moved: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HalfDone:
    """An action that began, and whose end the journal does not hold."""

    connector: str
    action: str
    snapshot: ConnectorSnapshot | None = None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An apply that ended early. `by` says who ran it, where, and since when."""

    id: str
    by: str = ""
    steps: tuple[HalfDone, ...] = ()
    project: str = ""


# --- the whole ---


@dataclass(frozen=True, slots=True)
class LedgerState:
    """The ledger topic, read to its end. `pins` by (connector, pin id), `renames` by (connector,
    old name).

    `unfinished` holds the applies that ended early, once observed those of the project. `unproven`
    are the connectors that the project's applies changed and did not see healthy since, once
    observed; over REST alone they are not known.
    `fingerprint_key` None: the project has none yet; a plan then holds no fingerprints.
    """

    connectors: Mapping[str, Owned] = field(default_factory=dict)
    pins: Mapping[tuple[str, str], AppliedPin] = field(default_factory=dict)
    renames: Mapping[tuple[str, str], Renaming] = field(default_factory=dict)
    unfinished: tuple[Unfinished, ...] = ()
    unproven: frozenset[str] = frozenset()
    fingerprint_key: bytes | None = None

    def owned_by(self, project: str) -> frozenset[str]:
        """Returns the connectors that the project owns."""
        return frozenset(n for n, owned in self.connectors.items() if owned.project == project)

    def owner(self, name: str) -> str | None:
        """Returns the project that owns the connector; None of one without an owner."""
        owned = self.connectors.get(name)
        return None if owned is None else owned.project

    def last_applied(self, project: str) -> Owned | None:
        """Returns the record that the project applied last of all whose environment is known."""
        records = (record for record in self.connectors.values() if record.project == project)
        return max(
            (record for record in records if record.env_known),
            key=lambda owned: owned.applied_ms,
            default=None,
        )

    def protects(self, name: str) -> bool:
        """Returns whether the connector is protected against deletion."""
        owned = self.connectors.get(name)
        return owned is not None and owned.prevent_delete

    def restore_to(self, name: str) -> TargetState | None:
        """Returns the state to restore, if an apply stopped the connector for its own purposes."""
        owned = self.connectors.get(name)
        return None if owned is None else owned.restore_to

    def without_added(
        self, name: str, config: Mapping[str, str], spec: Collection[str] = ()
    ) -> dict[str, str]:
        """Returns the connector's config without keys that the cluster has added, unless its `spec`
        names them."""
        owned = self.connectors.get(name)
        added = frozenset[str]() if owned is None else owned.added.difference(spec)
        return {key: text for key, text in config.items() if key not in added}

    def pins_of(self, name: str) -> dict[str, AppliedPin]:
        """Returns the connector's pins by id."""
        return {pin: applied for (of, pin), applied in self.pins.items() if of == name}

    def carried_to(self, old_name: str) -> tuple[str, ...]:
        """Returns the connectors that have the offsets of `old_name`, not deleted since."""
        return tuple(
            sorted(
                n
                for (n, of), rename in self.renames.items()
                if of == old_name and rename.stage == "carried"
            )
        )

    def renames_of(self, name: str) -> dict[str, Renaming]:
        """Returns the unfinished renames to this connector, by old name."""
        return {old_name: rename for (of, old_name), rename in self.renames.items() if of == name}
