"""A running file source is renamed, and the apply is killed at every turn: each line came once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from subprocess import Popen

import pytest

from support.lines import Account, Feeder, account, once
from support.rig import Ends, Rig, committed_lines, lines_of
from support.wait import wait_until

# What the cluster has done, and the ledger does not hold yet
TURNS = tuple(
    f"before:done:{action}"
    for action in ("StopOld", "Create", "CarryOffsets", "Resume", "DeleteOld")
)


def _kill_at(moment: str, apply: Popen[str]) -> None:
    """SIGKILL once the apply says that it is there."""
    assert apply.stdout is not None
    said = next((text for text in apply.stdout if text.startswith("at ")), "")
    apply.kill()
    _, told = apply.communicate()
    assert said == f"at {moment}\n", told


def _rename(rig: Rig, old: str, new: str, file: Path) -> None:
    """The spec of the source under its new name: the same file into the same topic."""
    (rig.folder / "connectors" / f"{old}.yaml").unlink()
    rig.source(new, offsets=f"renamed_from: {old}\n", file=str(file), topic=old)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize(
    ("turns", "runtime"),
    [
        pytest.param(TURNS[2:3], True, id="killed once"),
        pytest.param(TURNS, True, id="killed with a runtime up"),
        pytest.param(TURNS[1:4], False, id="killed with no runtime"),
    ],
)
def test_no_line_is_lost_or_doubled(
    rig: Rig, unique: str, turns: Sequence[str], runtime: bool
) -> None:
    """The offsets of a rename, carried whenever the apply is killed."""
    rig.no_specs()
    up = rig.running or rig.up()
    old, new, sink, copy = (f"{unique}-{role}" for role in ("in", "renamed", "out", "copy"))
    file = rig.source(old)
    outfile = rig.sink(sink, old)
    with Feeder(file) as feeder:
        rig.apply()
        wait_until(lambda: Ends(up.kafka).stable(old) > 0, what="the first lines", timeout_s=60)
        if not runtime:
            rig("down")
        _rename(rig, old, new, file)
        # The sink of the same topic is renamed in the same apply
        text = (rig.folder / "connectors" / f"{sink}.yaml").read_text()
        (rig.folder / "connectors" / f"{sink}.yaml").unlink()
        text = text.replace(f"name: {sink}", f"name: {copy}") + f"renamed_from: {sink}\n"
        (rig.folder / "connectors" / f"{copy}.yaml").write_text(text)
        for moment in turns:
            _kill_at(moment, rig.start_pausing(moment, "apply", "--yes", "--parallelism", "1"))
        rig.apply()
        rig.assert_nothing_to_do()
        up = rig.running or rig.up()
        count = feeder.finish(0)
    wait_until(
        lambda: len(lines_of(outfile)) >= count and Ends(up.kafka).stable(old) >= count,
        what=f"{count} lines",
        timeout_s=120,
        every_s=0.5,
    )
    assert rig.states() == {new: ("RUNNING", ["RUNNING"]), copy: ("RUNNING", ["RUNNING"])}
    exactly = Account(found=count, lost=0, duplicated=0, torn=0, extra=0)
    assert account(committed_lines(up.kafka, old), once(count)) == exactly
    found = account(lines_of(outfile), once(count))
    # A sink that is stopped commits what it wrote
    assert found == exactly
    ends = Ends(up.kafka)
    assert ends.committed(f"connect-{sink}", old) == 0
    rig.assert_nothing_to_do()
