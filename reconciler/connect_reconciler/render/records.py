"""Records before and after a connector's transformations, as rows of a table and as JSON.

They hold values of records: they are for the user who asked for them, and nobody else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from connect_reconciler.testing.compare import Field, fields_of
from connect_reconciler.testing.outcomes import (
    Delivered,
    Dropped,
    Failed,
    Outcome,
    Part,
    Run,
    ShownRecord,
)
from connect_specs.record_input import Json

# Hides secrets in a text
Redact: TypeAlias = Callable[[str], str]

HEAD: Final = ("", "FIELD", "BEFORE", "AFTER")
OLD_AND_NEW: Final = ("", "FIELD", "OLD", "NEW")
_CELL_LENGTH_MAX: Final = 60
_MESSAGE_LENGTH_MAX: Final = 400


def run_title(run: Run, number: int, redact: Redact) -> str:
    """`orders-0@17`, and what became of it, if it is not delivered."""
    name = redact(record_name(run, number))
    match run.outcome:
        case Dropped():
            return f"{name}: dropped"
        case Failed():
            return f"{name}: {failure_text(run.outcome, redact)}"
        case Delivered():
            return name


def record_name(run: Run, number: int) -> str:
    """Topic, partition and offset of a record of Kafka; else its number, from 1."""
    found = run.origin
    if found is None or found.offset is None:
        return f"record {number}"
    return f"{found.topic}-{found.partition}@{found.offset}"


def failure_text(failed: Failed, redact: Redact) -> str:
    """Where and why a record fails."""
    where = f"{failed.stage} ({failed.class_name})" if failed.class_name else failed.stage
    # Before it is cut: a part of a secret is none that is known
    message = redact(failed.text)
    if len(message) > _MESSAGE_LENGTH_MAX:
        message = f"{message[:_MESSAGE_LENGTH_MAX]}…"
    return f"fails in {where}: {message}"


def run_rows(run: Run, redact: Redact) -> Iterator[tuple[str, str, str, str]]:
    """One row for each field; `~` changed, `+` added, `-` removed. A record that is dropped or
    fails has no fields afterwards, and no marks."""
    after = run.outcome.record if isinstance(run.outcome, Delivered) else None
    yield from _rows(run.before or run.given, after, redact)


def different_title(old: Run, new: Run, number: int, redact: Redact) -> str:
    """The record's name, and with which config it is dropped or fails."""
    found = [redact(record_name(new, number))]
    for label, run in (("old", old), ("new", new)):
        match run.outcome:
            case Dropped():
                found.append(f"{label}: dropped")
            case Failed():
                found.append(f"{label}: {failure_text(run.outcome, redact)}")
            case Delivered():
                pass
    return "; ".join(found)


def different_rows(old: Run, new: Run, redact: Redact) -> Iterator[tuple[str, str, str, str]]:
    """One row for each field that differs between what two configs make of a record."""
    a, b = (
        run.outcome.record if isinstance(run.outcome, Delivered) else None for run in (old, new)
    )
    for row in _rows(a, b, redact):
        if a is None or b is None or row[0] != " ":
            yield row


def runs_text(runs: Sequence[Run]) -> str:
    """`18 delivered, 1 dropped, 1 failed`."""
    outcomes = [run.outcome for run in runs]
    failed = sum(isinstance(outcome, Failed) for outcome in outcomes)
    dropped = sum(isinstance(outcome, Dropped) for outcome in outcomes)
    delivered = len(outcomes) - dropped - failed
    return f"{delivered:,} delivered, {dropped:,} dropped, {failed:,} failed"


def _rows(
    before: ShownRecord | None, after: ShownRecord | None, redact: Redact
) -> Iterator[tuple[str, str, str, str]]:
    old = {} if before is None else fields_of(before)
    new = {} if after is None else fields_of(after)
    whole = before is None or after is None
    for path in _in_order(old, new):
        a, b = old.get(path), new.get(path)
        if (a is None or a.json is None) and (b is None or b.json is None) and "." not in path:
            continue
        mark = " " if whole else _mark(a, b)
        yield mark, path, _cell(a, redact), _cell(b, redact)


def runs_json(runs: Iterable[Run], redact: Redact) -> list[Json]:
    """All of each record: as it is in Kafka, before and after, and what a source writes."""
    return [_run_json(run, number, redact) for number, run in enumerate(runs, 1)]


def record_json(record: ShownRecord) -> Json:
    """A record as `--records` reads it: a line of its file, or `input` of a test."""
    found: dict[str, Json] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_part_json("key", record.key),
        **_part_json("value", record.value),
    }
    if record.headers:
        found["headers"] = [{name: part.json} for name, part in record.headers]
    return {name: each for name, each in found.items() if each is not None or name == "value"}


def redacted(value: Json, redact: Redact) -> Json:
    """The same JSON without secrets."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redacted(each, redact) for each in value]
    if isinstance(value, dict):
        return {key: redacted(each, redact) for key, each in value.items()}
    return value


def _run_json(run: Run, number: int, redact: Redact) -> Json:
    found: dict[str, Json] = {"record": record_name(run, number), **_outcome_json(run.outcome)}
    if run.given is not None:
        found["given"] = record_json(run.given)
    if run.before is not None:
        found["before"] = record_json(run.before)
    if isinstance(run.outcome, Delivered):
        found["after"] = record_json(run.outcome.record)
        if run.outcome.written is not None:
            found["written"] = record_json(run.outcome.written)
    return redacted(found, redact)


def _outcome_json(outcome: Outcome) -> dict[str, Json]:
    match outcome:
        case Failed():
            return {
                "outcome": "failed",
                "error": {
                    "stage": outcome.stage,
                    "class": outcome.class_name,
                    "error": outcome.error,
                    "message": outcome.message,
                },
            }
        case Dropped():
            return {"outcome": "dropped"}
        case Delivered():
            return {"outcome": "delivered"}


def _part_json(name: str, part: Part) -> dict[str, Json]:
    schema = {} if part.schema is None else {f"{name}_schema": part.schema}
    return {name: part.json, **schema}


def _in_order(old: dict[str, Field], new: dict[str, Field]) -> list[str]:
    """Parts in the order of `fields_of`; what is new stands behind the rest of its part."""
    paths = list(dict.fromkeys((*old, *new)))
    first: dict[str, int] = {}
    for path in (*new, *old):
        first.setdefault(_part(path), len(first))
    return sorted(paths, key=lambda path: first[_part(path)])


def _part(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _mark(old: Field | None, new: Field | None) -> str:
    if old is None:
        return "+"
    if new is None:
        return "-"
    return " " if old.content == new.content else "~"


def _cell(field: Field | None, redact: Redact) -> str:
    if field is None:
        return ""
    text = json.dumps(redacted(field.json, redact), ensure_ascii=False)
    if len(text) > _CELL_LENGTH_MAX:
        text = f"{text[:_CELL_LENGTH_MAX]}…"
    return f"{text} {field.type}" if field.type else text
