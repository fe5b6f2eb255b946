"""One row per connector, the same in `status` and `up`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from connect_reconciler.backend.observe.plugin_facts import error_line
from connect_reconciler.cli.output import table
from connect_runtime.herder.verbs import ConnectorStatus
from connect_runtime.storage.snapshots import State, TaskId
from connect_specs.plain_text import listed, one_line, width_of

_UNKNOWN = "-"
_REASON = "REASON"
# The state of a connector that a spec names but that is not on the cluster
MISSING = "MISSING"
_GAP = 2
# With less room than this, reasons stand below their row
_REASON_LEAST = 24
_INDENT = "    "
_MORE = " …"


@dataclass(frozen=True, slots=True)
class Row:
    """One connector. It is FAILED if one of its tasks is.

    `running` is None if no runtime is up. `short` counts tasks that wait for a slot, None if
    unknown. `reasons` say why it or its tasks do not run. `target` is its target state and
    `project` its owner, where they are shown.
    """

    name: str
    kind: str
    state: str
    tasks: int
    running: int | None
    short: int | None
    reasons: tuple[str, ...] = ()
    target: str = ""
    project: str = ""


def missing(name: str, reason: str, *, target: str) -> Row:
    """Returns the row of a connector that should be on the cluster but is not."""
    return Row(name, _UNKNOWN, MISSING, 0, None, None, (reason,), target)


def row_of(status: ConnectorStatus, waiting: Sequence[TaskId] = (), *, target: str = "") -> Row:
    """Returns the row of a connector whose runtime is up."""
    return Row(
        name=status.name,
        kind=status.type,
        state=state_of(status).value,
        tasks=len(status.tasks),
        running=sum(task.state is State.RUNNING for task in status.tasks.values()),
        short=sum(task.connector == status.name for task in waiting),
        reasons=reasons(status),
        target=target,
    )


def state_of(status: ConnectorStatus) -> State:
    """Returns a connector's own state; FAILED as soon as one of its tasks is."""
    failed = any(task.state is State.FAILED for task in status.tasks.values())
    return State.FAILED if failed else status.connector.state


def reasons(status: ConnectorStatus) -> tuple[str, ...]:
    """Returns why a connector or its tasks do not run: each reason once, with its tasks."""
    lines = [] if status.connector.trace is None else [error_line(status.connector.trace)]
    tasks: dict[str, list[int]] = {}
    for number, task in sorted(status.tasks.items()):
        if task.trace is not None:
            tasks.setdefault(error_line(task.trace), []).append(number)
    for reason, numbers in tasks.items():
        lines.append(
            reason if len(numbers) == len(status.tasks) else f"{_task_numbers(numbers)}: {reason}"
        )
    return tuple(dict.fromkeys(lines))


def draw(rows: Sequence[Row], *, width: int | None = None) -> str:
    """Draws the rows as a table, each reason in its row; no wider than `width` if names permit."""
    columns: dict[str, Callable[[Row], str]] = {
        "CONNECTOR": lambda row: one_line(row.name),
        "TYPE": lambda row: row.kind,
        "STATE": lambda row: row.state,
        "TASKS": _tasks,
    }
    if any(row.short is not None for row in rows):
        columns["SLOTS SHORT"] = lambda row: _number(row.short)
    if any(row.target for row in rows):
        columns = {"CONNECTOR": columns["CONNECTOR"], "TARGET": lambda row: row.target} | columns
    if any(row.project for row in rows):
        columns["PROJECT"] = lambda row: one_line(row.project)
    head = list(columns)
    cells = [[cell(row) for cell in columns.values()] for row in rows]
    if not any(row.reasons for row in rows):
        return table(head, cells)
    room = _room([head, *cells], width)
    if room is not None and room < _REASON_LEAST:
        return _with_reasons_below(table(head, cells), rows, width or 0)
    lines: list[list[str]] = []
    for row, line in zip(rows, cells, strict=True):
        first, *more = [_cut(reason, room) for reason in row.reasons] or [""]
        lines.append([*line, first])
        lines += [[*[""] * len(head), continuation] for continuation in more]
    return table([*head, _REASON], lines)


def short_of_slots(rows: Sequence[Row]) -> str:
    """Returns advice about tasks that wait for a slot; empty if none does."""
    short = sum(row.short or 0 for row in rows)
    if not short:
        return ""
    tasks = "1 task waits" if short == 1 else f"{short} tasks wait"
    return (
        f"{tasks} for a slot: `connect down`, then `connect up --slots N` with a larger N; a Spark "
        "cluster needs more cores"
    )


def changes(earlier: Row | None, row: Row | None) -> list[str]:
    """Returns a line if the connector changed, and one for each new reason; None for a row of a
    connector that does not exist."""
    if row is None:
        return [f"{earlier.name}: deleted"] if earlier else []
    if row == earlier:
        return []
    short = f", {row.short} short of a slot" if row.short else ""
    reported = () if earlier is None else earlier.reasons
    lines = [f"{row.state}, tasks {_tasks(row)} running{short}"]
    lines += [reason for reason in row.reasons if reason not in reported]
    return [f"{row.name}: {line}" for line in lines]


def _room(lines: Sequence[Sequence[str]], width: int | None) -> int | None:
    """Returns the width left for a column after these; None for unlimited."""
    if width is None:
        return None
    columns = zip(*lines, strict=True)
    return width - sum(max(map(width_of, column)) + _GAP for column in columns)


def _with_reasons_below(drawn: str, rows: Sequence[Row], width: int) -> str:
    head, *lines = drawn.splitlines()
    output = [head]
    for row, line in zip(rows, lines, strict=True):
        output.append(line)
        room = max(width - len(_INDENT), _REASON_LEAST)
        output += [f"{_INDENT}{_cut(reason, room)}" for reason in row.reasons]
    return "".join(f"{line}\n" for line in output)


def _cut(text: str, room: int | None) -> str:
    """Returns the text on one line, cut to the columns that there are."""
    if room is None or width_of(text) <= room:
        return text
    ends = accumulate(map(width_of, text))
    length = sum(end <= room - len(_MORE) for end in ends)
    return f"{text[:length].rstrip()}{_MORE}"


def _tasks(row: Row) -> str:
    return _UNKNOWN if row.state == MISSING else f"{_number(row.running)}/{row.tasks}"


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else str(value)


def _task_numbers(numbers: Sequence[int]) -> str:
    return f"task{'s' if len(numbers) > 1 else ''} {listed(map(str, numbers))}"
