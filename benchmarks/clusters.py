"""The parts of the benchmark about clusters: lives of many connectors, a large project, starts and
an idle leader. Each returns its section of the page, and whether its goals are reached."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Final

from benchmarks import leader, worker
from benchmarks.lives import fill_offsets, life_of_many
from benchmarks.lives import starts as measured_starts
from benchmarks.project import Project

# what it is, and the highest ratio of our time to Apache's
_LIVES: Final = {
    "running": ("created, all running", 0.8),
    "stop": ("stopped", 0.2),
    "reset": ("offsets reset", 0.2),
    "delete": ("deleted", 0.2),
}
_CHANGED: Final = 20
_STARTS: Final = 64
# connectors of an idle leader, and the share of a core that it may take, in per cent
_IDLE: Final = {100: 2.0, 2000: 10.0}


def lives(folder: Path, bootstrap: str, options: argparse.Namespace) -> tuple[str, bool]:
    """A hundred connectors through their lives, once on each worker."""
    found = {}
    for label in ("apache", "ours"):
        place = folder / f"lives-{label}"
        running = worker.start(label, place, bootstrap, f"lives-{label}")
        try:
            found[label] = life_of_many(running, place, options.connectors, f"many-{label}")
        finally:
            running.close()
            shutil.rmtree(place, ignore_errors=True)
        for name, value in found[label].items():
            print(f"{label:6}  {name:8} {value:8.1f} s", flush=True)
    lines = [
        "## Many connectors\n",
        f"{options.connectors} file sources, in seconds from the first request until the last "
        "connector is done, measured once:\n",
        "| connectors | Apache, s | connect, s | ratio | goal |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    reached = True
    for name, (what, goal) in _LIVES.items():
        apache, ours = found["apache"][name], found["ours"][name]
        reached &= ours / apache <= goal
        lines.append(f"| {what} | {apache:.1f} | {ours:.1f} | {ours / apache:.2f} | ≤ {goal} |")
    return "\n".join(lines), reached


def project(folder: Path, bootstrap: str, options: argparse.Namespace) -> tuple[str, bool]:
    """A project of a thousand connectors, some of them changed."""
    large = Project(folder / "large", bootstrap, options.large, _CHANGED)
    try:
        created = large.start()
        large.change(101)
        read, plan, apply = large.read(), large.plan(), large.apply()
    finally:
        large.stop()
    most = 2 * read + 2
    lines = (
        f"A project of {options.large:,} connectors, {_CHANGED} of them changed:\n",
        "| what | s | goal |",
        "| --- | ---: | ---: |",
        f"| reading its topics with librdkafka alone | {read:.2f} | |",
        f"| `connect plan` | {plan:.2f} | ≤ {most:.2f}, twice that plus 2 s |",
        f"| `connect apply` of the {_CHANGED}, until they are healthy | {apply:.2f} | < 10 |",
        f"| the first apply, which creates all | {created:.2f} | |",
    )
    return "\n".join(lines), plan <= most and apply < 10


def starts(folder: Path, bootstrap: str, options: argparse.Namespace) -> tuple[str, bool]:
    """Many tasks start beside other connectors' offsets. Ours alone: a request to Apache's worker
    takes more than two minutes then."""
    place = folder / "starts"
    fill_offsets(bootstrap, "starts-offsets", options.offsets)
    running = worker.start("ours", place, bootstrap, "starts")
    try:
        took, used = measured_starts(running, place, _STARTS, "starts-many")
    finally:
        running.close()
        shutil.rmtree(place, ignore_errors=True)
    text = (
        f"{_STARTS} source tasks start, with {options.offsets:,} records of other connectors in "
        f"the offsets topic: all are running after {took:.1f} s and {used:.1f} s of CPU."
    )
    return text, True


def idle(folder: Path, bootstrap: str, options: argparse.Namespace) -> tuple[str, bool]:
    """What a leader costs whose connectors do nothing."""
    found = {n: leader.measured(bootstrap, n) for n in _IDLE}
    lines = (
        "CPU of an idle leader, without REST and Spark:\n",
        "| connectors | % of a core | goal |",
        "| ---: | ---: | ---: |",
        *(f"| {n:,} | {share:.1f} | < {_IDLE[n]:.0f} |" for n, share in found.items()),
    )
    return "\n".join(lines), all(share < _IDLE[n] for n, share in found.items())
