"""Log lines as text and as JSON, and files that stay small, whoever writes to them."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.logs import log_output
from connect_runtime.logs.log_output import (
    JsonLines,
    TextLines,
    open_log,
    process_is_about,
    rotate,
)


@pytest.fixture(autouse=True)
def _process() -> Iterator[None]:
    """Each test is a process of its own."""
    yield
    log_output._process_is_about.clear()


def record(text: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("a.b", logging.WARNING, __file__, 1, text, args, None)
    made.__dict__.update(extra)
    made.created = 1_700_000_000.25
    return made


def event(made: logging.LogRecord) -> dict[str, Any]:
    line = JsonLines().format(made)
    assert "\n" not in line
    found: dict[str, Any] = json.loads(line)
    return found


def test_an_event_is_one_line_of_json() -> None:
    process_is_about(connector="orders", task=2, worker="w:1")
    assert event(record("first\nsecond %s", "x\ud800")) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "WARNING",
        "logger": "a.b",
        "message": "first\nsecond x\ud800",
        "connector": "orders",
        "task": 2,
        "worker": "w:1",
    }


def test_an_event_may_name_another_connector_than_its_process() -> None:
    process_is_about(worker="w:1", connector="other")
    found = event(record("fails", connector="orders"))
    assert (found["connector"], found["worker"], "task" in found) == ("orders", "w:1", False)


def test_an_exception_is_a_field() -> None:
    try:
        raise ValueError("boom")
    except ValueError:
        made = record("failed")
        made.exc_info = sys.exc_info()
    found = event(made)
    assert found["message"] == "failed"
    assert found["exception"].endswith("ValueError: boom")


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (record("bad %d", "x"), "bad %d (its arguments cannot be shown: TypeError)"),
        (record("few %s %s", "x"), "few %s %s (its arguments cannot be shown: TypeError)"),
        (record("%s", Unprintable()), "%s (its arguments cannot be shown: RuntimeError)"),
    ],
)
def test_an_event_whose_arguments_do_not_fit_is_one(made: logging.LogRecord, text: str) -> None:
    assert event(made)["message"] == text
    assert f" WARNING {text} (a.b)" in TextLines().format(made)


def test_objects_of_a_plugin_are_no_names() -> None:
    process_is_about(connector="orders", task=2)
    found = event(record("x", connector=object(), task=Unprintable(), worker=b"w"))
    assert (found["connector"], found["task"], "worker" in found) == ("orders", 2, False)


def test_a_file_takes_texts_that_are_no_utf_8(tmp_path: Path) -> None:
    code = (
        "import logging, sys; from pathlib import Path; from connect_runtime.logs import log_output"
    )
    code += "; log_output.log_to(Path(sys.argv[1]), logging.INFO); logging.error('x\\ud800')"
    file = tmp_path / "log"
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)
    assert r" ERROR x\ud800 (root)" in file.read_text()


_WRITES = """
import logging, threading, warnings
from connect_runtime.logs.log_output import log_to, process_is_about
log_to(None, logging.INFO)
process_is_about(connector="orders", task=2)
warnings.warn("old")
thread = threading.Thread(target=lambda: 1 / 0, name="reader")
thread.start()
thread.join()
"""


def test_warnings_and_ends_of_threads_are_events_of_the_connector() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WRITES],
        env={**os.environ, log_output.VARIABLE: "json"},
        capture_output=True,
        text=True,
        check=True,
    )
    warning, end = map(json.loads, done.stderr.splitlines())
    assert (warning["level"], warning["task"]) == ("WARNING", 2)
    assert "UserWarning: old" in warning["message"]
    assert (end["message"], end["connector"]) == (
        "The thread reader ended by an exception",
        "orders",
    )
    assert end["exception"].endswith("ZeroDivisionError: division by zero")


def test_text_names_connector_and_task_as_connect_does() -> None:
    assert " WARNING x (a.b)" in TextLines().format(record("x"))
    assert " WARNING [orders] x (a.b)" in TextLines().format(record("x", connector="orders"))
    process_is_about(connector="orders", task=0)
    assert " WARNING [orders|task-0] x (a.b)" in TextLines().format(record("x"))


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(log_output.VARIABLE, raising=False)
    assert log_output.chosen() == "text"
    monkeypatch.setenv(log_output.VARIABLE, "json")
    assert log_output.chosen() == "json"


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
