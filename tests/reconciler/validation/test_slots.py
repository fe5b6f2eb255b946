"""More tasks than slots are a warning beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_reconciler.model.ledger import LedgerState, Owned
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.validation.configs import Slots, check_slots
from connect_specs.desired import Desired, TargetState
from support.spec_files import load_connectors

RUNNING, PAUSED, STOPPED = TargetState.RUNNING, TargetState.PAUSED, TargetState.STOPPED


def desired(folder: Path, *specs: str) -> Desired:
    """Specs as `name tasks.max state`."""
    files = []
    for spec in specs:
        name, most, state = spec.split()
        files.append(folder / f"{name}.yaml")
        files[-1].write_text(
            f"name: {name}\nstate: {state}\nconfig:\n  connector.class: FileStreamSource\n"
            f"  file: f\n  topic: t\n  tasks.max: {most}\n"
        )
    return Desired("p", load_connectors(files, folder))


def live(*connectors: LiveConnector, owned: tuple[str, ...] = ()) -> Live:
    ledger = LedgerState(connectors={name: Owned("p", {}, None) for name in owned})
    return Live(connectors={each.name: each for each in connectors}, ledger=ledger)


def there(name: str, most: int, tasks: int, target: TargetState = RUNNING) -> LiveConnector:
    config = {"connector.class": "FileStreamSource", "tasks.max": str(most)}
    return LiveConnector(name, "source", config, target, task_states=("RUNNING",) * tasks)


@pytest.mark.parametrize(
    ("specs", "found", "needed"),
    [
        (("a 3 running", "b 2 running"), live(), 5),
        (("a 3 stopped", "b 2 running"), live(), 2),
        (("a 3 running",), live(there("a", 3, 1)), 1),
        (("a 4 running",), live(there("a", 3, 1)), 4),
        (("a 1 running",), live(there("other", 5, 5)), 6),
        (("a 1 running",), live(there("gone", 5, 5), owned=("gone",)), 1),
        (("a 2 paused",), live(there("a", 2, 0, STOPPED)), 2),
    ],
)
def test_tasks_that_may_run_are_counted(
    tmp_path: Path, specs: tuple[str, ...], found: Live, needed: int
) -> None:
    wanted = desired(tmp_path, *specs)
    assert list(check_slots(wanted, found, Slots(needed))) == []
    assert list(check_slots(wanted, found, None)) == []
    if needed > 1:
        [warning] = check_slots(wanted, found, Slots(needed - 1))
        assert warning.code == "plan.slots"
        assert f"up to {needed} tasks may run" in warning.what


@pytest.mark.parametrize(
    ("specs", "found", "needed"),
    [
        (("a 2 paused", "b 2 running"), live(), 2),
        (("b 2 running",), live(there("other", 5, 5, PAUSED)), 2),
    ],
)
def test_paused_tasks_without_slots_are_not_counted(
    tmp_path: Path, specs: tuple[str, ...], found: Live, needed: int
) -> None:
    wanted = desired(tmp_path, *specs)
    assert list(check_slots(wanted, found, Slots(needed, (PAUSED, STOPPED)))) == []
    [warning] = check_slots(wanted, found, Slots(needed))
    assert f"the runtime has {needed} slots" in warning.what
