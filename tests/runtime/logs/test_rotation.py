"""A log is bounded, whoever writes to it."""

from __future__ import annotations

from pathlib import Path

from connect_runtime.logs.rotation import open_log, rotate


def test_a_large_log_moves_to_older_files_and_its_writers_go_on(tmp_path: Path) -> None:
    file = tmp_path / "spark.log"
    with open_log(file) as writer:
        for number in range(4):
            writer.write(b"%d" % number * 100)
            writer.flush()
            rotate(file, most_bytes=99)
        writer.write(b"new")
    texts = {each.name: each.read_text()[:3] for each in tmp_path.iterdir()}
    assert texts == {"spark.log": "new", "spark.log.1": "333", "spark.log.2": "222"}
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}


def test_a_small_log_and_none_stay_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "spark.log"
    rotate(file)
    with open_log(file) as writer:
        writer.write(b"a few lines")
    rotate(file)
    assert [each.name for each in tmp_path.iterdir()] == ["spark.log"]
