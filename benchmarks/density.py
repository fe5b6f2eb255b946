"""A thousand connectors with one task each on one machine: how soon all run, how long a dashboard's
request for all of them takes, and what they cost while they are idle, in CPU and in memory (PSS:
shared pages count once)."""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import worker
from benchmarks.lives import start_many
from benchmarks.requests import timed
from benchmarks.worker import Worker

_RUNNING_S: Final = 60.0
_EXPANDED_S: Final = 0.3
_EXPANDED: Final = "/connectors?expand=status&expand=info"
_CPU_PER_CENT: Final = 20.0
_TASK_MB: Final = 10.0
# sources that are silent for 30 s end their producers
_SETTLED_S: Final = 150.0
_MEASURED_S: Final = 60.0
_DAEMON: Final = "connect_runtime.spark.daemon"
_PARENT, _GROUP = 1, 2  # among the fields that follow the command's name


def density(folder: Path, bootstrap: str, options: argparse.Namespace) -> tuple[str, bool]:
    """The section of the page, and whether its goals are reached."""
    count = options.large
    place = folder / "density"
    running = worker.start("ours", place, bootstrap, "density", slots=count)
    try:
        names = [f"dense-{number}" for number in range(count)]
        # asking for a thousand statuses takes CPU from what starts
        took = start_many(running, place, names, "dense", look_every_s=1.0)
        print(f"all running after {took:.1f} s", flush=True)
        time.sleep(_SETTLED_S)
        expanded = median(timed(running, "GET", _EXPANDED) for _ in range(5))
        tasks = _tasks(running)
        before, began = running.cpu_times(), time.monotonic()
        time.sleep(_MEASURED_S)
        after, lasted = running.cpu_times(), time.monotonic() - began
        used = {n: 100 * (after[n] - before[n]) / lasted for n in after.keys() & before.keys()}
        memory = {number: mb for number in after if (mb := pss_mb(number)) is not None}
    finally:
        running.close()
        shutil.rmtree(place, ignore_errors=True)
    share, each = sum(used.values()), median(memory[n] for n in tasks & memory.keys())
    of_tasks = sum(used.get(number, 0.0) for number in tasks)
    all_tasks = sum(memory.get(number, 0.0) for number in tasks)
    lines = (
        "## Density\n",
        f"{count:,} file sources with one task each on one worker:\n",
        "| what | measured | goal |",
        "| --- | ---: | ---: |",
        f"| all running, seconds after the first request | {took:.1f} | ≤ {_RUNNING_S:.0f} |",
        f"| `GET {_EXPANDED}`, seconds | {expanded:.3f} | < {_EXPANDED_S} |",
        f"| CPU of all but the broker while idle, % of a core | {share:.1f} "
        f"| < {_CPU_PER_CENT:.0f} |",
        f"| of it the tasks' processes | {of_tasks:.1f} | |",
        f"| memory of an idle task, MB (PSS) | {each:.1f} | ≤ {_TASK_MB:.0f} |",
        f"| memory of all tasks, MB (PSS) | {all_tasks:.0f} | |",
        f"| memory of the leader and Spark, MB (PSS) | {sum(memory.values()) - all_tasks:.0f} | |",
    )
    reached = took <= _RUNNING_S and expanded < _EXPANDED_S
    return "\n".join(lines), reached and share < _CPU_PER_CENT and each <= _TASK_MB


def _tasks(running: Worker) -> set[int]:
    """The processes of tasks: forked by Spark's daemon, each in a group of its own."""
    found = running.cpu_times()
    python = {n for n in found if _DAEMON in Path(f"/proc/{n}/cmdline").read_text()}
    return {n for n in python if _stat(n, _GROUP) == n and _stat(n, _PARENT) in python}


def _stat(number: int, field: int) -> int:
    return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[field])


def pss_mb(number: int) -> float | None:
    """Returns the memory of a process, shared pages divided; None if it has ended."""
    try:
        lines = Path(f"/proc/{number}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))
