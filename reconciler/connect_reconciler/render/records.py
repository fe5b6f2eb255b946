"""Records before and after a connector's transformations, as rows of a table and as JSON.

They hold values of records: only the user who asked for them may see them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from connect_reconciler.testing.comparison import RecordField, fields_of
from connect_reconciler.testing.outcomes import (
    DeliveredRecord,
    DroppedRecord,
    FailedRecord,
    Outcome,
    RecordRun,
    ShownRecord,
    ShownValue,
)
from connect_specs.record_tests import Json

# Hides secrets in a text
Redact: TypeAlias = Callable[[str], str]
Row: TypeAlias = tuple[str, str, str, str]

HEAD: Final = ("", "FIELD", "BEFORE", "AFTER")
OLD_AND_NEW: Final = ("", "FIELD", "OLD", "NEW")
_CELL_LENGTH_MAX: Final = 60
_MESSAGE_LENGTH_MAX: Final = 400


def run_title(run: RecordRun, number: int, redact: Redact) -> str:
    """Returns `orders-0@17`, and the outcome unless the record is delivered."""
    name = redact(record_name(run, number))
    outcome = _undelivered(run.outcome, redact)
    return f"{name}: {outcome}" if outcome else name


def different_title(base: RecordRun, changed: RecordRun, number: int, redact: Redact) -> str:
    """Returns the record's name, and the configs with which it is dropped or fails."""
    texts = [redact(record_name(changed, number))]
    for label, run in (("old", base), ("new", changed)):
        if outcome := _undelivered(run.outcome, redact):
            texts.append(f"{label}: {outcome}")
    return "; ".join(texts)


def _undelivered(outcome: Outcome, redact: Redact) -> str:
    match outcome:
        case DroppedRecord():
            return "dropped"
        case FailedRecord():
            return failure_text(outcome, redact)
        case DeliveredRecord():
            return ""


def record_name(run: RecordRun, number: int) -> str:
    """Returns topic, partition and offset of a record of Kafka; else its number, from 1."""
    record = run.origin
    if record is None or record.offset is None:
        return f"record {number}"
    return f"{record.topic}-{record.partition}@{record.offset}"


def failure_text(failed: FailedRecord, redact: Redact) -> str:
    """Returns the place and the message of a failure."""
    stage = f"{failed.stage} ({failed.class_name})" if failed.class_name else failed.stage
    # Redacted before it is cut: nothing would match a half of a secret
    message = redact(failed.text)
    if len(message) > _MESSAGE_LENGTH_MAX:
        message = f"{message[:_MESSAGE_LENGTH_MAX]}…"
    return f"fails in {stage}: {message}"


def run_rows(run: RecordRun, redact: Redact) -> Iterator[Row]:
    """Yields one row for each field; `~` changed, `+` added, `-` removed. A record that is dropped
    or fails has no fields afterwards, and no marks."""
    yield from _rows(run.input or run.consumed, _delivered(run), redact)


def different_rows(base: RecordRun, changed: RecordRun, redact: Redact) -> Iterator[Row]:
    """Yields one row for each field that differs between the records under two configs."""
    first, second = _delivered(base), _delivered(changed)
    for row in _rows(first, second, redact):
        if first is None or second is None or row[0] != " ":
            yield row


def _delivered(run: RecordRun) -> ShownRecord | None:
    return run.outcome.record if isinstance(run.outcome, DeliveredRecord) else None


def runs_text(runs: Sequence[RecordRun]) -> str:
    """Returns `18 delivered, 1 dropped, 1 failed`."""
    outcomes = [run.outcome for run in runs]
    failed = sum(isinstance(outcome, FailedRecord) for outcome in outcomes)
    dropped = sum(isinstance(outcome, DroppedRecord) for outcome in outcomes)
    delivered = len(outcomes) - dropped - failed
    return f"{delivered:,} delivered, {dropped:,} dropped, {failed:,} failed"


def _rows(first: ShownRecord | None, second: ShownRecord | None, redact: Redact) -> Iterator[Row]:
    a_fields = {} if first is None else fields_of(first)
    b_fields = {} if second is None else fields_of(second)
    marked = first is not None and second is not None
    for path in _in_order(a_fields, b_fields):
        a, b = a_fields.get(path), b_fields.get(path)
        if (a is None or a.json is None) and (b is None or b.json is None) and "." not in path:
            continue
        yield _mark(a, b) if marked else " ", path, _cell(a, redact), _cell(b, redact)


def runs_json(runs: Iterable[RecordRun], redact: Redact) -> list[Json]:
    """Returns all of each record: in Kafka, before and after, and as a source writes it."""
    return [_run_json(run, number, redact) for number, run in enumerate(runs, 1)]


def record_json(record: ShownRecord) -> Json:
    """Returns a record as `--records` reads it: a line of its file, or `input` of a test."""
    members: dict[str, Json] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_value_json("key", record.key),
        **_value_json("value", record.value),
    }
    if record.headers:
        members["headers"] = [{name: header.json} for name, header in record.headers]
    return {
        name: member for name, member in members.items() if member is not None or name == "value"
    }


def redacted(value: Json, redact: Redact) -> Json:
    """Returns the same JSON without secrets."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redacted(item, redact) for item in value]
    if isinstance(value, dict):
        return {key: redacted(member, redact) for key, member in value.items()}
    return value


def _run_json(run: RecordRun, number: int, redact: Redact) -> Json:
    document: dict[str, Json] = {"record": record_name(run, number), **_outcome_json(run.outcome)}
    records = {"given": run.consumed, "before": run.input}
    if isinstance(run.outcome, DeliveredRecord):
        records |= {"after": run.outcome.record, "written": run.outcome.in_kafka}
    for name, record in records.items():
        if record is not None:
            document[name] = record_json(record)
    return redacted(document, redact)


def _outcome_json(outcome: Outcome) -> dict[str, Json]:
    match outcome:
        case FailedRecord():
            return {
                "outcome": "failed",
                "error": {
                    "stage": outcome.stage,
                    "class": outcome.class_name,
                    "error": outcome.error,
                    "message": outcome.message,
                },
            }
        case DroppedRecord():
            return {"outcome": "dropped"}
        case DeliveredRecord():
            return {"outcome": "delivered"}


def _value_json(name: str, value: ShownValue) -> dict[str, Json]:
    schema = {} if value.schema is None else {f"{name}_schema": value.schema}
    return {name: value.json, **schema}


def _in_order(first: Iterable[str], second: Iterable[str]) -> list[str]:
    """Returns the paths in the order of `fields_of`; new ones come last in their key, value or
    header."""
    roots: dict[str, int] = {}
    for path in (*second, *first):
        roots.setdefault(_root(path), len(roots))
    return sorted(dict.fromkeys((*first, *second)), key=lambda path: roots[_root(path)])


def _root(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _mark(first: RecordField | None, second: RecordField | None) -> str:
    if first is None:
        return "+"
    if second is None:
        return "-"
    return " " if first.content == second.content else "~"


def _cell(field: RecordField | None, redact: Redact) -> str:
    if field is None:
        return ""
    text = json.dumps(redacted(field.json, redact), ensure_ascii=False)
    if len(text) > _CELL_LENGTH_MAX:
        text = f"{text[:_CELL_LENGTH_MAX]}…"
    return f"{text} {field.type}" if field.type else text
