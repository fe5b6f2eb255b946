"""A Java connector in `connect distributed`, whose processes are killed and frozen one by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from support.broker import BrokerAddress, read_to_end
from support.distributed import Runtime, start_runtime
from support.engines import connectors_engines, spark_jvm, task_engines
from support.java_plugins import COUNTING, add_compiled
from support.processes import Process, frozen, kill, node_servers
from support.rig import Rig
from support.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]


def _has_ended(jvm: Process) -> bool:
    return not jvm.alive


def _frozen_until_noticed(frozen_one: Process) -> None:
    """Stopped by a signal, until it is killed for that."""
    with frozen([frozen_one]):
        wait_until(partial(_has_ended, frozen_one), what="it to be noticed", timeout_s=30)


@pytest.mark.parametrize("jvm", ["node", "own"])
@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_each_record_is_written_once_whatever_is_killed_or_frozen(
    broker: BrokerAddress, rig: Rig, unique: str, tmp_path: Path, support: str, jvm: str
) -> None:
    """Without transactions at least once, and never by two attempts at a time."""
    add_compiled("Counting", COUNTING, tmp_path / "plugins")
    settings = {
        "plugin.path": str(tmp_path / "plugins"),
        "exactly.once.source.support": support,
        "java.tasks.jvm": jvm,
    }
    runtime = start_runtime(rig, broker.bootstrap_servers, tmp_path, settings)
    try:
        wait_until(lambda: runtime.at.get("/health"), what="its health", timeout_s=180)
        records, faults = _count_through_faults(runtime, broker, unique, jvm)
        again = [now for before, now in pairwise(records) if now != before + 1]
        if support == "enabled":
            assert not again
        assert len(again) <= faults
        assert all(now <= before + 1 for before, now in pairwise(records))
        assert records[0] == 1
    finally:
        runtime.command.terminate()
        runtime.command.wait(60)


def _count_through_faults(
    runtime: Runtime, broker: BrokerAddress, topic: str, of: str
) -> tuple[list[int], int]:
    """Returns the records after all faults, and how many there were."""
    config = {"connector.class": "Counting", "topic": topic, "tasks.max": "1"}
    with httpx.Client(base_url=runtime.at.url, timeout=90) as client:
        # named like its topic: the runtime of an earlier case has left its connector
        assert client.put(f"/connectors/{topic}/config", json=config).status_code == 201

        def count() -> int:
            return len(read_to_end(broker.bootstrap_servers, topic))

        def more() -> None:
            before = count()
            wait_until(lambda: count() > before + 20, what="further records", timeout_s=120)

        def jvm() -> Process:
            return wait_until(lambda: task_engines(runtime), what="the task's JVM")[0]

        def task() -> Process:
            return wait_until(lambda: runtime.tasks, what="the task's process", timeout_s=90)[0]

        def owner() -> Process:
            return task() if of == "own" else node_servers(runtime.processes)[0]

        def kill_owner() -> None:
            of_task = jvm()
            kill(owner())
            wait_until(partial(_has_ended, of_task), what="the JVM of a killed process to end")

        def freeze_jvm_and_kill_owner() -> None:
            of_task = jvm()
            with frozen([of_task]):
                kill(owner())
                wait_until(partial(_has_ended, of_task), what="it to be noticed", timeout_s=30)

        faults: list[Callable[[], None]] = [
            lambda: kill(jvm()),
            kill_owner,
            lambda: kill(task()),
            lambda: _frozen_until_noticed(jvm()),
            lambda: _frozen_until_noticed(task()),
            lambda: _frozen_until_noticed(owner()),
            freeze_jvm_and_kill_owner,
            lambda: kill(*connectors_engines(runtime)),
            lambda: _frozen_until_noticed(connectors_engines(runtime)[0]),
            lambda: kill(spark_jvm(runtime)),
        ]
        more()
        for fault in faults:
            fault()
            more()
        more()
        client.put(f"/connectors/{topic}/stop").raise_for_status()
        if of == "own":
            wait_until(lambda: not task_engines(runtime), what="the JVM to end")
        wait_until(lambda: not runtime.tasks, what="the task to end", timeout_s=30)
        records = [int(m.value() or b"") for m in read_to_end(broker.bootstrap_servers, topic)]
        offsets = client.get(f"/connectors/{topic}/offsets").json()["offsets"]
        assert offsets == [{"partition": {"number": "0"}, "offset": {"count": records[-1]}}]
        return records, len(faults)
