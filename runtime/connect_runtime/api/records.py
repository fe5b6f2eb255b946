"""Defines records between connectors and Kafka, single and as batches of columns.

A batch is the fast way: `SourceTask.poll` may return a `SourceBatch`, and `SinkTask.put` gets a
`SinkBatch`. Record objects are made only where a connector requests them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from connect_runtime.api.schema import Schema
from connect_runtime.java.scalars import java_text

SourcePartition: TypeAlias = Mapping[str, Any]
SourceOffset: TypeAlias = Mapping[str, Any]

T = TypeVar("T")
Lazy: TypeAlias = Sequence[T] | Callable[[], Sequence[T]]


class Header(NamedTuple):
    """One header. Several of a record may have the same key; their order is kept.

    Without a schema (None) the header converter decides how to write the value.
    """

    key: str
    value: Any = None
    schema: Schema | None = None


Headers: TypeAlias = tuple[Header, ...]
"""Immutable: a change of a record's headers makes a new tuple."""


class TopicPartition(NamedTuple):
    """A partition of a Kafka topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, eq=False)
class SourceRecord:
    """One record from a source, with where it came from and how far the source has been read.

    `source_offset` is where to resume after this record. Keys and values of partition and offset
    are strings and primitive values. `partition` None lets Kafka choose by key; `timestamp` is in
    epoch milliseconds, None (and 0, which the Kafka client cannot send) for "now". Compared by
    identity, as transaction boundaries need it.
    """

    source_partition: SourcePartition
    source_offset: SourceOffset | None
    topic: str
    value: Any
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Records of one topic and one source partition, as columns of equal length.

    `source_offset` is the offset after the last record; a batch is never split over transactions
    unless `offsets` (one offset a record) is given. Columns that are None are all None.

    `read_at` (epoch milliseconds) is what transformations see as the timestamp of records without
    one. Kafka's client sets theirs when it gets them.
    """

    topic: str
    source_partition: SourcePartition
    values: Sequence[Any]
    keys: Sequence[Any] | None = None
    source_offset: SourceOffset | None = None
    offsets: Sequence[SourceOffset] | None = None
    value_schema: Schema | None = None
    key_schema: Schema | None = None
    timestamps: Sequence[int | None] | None = None
    headers: Sequence[Headers] | None = None
    partition: int | None = None
    read_at: int | None = None

    def __post_init__(self) -> None:
        size = len(self.values)
        for name in ("keys", "offsets", "timestamps", "headers"):
            column = getattr(self, name)
            if column is not None and len(column) != size:
                raise ValueError(f"{name} has {len(column)} entries for {size} values")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def last_offset(self) -> SourceOffset | None:
        """Returns where to resume after this batch."""
        if self.source_offset is None and self.offsets:
            return self.offsets[-1]
        return self.source_offset

    def records(self) -> Iterator[SourceRecord]:
        """Yields the batch as records; without `offsets`, only the last one carries the offset."""
        last = len(self) - 1
        for i, value in enumerate(self.values):
            if self.offsets is not None:
                offset: SourceOffset | None = self.offsets[i]
            else:
                offset = self.source_offset if i == last else None
            yield SourceRecord(
                source_partition=self.source_partition,
                source_offset=offset,
                topic=self.topic,
                value=value,
                value_schema=self.value_schema,
                key=None if self.keys is None else self.keys[i],
                key_schema=self.key_schema,
                partition=self.partition,
                timestamp=self.read_at if self.timestamps is None else self.timestamps[i],
                headers=() if self.headers is None else self.headers[i],
            )


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """One record from Kafka. `timestamp` is in epoch milliseconds, None if it has none.

    `consumed` is the message that the record was made from, as the runtime read it, and None in
    tests of a task. Transformations keep it, so it has the record's origin (KIP-793).
    """

    topic: str
    partition: int
    offset: int
    value: Any
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    timestamp: int | None = None
    headers: Headers = ()
    consumed: Any = field(default=None, repr=False, compare=False)

    @property
    def original_topic(self) -> str:
        """Returns the topic that the record was read from, before transformations."""
        return self.topic if self.consumed is None else str(self.consumed.topic())

    @property
    def original_partition(self) -> int:
        """Returns the partition that the record was read from, before transformations."""
        return self.partition if self.consumed is None else int(self.consumed.partition())

    @property
    def original_offset(self) -> int:
        """Returns the offset of the record in the partition that it was read from."""
        return self.offset if self.consumed is None else int(self.consumed.offset())


# The columns of a batch, in the order of a record's fields
_COLUMNS: Final = {
    "topics": "topic",
    "partitions": "partition",
    "offsets": "offset",
    "values": "value",
    "value_schemas": "value_schema",
    "keys": "key",
    "key_schemas": "key_schema",
    "timestamps": "timestamp",
    "headers": "headers",
    "consumed": "consumed",
}


class _LazyColumn(Generic[T]):
    """A column of a batch, which is made when first asked for. `empty`: of a record without one."""

    def __init__(self, empty: Any = None) -> None:
        self._empty = empty

    def __set_name__(self, owner: type[SinkBatch], name: str) -> None:
        self._name = name

    def __get__(self, batch: SinkBatch, owner: type[SinkBatch]) -> Sequence[T]:
        columns = batch._columns  # noqa: SLF001
        lazy = columns[self._name]
        if lazy is None:
            lazy = [self._empty] * len(batch)
        column: Sequence[T] = lazy() if callable(lazy) else lazy
        columns[self._name] = batch.__dict__[self._name] = column
        return column


class SinkBatch:
    """Records from Kafka in the order to write them, as columns.

    Columns are made when first asked for: a connector that writes values alone never pays for
    keys. Iterating yields `SinkRecord`s. Within a topic partition, offsets grow; with
    transformations that change topics, this is true of the original ones.

    Each argument is a sequence, or a function without arguments that returns one.
    """

    values = _LazyColumn[Any]()
    """The values, as the value converter made them."""
    keys = _LazyColumn[Any]()
    """The keys, as the key converter made them."""
    topics = _LazyColumn[str]()
    """The topic of each record."""
    partitions = _LazyColumn[int]()
    """The partition of each record."""
    offsets = _LazyColumn[int]()
    """The offset of each record."""
    timestamps = _LazyColumn[int | None]()
    """The timestamp of each record, in epoch milliseconds."""
    headers = _LazyColumn[Headers](())
    """The headers of each record."""
    value_schemas = _LazyColumn[Schema | None]()
    """The schema of each value."""
    key_schemas = _LazyColumn[Schema | None]()
    """The schema of each key."""
    consumed = _LazyColumn[Any]()
    """The message of each record; None for records that were not read from Kafka."""

    def __init__(
        self,
        values: Lazy[Any],
        *,
        topics: Lazy[str],
        partitions: Lazy[int],
        offsets: Lazy[int],
        keys: Lazy[Any] | None = None,
        timestamps: Lazy[int | None] | None = None,
        headers: Lazy[Headers] | None = None,
        value_schemas: Lazy[Schema | None] | None = None,
        key_schemas: Lazy[Schema | None] | None = None,
        consumed: Lazy[Any] | None = None,
        size: int | None = None,
    ) -> None:
        self._columns: dict[str, Any] = {
            "values": values,
            "topics": topics,
            "partitions": partitions,
            "offsets": offsets,
            "keys": keys,
            "timestamps": timestamps,
            "headers": headers,
            "value_schemas": value_schemas,
            "key_schemas": key_schemas,
            "consumed": consumed,
        }
        self._records: Sequence[SinkRecord] | None = None
        self._size = len(self.values) if size is None else size

    @classmethod
    def of(cls, records: Sequence[SinkRecord]) -> SinkBatch:
        """Returns a batch of these records. Iterating yields them themselves."""

        def column(name: str) -> Callable[[], list[Any]]:
            return lambda: [getattr(record, name) for record in records]

        batch = cls(**{name: column(of) for name, of in _COLUMNS.items()}, size=len(records))
        batch._records = records
        return batch

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[SinkRecord]:
        if self._records is not None:
            yield from self._records
            return
        columns = (getattr(self, name) for name in _COLUMNS)
        for row in zip(*columns, strict=True):
            yield SinkRecord(*row)


def record_text(record: SourceRecord | SinkRecord) -> str:
    """Returns `ConnectRecord.toString()`, with that of a sink or source record before it."""
    headers = ", ".join(
        f"ConnectHeader(key={h.key}, value={java_text(h.value)}, schema={java_text(h.schema)})"
        for h in record.headers
    )
    # Java makes no list for a record without headers
    headers = f"[{headers}]" if headers else ""
    common = (
        f"ConnectRecord{{topic='{record.topic}', kafkaPartition={java_text(record.partition)},"
        f" key={java_text(record.key)}, keySchema={java_text(record.key_schema)},"
        f" value={java_text(record.value)}, valueSchema={java_text(record.value_schema)},"
        f" timestamp={java_text(record.timestamp)}, headers=ConnectHeaders(headers={headers})}}"
    )
    if isinstance(record, SinkRecord):
        kind = "NoTimestampType" if record.timestamp is None else "CreateTime"
        return (
            f"SinkRecord{{kafkaOffset={record.offset}, timestampType={kind},"
            f" originalTopic={record.original_topic},"
            f" originalKafkaPartition={record.original_partition},"
            f" originalKafkaOffset={record.original_offset}}} {common}"
        )
    partition, offset = java_text(record.source_partition), java_text(record.source_offset)
    return f"SourceRecord{{sourcePartition={partition}, sourceOffset={offset}}} {common}"
