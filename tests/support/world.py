"""What faults happen to: a broker, two runtimes of which one leads, and load on them.

The subject is the pair of a source and a sink that a fault may hit; the bystander is such a pair
that no fault is meant for. All of it lives on from one fault to the next.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.broker import create_topic
from support.distributed import Runtime
from support.kafka_proxy import KafkaProxy
from support.lines import Account, Feeder, account, last_number, once
from support.own_broker import OwnBroker, own_broker
from support.processes import Process
from support.rig import Ends, Rig, committed_lines, lines_of
from support.runtimes import Runtimes
from support.spark_cluster import SparkCluster
from support.wait import wait_until

# A worker file may ask for no shorter ones in vain: killed members of groups are let go soon.
_SETTINGS = {"consumer.session.timeout.ms": "6000"}
_DISK = "64m"
_START_S = 120
_DELIVERED_S = 120
_ASK_S = 20


def _may_mount() -> bool:
    """Not every root may, such as that of a container."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as folder:
        tried = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "none", folder]
        if subprocess.run(tried, capture_output=True, check=False).returncode != 0:
            return False
        subprocess.run(["umount", folder], check=True)
    return True


# Only then can a disk be filled without filling that of the machine
MAY_MOUNT = _may_mount()


@dataclass(slots=True)
class Pair:
    """A source of a growing file and a sink of what it writes: to the last of `files`. The topic
    between them has two partitions, and is in `kafka`. `config` is added to the source's."""

    world: World
    name: str
    infile: Path
    files: list[Path]
    feeder: Feeder
    kafka: str
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return f"{self.name}-in"

    @property
    def sink(self) -> str:
        return f"{self.name}-out"

    def start(self) -> None:
        """Creates both, and returns when lines arrive."""
        create_topic(self.kafka, self.name, partitions=2)
        source = {"connector.class": "FileStreamSource", "file": str(self.infile)}
        more = {"topic": self.name, **self.config} | self._elsewhere("producer")
        self.world.put(self.source, source | more)
        self.deliver_to(self.world.rig.folder / f"{self.name}.out")
        self.wait_until_moving(_START_S)

    def deliver_to(self, file: Path, more: Mapping[str, str] = {}) -> None:
        """Gives the sink another file."""
        self.files.append(file)
        config = {"connector.class": "FileStreamSink", "topics": self.name, "file": str(file)}
        self.world.put(self.sink, config | self._elsewhere("consumer") | dict(more))

    def _elsewhere(self, client: str) -> dict[str, str]:
        if self.kafka == self.world.kafka:
            return {}
        return {f"{client}.override.bootstrap.servers": self.kafka}

    def delivered(self) -> list[str]:
        """All that the sink has written."""
        return [line for file in self.files for line in lines_of(file)]

    def wait_until_moving(self, timeout_s: float) -> None:
        """Until a line arrives that is written from now on."""
        wanted = self.feeder.count + 1
        wait_until(
            lambda: (last_number(self.files[-1]) or 0) > wanted,
            what=f"line {wanted} of {self.name}",
            timeout_s=timeout_s,
        )

    def check(self) -> None:
        """Ends the load. Nothing of it may be lost, and nothing may be in the topic twice."""
        last = self.feeder.finish(0)
        wait_until(
            lambda: account(self.delivered(), once(last)).lost == 0,
            what=f"all {last} lines of {self.name}",
            timeout_s=_DELIVERED_S,
            every_s=0.5,
        )
        found = account(committed_lines(self.kafka, self.name), once(last))
        assert found == Account(found=last, lost=0, duplicated=0, torn=0, extra=0)
        assert account(self.delivered(), once(last)).extra == 0


@dataclass(slots=True, kw_only=True)
class World(Runtimes):
    """The whole of it. `subject` and `bystander` are new for each fault. Each runtime has a way to
    Kafka of its own."""

    broker: OwnBroker
    unused: list[KafkaProxy]
    closing: ExitStack
    ways: dict[Runtime, KafkaProxy] = field(default_factory=dict)
    name: str = ""
    subject: Pair = field(init=False)
    bystander: Pair = field(init=False)

    # --- runtimes ---

    @property
    def kafka(self) -> str:
        return self.broker.kafka

    @property
    def ends(self) -> Ends:
        return Ends(self.kafka)

    def start_runtime(self) -> None:
        """Starts one where there is none; returns when it is healthy."""
        way = self.unused.pop()
        self.ways[self.start(f"127.0.0.1:{way.port}", self._give_small_disk)] = way

    def _give_small_disk(self, folder: Path) -> None:
        if MAY_MOUNT:
            self.closing.enter_context(_small_disk(folder))

    def gone(self, runtime: Runtime, *, code: int) -> None:
        """Waits for the end of a runtime, and of all that it started."""
        self.ended(runtime, code=code)
        self.unused.append(self.ways.pop(runtime))

    def task_of(self, connector: str) -> Process:
        """The process of a connector's only task: it has the connector's file open."""
        pair = self.subject if connector.startswith(self.subject.name) else self.bystander
        file = pair.infile if connector == pair.source else pair.files[-1]
        return wait_until(
            lambda: next((each for each in self.tasks if file in _files_of(each)), None),
            what=f"the process of {connector}",
        )

    def wait_for_states(self, states: Mapping[str, str], timeout_s: float) -> None:
        """Until all of these, as a row calls them, are in these states."""
        found: dict[str, str] = {}

        def are_in() -> bool:
            found.update((name, self.state_of(self.named(name))) for name in states)
            return found == states

        try:
            wait_until(are_in, what="states", timeout_s=timeout_s, every_s=0.5)
        except AssertionError:
            assert found == states, found

    # --- load and observation ---

    def named(self, name: str) -> str:
        """The connector that a row calls so."""
        known = {"in": self.subject.source, "out": self.subject.sink}
        return known.get(name, f"{self.name}-{name}")

    @contextmanager
    def load(self, name: str) -> Iterator[None]:
        """Two new pairs that move, and nothing else."""
        self.name = name
        self.assert_alive()
        self.delete(*self.ask("GET", "/connectors"))
        with ExitStack() as stack:
            self.subject = self.pair("subject", stack)
            self.bystander = self.pair("bystander", stack)
            self.subject.start()
            self.bystander.start()
            yield

    def pair(
        self, called: str, stack: ExitStack, kafka: str | None = None, *, every_s: float = 0.05
    ) -> Pair:
        """A new pair, which is not started yet, and gets 100 lines every `every_s`."""
        name = f"{self.name}-{called}"
        infile = self.rig.folder / f"{name}.in"
        feeder = stack.enter_context(Feeder(infile, every_s))
        return Pair(self, name, infile, [], feeder, kafka or self.kafka)

    def watch(self, runtime: Runtime, lasts_s: float) -> set[int]:
        """What GET /health of a runtime answers in the next seconds; 0 for no answer."""
        seen: set[int] = set()
        until = time.monotonic() + lasts_s

        def look() -> bool:
            seen.add(self.health(runtime))
            return time.monotonic() >= until

        wait_until(look, what="the time to pass", timeout_s=lasts_s + _ASK_S, every_s=0.5)
        return seen


def _files_of(process: Process) -> set[Path]:
    found = set()
    with suppress(FileNotFoundError, ProcessLookupError):
        for each in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                found.add(each.readlink())
    return found


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    """A disk of its own that a test can fill. What it holds is kept."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "none", folder], check=True)
    try:
        yield
    finally:
        shutil.copytree(folder, f"{folder}-kept", ignore_dangling_symlinks=True)
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def new_world(folder: Path, cluster: SparkCluster | None = None) -> Iterator[World]:
    """All of it, with tasks on this machine or on `cluster`, for as long as the context lasts. Both
    runtimes end in order and leave nothing."""
    with own_broker(folder / "broker") as broker, ExitStack() as closing:
        rig = Rig(folder / "project", "chaos", f"{{bootstrap.servers: '{broker.kafka}'}}")
        world = World(
            rig=rig,
            settings=_SETTINGS,
            cluster=cluster,
            broker=broker,
            unused=[*broker.ways],
            closing=closing,
        )
        try:
            for _ in broker.ways:
                world.start_runtime()
            yield world
            for each in [*world.running]:
                each.command.terminate()
                world.gone(each, code=0)
        finally:
            left = rig.end()
        assert left == []
