"""`make soak`: connectors under load for half an hour, with a random fault every 20 seconds.

python -m support.soak [--minutes N] [--pairs N] [--every S] [--seed N] [--cluster] [--report FILE]
python -m support.soak --java [--jvm node|own] [--minutes N] [--every S] [--seed N] [--report FILE]

Each fault is one line. The summary is JSON: no line may be lost, none may be in a topic twice, and
the memory of the leader and of a task at the end must be within 10 % of what it was after the first
quarter. Exits with 0 if all that holds; else the folder with its logs stays. Linux only.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from support import faults
from support.faults import Happens
from support.java_soak import java_holds, java_soak
from support.lines import account, once
from support.processes import frozen, pss_mb
from support.rig import committed_lines
from support.spark_cluster import spark_cluster
from support.wait import wait_until
from support.world import Pair, World, new_world

_LASTS_S: Final = 6.0
_BACK_S: Final = 120.0
_DELIVERED_S: Final = 180.0
_SAMPLE_S: Final = 5.0
_FLAT: Final = 0.10
# 100 lines a second for each pair
_LINES_EVERY_S: Final = 1.0


@contextmanager
def _source_frozen(world: World) -> Iterator[None]:
    with frozen([world.task_of(world.subject.source)]):
        yield


@contextmanager
def _paused(world: World) -> Iterator[None]:
    for name in (world.subject.source, world.subject.sink):
        world.ask("PUT", f"/connectors/{name}/pause")
    yield
    for name in (world.subject.source, world.subject.sink):
        world.ask("PUT", f"/connectors/{name}/resume")


@contextmanager
def _config_changed(world: World) -> Iterator[None]:
    pair = world.subject
    pair.deliver_to(world.rig.folder / f"{pair.name}-{len(pair.files)}.out")
    yield


@contextmanager
def _restarted(world: World) -> Iterator[None]:
    for name in (world.subject.source, world.subject.sink):
        world.ask("POST", f"/connectors/{name}/restart?includeTasks=true")
    yield


FAULTS: Final[dict[str, Happens]] = {
    "source-killed": faults.task_killed(lambda pair: pair.source),
    "sink-killed": faults.task_killed(lambda pair: pair.sink),
    "source-frozen": _source_frozen,
    "sink-frozen": faults.sink_frozen,
    "jvm-killed": faults.jvm_killed,
    "broker-restarted": faults.broker_killed,
    "paused-and-resumed": _paused,
    "config-changed": _config_changed,
    "restarted": _restarted,
}


@dataclass(slots=True)
class Memory:
    """PSS in MB, sampled on a thread: of the leader's Python, and of the median task."""

    world: World
    samples: list[tuple[float, float]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def sampled(self) -> Iterator[None]:
        thread = threading.Thread(target=self._sample, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()

    def _sample(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            leader = next((each for each in self.world.running if each.leads), None)
            if leader is None:
                continue
            with suppress(OSError, IndexError):
                tasks = [mb for each in self.world.tasks if (mb := pss_mb(each))]
                driver = pss_mb(leader.processes[0])
                if tasks and driver:
                    self.samples.append((driver, median(tasks)))

    def figures(self) -> dict[str, Any]:
        """What was taken after the first quarter of the time and in the last, and the growth."""
        quarter = max(1, len(self.samples) // 4)
        after, end = self.samples[quarter : 2 * quarter], self.samples[-quarter:]
        found: dict[str, Any] = {"samples": len(self.samples)}
        for at, name in enumerate(("leader", "task")):
            first, last = (median(each[at] for each in some) for some in (after or end, end))
            found[f"{name}_mb"] = [round(first, 1), round(last, 1)]
            found[f"{name}_growth"] = round(last / first - 1, 3)
        return found


def soak(world: World, options: argparse.Namespace) -> dict[str, Any]:
    """Runs all of it and returns the summary."""
    chance = random.Random(options.seed)
    world.name = "soak"
    happened: Counter[str] = Counter()
    slowest: dict[str, float] = {}
    memory = Memory(world)
    with ExitStack() as stack:
        pairs = [
            world.pair(f"pair-{number}", stack, every_s=_LINES_EVERY_S)
            for number in range(options.pairs)
        ]
        world.bystander = pairs[0]
        for world.subject in pairs:
            world.subject.start()
        until = time.monotonic() + 60 * options.minutes
        with memory.sampled():
            while (began := time.monotonic()) < until:
                name = chance.choice(list(FAULTS))
                world.subject = chance.choice(pairs)
                back_s = _happens(world, name)
                happened[name] += 1
                slowest[name] = max(back_s, slowest.get(name, 0.0))
                _say(f"{name:20} {world.subject.name:14} moves again after {back_s:5.1f} s")
                _rest(min(began + options.every, until))
        lines, lost, duplicated = _accounts(pairs)
    return {
        "minutes": options.minutes,
        "seed": options.seed,
        "connectors": 2 * len(pairs),
        "faults": dict(happened),
        "slowest_s": {name: round(seconds, 1) for name, seconds in slowest.items()},
        "lines": lines,
        "lost": lost,
        "duplicated": duplicated,
        "memory": memory.figures(),
    }


def _happens(world: World, name: str) -> float:
    """Seconds from the end of the fault until lines of its pair arrive again."""
    with FAULTS[name](world):
        _rest(time.monotonic() + _LASTS_S)
    over = time.monotonic()
    world.subject.wait_until_moving(_BACK_S)
    world.assert_alive()
    return time.monotonic() - over


def _accounts(pairs: list[Pair]) -> tuple[int, int, int]:
    """Ends the load. Lines in all, those that a topic or a sink's file lacks, and those that are
    committed to a topic more than once."""
    lines = lost = duplicated = 0
    for pair in pairs:
        last = pair.feeder.finish(0)
        lines += last
        with suppress(AssertionError):  # what is missing is counted below
            wait_until(
                lambda: account(pair.delivered(), once(last)).lost == 0,  # noqa: B023
                what=f"all {last} lines of {pair.name}",
                timeout_s=_DELIVERED_S,
                every_s=1,
            )
        in_topic = account(committed_lines(pair.kafka, pair.name), once(last))
        in_files = account(pair.delivered(), once(last))
        lost += max(in_topic.lost, in_files.lost)
        duplicated += in_topic.duplicated
    return lines, lost, duplicated


def _rest(until: float) -> None:
    time.sleep(max(0.0, until - time.monotonic()))


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S', time.gmtime())}  {text}", flush=True)


def holds(summary: dict[str, Any]) -> bool:
    """Whether nothing was lost or doubled, and memory did not grow."""
    memory = summary["memory"]
    flat = all(memory[f"{name}_growth"] <= _FLAT for name in ("leader", "task"))
    return summary["lost"] == summary["duplicated"] == 0 and flat


def main() -> int:
    options = _options()
    place, cluster = Path(tempfile.mkdtemp(prefix="connect-soak-")), None
    # what is left of a run that fails, and how to repeat it
    _say(f"seed {options.seed}, in {place}")
    if options.java:
        summary = java_soak(place, options, _say)
        good = java_holds(summary)
    else:
        with ExitStack() as stack:
            if options.cluster:
                cores = 4 * options.pairs
                cluster = stack.enter_context(spark_cluster(place / "spark", cores=2 * cores))
            world = stack.enter_context(new_world(place, cluster))
            summary = soak(world, options)
        good = holds(summary)
    text = json.dumps(summary, indent=1)
    print(text)
    if options.report is not None:
        options.report.write_text(f"{text}\n")
    if not good:
        return 1
    shutil.rmtree(place, ignore_errors=True)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="support.soak")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--pairs", type=int, default=10, help="a source and a sink each")
    parser.add_argument("--every", type=float, default=20, help="seconds between faults")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--cluster", action="store_true", help="tasks run on a Spark cluster")
    parser.add_argument("--java", action="store_true", help="connectors of Java plugins")
    parser.add_argument(
        "--jvm", choices=["node", "own"], default="node", help="java.tasks.jvm of --java"
    )
    parser.add_argument("--report", type=Path, help="a file for the summary")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
