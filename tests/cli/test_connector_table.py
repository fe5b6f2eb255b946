"""Rows of connectors, and the lines of `up` about them."""

import json
import logging
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from errno import ENOSPC
from io import BufferedWriter, RawIOBase, StringIO, TextIOWrapper
from itertools import pairwise
from typing import Any, cast

import pytest
import yaml

from connect_reconciler.backend.observe.plugin_facts import SpecSecrets, error_line
from connect_reconciler.cli.connector_table import Row, changes, draw, row_of, short_of_slots
from connect_reconciler.cli.foreground import _drawn, _print_changes, looking
from connect_reconciler.cli.output import PROGRESS, progress
from connect_reconciler.cli.runtime_logs import events, is_about
from connect_reconciler.cli.signals import StopFlag
from connect_runtime.api import ConnectorError
from connect_runtime.api.configdef import ConfigType, parse_value
from connect_runtime.herder.connect_cluster import ConnectCluster
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus, RuntimeInfo
from connect_runtime.logs.log_output import VARIABLE
from connect_runtime.storage.snapshots import State, TaskId
from connect_runtime.traces import own_jvm_trace, trace_text
from connect_specs.plain_text import width_of
from connect_specs.secrets import Redactor
from support.connectors import SOURCE
from support.memory_cluster import MemoryCluster

TRACE = 'Traceback (most recent call last):\n  File "x.py", line 1\nOSError: disk full\n\n'


def status(*states: State) -> ConnectorStatus:
    tasks = {
        number: InstanceStatus(state, "w", TRACE if state is State.FAILED else None)
        for number, state in enumerate(states)
    }
    return ConnectorStatus("c", InstanceStatus(State.RUNNING, "w"), tasks, "sink")


class OneFailed:
    """What `up` shows rows of."""

    def runtime(self) -> RuntimeInfo:
        return RuntimeInfo("http://me", True, 1, 4, 0)

    def changes(self) -> int:
        return 1

    def connectors(self) -> list[str]:
        return ["c"]

    def status(self, name: str) -> ConnectorStatus:
        trace = "OSError: no s3cret opens, nor hunter2"
        return ConnectorStatus(name, InstanceStatus(State.FAILED, "w", trace), {}, "sink")

    def config(self, name: str) -> dict[str, str]:
        return {"connector.class": "FileStreamSink", "pin": "s3cret", "db.password": "hunter2"}


def test_up_says_why_one_failed_without_what_its_spec_calls_sensitive() -> None:
    rows = looking(cast(ConnectCluster, OneFailed()), SpecSecrets({"c": ("p*",)}.__getitem__))()
    assert rows["c"].reasons == ("OSError: no (hidden) opens, nor (hidden)",)


def test_rows_are_made_anew_when_something_has_changed_or_after_a_while() -> None:
    cluster = MemoryCluster()
    verbs = cluster.leader().verbs
    look = looking(verbs, SpecSecrets(), cluster.clock)

    def seen() -> list[tuple[str, str, int]]:
        return [(row.name, row.state, row.tasks) for row in look().values()]

    assert seen() == []
    verbs.create("c", {"name": "c", "connector.class": SOURCE}, None)
    cluster.settle()
    assert seen() == [("c", "RUNNING", 1)]
    rows = look()
    for runtime in cluster.runtimes:
        runtime.move()
    assert look() is rows
    cluster.clock.now += 60
    assert look() is not rows
    verbs.pause("c")
    cluster.settle()
    assert seen() == [("c", "PAUSED", 1)]
    verbs.delete("c")
    assert seen() == []


def test_a_row_counts_tasks_and_says_why_one_failed() -> None:
    row = row_of(
        status(State.RUNNING, State.FAILED, State.UNASSIGNED), [TaskId("c", 2), TaskId("d", 0)]
    )
    assert row == Row("c", "sink", "FAILED", 3, 1, 1, ("task 1: OSError: disk full",))
    assert draw([row]) == (
        "CONNECTOR  TYPE  STATE   TASKS  SLOTS SHORT  REASON\n"
        "c          sink  FAILED  1/3    1            task 1: OSError: disk full\n"
    )


def test_a_reason_in_wide_characters_keeps_to_the_terminal() -> None:
    row = replace(
        row_of(status(State.FAILED)), name="注文", reasons=("注文の読み取りに失敗しました" * 2,)
    )
    lines = draw([row], width=90).splitlines()
    assert len(lines) == 2
    assert width_of(lines[1]) in (89, 90)
    shown, more = lines[1].split()[-2:]
    assert (row.reasons[0].startswith(shown), more) == (True, "…")


def test_each_reason_stands_once_with_its_tasks() -> None:
    waits = "The task waits for a slot: all 2 are taken. Each task takes one."
    java = "java.nio.file.NoSuchFileException: /x\n\tat java.base/sun.nio.fs.A.b(A.java:1)\n"

    def of(*traces: str | None) -> tuple[str, ...]:
        tasks = {
            number: InstanceStatus(State.FAILED if trace else State.RUNNING, "w", trace)
            for number, trace in enumerate(traces)
        }
        found = ConnectorStatus("c", InstanceStatus(State.RUNNING, "w"), tasks, "sink")
        return row_of(found).reasons

    assert of(waits, waits, waits) == (waits,)
    assert of(None, waits, waits) == (f"tasks 1, 2: {waits}",)
    assert of(None, *[waits] * 9) == (f"tasks 1, 2, 3, 4, 5 and 4 more: {waits}",)
    assert of(java) == ("NoSuchFileException: /x",)
    assert of(java, None, TRACE) == (
        "task 0: NoSuchFileException: /x",
        "task 2: OSError: disk full",
    )
    assert of("connect.sinks: nothing. Is there: no") == ("connect.sinks: nothing. Is there: no",)


def _raised(error: Callable[[], object]) -> str:
    try:
        error()
    except BaseException as raised:
        return trace_text(raised, Redactor(()))
    raise AssertionError("nothing was raised")


def _caused() -> None:
    try:
        raise OSError("no route to db:5432")
    except OSError as cause:
        raise ConnectorError("Tolerance exceeded in error handler") from cause


def _while_handling() -> None:
    try:
        {}["key"]
    except KeyError:
        raise ValueError("no such column") from None


def _in_context() -> None:
    try:
        {}["key"]
    except KeyError:
        _caused()


def _group(*errors: Callable[[], object]) -> None:
    raised: list[Exception] = []
    for error in errors:
        try:
            error()
        except Exception as each:
            raised.append(each)
    raise ExceptionGroup("unhandled errors in a TaskGroup", raised)


def _group_in_a_group() -> None:
    _group(lambda: _group(_caused, _while_handling), _while_handling)


def _group_as_a_cause() -> None:
    try:
        _group(_while_handling, _caused)
    except ExceptionGroup as cause:
        raise ConnectorError("poll failed") from cause


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (lambda: _group(_while_handling, _caused), "ValueError: no such column"),
        (lambda: _group(lambda: int("x")), "ValueError: invalid literal for int() with base 10"),
        (_group_in_a_group, "OSError: no route to db:5432"),
        (_group_as_a_cause, "ValueError: no such column"),
        (_caused, "OSError: no route to db:5432"),
        (_while_handling, "ValueError: no such column"),
        (_in_context, "OSError: no route to db:5432"),
        (lambda: yaml.safe_load("a: [1\nb: ]"), "ParserError: while parsing a flow sequence"),
        (lambda: compile("x = (", "x.py", "exec"), "SyntaxError: '(' was never closed (x.py,"),
        (lambda: parse_value("a", "x" * 900, ConfigType.INT), "ConfigError: Invalid value xxx"),
    ],
)
def test_a_reason_is_the_line_that_names_the_innermost_cause(
    error: Callable[[], object], line: str
) -> None:
    """The trap: the last line of a Python trace is a `^`, or the rest of a message."""
    shown = error_line(_raised(error))
    assert shown.startswith(line.removesuffix(" (x.py,"))
    assert len(shown) <= 302


def test_a_reason_is_the_first_line_of_an_error_without_a_stack() -> None:
    text = "Error encountered in task c-0. Executing stage 'TRANSFORMATION'\nwith class 'x'."
    assert error_line(text) == "Error encountered in task c-0. Executing stage 'TRANSFORMATION'"
    assert error_line(f"{TRACE}a note that was added\n") == "OSError: disk full"


def test_the_reason_for_a_jvm_of_its_own_is_no_error_that_the_former_one_logged() -> None:
    line = error_line(own_jvm_trace("The JVM ended with exit code 7\nCaused by: X: refused"))
    assert line.endswith("The JVM ended with exit code 7")


def test_a_table_is_as_wide_as_the_terminal() -> None:
    row = Row("c", "sink", "FAILED", 1, 0, None, ("OSError: the disk of this machine is full",))
    well = Row("d", "sink", "RUNNING", 1, 1, None)
    assert draw([row, well], width=60) == (
        "CONNECTOR  TYPE  STATE    TASKS  REASON\n"
        "c          sink  FAILED   0/1    OSError: the disk of this …\n"
        "d          sink  RUNNING  1/1\n"
    )
    assert draw([row, well], width=40) == (
        "CONNECTOR  TYPE  STATE    TASKS\n"
        "c          sink  FAILED   0/1\n"
        "    OSError: the disk of this machine …\n"
        "d          sink  RUNNING  1/1\n"
    )
    long = Row("c", "sink", "FAILED", 1, 0, None, ("x" * 5000,))
    assert max(map(len, draw([long], width=100).splitlines())) == 100
    assert len(draw([long], width=100).splitlines()) == 2
    assert "x" * 5000 in draw([long])


def test_what_others_named_does_not_steer_a_terminal() -> None:
    row = Row("a\x1b[2Jb", "sink", "FAILED", 1, 0, None)
    assert "\x1b" not in draw([row])
    trace = "OSError: \x1b]0;title\x07\n"
    found = ConnectorStatus("c", InstanceStatus(State.FAILED, "w", trace), {}, "sink")
    assert "\x1b" not in draw([row_of(found)])


def test_who_waits_for_a_slot_is_told_what_to_do() -> None:
    one = Row("c", "sink", "RUNNING", 3, 2, 1)
    assert short_of_slots([one]).startswith("1 task waits for a slot: ")
    assert short_of_slots([one, one]).startswith("2 tasks wait for a slot: ")
    assert short_of_slots([Row("c", "sink", "-", 3, None, None)]) == ""


def test_changes_are_told_once() -> None:
    starting, running = row_of(status(State.UNASSIGNED)), row_of(status(State.RUNNING))
    assert changes(None, starting) == ["c: RUNNING, tasks 0/1 running"]
    assert changes(starting, running) == ["c: RUNNING, tasks 1/1 running"]
    assert changes(running, running) == []
    assert changes(running, None) == ["c: deleted"]


def test_the_table_on_a_terminal_has_slots() -> None:
    class OfTwo(OneFailed):
        def ready(self) -> bool:
            return True

    rows = {
        "sink": Row("sink", "sink", "RUNNING", 1, 1, 0),
        "c": Row("c", "source", "FAILED", 1, 0, 0),
    }
    table = _drawn(rows, cast(ConnectCluster, OfTwo()), 80)
    assert table.plain == (
        "CONNECTOR  TYPE    STATE    TASKS  SLOTS SHORT\n"
        "sink       sink    RUNNING  1/1    0\n"
        "c          source  FAILED   0/1    0\n"
        "\n0 of 4 slots in use"
    )


class Disk(RawIOBase):
    """A file on a disk that is full for the first writes."""

    def __init__(self, fails: int) -> None:
        self.fails = fails
        self.text = ""

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.fails -= 1
        if self.fails >= 0:
            raise OSError(ENOSPC, "No space left on device")
        self.text += bytes(content).decode()
        return len(content)


def test_connectors_run_on_while_the_output_is_on_a_full_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What could not be written is written later, in order."""
    monkeypatch.setattr("connect_reconciler.cli.foreground._CHECK_EVERY_S", 0.0)
    disk, stop = Disk(fails=2), StopFlag()
    monkeypatch.setattr("sys.stdout", TextIOWrapper(BufferedWriter(disk), "utf-8"))
    looks = [{"c": row_of(status(*[State.RUNNING] * tasks), waiting=())} for tasks in (1, 2, 3)]
    left = list(looks)

    def look() -> dict[str, Row]:
        if len(left) == 1:
            stop.set()
        return left.pop(0)

    _print_changes(stop, look, as_json=True)
    sys.stdout.flush()
    shown = [json.loads(line)["event"] for line in disk.text.splitlines()]
    rows = [None, *(rows["c"] for rows in looks)]
    assert shown == [line for before, after in pairwise(rows) for line in changes(before, after)]
    assert len(shown) == 3


def test_changes_of_state_are_events_of_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`connect logs NAME` finds them."""
    monkeypatch.setattr("connect_reconciler.cli.foreground._CHECK_EVERY_S", 0.0)
    stop = StopFlag()

    def look() -> dict[str, Row]:
        stop.set()
        row = row_of(status(State.RUNNING), waiting=())
        return {name: replace(row, name=name) for name in ("a b", "c: d")}

    began = time.time() - 1
    _print_changes(stop, look, as_json=False)
    found = list(events(capsys.readouterr().out.splitlines()))
    assert [is_about(found[0], name) for name in ("a b", "c: d")] == [True, False]
    assert [is_about(found[1], name) for name in ("a b", "c: d")] == [False, True]
    assert "INFO [c: d] c: d: RUNNING, tasks 1/1 running" in found[1].text
    assert all(began < each.at < time.time() + 1 for each in found)


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("as_json", [True, False])
def test_changes_of_state_leave_stdout_to_connectors_that_write_there(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    log_format: str,
    as_json: bool,
) -> None:
    monkeypatch.setattr("connect_reconciler.cli.foreground._CHECK_EVERY_S", 0.0)
    monkeypatch.setenv(VARIABLE, log_format)
    stop = StopFlag()

    def look() -> dict[str, Row]:
        stop.set()
        return {"c": row_of(status(State.RUNNING), waiting=())}

    with caplog.at_level(logging.INFO if log_format == "json" else logging.WARNING, PROGRESS):
        _print_changes(stop, look, as_json=as_json, to_stderr=True)
    shown, told = capsys.readouterr()
    assert shown == ""
    line = "c: RUNNING, tasks 1/1 running"
    if log_format == "json":
        assert [(each.message, vars(each)["connector"]) for each in caplog.records] == [(line, "c")]
    elif as_json:
        assert json.loads(told) == {"event": line}
    else:
        assert f"INFO [c] {line}" in told


@pytest.mark.parametrize("closed", [True, False])
def test_connectors_run_on_though_a_plugin_took_the_output_away(
    monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    """A connector runs in the runtime's process, and may redirect it."""
    monkeypatch.setattr("connect_reconciler.cli.foreground._CHECK_EVERY_S", 0.0)
    stream = StringIO()
    stream.close()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, stream if closed else None)
    stop, looked = StopFlag(), 0

    def look() -> dict[str, Row]:
        nonlocal looked
        looked += 1
        if looked == 2:
            stop.set()
        return {"c": row_of(status(*[State.RUNNING] * looked), waiting=())}

    _print_changes(stop, look, as_json=False)
    progress("stopping")
    assert looked == 2
