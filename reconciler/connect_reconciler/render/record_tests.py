"""Results of `connect test`: of tests, numbers of records that would come out differently, and the
records themselves.

Results are text, JSON, and JUnit's XML, which CI systems read. Comparisons are a sentence, Markdown
and JSON: counts and names of fields only, never values, for a comment on a pull request has many
readers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias
from xml.etree import ElementTree as Xml

from connect_reconciler.render.markdown import hidden, lines_within, named, prose
from connect_reconciler.render.texts import Style
from connect_reconciler.testing.comparison import Comparison, RecordField, TestResult, fields_of
from connect_reconciler.testing.outcomes import (
    DeliveredRecord,
    DroppedRecord,
    FailedRecord,
    Outcome,
    RecordRun,
    ShownRecord,
    ShownValue,
)
from connect_specs.plain_text import counted, one_line
from connect_specs.record_tests import Json

# Characters that XML 1.0 cannot hold
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FIELDS_MAX: Final = 20
_LENGTH_MAX: Final = 60_000


# --- tests ---


def results_text(results: Sequence[TestResult], paint: Style) -> str:
    """Returns the tests of each file, and their numbers."""
    lines = []
    for file, tests in groupby(results, key=_file):
        lines.append(one_line(file))
        for test in tests:
            name = one_line(test.name)
            if not test.mismatches:
                lines.append(f"  {paint.paint('add', 'ok')}    {name}")
                continue
            place = paint.paint("note", one_line(f"({test.location})"))
            lines.append(f"  {paint.paint('error', 'FAIL')}  {name} {place}")
            lines += [f"          {one_line(str(mismatch))}" for mismatch in test.mismatches]
    return "\n".join([*lines, summary(results)]) + "\n"


def summary(results: Sequence[TestResult]) -> str:
    """Returns `3 tests: 2 passed, 1 failed`."""
    failed = _failed(results)
    passed = len(results) - failed
    return f"{counted(len(results), 'test')}: {passed} passed, {failed} failed"


def results_json(results: Sequence[TestResult]) -> dict[str, Any]:
    """Returns all tests, and their numbers."""
    failed = _failed(results)
    return {
        "passed": len(results) - failed,
        "failed": failed,
        "tests": [
            {
                "name": test.name,
                "connector": test.connector,
                "file": test.location.file,
                "line": test.location.line,
                "passed": not test.mismatches,
                "mismatches": [
                    {"path": m.path, "expected": m.expected, "found": m.actual}
                    for m in test.mismatches
                ],
            }
            for test in results
        ],
    }


def results_junit(results: Sequence[TestResult]) -> str:
    """Returns one suite for each file, with one case for each test."""
    root = Xml.Element("testsuites", _totals(results))
    for file, group in groupby(results, key=_file):
        tests = list(group)
        suite = Xml.SubElement(root, "testsuite", {"name": _clean(file), **_totals(tests)})
        for test in tests:
            names = {"name": _clean(test.name), "classname": _clean(test.connector)}
            place = {"file": _clean(test.location.file), "line": str(test.location.line)}
            case = Xml.SubElement(suite, "testcase", names | place)
            if test.mismatches:
                texts = [_clean(str(mismatch)) for mismatch in test.mismatches]
                failure = Xml.SubElement(case, "failure", {"message": texts[0]})
                failure.text = "\n".join((str(test.location), *texts))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, "unicode") + "\n"


def _file(test: TestResult) -> str:
    return test.location.file


def _failed(results: Sequence[TestResult]) -> int:
    return sum(bool(test.mismatches) for test in results)


def _totals(results: Sequence[TestResult]) -> dict[str, str]:
    return {"tests": str(len(results)), "failures": str(_failed(results)), "errors": "0"}


def _clean(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)


# --- comparisons ---


def comparison_text(
    comparison: Comparison,
    name: Callable[[str], str] = str,
    sentence: Callable[[str], str] = str,
) -> str:
    """Returns `17 of 1,000 records come out differently: value.amount (12), headers.source (5); 3
    fail that did not`. `name` renders names of fields, and `sentence` the outcomes."""
    if not comparison.total:
        return "there are no records to compare"
    fields = list(comparison.fields.items())
    counts = [f"{name(field)} ({count:,})" for field, count in fields[:_FIELDS_MAX]]
    if len(fields) > _FIELDS_MAX:
        counts.append(f"and {counted(len(fields) - _FIELDS_MAX, 'more field')}")
    head = _headline(comparison) + (f": {', '.join(counts)}" if counts else "")
    return "; ".join((head, *map(sentence, _outcomes(comparison))))


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Returns the same counts."""
    return {
        "records": comparison.total,
        "different": comparison.different,
        "fields": dict(comparison.fields),
        "failing": dict(comparison.failing),
        "recovered": comparison.recovered,
        "dropped": comparison.dropped,
        "kept": comparison.undropped,
        "still_failing": comparison.still_failing,
    }


def comparison_markdown(
    project: str,
    against: str,
    comparisons: Mapping[str, Comparison],
    skipped: Mapping[str, str],
) -> str:
    """Returns a comment for a pull request. Its first line is the same each time, so that a job
    finds its earlier comment."""
    different = sum(comparison.different > 0 for comparison in comparisons.values())
    if not comparisons:
        title = "no connector's records were compared"
    elif different:
        title = f"records of {counted(different, 'connector')} come out differently"
    else:
        title = "all records come out the same"
    head = [hidden(f"connect-test:{project}"), f"### {prose(f'Compared with {against}: {title}')}"]
    # The most important first: the comment is cut if it is too long
    by_need = sorted(
        comparisons.items(),
        key=lambda item: (not item[1].newly_failing, not item[1].different, not item[1].total),
    )
    lines = [
        f"- {named(name)}: {comparison_text(result, named, prose)}" for name, result in by_need
    ]
    lines += [f"- {named(name)}: not compared: {prose(reason)}" for name, reason in skipped.items()]
    fitting = lines_within(lines, _LENGTH_MAX)
    if missing := len(lines) - len(fitting):
        fitting.append(f"- and {missing} more")
    return "\n\n".join((*head, *(["\n".join(fitting)] if fitting else []))) + "\n"


def _headline(comparison: Comparison) -> str:
    records = counted(comparison.total, "record")
    if comparison.different:
        verb = "comes" if comparison.different == 1 else "come"
        return f"{comparison.different:,} of {records} {verb} out differently"
    return f"all {records} come out the same"


def _outcomes(comparison: Comparison) -> Sequence[str]:
    failing = ", ".join(f"{name} ({count:,})" for name, count in comparison.failing.items())
    outcomes = (
        (comparison.newly_failing, "fail", "fails", f"that did not, in {failing}"),
        (comparison.recovered, "no longer fail", "no longer fails", ""),
        (comparison.dropped, "newly dropped", "newly dropped", ""),
        (comparison.undropped, "no longer dropped", "no longer dropped", ""),
        (comparison.still_failing, "fail", "fails", "before and after"),
    )
    return [
        f"{count:,} {singular if count == 1 else plural} {addition}".rstrip()
        for count, plural, singular, addition in outcomes
        if count
    ]


# --- records before and after a connector's transformations: they hold values of records, which
# only the user who asked for them may see ---

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
