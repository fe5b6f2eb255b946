"""How readings get from a task's process to the driver."""

from __future__ import annotations

import os
from pathlib import Path

from connect_runtime.spark.readings import ReadingFile, read


def test_the_newest_reading_is_read(tmp_path: Path) -> None:
    readings = iter([b'{"metrics":{"a":1000}}', b'{"metrics":{"a":2}}'])
    path = tmp_path / "lease.metrics"
    file = ReadingFile(path, lambda: next(readings))
    assert read(path) is None
    file.publish()
    assert read(path) == {"metrics": {"a": 1000}}
    file.close()
    assert read(path) == {"metrics": {"a": 2}}


def test_a_reading_that_did_not_change_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "lease.metrics"
    file = ReadingFile(path, lambda: b"{}")
    assert file.publish()
    os.truncate(path, 0)
    assert not file.publish()
    assert path.stat().st_size == 0


def test_a_reading_that_is_half_written_is_none(tmp_path: Path) -> None:
    path = tmp_path / "lease.metrics"
    ReadingFile(path, lambda: b'{"metrics":{"a":1}}').publish()
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    assert read(path) is None
    path.write_bytes(content[:5])
    assert read(path) is None
    assert read(tmp_path / "none") is None


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert read(tmp_path) is None
