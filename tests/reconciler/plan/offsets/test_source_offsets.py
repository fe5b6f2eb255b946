"""What moving a source's offset does, by the shapes that connectors write. Unsure means opaque.

Expected amounts are worked out by hand from the two positions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from connect_reconciler.actions import Counts, Direction
from connect_reconciler.plan.offsets.source_moves import SHAPES, source_move
from connect_specs.desired import Offset, Partition


def source_effect(
    partition: Partition, old: Offset | None, new: Offset | None, *, reads_on: bool = False
) -> tuple[str, Direction, Counts | None]:
    return source_move(partition, old, new, reads_on=reads_on)


OPAQUE = "only the connector knows what that re-reads or jumps over"
FILE = {"filename": "/data/in.txt"}
JDBC = {"protocol": "1", "table": "shop.public.orders"}
SERVER = {"server": "shop"}
MSSQL = {"server": "shop", "database": "crm"}
ODD = {"id": "x"}
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
NOON = 1_795_262_400_000  # 2026-11-21T12:00:00Z
HOUR = 3_600_000


def mysql(file: str, pos: int, **more: Any) -> dict[str, Any]:
    return {"file": f"mysql-bin.{file}", "pos": pos, **more}


@pytest.mark.parametrize(
    ("partition", "old", "new", "effect", "direction"),
    [
        # files, in bytes
        (FILE, {"position": 120}, {"position": 6}, "re-reads 114 bytes", "back"),
        (FILE, {"position": 6}, {"position": 7}, "jumps over 1 byte", "ahead"),
        (FILE, {"position": 0}, {"position": 36_700_160}, "jumps over 36,700,160 bytes", "ahead"),
        (FILE, {"position": "6"}, {"position": 7}, OPAQUE, "unclear"),
        # MirrorMaker, in offsets
        (
            {"cluster": "eu", "topic": "t", "partition": 3},
            {"offset": 12_000},
            {"offset": 2_000},
            "re-reads 10,000 offsets",
            "back",
        ),
        # JDBC: a number, a time, both
        (
            JDBC,
            {"incrementing": 6000},
            {"incrementing": 5000},
            "re-reads the rows of 1,000 ids",
            "back",
        ),
        (
            JDBC,
            {"timestamp": NOON, "timestamp_nanos": 0},
            {"timestamp": NOON - 2 * HOUR, "timestamp_nanos": 0},
            "re-reads the rows of 2 h, from 2026-11-21T10:00:00Z",
            "back",
        ),
        (
            JDBC,
            {"timestamp": NOON, "incrementing": 7},
            {"timestamp": NOON + HOUR, "incrementing": 1},
            "jumps over the rows of 1 h, up to 2026-11-21T13:00:00Z",
            "ahead",
        ),
        (
            {"query": "query"},
            {"timestamp": NOON, "incrementing": 7},
            {"timestamp": NOON, "incrementing": 5},
            "re-reads the rows of 2 ids",
            "back",
        ),
        # the nanos replace the fraction that the milliseconds hold
        (
            JDBC,
            {"timestamp": NOON + 900, "timestamp_nanos": 100_000_000},
            {"timestamp": NOON + 100, "timestamp_nanos": 900_000_000},
            "jumps over the rows of less than 1 s",
            "ahead",
        ),
        (JDBC, {"timestamp": NOON}, {"timestamp": NOON, "incrementing": 1}, OPAQUE, "unclear"),
        (JDBC, {"timestamp": 1_795_262_400}, {"timestamp": 1_795_262_000}, OPAQUE, "unclear"),
        (JDBC, {"timestamp": NOON, "x": 1}, {"timestamp": NOON + 1, "x": 2}, OPAQUE, "unclear"),
        # Debezium for PostgreSQL: 16/B374D848 is 0x16B374D848 = 97500059720
        (
            SERVER,
            {"lsn": 97_500_059_720, "txId": 9, "ts_usec": 2},
            {"lsn": 97_500_058_720, "txId": 8, "ts_usec": 1},
            "goes back by 1,000 bytes of WAL, which is not re-read: PostgreSQL skips",
            "back",
        ),
        (
            SERVER,
            {"lsn": 97_500_059_720, "txId": 9},
            {"lsn": "16/B374D849", "txId": 9},
            "jumps over 1 byte of WAL",
            "ahead",
        ),
        (
            SERVER,
            {"lsn": 900, "lsn_proc": 900, "lsn_commit": 800},
            {"lsn": 500, "lsn_proc": 500, "lsn_commit": 400},
            "goes back by 400 bytes of WAL",
            "back",
        ),
        # it would go on from the position that stays
        (SERVER, {"lsn": 900, "lsn_proc": 900}, {"lsn": 500, "lsn_proc": 900}, OPAQUE, "unclear"),
        (SERVER, {"lsn": 900, "lsn_proc": 900}, {"lsn": 500}, OPAQUE, "unclear"),
        (SERVER, {"lsn": 9, "snapshot": True}, {"lsn": 5, "snapshot": True}, OPAQUE, "unclear"),
        (SERVER, {"lsn": 9, "txId": 1}, {"lsn": 9, "txId": 2}, OPAQUE, "unclear"),
        # Debezium for MySQL
        (
            SERVER,
            mysql("000003", 4000, row=1, event=2, ts_sec=9),
            mysql("000003", 1000, row=0, event=0, ts_sec=1),
            "goes back by 3,000 bytes of mysql-bin.000003, re-read if",
            "back",
        ),
        (SERVER, mysql("000009", 4), mysql("000010", 1), "goes ahead to mysql-bin.000010", "ahead"),
        (SERVER, mysql("000010", 4), mysql("000009", 9), "goes back to mysql-bin.000009", "back"),
        (SERVER, {"file": "a.000001", "pos": 1}, {"file": "b.000002", "pos": 1}, OPAQUE, "unclear"),
        (
            SERVER,
            mysql("000003", 1, gtids=f"{UUID}:1-100,{OTHER}:1-5"),
            mysql("000003", 1, gtids=f"{OTHER}:1-5, {UUID}:1-40:41-90"),
            "goes back by 10 transactions",
            "back",
        ),
        (
            SERVER,
            mysql("000003", 1, gtids=f"{UUID}:1-100"),
            mysql("000009", 7, gtids=f"{UUID}:1-100,{OTHER}:7"),
            "jumps over 1 transaction",
            "ahead",
        ),
        # neither set holds the other; one has no set; a tag; MariaDB
        (
            SERVER,
            mysql("000003", 1, gtids=f"{UUID}:1-100"),
            mysql("000003", 1, gtids=f"{OTHER}:1-50"),
            OPAQUE,
            "unclear",
        ),
        (SERVER, mysql("000003", 1, gtids=f"{UUID}:1"), mysql("000002", 1), OPAQUE, "unclear"),
        (
            SERVER,
            mysql("000003", 1, gtids=f"{UUID}:tag:1-9"),
            mysql("000003", 1, gtids=f"{UUID}:tag:1-5"),
            OPAQUE,
            "unclear",
        ),
        (
            SERVER,
            mysql("000003", 1, gtids="0-1-100"),
            mysql("000003", 1, gtids="0-1-90"),
            OPAQUE,
            "unclear",
        ),
        # Debezium for SQL Server: an order without a distance
        (
            MSSQL,
            {"commit_lsn": "00000025:00000d98:00a2", "change_lsn": "NULL", "event_serial_no": 1},
            {"commit_lsn": "00000025:00000c00:0001", "change_lsn": "NULL", "event_serial_no": 0},
            "goes back",
            "back",
        ),
        # MongoDB's tokens and S3's keys have no order that anyone else may know
        (
            {"server_id": "shop"},
            {"resume_token": "8263", "sec": 5},
            {"resume_token": "8262", "sec": 4},
            OPAQUE,
            "unclear",
        ),
        ({"bucket": "b"}, {"key": "in/7.json"}, {"key": "in/6.json"}, OPAQUE, "unclear"),
        # shapes that nobody told, by one field
        (ODD, {"id": 9}, {"id": 5}, "id goes back by 4", "back"),
        (ODD, {"seq": "900"}, {"seq": "1900"}, "seq goes ahead by 1,000", "ahead"),
        (ODD, {"seq": "09"}, {"seq": "10"}, OPAQUE, "unclear"),
        (ODD, {"seq": 9.5}, {"seq": 9.0}, OPAQUE, "unclear"),
        (ODD, {"done": True}, {"done": False}, OPAQUE, "unclear"),
        (ODD, {"lsn": "0/FF"}, {"lsn": "1/0"}, "lsn goes ahead by 4,294,967,041 bytes", "ahead"),
        (
            ODD,
            {"updatedAt": NOON},
            {"updatedAt": NOON - 90 * 60_000},
            "updatedAt goes back by 1 h 30 min to 2026-11-21T10:30:00Z",
            "back",
        ),
        (
            ODD,
            {"ts": NOON // 1000},
            {"ts": NOON // 1000 + 86_400},
            "ts goes ahead by 1 d to 2026-11-22T12:00:00Z",
            "ahead",
        ),
        (
            ODD,
            {"ts_us": NOON * 1000},
            {"ts_us": NOON * 1000 - 1},
            "ts_us goes back by less than 1 s",
            "back",
        ),
        (ODD, {"update_id": NOON}, {"update_id": NOON + 5}, "update_id goes ahead by 5", "ahead"),
        (ODD, {"ts": 5}, {"ts": 4}, "ts goes back by 1", "back"),
        (
            ODD,
            {"since": "2026-11-20T10:00:00Z"},
            {"since": "2026-11-20T12:13:00+02:00"},
            "since goes ahead by 13 min to 2026-11-20T10:13:00Z",
            "ahead",
        ),
        (
            ODD,
            {"since": "2026-11-20T10:00:00"},
            {"since": "2026-11-20T10:00:00Z"},
            OPAQUE,
            "unclear",
        ),
        (ODD, {"a": 1, "b": 1}, {"a": 2, "b": 2}, OPAQUE, "unclear"),
        (ODD, {"a": 1}, {"b": 1}, OPAQUE, "unclear"),
        (ODD, {"a": None}, {"a": 1}, OPAQUE, "unclear"),
    ],
)
def test_a_move(
    partition: dict[str, Any],
    old: dict[str, Any],
    new: dict[str, Any],
    effect: str,
    direction: str,
) -> None:
    """Moves of source offsets in human units: bytes, rows, time; else opaque."""
    text, told, _ = source_effect(partition, old, new)
    assert effect in text
    assert told == direction
    back, _, _ = source_effect(partition, new, old)
    assert (OPAQUE in back) == (OPAQUE in text)


@pytest.mark.parametrize(
    ("partition", "old", "new", "effect", "counts"),
    [
        (FILE, {"position": 9}, {"position": 2}, "re-reads at least 7 bytes", Counts(7, 0)),
        (FILE, {"position": 2}, {"position": 9}, "jumps over at most 7 bytes", Counts(0, 7)),
        (
            FILE,
            {"position": 9},
            {"position": 9},
            "stays at position 9: what it reads until it is stopped is re-read",
            Counts(),
        ),
        (
            JDBC,
            {"timestamp": NOON},
            {"timestamp": NOON - 2 * HOUR},
            "re-reads the rows of at least 2 h, from 2026-11-21T10:00:00Z",
            Counts(7200, 0),
        ),
        (
            JDBC,
            {"timestamp": NOON},
            {"timestamp": NOON - 1},
            "timestamp 1795262399999: goes back to 2026-11-21T11:59:59Z",
            Counts(0, 0),
        ),
        (
            SERVER,
            mysql("000003", 4000),
            mysql("000003", 1000),
            "goes back by at least 3,000 bytes of mysql-bin.000003, re-read if",
            Counts(3000, 0),
        ),
        (SERVER, {"lsn": 900}, {"lsn": 500}, "at least 400 bytes of WAL, which is not re-", None),
        (ODD, {"id": 9}, {"id": 5}, "id goes back by at least 4", None),
        (ODD, {"a": 1, "b": 1}, {"a": 2, "b": 2}, OPAQUE, None),
    ],
)
def test_a_source_that_reads_on(
    partition: dict[str, Any],
    old: dict[str, Any],
    new: dict[str, Any],
    effect: str,
    counts: Counts | None,
) -> None:
    """It is further when it is stopped: at least what is read again, at most what is skipped."""
    text, _, told = source_effect(partition, old, new, reads_on=True)
    assert effect in text
    plain, _, exact = source_effect(partition, old, new)
    assert "at least" not in plain
    assert "at most" not in plain
    if counts is None:
        assert told is exact is None
    else:
        assert told is not None
        assert exact == replace(told, exact=True)
        assert told == replace(counts, unit=told.unit, exact=False)


def test_forgotten_and_first_offsets() -> None:
    assert source_effect(FILE, {"position": 5}, None) == (
        "/data/in.txt position 5 → none: reads from its start",
        "forgotten",
        None,
    )
    text, _, _ = source_effect(SERVER, {"lsn": 5}, None)
    assert text.endswith("none: begins as if it had never read it")
    assert source_effect(FILE, None, {"position": 5})[1] == "start"
    assert source_effect(FILE, None, None)[1] == "same"
    assert source_effect(FILE, {"position": 5}, {"position": 5})[1] == "same"


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(sorted(shape.fields)))
def test_words_of_shapes_take_an_amount(shape: Any) -> None:
    assert shape.back.count("{size}") == shape.back.count("{place}") == 1
    assert shape.partitions
    assert shape.measures
