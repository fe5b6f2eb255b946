"""`make soak ARGS=--java`: Java connectors under load for half an hour, with the next random fault
20 seconds after all run again.

In the end what arrived is compared with what there was; and memory, threads, sockets and the
database's connections with what they were in the tenth minute of thirty.
"""

from __future__ import annotations

import argparse
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

from support.engines import connectors_engines, spark_jvm
from support.java_load import BACK_S, NODES, Load, java_load
from support.processes import Process, frozen, kill, pss_mb
from support.three_brokers import REPLICAS
from support.wait import wait_until

_LASTS_S: Final = 6.0
_START_S: Final = 300.0
# A frozen process is killed within ten seconds
_NOTICED_S: Final = 40.0
_FLAT: Final = 0.05

Report: TypeAlias = dict[str, Any]
Happens: TypeAlias = Callable[[Load], AbstractContextManager[None]]


def _killed(which: Callable[[Load], Sequence[Process]]) -> Happens:
    @contextmanager
    def happens(load: Load) -> Iterator[None]:
        kill(_one(load, which))
        yield

    return happens


def _frozen(which: Callable[[Load], Sequence[Process]]) -> Happens:
    """Until it is noticed."""

    @contextmanager
    def happens(load: Load) -> Iterator[None]:
        process = _one(load, which)
        with frozen([process]):
            wait_until(lambda: not process.alive, what="it to be noticed", timeout_s=_NOTICED_S)
            yield

    return happens


def _one(load: Load, which: Callable[[Load], Sequence[Process]]) -> Process:
    processes = wait_until(lambda: which(load), what="a process", timeout_s=BACK_S)
    return load.chance.choice(processes)


@contextmanager
def _out_of_memory(load: Load) -> Iterator[None]:
    """A connector takes all that a JVM has, until it is deleted."""
    name = load.shop.connector("unruly")
    config = {"connector.class": "tests.Unruly", "topic": name}
    load.runtimes.put(name, {**config, "where": "task.poll", "how": "takes the heap"})

    def is_named() -> bool:
        (status,) = load.runtimes.statuses([name])
        return any("out of memory" in task.get("trace", "") for task in status["tasks"])

    wait_until(is_named, what="the end of its JVM", timeout_s=BACK_S)
    yield
    load.runtimes.delete(name)


@contextmanager
def _worker_killed(load: Load) -> Iterator[None]:
    """A Spark worker, and with it its executor."""
    number = load.chance.randrange(len(NODES))
    load.cluster.kill(load.cluster.workers[number])
    yield
    load.cluster.workers[number] = load.cluster.start_worker(NODES[number])
    load.cluster.workers.pop()


@contextmanager
def _leader_killed(load: Load) -> Iterator[None]:
    leader = load.runtimes.leader
    leader.command.kill()
    load.runtimes.ended(leader, code=-signal.SIGKILL)
    yield
    load.runtimes.start(load.brokers.kafka)


@contextmanager
def _broker_killed(load: Load) -> Iterator[None]:
    number = load.chance.randrange(REPLICAS)
    kill(load.brokers.process(number))
    yield
    load.brokers.start_again(number)


@contextmanager
def _broker_frozen(load: Load) -> Iterator[None]:
    with frozen([load.brokers.process(load.chance.randrange(REPLICAS))]):
        yield


@contextmanager
def _restarted(load: Load) -> Iterator[None]:
    for name in load.configs():
        load.runtimes.ask("POST", f"/connectors/{name}/restart?includeTasks=true")
    yield


FAULTS: Final[Mapping[str, Happens]] = {
    "JVM of tasks killed": _killed(lambda load: load.task_jvms),
    "JVM of tasks frozen": _frozen(lambda load: load.task_jvms),
    "JVM out of memory": _out_of_memory,
    "connectors' JVM killed": _killed(lambda load: connectors_engines(load.runtimes.leader)),
    "connectors' JVM frozen": _frozen(lambda load: connectors_engines(load.runtimes.leader)),
    "task's process killed": _killed(lambda load: load.runtimes.tasks),
    "task's process frozen": _frozen(lambda load: load.runtimes.tasks),
    "agent killed": _killed(lambda load: load.agents),
    "agent frozen": _frozen(lambda load: load.agents),
    "executor killed": _killed(lambda load: load.cluster.executors()),
    "Spark's worker killed": _worker_killed,
    "Spark's JVM killed": _killed(lambda load: [spark_jvm(load.runtimes.leader)]),
    "leader killed": _leader_killed,
    "broker killed": _broker_killed,
    "broker frozen": _broker_frozen,
    "connectors restarted": _restarted,
}


# --- what they need ---


@dataclass(slots=True)
class Needs:
    """Samples of what all processes need, by the time at which all ran."""

    load: Load
    samples: list[tuple[float, Mapping[str, float]]] = field(default_factory=list)

    def sample(self, minute: float) -> None:
        processes = self.load.everything
        # of connectors: those of the load itself have no name
        connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name <> ''"
        ((count,),) = self.load.server.sql(connections)
        figures = {
            "memory_mb": sum(map(pss_mb, processes)),
            "threads": sum(len(_listed(each, "task")) for each in processes),
            "sockets": sum(
                str(link).startswith("socket:")
                for each in processes
                for link in _links(_listed(each, "fd"))
            ),
            "connections": int(count or 0),
            "processes": len(processes),
            "jvms of tasks": len(self.load.task_jvms),
        }
        self.samples.append((minute, figures))

    def figures(self, minutes: float) -> Report:
        """Medians around a third of the time and at its end, and the growth."""
        third = [s for minute, s in self.samples if minutes / 4 <= minute <= minutes * 5 / 12]
        last = [s for minute, s in self.samples if minute >= minutes * 5 / 6]
        report: Report = {"samples": len(self.samples)}
        for name in self.samples[0][1]:
            first, end = (
                median(s[name] for s in some or [self.samples[-1][1]]) for some in (third, last)
            )
            report[name] = [round(first, 1), round(end, 1), round(end / first - 1, 3)]
        return report


def _listed(process: Process, folder: str) -> list[Path]:
    with suppress(OSError):
        return [*Path(f"/proc/{process.pid}/{folder}").iterdir()]
    return []


def _links(files: Sequence[Path]) -> Iterator[Path]:
    for file in files:
        with suppress(OSError):
            yield file.readlink()


def java_soak(place: Path, options: argparse.Namespace, say: Callable[[str], None]) -> Report:
    """Runs all of it and returns the summary."""
    happened: Counter[str] = Counter()
    slowest: dict[str, float] = {}
    with java_load(place, options.jvm, options.seed) as load:
        load.create()
        load.shop.wait_for_snapshot(_START_S)
        needs = Needs(load)
        with load.shop.under_load():
            load.wait_until_all_run()
            began = time.monotonic()
            turn: list[str] = []
            while (minute := (time.monotonic() - began) / 60) < options.minutes:
                time.sleep(options.every)
                needs.sample(minute)
                # each as often as any other
                turn = turn or load.chance.sample([*FAULTS], len(FAULTS))
                name = turn.pop()
                say(f"{minute:5.1f} min  {name}")
                with FAULTS[name](load):
                    time.sleep(_LASTS_S)
                over = time.monotonic()
                load.wait_until_all_run()
                back_s = time.monotonic() - over
                say(f"           all run again after {back_s:5.1f} s")
                happened[name] += 1
                slowest[name] = round(max(back_s, slowest.get(name, 0.0)), 1)
            time.sleep(options.every)
            needs.sample(options.minutes)
        accounts = load.check()
    return {
        "minutes": options.minutes,
        "seed": options.seed,
        "jvm": options.jvm,
        "faults": dict(happened),
        "slowest_s": slowest,
        "accounts": accounts,
        "restarted_by_hand": dict(load.failures),
        "needs": needs.figures(options.minutes),
    }


def java_holds(summary: Report) -> bool:
    """Returns whether nothing was lost, nothing came twice where that must not be, and nothing that
    processes need has grown."""
    exact = all(lost == 0 and twice <= 0 for _, lost, twice in summary["accounts"].values())
    names = ("memory_mb", "threads", "sockets", "connections")
    return exact and all(summary["needs"][name][2] <= _FLAT for name in names)
