"""Measures workloads in rounds: Apache's worker, ours and Kafka's own test right after each other,
so that each pair saw the same machine. Ratios are medians of the pairs' ratios."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks import kafka_tools, worker
from benchmarks.inputs import Inputs
from benchmarks.transfers import Measured, measure
from benchmarks.worker import Worker
from benchmarks.workloads import Workload

SIDES: Final = ("apache", "ours")


@dataclass(slots=True)
class Compared:
    """What the rounds of one workload found; `problem` is why it could not be measured further."""

    workload: Workload
    apache: list[Measured] = field(default_factory=list)
    ours: list[Measured] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    problem: str = ""

    @property
    def ratio(self) -> float:
        """Our rate as a multiple of Apache's."""
        return _median_ratio([m.rate for m in self.ours], [m.rate for m in self.apache])

    @property
    def cpu_ratio(self) -> float:
        """Our CPU time for a record as a multiple of Apache's."""
        return _median_ratio([m.cpu_s for m in self.ours], [m.cpu_s for m in self.apache])

    @property
    def limit_ratio(self) -> float:
        """Our rate as a multiple of that of Kafka's own test."""
        return _median_ratio([m.rate for m in self.ours], self.limits)

    @property
    def reached(self) -> bool:
        """Whether all goals are reached."""
        goal, limit = self.workload.ratio, self.workload.limit
        return (
            not self.problem
            and (goal is None or self.ratio >= goal)
            and (limit is None or self.limit_ratio >= limit)
            and self.cpu_ratio <= 1
        )


def compare(
    workloads: Sequence[Workload], rounds: int, folder: Path, bootstrap: str
) -> list[Compared]:
    """Measures all workloads in each round, on one worker of each kind."""
    made = Inputs(folder, bootstrap)
    found = [Compared(workload) for workload in workloads]
    workers = {}
    try:
        for label in SIDES:
            workers[label] = worker.start(label, folder / label, bootstrap, f"records-{label}")
        for number in range(rounds):
            for each in found:
                if not each.problem:
                    _round(each, number, workers, made, folder)
    finally:
        for running in workers.values():
            running.close()
    return found


def _round(
    found: Compared, number: int, workers: dict[str, Worker], made: Inputs, folder: Path
) -> None:
    """Measures each side once; who is first alternates."""
    workload = found.workload
    order = SIDES if number % 2 else SIDES[::-1]
    try:
        once = {}
        for label in order:
            name = f"{workload.name}-{label}-{number}"
            once[label] = measure(workers[label], workload, made, folder, name)
        _check_outputs(workload, once["apache"], once["ours"])
        if workload.limit is not None:
            name = f"{workload.name}-limit-{number}"
            bootstrap = workers["ours"].bootstrap
            found.limits.append(kafka_tools.limit_rate(workload, made, folder, bootstrap, name))
    except Exception as error:  # the others are still measured
        found.problem = str(error)
        print(f"round {number + 1}  {workload.name}: {error}", flush=True)
        return
    found.apache.append(once["apache"])
    found.ours.append(once["ours"])
    apache, ours = once["apache"], once["ours"]
    print(
        f"round {number + 1}  {workload.name:14} {apache.rate:10,.0f} {ours.rate:10,.0f} records/s"
        f"  ratio {ours.rate / apache.rate:5.2f}"
        f"  CPU s/M {apache.cpu_s:6.2f} {ours.cpu_s:6.2f}"
        + (f"  limit {found.limits[-1]:10,.0f}" if workload.limit else ""),
        flush=True,
    )


def _check_outputs(workload: Workload, apache: Measured, ours: Measured) -> None:
    """Raises RuntimeError unless both workers wrote the same."""
    same = apache.output == ours.output
    if not workload.ordered:
        same = apache.output.size == ours.output.size
    if not same:
        raise RuntimeError(f"Apache wrote {apache.output}, connect {ours.output}")
    if apache.dead is not None and apache.dead != ours.dead:
        raise RuntimeError(f"dead letters of Apache: {apache.dead}, of connect: {ours.dead}")


def _median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
