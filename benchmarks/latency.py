"""How long single lines take through a pipeline, and what a source without lines costs.

Lines are appended at a steady rate to the file of an exactly-once file source, and read from the
file of a sink that reads only committed records. An idle source's CPU is that of the worker's
processes with some idle sources, less that without, divided by their number.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from benchmarks import worker as workers
from benchmarks.lives import start_many
from benchmarks.topics import make_topic
from benchmarks.worker import Worker, wait_for
from benchmarks.workloads import SINK, SOURCE
from connect_runtime import KAFKA_VERSION

_RATE = 100
_LINES = 3_000
_IDLE = 20
_IDLE_S = 20.0
_SETTLED_S = 5.0
_LOOK_S = 0.001
_PATIENCE_S = 120.0
# what it is, its unit, and the largest figure that reaches the goal
ROWS = (
    ("p50", "a line's way, median", "ms", 50.0),
    ("p99", "a line's way, 99 of 100", "ms", 150.0),
    ("idle", "CPU of an idle source", "% of a core", 1.0),
)

Latencies = dict[str, dict[str, float]]


def measured(folder: Path, bootstrap: str, rounds: int) -> Latencies:
    """Medians over the rounds, by worker and name."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(rounds):
        for label in ("apache", "ours"):
            group = f"latency-{label}-{number}"
            worker = workers.start(label, folder / group, bootstrap, group)
            try:
                figures = {
                    "idle": _idle_share(worker, folder / group, group),
                    **_Pipeline(worker, bootstrap, folder / group, group).figures(),
                }
            finally:
                worker.close()
                shutil.rmtree(folder / group, ignore_errors=True)
            for name, value in figures.items():
                found[label, name].append(value)
                print(f"round {number + 1}  {label:6}  {name:8} {value:12,.2f}", flush=True)
    medians = {key: statistics.median(values) for key, values in found.items()}
    return {
        label: {name: medians[label, name] for name, *_ in ROWS} for label in ("apache", "ours")
    }


def table(found: Latencies) -> tuple[str, bool]:
    """The table of the page, and whether each goal is reached."""
    lines = [
        "## Latency\n",
        f"{_RATE} lines a second, one by one, through a topic from a file to a file:\n",
        f"| what | unit | Apache {KAFKA_VERSION} | connect | goal |",
        "| --- | --- | ---: | ---: | ---: |",
        *(
            f"| {what} | {unit} | {found['apache'][name]:.{_places(most)}f} "
            f"| {found['ours'][name]:.{_places(most)}f} | ≤ {most:g} |"
            for name, what, unit, most in ROWS
        ),
    ]
    return "\n".join(lines), all(found["ours"][name] <= most for name, _, _, most in ROWS)


def _places(most: float) -> int:
    return 0 if most > 10 else 2


def _idle_share(worker: Worker, folder: Path, prefix: str) -> float:
    """Per cent of one core that one idle source takes."""
    names = [f"{prefix}-idle-{number}" for number in range(_IDLE)]
    start_many(worker, folder, names, f"{prefix}-idle")
    used = _share(worker)
    for name in names:
        worker.call("DELETE", f"/connectors/{name}")
    wait_for(lambda: not worker.statuses(), "the idle sources to be gone", _PATIENCE_S, 0.1)
    return (used - _share(worker)) / _IDLE


def _share(worker: Worker) -> float:
    time.sleep(_SETTLED_S)
    began, before = time.monotonic(), worker.cpu_times()
    time.sleep(_IDLE_S)
    return 100 * worker.cpu_since(before) / (time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """A source, its topic and a sink. Each line is the time at which it was written."""

    worker: Worker
    bootstrap: str
    folder: Path
    name: str

    def figures(self) -> dict[str, float]:
        """Milliseconds from the append to one file to the appearance in the other."""
        make_topic(self.bootstrap, self.name)
        source, sink = self.folder / "in.txt", self.folder / "out.txt"
        source.touch()
        sink.touch()
        self._start(f"{self.name}-source", SOURCE, file=str(source), topic=self.name)
        self._start(
            f"{self.name}-sink",
            SINK,
            file=str(sink),
            topics=self.name,
            **{"consumer.override.isolation.level": "read_committed"},
        )
        _ways(source, sink, _RATE)  # the first ones wait for the connectors' starts
        ways = sorted(_ways(source, sink, _LINES))
        return {
            "p50": ways[len(ways) // 2] * 1000,
            "p99": ways[len(ways) * 99 // 100] * 1000,
        }

    def _start(self, name: str, plugin: str, **config: str) -> None:
        body = {"connector.class": plugin, "tasks.max": "1", **config}
        self.worker.call("POST", "/connectors", {"name": name, "config": body})


def _ways(source: Path, sink: Path, count: int) -> list[float]:
    """Seconds that each of `count` new lines took from the end of one file to that of the other."""
    ways: list[float] = []
    with source.open("ab", buffering=0) as to, sink.open("rb", buffering=0) as back:
        back.seek(0, os.SEEK_END)
        began, written, rest = time.monotonic(), 0, b""
        while len(ways) < count:
            if written < count and time.monotonic() >= began + written / _RATE:
                to.write(b"%d\n" % time.monotonic_ns())
                written += 1
            *lines, rest = (rest + back.read()).split(b"\n")
            now = time.monotonic_ns()
            ways += [(now - int(line)) / 1e9 for line in lines]
            if time.monotonic() > began + count / _RATE + _PATIENCE_S:
                raise RuntimeError(f"{len(ways)} of {count} lines came")
            time.sleep(_LOOK_S)
    return ways
