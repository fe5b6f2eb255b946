"""A process that applies to a real Kafka, killed where it says that it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect_reconciler.backend import open_backend
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.plan.planner import make_plan
from connect_specs.desired import OffsetEntry, TargetState
from support.apply_child import desired_of
from support.broker import BrokerAddress
from support.projects import project_of

pytestmark = [pytest.mark.chaos, pytest.mark.long]

TESTS = Path(__file__).parents[2]


class Applies:
    """Applies to one group, one process after another."""

    def __init__(self, bootstrap: str, group_id: str) -> None:
        self.bootstrap = bootstrap
        self.group_id = group_id
        self._processes: list[subprocess.Popen[str]] = []

    def run(self, topic: str, pin: str, *, kill_at: str | None = None) -> list[str]:
        """What the apply announced, until it ended or was killed at that announcement."""
        command = [sys.executable, "-m", "support.apply_child", self.bootstrap, self.group_id]
        process = subprocess.Popen(
            [*command, topic, pin],
            cwd=TESTS,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        self._processes.append(process)
        assert process.stdout is not None
        told: list[str] = []
        for line in process.stdout:
            told.append(line.strip())
            if told[-1] == kill_at:
                process.send_signal(signal.SIGKILL)
        code = process.wait(timeout=60)
        assert code == (0 if kill_at is None else -signal.SIGKILL), told
        return told

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture
def applies(broker: BrokerAddress, unique: str) -> Iterator[Applies]:
    made = Applies(broker.bootstrap_servers, unique)
    yield made
    made.close()


def test_killed_at_every_turn_it_converges(applies: Applies) -> None:
    client = {"bootstrap.servers": applies.bootstrap}
    project = project_of(applies.group_id, kafka=client)
    applies.run("t", "p")
    for topic, pin, kill_at in (
        ("t", "second", "Performed Stop"),
        ("u", "second", "Performed UpdateConfig"),
        ("u", "second", "Performed AlterOffsets"),
        ("u", "second", "Started Resume"),
    ):
        applies.run(topic, pin, kill_at=kill_at)
        live = open_backend(project, client).observe(desired_of(topic, pin))
        assert live.connectors["a b"].target is TargetState.STOPPED
        assert live.ledger.connectors["a b"].restore_to is TargetState.RUNNING
        assert len(live.ledger.unfinished) == 1
    # the pin was recorded before the resume that never came
    assert applies.run("u", "second") == ["Started Resume", "Performed Resume"]
    desired = desired_of("u", "second")
    live = open_backend(project, client).observe(desired)
    assert live.connectors["a b"].target is TargetState.RUNNING
    assert live.connectors["a b"].offsets == Offsets(
        (OffsetEntry({"filename": "f"}, {"position": 6}),)
    )
    assert live.ledger.unfinished == ()
    assert make_plan(desired, live, group_id=applies.group_id).actions == ()
