"""One row per connector, the same in `status` and `up`; and its status as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from connect_reconciler.backend.observe.plugin_facts import error_line
from connect_reconciler.model.live import Kind
from connect_runtime.herder.verbs import ConnectorStatus, InstanceStatus
from connect_runtime.storage.snapshots import ConnectorState, State, TaskId
from connect_specs.desired import TargetState
from connect_specs.plain_text import listed, one_line, table, width_of

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


@dataclass(frozen=True, slots=True)
class StatusEntry:
    """A connector on the cluster; `status` is None if none was reported. In its methods `leader` is
    None if no runtime runs it."""

    connector: ConnectorState
    status: ConnectorStatus | None
    kind: Kind

    def is_well(self, leader: str | None) -> bool:
        """Returns true if it runs as it should, or if it need not and has not failed."""
        status = self.status
        if self.connector.target is not TargetState.RUNNING:
            return status is None or state_of(status) is not State.FAILED
        if status is None or leader is None:
            return False
        instances = (status.connector, *status.tasks.values())
        return all(instance.state is State.RUNNING for instance in instances)

    def row(self, leader: str | None, waiting: Sequence[TaskId] | None) -> Row:
        """Returns its row; `waiting` are the tasks without a slot, None if unknown."""
        connector, status = self.connector, self.status
        if status is None or leader is None:
            tasks = len(connector.task_configs)
            return Row(connector.name, self.kind, "-", tasks, None, None, target=connector.target)
        row = replace(row_of(status, waiting or (), target=connector.target), kind=self.kind)
        return row if waiting is not None else replace(row, short=None)

    def document(self, leader: str | None) -> dict[str, Any]:
        """Returns it as `--json` shows it."""
        status = self.status
        tasks = sorted(status.tasks.items()) if status else []
        return {
            "name": self.connector.name,
            "type": self.kind,
            "target": self.connector.target.value,
            "project": None,
            "running": leader is not None,
            "state": None if status is None or leader is None else state_of(status).value,
            "why": [] if status is None else list(reasons(status)),
            "connector": None if status is None else _instance(status.connector),
            "tasks": [{"id": number, **_instance(task)} for number, task in tasks],
            "generation": self.connector.generation,
        }


def missing_json(row: Row) -> dict[str, Any]:
    """Returns the row of a missing connector as `--json` shows it."""
    return {
        "name": row.name,
        "type": None,
        "target": row.target,
        "project": None,
        "running": False,
        "state": row.state,
        "why": list(row.reasons),
        "connector": None,
        "tasks": [],
        "generation": None,
    }


def _instance(instance: InstanceStatus) -> dict[str, Any]:
    return {"state": instance.state.value, "worker_id": instance.worker_id, "trace": instance.trace}


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
