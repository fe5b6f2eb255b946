"""Counts what one task does, in the task's process: the MBeans of Connect's tasks.

The task counts once for each batch, never for each record. A publisher asks for a `reading`
every few seconds, which works out rates, averages and maxima over the last 30 to 60 seconds, as
Connect does with its default of two windows (`metrics.sample.window.ms`, `metrics.num.samples`).

Names are those that Strimzi's rules for the JMX exporter give Connect's attributes.

librdkafka makes statistics of a client every `STATISTICS_MS`, on a thread of its own, and hands
them over when the client is polled. Fields: STATISTICS.md of librdkafka.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import orjson

from connect_runtime.storage.snapshots import State

_TASK: Final = "kafka_connect_connector_task_"
_SOURCE: Final = "kafka_connect_source_task_"
_SINK: Final = "kafka_connect_sink_task_"
_ERROR: Final = "kafka_connect_task_error_"

# Each time costs 0.3 ms of CPU
STATISTICS_MS: Final = 15_000
_CONNECTED: Final = frozenset({"UP", "UPDATE"})

_WINDOW_S: Final = 30.0
# Attributes of Connect's MBean for the errors of a task
ErrorCount: TypeAlias = Literal[
    "total_record_failures",
    "total_record_errors",
    "total_records_skipped",
    "total_retries",
    "total_errors_logged",
    "deadletterqueue_produce_requests",
    "deadletterqueue_produce_failures",
]
_LAST_ERROR: Final = f"{_ERROR}last_error_timestamp"
# Each has a total and a rate
_RATED: Final = {
    "source": (f"{_SOURCE}source_record_poll", f"{_SOURCE}source_record_write"),
    "sink": (
        f"{_SINK}sink_record_read",
        f"{_SINK}sink_record_send",
        f"{_SINK}offset_commit_completion",
        f"{_SINK}offset_commit_skip",
    ),
}


class TaskMetrics:
    """Belongs to one attempt. One thread of the task counts at a time; any thread reads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._values: dict[str, float] = {
            **{f"{_ERROR}{name}": 0 for name in get_args(ErrorCount)},
            _LAST_ERROR: 0,
        }
        self._windows = _Windows(clock())
        self._rated: tuple[str, ...] = ()
        self._states: dict[State, float] = defaultdict(float)
        self._state: tuple[State | None, float] = (None, clock())
        self._pending = 0
        self._clients: dict[tuple[str, str], dict[str, Any]] = {}
        self._elsewhere: Callable[[], Mapping[str, Any]] | None = None

    def read_elsewhere(self, read: Callable[[], Mapping[str, Any]]) -> None:
        """Takes readings from this function from now on: another process runs the task. They have
        `samples`, too: those of plugins, with names, labels and values."""
        self._elsewhere = read

    # --- tasks of both kinds ---

    def begin(self, kind: Literal["source", "sink"]) -> None:
        """Sets the kind of the task, so that what it has not done yet reads as 0."""
        self._rated = _RATED[kind]
        if kind == "source":
            self._values[f"{_SOURCE}source_record_active_count"] = 0
        else:
            self._values[f"{_SINK}sink_record_active_count"] = 0
            self._values[f"{_SINK}partition_count"] = 0
            self._values[f"{_SINK}offset_commit_seq_no"] = 0

    def in_state(self, state: State) -> None:
        """Begins to count the time of this state."""
        earlier, since = self._state
        time_s = self._clock()
        if earlier is not None:
            self._states[earlier] += time_s - since
        self._state = (state, time_s)

    def client(self, kind: Literal["producer", "consumer"], statistics: str) -> None:
        """Takes the statistics of a Kafka client of the task: librdkafka's JSON. Called by the
        client, which passes on what is raised here to the task."""
        try:
            reading = client_reading(kind, statistics)
        except orjson.JSONDecodeError:  # librdkafka escapes nothing, such as quotes in client.id
            return
        self._clients[kind, reading["client_id"]] = reading

    def without_clients(self) -> None:
        """Forgets the Kafka clients of the task, which were closed."""
        self._clients = {}

    # --- sources ---

    def polled(self, records: int, seconds: float) -> None:
        """Counts a poll that returned records."""
        self._windows.add(f"{_SOURCE}source_record_poll", records)
        self._windows.observe(_TASK, "batch_size_{}", records)
        self._windows.observe(_SOURCE, "poll_batch_{}_time_ms", seconds * 1000)

    def sent(self, records: int) -> None:
        """Counts records that the producer took."""
        self._pending += records
        self._values[f"{_SOURCE}source_record_active_count"] = self._pending

    def wrote(self, seconds: float, *, done: bool) -> None:
        """Counts a commit that ended: with `done`, all that was sent is in Kafka."""
        self._committed(seconds)
        if not done:
            return
        self._windows.add(f"{_SOURCE}source_record_write", self._pending)
        if self._pending:
            self._windows.observe(_SOURCE, "transaction_size_{}", self._pending)
        self.aborted()

    def aborted(self) -> None:
        """Takes back the records that were sent and not committed."""
        self._pending = 0
        self._values[f"{_SOURCE}source_record_active_count"] = 0

    # --- sinks ---

    def read(self, records: int) -> None:
        """Counts records that arrived from Kafka."""
        self._windows.add(f"{_SINK}sink_record_read", records)
        self._windows.observe(_TASK, "batch_size_{}", records)

    def put(self, records: int, seconds: float) -> None:
        """Counts records that the task took."""
        self._windows.add(f"{_SINK}sink_record_send", records)
        self._windows.observe(_SINK, "put_batch_{}_time_ms", seconds * 1000)

    def owns(self, *, partitions: int, uncommitted: int) -> None:
        """Sets the numbers of the task's partitions, and of records that it took uncommitted."""
        self._values[f"{_SINK}partition_count"] = partitions
        self._values[f"{_SINK}sink_record_active_count"] = uncommitted

    def commit_sent(self) -> None:
        """Counts a commit of offsets that was sent."""
        self._values[f"{_SINK}offset_commit_seq_no"] += 1

    def commit_answered(self, seconds: float, *, done: bool) -> None:
        """Counts Kafka's answer to a commit of offsets; `done`: it has taken all of them."""
        self._committed(seconds)
        self._windows.add(f"{_SINK}offset_commit_completion", int(done))

    def commit_skipped(self) -> None:
        """Counts a commit of offsets that the task stopped waiting for."""
        self._windows.add(f"{_SINK}offset_commit_skip", 1)

    # --- errors of records ---

    def count(self, event: ErrorCount) -> None:
        """Counts an attempt at a record that failed, one more attempt, a failure that was logged,
        or a record that is sent to the dead letter queue, or is refused there."""
        self._values[f"{_ERROR}{event}"] += 1

    def call_repeated(self) -> None:
        """Counts a call that the task asked to repeat: its source or target system is away."""
        self.count("total_retries")
        self._values[_LAST_ERROR] = int(time.time() * 1000)

    def record_failed(self, *, skipped: bool) -> None:
        """Counts a record that failed for good."""
        self.count("total_record_errors")
        if skipped:
            self.count("total_records_skipped")
        self._values[_LAST_ERROR] = int(time.time() * 1000)

    # --- reading ---

    def reading(self) -> bytes:
        """Returns the values of now as JSON: `metrics` by name, and a list of `clients`."""
        if self._elsewhere is not None:
            return orjson.dumps(self._elsewhere())
        time_s = self._clock()
        windows, ratios = self._windows.values(time_s, self._rated), self._ratios(time_s)
        values = {**self._values, **windows, **ratios}
        return orjson.dumps({"metrics": values, "clients": list(self._clients.values())})

    def _ratios(self, time_s: float) -> Mapping[str, float]:
        state, since = self._state
        spent = dict(self._states)
        if state is not None:
            spent[state] = spent.get(state, 0.0) + time_s - since
        total = sum(spent.values())
        if not total:
            return {}
        return {
            f"{_TASK}running_ratio": round(spent.get(State.RUNNING, 0.0) / total, 4),
            f"{_TASK}pause_ratio": round(spent.get(State.PAUSED, 0.0) / total, 4),
        }

    def _committed(self, seconds: float) -> None:
        self._windows.observe(_TASK, "offset_commit_{}_time_ms", seconds * 1000)


class _Windows:
    """Totals, and what was observed, over the current window and the one before.

    `observe` and `add` read no clock: `values` starts a new window when it is time.
    """

    def __init__(self, time_s: float) -> None:
        self._totals: dict[str, float] = defaultdict(float)
        self._highest: dict[tuple[str, str], float] = {}
        self._highest_before: dict[tuple[str, str], float] = {}
        # when a window started, and the totals of that moment
        self._start: tuple[float, dict[str, float]] = (time_s, {})
        self._start_before = self._start

    def add(self, name: str, number: float) -> None:
        self._totals[name] += number

    def observe(self, group: str, pattern: str, value: float) -> None:
        """Adds a value; `pattern` is a name with {} in place of avg and max."""
        key = (group, pattern)
        self._totals[f"{group}{pattern}#"] += 1
        self._totals[f"{group}{pattern}"] += value
        self._highest[key] = max(value, self._highest.get(key, value))

    def values(self, time_s: float, rated: tuple[str, ...]) -> dict[str, float]:
        if time_s - self._start[0] >= _WINDOW_S:
            self._start_before, self._start = self._start, (time_s, dict(self._totals))
            self._highest_before, self._highest = self._highest, {}
        # before the totals: what is observed meanwhile has none in an older copy
        earlier, current = self._highest_before, dict(self._highest)
        totals, (begin, base) = dict(self._totals), self._start_before
        values: dict[str, float] = {}
        for name in rated:
            total = totals.get(name, 0)
            values[f"{name}_total"] = total
            span_s = max(time_s - begin, 1.0)
            values[f"{name}_rate"] = round((total - base.get(name, 0)) / span_s, 3)
        for group, pattern in earlier | current:
            name, key = f"{group}{pattern}", (group, pattern)
            count = totals[f"{name}#"] - base.get(f"{name}#", 0)
            average = (totals[name] - base.get(name, 0)) / max(count, 1)
            values[group + pattern.format("avg")] = round(average, 3)
            most = max(earlier.get(key, 0), current.get(key, 0))
            values[group + pattern.format("max")] = round(most, 3)
        return values


def values_of(reading: bytes) -> Mapping[str, Any]:
    """Parses a reading. Raises ValueError."""
    values: Mapping[str, Any] = orjson.loads(reading)
    return values


def client_reading(kind: Literal["producer", "consumer"], statistics: str) -> dict[str, Any]:
    """Returns the parts of librdkafka's JSON that Connect's metrics need. `bytes` is what a
    producer sent or a consumer received. `lags`: topic, partition, and how many records the
    consumer is behind the end of the partition."""
    client = orjson.loads(statistics)
    return {
        "kind": kind,
        "client_id": client["client_id"],
        "connections": sum(b["state"] in _CONNECTED for b in client["brokers"].values()),
        "bytes": client["tx_bytes" if kind == "producer" else "rx_bytes"],
        "lags": [] if kind == "producer" else list(_lags(client["topics"])),
    }


def _lags(topics: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Yields lags as Java's consumers count them: from the position, which passes transaction
    markers. librdkafka's own lag begins at the committed offset. It also keeps the statistics of
    partitions that were taken away, which are not desired."""
    for topic, state in topics.items():
        for number, partition in state["partitions"].items():
            position = _position(partition)
            # librdkafka's own queue has a negative number, and so has what is not known yet
            is_known = int(number) >= 0 and position >= 0 and partition["ls_offset"] >= 0
            if is_known and partition["desired"]:
                yield topic, int(number), max(0, partition["ls_offset"] - position)


def _position(partition: Mapping[str, Any]) -> int:
    """Returns the offset of the record that the application gets next."""
    if partition["fetchq_cnt"] == 0:
        return int(partition["next_offset"])
    reached = int(partition["app_offset"])
    return reached if reached >= 0 else int(partition["committed_offset"])
