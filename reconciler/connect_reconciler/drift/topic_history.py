"""Times of the latest changes of each connector, from the records that topics still hold. Pure.

Kafka compacts older records away, so a change can be older than the record found here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_reconciler.ledger.journal import JournalEntry
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.ledger.topic import reduce_all as reduce_ledger
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import ConfigSnapshot
from connect_specs.desired import PartitionKey, partition_key

# Config records have the time of the cluster's leader, journal entries that of the apply
_CLOCKS_DIFFER_MS = 2_000


@dataclass(frozen=True, slots=True)
class Mark:
    """A record's time, and its place in a topic."""

    timestamp_ms: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class ApplyRun:
    """An apply. `work` by connector: the start of its first action and the end of its last one."""

    id: str
    project: str
    by: str
    work: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)

    def wrote(self, connector: str, mark: Mark) -> bool:
        """Returns whether the record was written while the apply was changing that connector."""
        if connector not in self.work:
            return False
        since_ms, until_ms = self.work[connector]
        return since_ms - _CLOCKS_DIFFER_MS <= mark.timestamp_ms <= until_ms + _CLOCKS_DIFFER_MS


@dataclass(frozen=True, slots=True)
class History:
    """The records of the latest changes.

    `keys` by connector and config key, including removed keys; `connectors` by name: of the last
    creation or deletion; `offsets` by connector and partition.
    """

    keys: Mapping[tuple[str, str], Mark] = field(default_factory=dict)
    connectors: Mapping[str, Mark] = field(default_factory=dict)
    targets: Mapping[str, Mark] = field(default_factory=dict)
    offsets: Mapping[tuple[str, PartitionKey], Mark] = field(default_factory=dict)
    runs: tuple[ApplyRun, ...] = ()

    def run_of(self, connector: str, mark: Mark | None) -> ApplyRun | None:
        """Returns the recorded apply that wrote the record about this connector, if any."""
        if mark is None:
            return None
        return next((run for run in reversed(self.runs) if run.wrote(connector, mark)), None)


def history_of(
    config: Iterable[LogRecord], offsets: Iterable[LogRecord], ledger: Iterable[LogRecord]
) -> History:
    """Returns the history in the records of three topics."""
    fold = _ConfigFold()
    for record in config:
        fold.apply(record)
    return History(fold.keys, fold.connectors, fold.targets, _offsets(offsets), _runs(ledger))


class _ConfigFold:
    """Keeps the record since which each config key, connector and target state is unchanged."""

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str], Mark] = {}
        self.connectors: dict[str, Mark] = {}
        self.targets: dict[str, Mark] = {}
        self._configs: dict[str, Mapping[str, str]] = {}
        self._states: dict[str, str] = {}

    def apply(self, record: LogRecord) -> None:
        subject = config_topic.subject(record.key)
        if subject is None:
            return
        kind, name = subject
        # Only what this record holds, without the records before it
        snapshot = config_topic.reduce_all(ConfigSnapshot(), (record,))
        if kind == "config":
            state = snapshot.connectors.get(name)
            if state is not None or record.value is None:
                self._on_config(name, None if state is None else state.config, _mark(record))
        else:
            orphan = snapshot.orphans.get(name)
            target = "" if orphan is None else orphan.target.value
            if self._states.get(name) != target:
                self.targets[name] = _mark(record)
            self._states[name] = target

    def _on_config(self, name: str, config: Mapping[str, str] | None, mark: Mark) -> None:
        previous = self._configs.pop(name, None)
        if (previous is None) is not (config is None) or name not in self.connectors:
            self.connectors[name] = mark
        for key in (previous or {}).keys() | (config or {}).keys():
            if (previous or {}).get(key) != (config or {}).get(key):
                self.keys[name, key] = mark
        if config is not None:
            self._configs[name] = config


def _offsets(records: Iterable[LogRecord]) -> dict[tuple[str, PartitionKey], Mark]:
    marks: dict[tuple[str, PartitionKey], Mark] = {}
    # A busy source writes under the same few keys over and over
    newest = {record.key: record for record in records}
    for record in sorted(newest.values(), key=lambda record: record.timestamp_ms):
        subject = offsets_topic.subject(record.key)
        if subject is not None:
            connector, partition = subject
            marks[connector, partition_key(partition)] = _mark(record)
    return marks


def _runs(records: Iterable[LogRecord]) -> tuple[ApplyRun, ...]:
    snapshot = reduce_ledger(LedgerSnapshot(), records)
    return tuple(
        ApplyRun(apply.id, apply.project, apply.by, _work(snapshot.steps(apply.id)))
        for apply in snapshot.applies.values()
    )


def _work(steps: Iterable[JournalEntry]) -> dict[str, tuple[int, int]]:
    work: dict[str, tuple[int, int]] = {}
    for step in steps:
        # An interrupted one has no end: its change came soon after its start
        times = (step.started_ms, step.ended_ms or step.started_ms)
        work[step.connector] = (
            min(*times, *work.get(step.connector, times)),
            max(*times, *work.get(step.connector, times)),
        )
    return work


def _mark(record: LogRecord) -> Mark:
    return Mark(record.timestamp_ms, record.topic, record.partition, record.offset)
