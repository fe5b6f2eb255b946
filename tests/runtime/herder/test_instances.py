"""Connectors' plugin objects on threads of their own: what they answer, in which order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.herder.instances import Instances, PluginCalls
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.herder.runs import Event, InstanceFailed, InstanceStarted
from connect_runtime.plugins.modules import PLUGIN_MODULES, allow_modules
from support.connectors import ObedientSource
from support.memory_cluster import TOPICS, Later, MemoryCluster
from support.wait import wait_until

SETTINGS = WorkerSettings("g", TOPICS, "w", {})
CONFIG = {"name": "c", "connector.class": f"{__name__}.SlowSource", "tasks.max": "9"}


class SlowSource(ObedientSource):
    """Answers with how often it was asked; waits for `go_on` from the second time on."""

    asked: ClassVar[int] = 0
    at_once: ClassVar[list[int]] = []
    asking: ClassVar[list[int]] = []
    go_on: ClassVar[threading.Event] = threading.Event()

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        SlowSource.asked += 1
        number = SlowSource.asked
        self.asking.append(number)
        self.at_once.append(len(self.asking))
        if number > 1:
            self.go_on.wait(20)
        self.asking.remove(number)
        return [{"number": str(number)}]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> queue.Queue[Event]:
    monkeypatch.setattr(SlowSource, "asked", 0)
    for made in (SlowSource.at_once, SlowSource.asking):
        made.clear()
    SlowSource.go_on.clear()
    return queue.Queue()


def answer(events: queue.Queue[Event]) -> Any:
    event = events.get(timeout=20)
    assert isinstance(event, InstanceStarted | InstanceFailed)
    return event


def test_a_later_answer_is_never_overtaken_by_an_earlier_one(events: queue.Queue[Event]) -> None:
    allow_modules({PLUGIN_MODULES: __name__})
    sources = MemoryCluster().leader().connect._sources
    instances = Instances(events.put, sources, ConfigProviders({}), PluginCalls(), SETTINGS)
    instances.start("c", 1, CONFIG)
    assert answer(events).task_configs[0]["number"] == "1"
    for _ in range(5):
        ObedientSource.contexts["c"].request_task_reconfiguration()
    wait_until(lambda: SlowSource.asked == 2, what="the second question")
    SlowSource.go_on.set()
    numbers = [answer(events).task_configs[0]["number"]]
    # what was asked for after a question began is answered by a later one
    numbers.append(answer(events).task_configs[0]["number"])
    assert numbers == ["2", "3"]
    assert max(SlowSource.at_once) == 1
    instances.close(5)


def test_requests_that_a_connector_repeats_do_not_fill_the_pool_of_all(
    events: queue.Queue[Event],
) -> None:
    allow_modules({PLUGIN_MODULES: __name__})
    sources, pool = MemoryCluster().leader().connect._sources, Later()
    instances = Instances(events.put, sources, ConfigProviders({}), pool, SETTINGS)
    instances.start("c", 1, CONFIG)
    pool.run()
    for _ in range(100):
        ObedientSource.contexts["c"].request_task_reconfiguration()
    assert len(pool.waiting) == 1
    SlowSource.go_on.set()
    pool.run()
    assert [answer(events).task_configs[0]["number"] for _ in range(2)] == ["1", "2"]
    assert events.empty()


def test_a_connector_that_fails_itself_again_and_again_is_told_of_once(
    events: queue.Queue[Event],
) -> None:
    allow_modules({PLUGIN_MODULES: __name__})
    sources, pool = MemoryCluster().leader().connect._sources, Later()
    instances = Instances(events.put, sources, ConfigProviders({}), pool, SETTINGS)
    instances.start("c", 1, CONFIG)
    pool.run()
    assert isinstance(answer(events), InstanceStarted)
    for number in range(100):
        ObedientSource.contexts["c"].raise_error(RuntimeError(f"failure {number}"))
    assert "failure 0" in answer(events).trace
    assert events.empty()
