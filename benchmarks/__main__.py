"""`make bench`: measures all parts, and writes docs/benchmarks.md.

python -m benchmarks [PART…] [--rounds N] [--scale X] [--connectors N] [--large N] [--offsets N]
                     [--no-write]

A part is `records`, `profile`, `latency`, `rest`, `lives`, `project`, `starts`, `idle`,
`density`, `java` or `java-tasks`, or the name of one workload.
The page is written only if all of them run. Exits with 0 if every goal is reached.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks import clusters, density, latency, page, requests, stages, worker
from benchmarks.comparison import compare
from benchmarks.java_records import java_records
from benchmarks.java_tasks import java_tasks
from benchmarks.java_transfers import WORKS
from benchmarks.workloads import WORKLOADS, Workload
from connect_runtime.kafka.embedded import EmbeddedBroker

# text for the page, and whether all goals are reached
Part = Callable[[Path, str, argparse.Namespace], tuple[str, bool]]


def main() -> int:
    """Runs the parts that were asked for, all by default."""
    options = _options()
    chosen = set(options.parts)
    folder = Path(tempfile.mkdtemp(prefix="connect-bench-"))
    broker = EmbeddedBroker.start(folder / "broker")
    sections, reached, began = [], True, time.monotonic()
    try:
        for name, part in _PARTS.items():
            if chosen and not chosen & ({name} | _WORKLOADS_OF.get(name, set())):
                continue
            try:
                text, fine = part(folder, broker.bootstrap_servers, options)
            except Exception as error:
                text, fine = f"The part `{name}` failed: {error}", False
            sections.append(text)
            reached &= fine
            print(f"{text}\n\n{name}: {time.monotonic() - began:.0f} s so far\n", flush=True)
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    # the page compares workers of one machine
    if not chosen and not options.no_write and options.master is None:
        file = Path("docs/benchmarks.md")
        file.write_text(page.page([*sections, page.of_soak(file.read_text())]))
    return 0 if reached else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join((*_PARTS, *_NAMES)))
    parser.add_argument("--rounds", type=int, default=5, help="of each workload with records")
    parser.add_argument("--scale", type=float, default=1.0, help="times the records")
    parser.add_argument("--connectors", type=int, default=100)
    parser.add_argument("--large", type=int, default=1000)
    parser.add_argument("--offsets", type=int, default=1_000_000)
    parser.add_argument("--no-write", action="store_true")
    parser.add_argument("--master", metavar="URL", help="a Spark cluster for connect's workers")
    options = parser.parse_args()
    worker.run_on(options.master)
    unknown = set(options.parts) - {*_PARTS, *_NAMES}
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return options


def _records(folder: Path, bootstrap: str, options: argparse.Namespace) -> tuple[str, bool]:
    named = _WORKLOADS_OF["records"].intersection(options.parts)
    chosen = [_scaled(w, options.scale) for w in WORKLOADS if not named or w.name in named]
    found = compare(chosen, options.rounds, folder, bootstrap)
    return page.records_section(found, options.rounds), all(each.reached for each in found)


def _scaled(workload: Workload, by: float) -> Workload:
    return replace(workload, records=workload.records.scaled(by))


def _profile(folder: Path, bootstrap: str, options: argparse.Namespace) -> tuple[str, bool]:
    chosen = [_scaled(w, options.scale) for w in WORKLOADS if w.name in stages.PROFILED]
    return page.profile_section(stages.profiles(chosen, folder, bootstrap)), True


def _latency(folder: Path, bootstrap: str, options: argparse.Namespace) -> tuple[str, bool]:
    return latency.table(latency.measured(folder, bootstrap, 1))


_WORKLOADS_OF = {
    "records": {workload.name for workload in WORKLOADS},
    "java": {work.name for work in WORKS},
}
_NAMES = set().union(*_WORKLOADS_OF.values())
_PARTS: dict[str, Part] = {
    "records": _records,
    "profile": _profile,
    "latency": _latency,
    "rest": requests.requests,
    "lives": clusters.lives,
    "project": clusters.project,
    "starts": clusters.starts,
    "idle": clusters.idle,
    "density": density.density,
    "java": java_records,
    "java-tasks": java_tasks,
}


if __name__ == "__main__":
    raise SystemExit(main())
