"""The ledger of a cluster that is reached by REST alone: a key in each connector's own config.

Written together with a config, while its connector is stopped, or right before a stop that serves
another action: a config that is written restarts the tasks, and those are about to end. What an
action is going to record is written before a connector runs again. There is no journal and no
lease. Implements `LedgerWriter`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import orjson

from connect_reconciler.ledger.journal import Ending, Journal, Step
from connect_reconciler.ledger.topic import LedgerSnapshot, LedgerUnreadable, reduce_all
from connect_reconciler.ledger.values import FORMAT, parts_of
from connect_reconciler.plan.actions import Create, Pause, Resume, Stop, StopOld, UpdateConfig
from connect_reconciler.plan.live import AppliedPin, LedgerState, Owned
from connect_reconciler.plan.rename import renamed_from
from connect_reconciler.plan.reserved import LEDGER_KEY
from connect_runtime.herder.errors import RequestError
from connect_runtime.rest import wire
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_specs.diagnostics import Diagnostic, Failed
from connect_specs.states import TargetState

_WRITES_CONFIG = (Create.__name__, UpdateConfig.__name__)
_LETS_RUN = (Pause.__name__, Resume.__name__)
_STOPS = (Stop.__name__, StopOld.__name__)


class Keeper(Protocol):
    """The cluster, as far as a ledger in its configs needs it."""

    def is_stopped(self, name: str) -> bool:
        """Whether it is there, and writing its config restarts nothing."""
        ...

    def keep(self, name: str, entry: str) -> None:
        """Writes the entry into the connector's config. Raises RequestError, OutcomeUnknown."""
        ...


class ConfigKeyLedger:
    """Raises Failed where a connector's entry could not be written: the others can go on."""

    topic = LEDGER_KEY

    def __init__(self, state: LedgerState, keeper: Keeper) -> None:
        self._snapshot = LedgerSnapshot(state)
        self._then: dict[str, LedgerSnapshot] = {}
        self._kept = {name: dump_entry(name, state) for name in state.connectors}
        self._keeper = keeper
        self._lock = threading.Lock()

    @property
    def state(self) -> LedgerState:
        return self._snapshot.state

    def begin(self, journal: Journal, *, new_fingerprint_key: bytes | None) -> None:
        """Nothing: there is no journal, and no place for a key."""

    def started(
        self, step: Step, records: Sequence[NewRecord] = (), *, then: Sequence[NewRecord] = ()
    ) -> None:
        self.correct(records)
        with self._lock:
            self._then |= dict.fromkeys(_named(step, then), _folded(self._snapshot, then))
        for name in _named(step, records):
            owned = self.state.connectors.get(name)
            holds = step.action in _STOPS and owned is not None and owned.held_from is not None
            if holds or step.action in _LETS_RUN:
                self._write(name, running=holds)

    def done(self, step: Step, records: Sequence[NewRecord] = ()) -> None:
        self.correct(records)
        names = _named(step, records)
        with self._lock:
            for name in names:
                self._then.pop(name, None)
            if step.action in _WRITES_CONFIG:
                self._kept[step.connector] = dump_entry(step.connector, self.state)
        for name in names:
            self._write(name)

    def correct(self, records: Sequence[NewRecord]) -> None:
        """Takes note; it is written with the connector's next change."""
        with self._lock:
            self._snapshot = _folded(self._snapshot, records)

    def failed(self, step: Step) -> None:
        with self._lock:
            self._then.pop(step.connector, None)

    def finish(self, ending: Ending, *, exit_code: int, now_ms: int) -> None:
        """Nothing: there is no journal."""

    def entry(self, name: str) -> str:
        """What a config that is written now says of its connector: what the step will record."""
        with self._lock:
            return dump_entry(name, self._then.get(name, self._snapshot).state)

    def _write(self, name: str, *, running: bool = False) -> None:
        """Writes what is owed if the connector is stopped, or also while it is running."""
        entry = self.entry(name)
        if not entry or self._kept.get(name) == entry:
            return
        if not running and not self._keeper.is_stopped(name):
            return
        try:
            self._keeper.keep(name, entry)
        except RequestError as error:
            what = f"what was applied to {name} could not be kept in its config"
            hint = "run apply again: it goes on where this one ended"
            raise Failed(
                Diagnostic("ledger.not-written", what, name, error.message, hint)
            ) from error
        with self._lock:
            self._kept[name] = entry


class NoLease:
    """Over REST alone nothing keeps two applies apart. Implements `Holding`."""

    def keep(self) -> None:
        """Nothing can be lost."""


def dump_entry(name: str, state: LedgerState) -> str:
    """The connector's part of the ledger as its config holds it; empty if nobody owns it.

    Its target state is left out: it changes where this cannot be written.
    """
    owned = state.connectors.get(name)
    if owned is None:
        return ""
    pins = {pin: _pin_json(applied) for (of, pin), applied in state.pins.items() if of == name}
    text = orjson.dumps(
        {
            "v": FORMAT,
            "project": owned.project,
            "config": dict(owned.config),
            "prevent_delete": owned.prevent_delete,
            "held_from": owned.held_from,
            "applied_ms": owned.applied_ms,
            "pins": pins,
        },
        option=orjson.OPT_SORT_KEYS,
    ).decode()
    # Connect must not look for ${provider:path:key} in here and put secrets in their place
    return text.replace("$", "\\u0024")


def load_ledger(
    configs: Mapping[str, Mapping[str, str]], refused: Callable[[LedgerUnreadable, str], None]
) -> LedgerState:
    """The ledger of all configs. `refused` is told of each connector whose entry is unreadable."""
    connectors: dict[str, Owned] = {}
    pins: dict[tuple[str, str], AppliedPin] = {}
    for name, config in configs.items():
        if LEDGER_KEY not in config:
            continue
        try:
            connectors[name], applied = load_entry(name, config[LEDGER_KEY])
        except LedgerUnreadable as error:
            refused(error, name)
            continue
        # A rename is over once the old name is gone, which cannot be written while the new one runs
        pins |= {
            (name, pin): each
            for pin, each in applied.items()
            if renamed_from(pin) is None or renamed_from(pin) in configs
        }
    return LedgerState(connectors, pins)


def load_entry(name: str, text: str) -> tuple[Owned, dict[str, AppliedPin]]:
    """What a connector's config says of its owner, and its pins. Raises LedgerUnreadable."""
    try:
        value = orjson.loads(text)
        if not isinstance(value, dict) or value.get("v") != FORMAT:
            raise ValueError
        held = value["held_from"]
        owned = Owned(
            project=_text(value["project"]),
            config={_text(key): _text(each) for key, each in value["config"].items()},
            state=None,
            prevent_delete=value["prevent_delete"] is True,
            held_from=None if held is None else TargetState(held),
            applied_ms=int(value["applied_ms"]),
        )
        return owned, {_text(pin): _pin(each) for pin, each in value["pins"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LedgerUnreadable(
            Diagnostic(
                "ledger.unreadable",
                f"what the config of {name} says under {LEDGER_KEY} cannot be read",
                name,
                why="it was changed by hand, is masked, or was written by a newer connect",
                hint=f"use a newer connect, or remove {LEDGER_KEY} from the config: pins in the"
                " spec are then applied once more",
            )
        ) from None


def _pin_json(applied: AppliedPin) -> dict[str, Any]:
    return {
        "content_hash": applied.content_hash,
        "resolved": None if applied.resolved is None else wire.offsets_json(applied.resolved),
        "applied_ms": applied.applied_ms,
        "held": applied.held,
    }


def _pin(value: Mapping[str, Any]) -> AppliedPin:
    resolved = value["resolved"]
    return AppliedPin(
        content_hash=_text(value["content_hash"]),
        resolved=None if resolved is None else wire.offsets_from_json(resolved),
        applied_ms=int(value["applied_ms"]),
        held=value["held"] is True,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _named(step: Step, records: Sequence[NewRecord]) -> tuple[str, ...]:
    """The connectors that a step is about: its own, and those of its records."""
    return tuple(dict.fromkeys([step.connector, *(parts_of(each.key)[1] for each in records)]))


def _folded(snapshot: LedgerSnapshot, records: Sequence[NewRecord]) -> LedgerSnapshot:
    return reduce_all(
        snapshot, (LogRecord(each.topic, 0, 0, 0, each.key, each.value) for each in records)
    )
