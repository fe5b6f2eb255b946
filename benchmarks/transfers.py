"""Runs one workload on one worker: how many records a second, and what they cost in CPU time.

A source's rate is taken from the times at which Kafka appended its records, a sink's from the
growth of its file. What was written is counted, in records and in bytes.
"""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.inputs import Inputs
from benchmarks.topics import (
    Output,
    delete_topic,
    make_topic,
    read_topic,
    wait_for_records,
)
from benchmarks.worker import Worker
from benchmarks.workloads import SINK, SOURCE, Workload

_PATIENCE_S: Final = 300.0
_LOOK_S: Final = 0.002
_SETTLED_S: Final = 0.3
_BLOCK: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Whole:
    """Rate and CPU as in `Measured`, with the records that the worker was warmed up with."""

    rate: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """`rate` in records a second; `cpu_s` are seconds of CPU of the worker's processes for a
    million records, from the request that creates the connector to the last record."""

    rate: float
    cpu_s: float
    output: Output
    dead: Output | None = None
    whole: Whole | None = None


def measure(worker: Worker, workload: Workload, made: Inputs, folder: Path, name: str) -> Measured:
    """Runs a connector of this name until all records are written, then deletes it. Raises
    RuntimeError if it fails, or writes too few or too many records."""
    run = _source if workload.kind == "source" else _sink
    return run(worker, workload, made, folder, name)


def _source(worker: Worker, workload: Workload, made: Inputs, folder: Path, name: str) -> Measured:
    bootstrap, count = worker.bootstrap, workload.records.count
    target = f"{name}{workload.routed}"
    file = made.file(workload.records)
    make_topic(bootstrap, target)
    own = {"connector.class": SOURCE, "file": str(file), "topic": name, "tasks.max": "1"}
    try:
        before = _create(worker, name, own | dict(workload.config))
        wait_for_records(bootstrap, target, count)
        arrived = read_topic(bootstrap, target, count)
        used = worker.cpu_since(before)
    finally:
        worker.call("DELETE", f"/connectors/{name}")
        delete_topic(bootstrap, target)
    _check(workload, "records", arrived.output.count, count)
    return Measured(count / arrived.took_s, used * 1e6 / count, arrived.output)


def _sink(worker: Worker, workload: Workload, made: Inputs, folder: Path, name: str) -> Measured:
    count = workload.records.count
    file, letters = folder / f"{name}.txt", f"{name}-dead"
    own = {
        "connector.class": SINK,
        "file": str(file),
        "topics": made.topic(workload.records),
        "tasks.max": "1",
        "consumer.override.isolation.level": "read_committed",
    }
    if workload.dead:
        own["errors.deadletterqueue.topic.name"] = letters
    lines = count * workload.kept // 100
    dead = None
    try:
        before = _create(worker, name, own | dict(workload.config))
        took_s, share, output = _grown(file, lines)
        if workload.dead:
            dead = read_topic(worker.bootstrap, letters, count * workload.dead // 100).output
        used = worker.cpu_since(before)
    finally:
        worker.call("DELETE", f"/connectors/{name}")
        file.unlink(missing_ok=True)
    _check(workload, "lines", output.count, lines)
    if dead is not None:
        _check(workload, "dead letters", dead.count, count * workload.dead // 100)
    return Measured(count * share / took_s, used * 1e6 / count, output, dead)


def _create(worker: Worker, name: str, config: dict[str, str]) -> dict[int, float]:
    before = worker.cpu_times()
    body: dict[str, Any] = {"name": name, "config": config}
    worker.call("POST", "/connectors", body)
    return before


def _grown(file: Path, lines: int) -> tuple[float, float, Output]:
    """Waits until the file has so many lines. Returns the seconds from its first bytes to its last,
    which share of it they took, and what is in it."""
    deadline = time.monotonic() + _PATIENCE_S
    first = changed = 0.0
    had = size = 0
    output = Output(0, 0, 0)
    while output.count < lines:
        now, found = time.monotonic(), file.stat().st_size if file.exists() else 0
        if found > size:
            if not size:
                first, had = now, found
            changed, size = now, found
        elif size > output.size and now - changed > _SETTLED_S:
            output = _lines_of(file, output)
        if now > deadline:
            raise RuntimeError(f"{file.name}: {output.count} of {lines} lines")
        time.sleep(_LOOK_S)
    return max(changed - first, 0.001), (size - had) / size, output


def _lines_of(file: Path, before: Output) -> Output:
    """Returns what is in a file that was read up to `before`."""
    count, size, checksum = before.count, before.size, before.checksum
    with file.open("rb") as content:
        content.seek(size)
        while block := content.read(_BLOCK):
            count += block.count(b"\n")
            size += len(block)
            checksum = zlib.crc32(block, checksum)
    return Output(count, size, checksum)


def _check(workload: Workload, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise RuntimeError(f"{workload.name}: {found} {what} instead of {expected}")
