"""`make bench`: three rounds, Apache and ours in turn, medians and ratios into docs/benchmarks.md.

python -m benchmarks [--rounds N] [--lines N] [--connectors N] [--large N] [--offsets N]
                     [--no-write]
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks import latency, leader, workloads
from benchmarks import worker as workers
from benchmarks.project import Project
from connect_runtime.kafka.embedded import EmbeddedBroker

# name, what it is, unit, whether more is better, the ratio to reach (ours to Apache's)
ROWS = (
    ("source", "exactly-once file source", "records/s", True, 5.0),
    ("sink", "file sink", "records/s", True, 1.9),
    ("running", "{n} connectors created, all running", "s", False, 0.8),
    ("stop", "{n} connectors stopped", "s", False, 0.2),
    ("reset", "{n} connectors' offsets reset", "s", False, 0.2),
    ("delete", "{n} connectors deleted", "s", False, 0.2),
)

_CHANGED = 20
_STARTS = 64
# Connectors of an idle leader, and the share of a core that it may take, in per cent
_IDLE = {100: 2.0, 2000: 10.0}

Figures = dict[tuple[str, str], list[float]]


def main() -> int:
    """Runs all rounds; 0 when every ratio is reached, else 1."""
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--connectors", type=int, default=100)
    parser.add_argument("--large", type=int, default=1000)
    parser.add_argument("--offsets", type=int, default=1_000_000)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="connect-bench-"))
    broker = EmbeddedBroker.start(folder / "broker")
    figures: Figures = defaultdict(list)
    try:
        lines = folder / "lines.txt"
        workloads.write_lines(lines, options.lines)
        for number in range(options.rounds):
            for label in ("apache", "ours"):
                _round(label, number, folder, broker.bootstrap_servers, options, figures)
        large = _large(folder / "large", broker.bootstrap_servers, options)
        starts = _starts(folder, broker.bootstrap_servers, options)
        latencies = latency.measured(folder, broker.bootstrap_servers, options.rounds)
        idle = {n: leader.measured(broker.bootstrap_servers, n) for n in _IDLE}
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    table, reached = _table(figures, options.connectors)
    second, also_reached = _large_table(large, options.large)
    third, kept = _runtime_table(starts, idle, options)
    fourth, quick = latency.table(latencies)
    table = "\n\n".join((table, fourth, second, third))
    reached = reached and quick and also_reached and kept
    print(table)
    if not options.no_write:
        Path("docs/benchmarks.md").write_text(_page(table, options))
    return 0 if reached else 1


def _round(
    label: str,
    number: int,
    folder: Path,
    bootstrap: str,
    options: argparse.Namespace,
    figures: Figures,
) -> None:
    group = f"{label}-{number}"
    place = folder / group
    worker = workers.start(label, place, bootstrap, group)
    try:
        topic = f"{group}-lines"
        found = {
            "source": workloads.source_rate(
                worker, bootstrap, folder / "lines.txt", options.lines, topic
            )
        }
        found["sink"] = workloads.sink_rate(
            worker, topic, options.lines, f"{group}-sink", place / "sink.txt"
        )
        found |= workloads.life_of_many(worker, place, options.connectors, f"{group}-many")
    finally:
        worker.close()
        shutil.rmtree(place, ignore_errors=True)
    for name, value in found.items():
        figures[label, name].append(value)
        print(f"round {number + 1}  {label:6}  {name:8} {value:12,.2f}", flush=True)


def _large(folder: Path, bootstrap: str, options: argparse.Namespace) -> dict[str, float]:
    """Medians over the rounds; the first apply is done once."""
    project = Project(folder, bootstrap, options.large, _CHANGED)
    found: dict[str, list[float]] = defaultdict(list)
    try:
        found["create"].append(project.start())
        for number in range(options.rounds):
            project.change(101 + number)
            for name, measure in (
                ("read", project.read),
                ("plan", project.plan),
                ("apply", project.apply),
            ):
                found[name].append(measure())
                print(f"round {number + 1}  large   {name:8} {found[name][-1]:12,.2f}", flush=True)
    finally:
        project.stop()
    return {name: statistics.median(values) for name, values in found.items()}


def _starts(folder: Path, bootstrap: str, options: argparse.Namespace) -> tuple[float, float]:
    """Medians of seconds until all tasks run, and of seconds of CPU that the worker took. Ours
    alone: a request to Apache's worker takes more than two minutes then."""
    found: list[tuple[float, float]] = []
    for number in range(options.rounds):
        group = f"starts-{number}"
        workloads.fill_offsets(bootstrap, f"{group}-offsets", options.offsets)
        worker = workers.start("ours", folder / group, bootstrap, group)
        try:
            found.append(workloads.starts(worker, folder / group, _STARTS, f"{group}-many"))
        finally:
            worker.close()
            shutil.rmtree(folder / group, ignore_errors=True)
        print(f"round {number + 1}  ours    starts   {found[-1][0]:12,.2f}", flush=True)
    return statistics.median(t for t, _ in found), statistics.median(c for _, c in found)


def _runtime_table(
    starts: tuple[float, float], idle: dict[int, float], options: argparse.Namespace
) -> tuple[str, bool]:
    took, used = starts
    lines = [
        f"{_STARTS} source tasks start, with {options.offsets:,} records of other connectors in "
        f"the offsets topic: all are running after {took:.1f} s and {used:.1f} s of CPU.\n",
        "CPU of an idle leader, without REST and Spark:\n",
        "| connectors | % of a core | goal |",
        "| ---: | ---: | ---: |",
        *(f"| {n:,} | {share:.1f} | < {_IDLE[n]:.0f} |" for n, share in idle.items()),
    ]
    return "\n".join(lines), all(share < _IDLE[n] for n, share in idle.items())


def _large_table(found: dict[str, float], connectors: int) -> tuple[str, bool]:
    most = 2 * found["read"] + 2
    lines = (
        f"A project of {connectors:,} connectors, {_CHANGED} of them changed:\n",
        "| what | s | goal |",
        "| --- | ---: | ---: |",
        f"| reading its topics with librdkafka alone | {found['read']:.2f} | |",
        f"| `connect plan` | {found['plan']:.2f} | ≤ {most:.2f}, twice that plus 2 s |",
        f"| `connect apply` of the {_CHANGED}, until they are healthy | {found['apply']:.2f} "
        "| < 10 |",
        f"| the first apply, which creates all | {found['create']:.2f} | |",
    )
    return "\n".join(lines), found["plan"] <= most and found["apply"] < 10


def _table(figures: Figures, connectors: int) -> tuple[str, bool]:
    out = [
        "| what | unit | Apache 4.1.0 | connect | ratio | goal |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    reached = True
    for name, what, unit, more, goal in ROWS:
        apache = statistics.median(figures["apache", name])
        ours = statistics.median(figures["ours", name])
        ratio = ours / apache
        reached &= ratio >= goal if more else ratio <= goal
        shown = (f"{apache:,.0f}", f"{ours:,.0f}") if more else (f"{apache:.1f}", f"{ours:.1f}")
        sign = "≥" if more else "≤"
        out.append(
            f"| {what.format(n=connectors)} | {unit} | {shown[0]} | {shown[1]} "
            f"| {ratio:.2f} | {sign} {goal} |"
        )
    return "\n".join(out), reached


def _page(table: str, options: argparse.Namespace) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        "# Benchmarks\n\n"
        "`make bench` writes this page. It runs Apache Kafka Connect and connect in turn, on the "
        "same embedded broker, with the same worker file and the same REST requests. Figures are "
        f"medians of {options.rounds} rounds with {options.lines:,} lines of {workloads.LINE} "
        "bytes.\n\n"
        f"Machine: {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()}, "
        f"Python {platform.python_version()}.\n\n{table}\n\n"
        "A source's rate is measured from the first record in the topic to the last, a sink's from "
        "the first bytes in the file to the last. Times run from the first request until the last "
        "connector is done.\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
