"""Log lines as text and as JSON."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from connect_runtime.logs import log_format
from connect_runtime.logs.log_format import JsonLines, TextLines, process_is_about


@pytest.fixture(autouse=True)
def _process() -> Iterator[None]:
    """Each test is a process of its own."""
    yield
    log_format._process_is_about.clear()


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


def test_text_names_connector_and_task_as_connect_does() -> None:
    assert " WARNING x (a.b)" in TextLines().format(record("x"))
    assert " WARNING [orders] x (a.b)" in TextLines().format(record("x", connector="orders"))
    process_is_about(connector="orders", task=0)
    assert " WARNING [orders|task-0] x (a.b)" in TextLines().format(record("x"))


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(log_format.VARIABLE, raising=False)
    assert log_format.chosen() == "text"
    monkeypatch.setenv(log_format.VARIABLE, "json")
    assert log_format.chosen() == "json"
