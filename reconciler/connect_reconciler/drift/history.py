"""Since when is a connector as it is? Told by the records that its topics still hold. Pure.

Kafka compacts older records away, so that a change can be older than the record that tells of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from connect_reconciler.ledger.journal import Ending, Journal
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.ledger.topic import reduce_all as reduce_ledger
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import ConfigSnapshot
from connect_specs.offsets import canonical_partition

# Config records have their leader's time, journals have that of whoever applied.
_CLOCKS_DIFFER_MS = 5_000


@dataclass(frozen=True, slots=True)
class Mark:
    """A record: when it was written, and where it is."""

    timestamp_ms: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Run:
    """An apply of this program's, from its first record to its last."""

    id: str
    project: str
    by: str
    since_ms: int
    until_ms: int

    def covers(self, mark: Mark) -> bool:
        """Whether the record was written while the apply ran."""
        earliest, latest = self.since_ms - _CLOCKS_DIFFER_MS, self.until_ms + _CLOCKS_DIFFER_MS
        return earliest <= mark.timestamp_ms <= latest


@dataclass(frozen=True, slots=True)
class History:
    """The records since which things are as they are now.

    `keys` by connector and config key, also of one that was removed; `connectors` by name, those
    that were created or deleted last; `offsets` by connector and canonical partition.
    """

    keys: Mapping[tuple[str, str], Mark] = field(default_factory=dict)
    connectors: Mapping[str, Mark] = field(default_factory=dict)
    targets: Mapping[str, Mark] = field(default_factory=dict)
    offsets: Mapping[tuple[str, str], Mark] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()

    def run_at(self, mark: Mark | None) -> Run | None:
        """The apply that was under way when the record was written, if there was one."""
        if mark is None:
            return None
        return next((run for run in reversed(self.runs) if run.covers(mark)), None)


def history_of(
    config: Iterable[LogRecord], offsets: Iterable[LogRecord], ledger: Iterable[LogRecord]
) -> History:
    """The history that the records of three topics tell."""
    fold = _ConfigFold()
    for record in config:
        fold.apply(record)
    return History(
        keys=fold.keys,
        connectors=fold.connectors,
        targets=fold.targets,
        offsets=_offsets(offsets),
        runs=_runs(ledger),
    )


class _ConfigFold:
    """Keeps a mark for as long as what it stands for stays the same."""

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str], Mark] = {}
        self.connectors: dict[str, Mark] = {}
        self.targets: dict[str, Mark] = {}
        self._configs: dict[str, Mapping[str, str]] = {}
        self._states: dict[str, str] = {}

    def apply(self, record: LogRecord) -> None:
        about = config_topic.subject(record.key)
        if about is None:
            return
        kind, name = about
        # Of one record alone: what it says, without what came before
        said = config_topic.reduce(ConfigSnapshot(), record)
        if kind == "config":
            state = said.connectors.get(name)
            if state is not None or record.value is None:
                self._on_config(name, None if state is None else state.config, _mark(record))
        else:
            asked = said.orphans.get(name)
            state_text = "" if asked is None else asked.target.value
            if self._states.get(name) != state_text:
                self.targets[name] = _mark(record)
            self._states[name] = state_text

    def _on_config(self, name: str, config: Mapping[str, str] | None, mark: Mark) -> None:
        before = self._configs.pop(name, None)
        if (before is None) is not (config is None) or name not in self.connectors:
            self.connectors[name] = mark
        old, new = before or {}, config or {}
        for key in old.keys() | new.keys():
            if old.get(key) != new.get(key):
                self.keys[name, key] = mark
        if config is not None:
            self._configs[name] = config


def _offsets(records: Iterable[LogRecord]) -> dict[tuple[str, str], Mark]:
    found: dict[tuple[str, str], Mark] = {}
    # A busy source writes under the same few keys over and over
    newest = {record.key: record for record in records}
    for record in sorted(newest.values(), key=lambda record: record.timestamp_ms):
        about = offsets_topic.subject(record.key)
        if about is not None:
            connector, partition = about
            found[connector, canonical_partition(partition)] = _mark(record)
    return found


def _runs(records: Iterable[LogRecord]) -> tuple[Run, ...]:
    found: dict[str, Run] = {}
    steps: list[tuple[str, int]] = []
    for record in records:
        said = reduce_ledger(LedgerSnapshot(), (record,))
        for journal in said.applies.values():
            found[journal.id] = _longer(found.get(journal.id), journal, record.timestamp_ms)
        steps += ((apply_id, record.timestamp_ms) for apply_id in said.raw_steps)
    for apply_id, written_ms in steps:
        run = found.get(apply_id)
        if run is not None:
            found[apply_id] = replace(run, until_ms=max(run.until_ms, written_ms))
    return tuple(sorted(found.values(), key=lambda run: run.since_ms))


def _longer(run: Run | None, journal: Journal, written_ms: int) -> Run:
    known = journal.since_ms if run is None else run.until_ms
    # That it was interrupted is often found, and written, only by the apply after it
    until = known if journal.ending is Ending.INTERRUPTED else max(known, written_ms)
    return Run(journal.id, journal.project, journal.by, journal.since_ms, until)


def _mark(record: LogRecord) -> Mark:
    return Mark(record.timestamp_ms, record.topic, record.partition, record.offset)
