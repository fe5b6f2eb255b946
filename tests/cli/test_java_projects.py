"""A Java source in a project with a runtime: applies, one that is interrupted, one that the plugin
refuses, and a rollback. Each number that it counts is in a topic, once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.broker import read_to_end
from support.java_plugins import SOURCE, add_compiled
from support.rig import Rig, Up
from support.wait import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

START_S = 120
MOVE = """\
offsets:
  pin: {pin}
  set:
    - partition: {{number: "0"}}
      offset: {{count: {count}}}
"""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    project = Rig(tmp_path / "project")
    add_compiled("Counting", {SOURCE: "tests.Counting"}, project.folder / "plugins")
    project.set_worker({"plugin.path": str(project.folder / "plugins")})
    yield project
    assert project.end() == []


def counting(rig: Rig, topic: str, offsets: str = "") -> None:
    rig.spec(
        "count", {"connector.class": "Counting", "topic": topic}, state="running", offsets=offsets
    )


def numbers(up: Up, *topics: str) -> list[int]:
    return [int(m.value() or b"") for topic in topics for m in read_to_end(up.kafka, topic)]


def wait_for_more(up: Up, topic: str) -> None:
    count = len(numbers(up, topic))
    wait_until(lambda: len(numbers(up, topic)) > count, what=f"more in {topic}", timeout_s=START_S)


def test_applies_an_interruption_a_refusal_and_a_rollback(rig: Rig) -> None:
    up = rig.up()
    counting(rig, "first")
    report: dict[str, Any] = rig.apply()["report"]
    assert [connector["name"] for connector in report["connectors"]] == ["count"]
    wait_for_more(up, "first")

    # Ctrl-C once the config is changed, and before the apply has recorded that
    counting(rig, "second")
    moment = "before:done:UpdateConfig"
    apply = rig.start_pausing(moment, "apply", "--yes", "--json")
    assert apply.stdout is not None
    assert apply.stdout.readline() == f"at {moment}\n"
    apply.send_signal(signal.SIGINT)
    os.kill(apply.pid, signal.SIGUSR1)
    output, errors = apply.communicate(timeout=START_S)
    assert apply.returncode == 130, errors
    changed = json.loads(output)["report"]["apply_id"]
    rig.apply()
    rig.assert_nothing_to_do()
    wait_for_more(up, "second")

    # the plugin's own `alterOffsets` refuses a text
    counting(rig, "second", MOVE.format(pin="wrong", count="many"))
    refused = rig("apply", "--yes", expect=1)
    assert "count must be a number" in refused.stderr + refused.stdout
    counting(rig, "second")
    rig.apply()
    assert rig.states() == {"count": ("RUNNING", ["RUNNING"])}
    wait_for_more(up, "second")

    count = len(numbers(up, "first"))
    rig("rollback", changed, "--yes", "--json")
    assert rig.states() == {"count": ("RUNNING", ["RUNNING"])}
    wait_until(lambda: len(numbers(up, "first")) > count, what="more in first", timeout_s=START_S)
    every = sorted(numbers(up, "first", "second"))
    assert every[: 1 + count] == [*range(1, 2 + count)]
    assert len(every) == len({*every})
