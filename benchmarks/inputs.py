"""The records that workloads read: lines of a file for sources, messages of a topic for sinks.

Each input is made once, when first asked for, and read by both workers in every round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from benchmarks.topics import admin_client, make_topic

_PATIENCE_S: Final = 120.0
_PRODUCED: Final = 10_000
_ROUND: Final = 1000
_FIELDS: Final = (
    '{"type":"int64","optional":false,"field":"id"},'
    '{"type":"string","optional":false,"field":"name"},'
    '{"type":"string","optional":true,"field":"card"},'
    '{"type":"double","optional":false,"field":"amount"},'
    '{"type":"boolean","optional":false,"field":"active"},'
    '{"type":"string","optional":true,"field":"city"}'
)
_SCHEMA: Final = f'{{"type":"struct","fields":[{_FIELDS}],"optional":false,"name":"customer"}}'


@dataclass(frozen=True, slots=True)
class Input:
    """`count` records; `value` returns the value of each by its number."""

    name: str
    count: int
    value: Callable[[int], bytes | None]

    def scaled(self, by: float) -> Input:
        """Returns this input with so many times its records, in whole thousands."""
        return Input(self.name, max(_ROUND, round(self.count * by / _ROUND) * _ROUND), self.value)


def _lines(size: int) -> Callable[[int], bytes]:
    """Numbered texts that are lines of `size` bytes, the line end included."""
    padding = "x" * (size - 11)
    return lambda number: b"%09d %b" % (number, padding.encode())


def _customer(number: int) -> bytes:
    return (
        f'{{"id":{100_000_000 + number},"name":"customer {number:08}","card":"4711-{number:08}",'
        f'"amount":{number % 1000}.5,"active":{"true" if number % 2 else "false"},'
        '"city":"Kaiserslautern"}'
    ).encode()


def customer_with_schema(number: int) -> bytes:
    """Returns a customer as JSON with its schema."""
    return f'{{"schema":{_SCHEMA},"payload":{_customer(number).decode()}}}'.encode()


LINES: Final = Input("lines", 2_000_000, _lines(100))
FEWER_LINES: Final = Input("fewer-lines", 500_000, _lines(100))
LINES_1K: Final = Input("lines-1k", 200_000, _lines(1_000))
LINES_10K: Final = Input("lines-10k", 30_000, _lines(10_000))
# as many that the task's start is a small part of what a sink does
MORE_LINES_10K: Final = Input("more-lines-10k", 150_000, _lines(10_000))
CUSTOMERS: Final = Input("customers", 800_000, _customer)
CUSTOMERS_WITH_SCHEMAS: Final = Input("customers-with-schemas", 300_000, customer_with_schema)
# of a hundred records: one that is no JSON, ten that are tombstones
CUSTOMERS_WITH_ERRORS: Final = Input(
    "customers-with-errors", 400_000, lambda n: b"{broken" if n % 100 == 50 else _customer(n)
)
LINES_WITH_TOMBSTONES: Final = Input(
    "lines-with-tombstones", 1_000_000, lambda n: None if n % 10 == 5 else _lines(100)(n)
)


class Inputs:
    """Makes files in `folder` and topics on a broker."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self._folder = folder
        self._bootstrap = bootstrap

    def file(self, records: Input) -> Path:
        """Returns the file with these records as lines."""
        file = self._folder / f"{records.name}.txt"
        if not file.exists():
            with file.open("wb") as out:
                out.writelines(b"%b\n" % value for value in _values(records))
        return file

    def topic(self, records: Input) -> str:
        """Returns the topic with these records; it has one partition."""
        topic = f"input-{records.name}"
        if topic not in admin_client(self._bootstrap).list_topics(timeout=30).topics:
            self._produce(topic, records)
        return topic

    def _produce(self, topic: str, records: Input) -> None:
        make_topic(self._bootstrap, topic)
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 20})
        batch = []
        for value in _values(records):
            batch.append({"value": value})
            if len(batch) == _PRODUCED:
                producer.produce_batch(topic, batch)
                producer.flush(_PATIENCE_S)
                batch = []
        producer.produce_batch(topic, batch)
        if producer.flush(_PATIENCE_S):
            raise RuntimeError(f"{topic} was not filled in {_PATIENCE_S:.0f} s")


def _values(records: Input) -> Iterator[bytes | None]:
    return map(records.value, range(records.count))
