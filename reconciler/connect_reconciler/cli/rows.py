"""What a person wants to know of each connector: one row, the same for `status` and `up`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from connect_reconciler.apply.health import last_line
from connect_reconciler.cli.output import table
from connect_runtime.herder.values import ConnectorStatus
from connect_runtime.storage.snapshots import TaskId

_RUNNING = "RUNNING"
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Row:
    """One connector. `short` counts tasks that wait for a slot; `why` is why it or a task failed.

    `running` and `short` None: no runtime is up, so nothing runs. `target` is what was asked of it,
    where that is shown.
    """

    name: str
    kind: str
    state: str
    tasks: int
    running: int | None
    short: int | None
    why: tuple[str, ...] = ()
    target: str = ""


def row_of(status: ConnectorStatus, waiting: Sequence[TaskId] = (), *, target: str = "") -> Row:
    """The row of a connector whose runtime is up."""
    return Row(
        name=status.name,
        kind=status.type,
        state=status.connector.state,
        tasks=len(status.tasks),
        running=sum(task.state == _RUNNING for task in status.tasks.values()),
        short=sum(task.connector == status.name for task in waiting),
        why=_why(status),
        target=target,
    )


def draw(rows: Sequence[Row], rates: Mapping[str, str] | None = None) -> str:
    """The rows as a table, with what failed below it."""
    columns: dict[str, Callable[[Row], str]] = {
        "CONNECTOR": lambda row: row.name,
        "TYPE": lambda row: row.kind,
        "STATE": lambda row: row.state,
        "TASKS": _tasks,
        "SLOTS SHORT": lambda row: _number(row.short),
    }
    if any(row.target for row in rows):
        columns = {"CONNECTOR": columns["CONNECTOR"], "TARGET": lambda row: row.target} | columns
    if rates is not None:
        columns["RATE"] = lambda row: rates.get(row.name, _UNKNOWN)
    cells = [[cell(row) for cell in columns.values()] for row in rows]
    failures = [f"{row.name}: {line}\n" for row in rows for line in row.why]
    return table(list(columns), cells) + ("\n" + "".join(failures) if failures else "")


def short_of_slots(rows: Sequence[Row]) -> str:
    """What to do about tasks that wait for a slot; nothing if none does."""
    short = sum(row.short or 0 for row in rows)
    if not short:
        return ""
    who = "1 task waits" if short == 1 else f"{short} tasks wait"
    return f"{who} for a slot: `connect down`, then `connect up --slots N` with a larger N"


def changes(before: Mapping[str, Row], after: Mapping[str, Row]) -> list[str]:
    """One line for each connector that is not as it was."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if new is None:
            lines.append(f"{name}: deleted")
        elif new != old:
            short = f", {new.short} short of a slot" if new.short else ""
            lines.append(f"{name}: {new.state}, tasks {_tasks(new)} running{short}")
            lines += [f"{name}: {line}" for line in new.why if old is None or line not in old.why]
    return lines


def _tasks(row: Row) -> str:
    return f"{_number(row.running)}/{row.tasks}"


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else str(value)


def _why(status: ConnectorStatus) -> tuple[str, ...]:
    found = [] if status.connector.trace is None else [last_line(status.connector.trace)]
    found += [
        f"task {number}: {last_line(task.trace)}"
        for number, task in sorted(status.tasks.items())
        if task.trace is not None
    ]
    return tuple(found)
