"""Writes docs/benchmarks.md: a section for each part of the benchmark."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from typing import Final

from benchmarks import kafka_tools
from benchmarks.comparison import Compared
from benchmarks.stages import STAGES, Profile
from connect_runtime import KAFKA_VERSION

_SOAK: Final = "## Half an hour of faults"


def page(sections: Sequence[str]) -> str:
    """Returns the page."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    head = (
        "# Benchmarks\n\n"
        f"`make bench` writes this page. It runs Apache Kafka Connect {KAFKA_VERSION} and connect "
        "on the same embedded broker, with the same worker file and the same REST requests. "
        '`make bench ARGS="sink-json --rounds 3"` runs one part and writes nothing.\n\n'
        f"Machine: {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, "
        f"Python {platform.python_version()}."
    )
    return "\n\n".join((head, *sections)) + "\n"


def of_soak(text: str) -> str:
    """Returns the section of the page that `make soak` is the source of: it is kept as it is."""
    return text[text.index(_SOAK) :].strip()


def records_section(found: Sequence[Compared], rounds: int) -> str:
    """Rates and CPU times of the workloads."""
    lines = [
        "## Records\n",
        f"One task, {rounds} rounds; in each, both workers run the workload right after each "
        "other. A source's rate is taken from the times at which Kafka appended its records, a "
        "sink's from the first bytes in its file to the last. Both must write the same number of "
        "records and bytes. Rates are medians, ratios are medians of the rounds' ratios. Records "
        "have 100 bytes if nothing else is said; JSON has about 130, and 560 with its schema. CPU "
        "is that of all processes of a worker for a million records, the start of the task "
        "included; the goal is at most Apache's.\n",
        "| workload | Apache, records/s | connect, records/s | ratio | goal | Apache, CPU s "
        "| connect, CPU s | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *map(_row, found),
    ]
    limited = [each for each in found if each.limits and not each.problem]
    if limited:
        lines += [
            "\nAgainst Kafka's own performance tests, in the same rounds:\n",
            "| workload | limit | limit, records/s | connect, records/s | ratio | goal |",
            "| --- | --- | ---: | ---: | ---: | ---: |",
            *map(_limit_row, limited),
        ]
    return "\n".join(lines)


def _row(found: Compared) -> str:
    workload = found.workload
    if found.problem:
        return f"| {workload.what} (`{workload.name}`) | not measured | | | | | | |"
    rates = [statistics.median(m.rate for m in side) for side in (found.apache, found.ours)]
    cpus = [statistics.median(m.cpu_s for m in side) for side in (found.apache, found.ours)]
    goal = "" if workload.ratio is None else f"≥ {workload.ratio}"
    return (
        f"| {workload.what} (`{workload.name}`) | {rates[0]:,.0f} | {rates[1]:,.0f} "
        f"| {found.ratio:.2f} | {goal} | {cpus[0]:.1f} | {cpus[1]:.1f} | {found.cpu_ratio:.2f} |"
    )


def _limit_row(found: Compared) -> str:
    workload = found.workload
    limit = statistics.median(found.limits)
    ours = statistics.median(m.rate for m in found.ours)
    return (
        f"| {workload.what} | {kafka_tools.NAMES[workload.kind]} | {limit:,.0f} | {ours:,.0f} "
        f"| {found.limit_ratio:.2f} | ≥ {workload.limit} |"
    )


def profile_section(found: Sequence[Profile]) -> str:
    """Where the time of a record goes."""
    names = [f"`{each.workload.name}`" for each in found]
    shown = [f"{sum(each.stages.values()):.2f}" for each in found]
    elapsed = [f"{each.elapsed:.2f}" for each in found]
    return "\n".join(
        (
            "## Where the time of a record goes\n",
            "Microseconds of CPU for a record, in the parts of one of our tasks. They run in a "
            "process without Spark, once, with the task's own loop. The threads of librdkafka work "
            "beside that of the task, so with a free core only the longer of the two counts.\n",
            f"| part | {' | '.join(names)} |",
            f"| --- |{' ---: |' * len(found)}",
            *(
                f"| {stage} | " + " | ".join(f"{e.stages[stage]:.2f}" for e in found) + " |"
                for stage in STAGES
            ),
            f"| all | {' | '.join(shown)} |",
            f"| elapsed | {' | '.join(elapsed)} |",
        )
    )
