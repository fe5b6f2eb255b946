"""What `connect history ID` shows of the offsets that an apply moved."""

from __future__ import annotations

from connect_reconciler.model.ledger import ConnectorSnapshot
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.render.apply_history import offsets_text
from connect_specs.desired import OffsetEntry


def moved(count: int) -> ConnectorSnapshot:
    """A sink whose first `count` partitions moved from 5 to 9; one more stayed."""

    def at(offset: int) -> Offsets:
        return Offsets(
            OffsetEntry(
                {"kafka_topic": "t", "kafka_partition": number},
                {"kafka_offset": offset if number < count else 1},
            )
            for number in range(count + 1)
        )

    return ConnectorSnapshot({}, offsets=at(5), offsets_after=at(9))


def test_moved_offsets_are_shown_and_many_are_counted() -> None:
    lines = offsets_text({"few": moved(20), "many": moved(23), "none": moved(0)}).splitlines()
    few, many = lines[:21], lines[21:]
    assert few[:2] == ["offsets of few:", "  t-0 5 → 9"]
    assert few[-1] == "  t-19 5 → 9"
    assert many[:2] == ["offsets of many:", "  t-0 5 → 9"]
    assert many[-2:] == ["  t-19 5 → 9", "  and 3 more (--json lists them)"]
