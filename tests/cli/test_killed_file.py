"""A saved plan whose apply was killed goes on, and goes back: as commands, on a real Kafka."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker import BrokerAddress
from support.rig import Rig

PIN = "offsets: {{pin: {pin}, set: [{{partition: {{filename: f}}, offset: {{position: {at}}}}}]}}\n"


@pytest.fixture
def rig(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Rig]:
    """A project on the tests' Kafka, with no runtime."""
    rig = Rig(tmp_path / "project", f"killed-{unique[-8:]}", broker.kafka)
    yield rig
    for left in rig.leftovers():
        raise AssertionError(f"still there: {left}")


def _offsets(rig: Rig, name: str) -> list[int]:
    listed = json.loads(rig("offsets", "list", name, "--json").stdout)["offsets"]
    return [each["offset"]["position"] for each in listed]


@pytest.mark.long
def test_a_rename_with_a_pin_is_killed_goes_on_and_is_rolled_back(rig: Rig) -> None:
    rig.source("old", state="paused", file="f", topic="t", offsets=PIN.format(pin="p", at=5))
    rig.apply()
    (rig.folder / "connectors" / "old.yaml").unlink()
    moved = PIN.format(pin="q", at=2) + "renamed_from: old\n"
    rig.source("new", state="paused", file="f", topic="t", offsets=moved)
    rig("plan", "--out", "a.plan")

    moment = "before:done:AlterOffsets"
    first = rig.start_pausing(moment, "apply", "a.plan", "--yes")
    assert first.stdout is not None
    assert f"at {moment}\n" in iter(first.stdout.readline, "")
    first.kill()
    first.communicate()
    second = rig("apply", "a.plan", "--yes", "--takeover")
    assert "did not end this plan: 3 of its 6 actions are left to do" in second.stdout
    assert rig.states().keys() == {"new"}
    assert _offsets(rig, "new") == [2]

    newest, killed, _ = json.loads(rig("history", "--json").stdout)["applies"]
    assert killed["ending"] == "interrupted"
    back = rig("rollback", killed["apply_id"], "--yes")
    assert f"new was changed since by apply {newest['apply_id']}" in back.stdout
    assert rig.states().keys() == {"old"}
    assert _offsets(rig, "old") == [5]


def test_the_first_apply_of_all_is_killed_and_goes_on_with_its_file(rig: Rig) -> None:
    """It made the project's key, which the plan in the file had to do without."""
    for name in ("a", "b"):
        rig.source(name, state="paused", file="f", topic="t", password="hunter2")
    rig("plan", "--out", "a.plan")
    moment = "before:done:Create"
    first = rig.start_pausing(moment, "apply", "a.plan", "--yes", "--parallelism", "1")
    assert first.stdout is not None
    assert f"at {moment}\n" in iter(first.stdout.readline, "")
    first.kill()
    first.communicate()
    second = rig("apply", "a.plan", "--yes", "--takeover")
    assert "did not end this plan" in second.stdout
    assert rig.states().keys() == {"a", "b"}
    assert ": no changes, " in rig("plan").stdout
