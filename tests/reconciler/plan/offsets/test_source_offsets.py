"""What moving a source's offset does, by the shapes that connectors write. Unsure means opaque.

Expected amounts are worked out by hand from the two positions.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_reconciler.actions import Counts, Direction
from connect_reconciler.plan.offsets.source_moves import SHAPES, source_move
from connect_specs.desired import Offset, Partition


def source_effect(
    partition: Partition, old: Offset | None, new: Offset | None, *, reads_on: bool = False
) -> tuple[str, Direction, Counts | None]:
    return source_move(partition, old, new, reads_on=reads_on)


OPAQUE = "only the connector knows what that re-reads or jumps over"
FILE = {"filename": "/data/in.txt"}
SERVER = {"server": "shop"}


TABLE = yaml.safe_load(Path(__file__).with_name("source_moves.yaml").read_text())


@pytest.mark.parametrize(("partition", "old", "new", "effect", "direction"), TABLE["moves"])
def test_a_move(
    partition: dict[str, Any],
    old: dict[str, Any],
    new: dict[str, Any],
    effect: str,
    direction: str,
) -> None:
    """Moves of source offsets in human units: bytes, rows, time; else opaque."""
    text, told, _ = source_effect(partition, old, new)
    assert effect.replace("opaque", OPAQUE) in text
    assert told == direction
    back, _, _ = source_effect(partition, new, old)
    assert (OPAQUE in back) == (OPAQUE in text)


@pytest.mark.parametrize(
    ("partition", "old", "new", "effect", "counts"), TABLE["moves_of_a_source_that_reads_on"]
)
def test_a_source_that_reads_on(
    partition: dict[str, Any],
    old: dict[str, Any],
    new: dict[str, Any],
    effect: str,
    counts: tuple[int, int] | None,
) -> None:
    """It is further when it is stopped: at least what is read again, at most what is skipped."""
    text, _, told = source_effect(partition, old, new, reads_on=True)
    assert effect.replace("opaque", OPAQUE) in text
    plain, _, exact = source_effect(partition, old, new)
    assert "at least" not in plain
    assert "at most" not in plain
    if counts is None:
        assert told is exact is None
    else:
        assert told is not None
        assert exact == replace(told, exact=True)
        assert told == Counts(*counts, unit=told.unit, exact=False)


def test_forgotten_and_first_offsets() -> None:
    assert source_effect(FILE, {"position": 5}, None) == (
        "/data/in.txt position 5 → none: reads from its start",
        "forgotten",
        None,
    )
    text, _, _ = source_effect(SERVER, {"lsn": 5}, None)
    assert "none: takes the snapshot that snapshot.mode says" in text
    text, _, _ = source_effect({"any": "partition"}, {"key": 5}, None)
    assert text.endswith("none: begins as if it had never read it")
    for partition in (
        {"group": "g", "topic": "t", "partition": 0},
        {"sourceClusterAlias": "eu", "targetClusterAlias": "us"},
    ):
        text, _, _ = source_effect(partition, {"offset": 0}, None)
        assert text.endswith("none: changes nothing: MirrorMaker never reads this offset")
    assert source_effect(FILE, None, {"position": 5})[1] == "start"
    assert source_effect(FILE, None, None)[1] == "same"
    assert source_effect(FILE, {"position": 5}, {"position": 5})[1] == "same"


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(sorted(shape.fields)))
def test_words_of_shapes_take_an_amount(shape: Any) -> None:
    assert shape.back.count("{size}") == shape.back.count("{place}") == 1
    assert shape.partitions
    assert shape.measures
