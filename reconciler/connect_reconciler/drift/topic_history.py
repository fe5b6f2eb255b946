"""Since when a connector is as it is, from the records that its topics still hold. Pure.

Kafka compacts older records away, so a change can be older than the record found here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_reconciler.ledger.journal import Step
from connect_reconciler.ledger.topic import LedgerSnapshot
from connect_reconciler.ledger.topic import reduce_all as reduce_ledger
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import ConfigSnapshot
from connect_specs.partitions import PartitionKey, partition_key

# Config records have their leader's time, steps have that of whoever applied.
_CLOCKS_DIFFER_MS = 2_000


@dataclass(frozen=True, slots=True)
class Mark:
    """A record: when it was written, and its place in a topic."""

    timestamp_ms: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Run:
    """An apply. `work` by connector: when its first action began and its last one ended."""

    id: str
    project: str
    by: str
    work: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)

    def wrote(self, connector: str, mark: Mark) -> bool:
        """Whether the record was written while the apply was changing that connector."""
        if connector not in self.work:
            return False
        since_ms, until_ms = self.work[connector]
        return since_ms - _CLOCKS_DIFFER_MS <= mark.timestamp_ms <= until_ms + _CLOCKS_DIFFER_MS


@dataclass(frozen=True, slots=True)
class History:
    """The records since which things are as they are now.

    `keys` by connector and config key, also of one that was removed; `connectors` by name, those
    that were created or deleted last; `offsets` by connector and partition.
    """

    keys: Mapping[tuple[str, str], Mark] = field(default_factory=dict)
    connectors: Mapping[str, Mark] = field(default_factory=dict)
    targets: Mapping[str, Mark] = field(default_factory=dict)
    offsets: Mapping[tuple[str, PartitionKey], Mark] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()

    def run_of(self, connector: str, mark: Mark | None) -> Run | None:
        """The recorded apply that wrote the record about this connector, if there is one."""
        if mark is None:
            return None
        return next((run for run in reversed(self.runs) if run.wrote(connector, mark)), None)


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
    """Keeps the record since which each config key, connector and target state is unchanged."""

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
        said = config_topic.reduce_all(ConfigSnapshot(), (record,))
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


def _offsets(records: Iterable[LogRecord]) -> dict[tuple[str, PartitionKey], Mark]:
    found: dict[tuple[str, PartitionKey], Mark] = {}
    # A busy source writes under the same few keys over and over
    newest = {record.key: record for record in records}
    for record in sorted(newest.values(), key=lambda record: record.timestamp_ms):
        about = offsets_topic.subject(record.key)
        if about is not None:
            connector, partition = about
            found[connector, partition_key(partition)] = _mark(record)
    return found


def _runs(records: Iterable[LogRecord]) -> tuple[Run, ...]:
    said = reduce_ledger(LedgerSnapshot(), records)
    return tuple(
        Run(each.id, each.project, each.by, _work(said.steps(each.id)))
        for each in said.applies.values()
    )


def _work(steps: Iterable[Step]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for step in steps:
        # One without an end was cut off: what it did came soon after it began
        times = (step.started_ms, step.ended_ms or step.started_ms)
        found[step.connector] = (
            min(*times, *found.get(step.connector, times)),
            max(*times, *found.get(step.connector, times)),
        )
    return found


def _mark(record: LogRecord) -> Mark:
    return Mark(record.timestamp_ms, record.topic, record.partition, record.offset)
