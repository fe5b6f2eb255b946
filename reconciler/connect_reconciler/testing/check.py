"""Compares the outcome of a record with the expectation of its test. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from connect_reconciler.testing.outcomes import (
    DeliveredRecord,
    DroppedRecord,
    FailedRecord,
    Outcome,
    ShownValue,
    kafka_text,
    parsed_json,
)
from connect_specs.diagnostics import Location
from connect_specs.record_tests import Expected, ExpectedDrop, ExpectedError, ExpectedRecord, Json

_NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One difference, in texts: at `path`, or of the whole record if that is empty."""

    path: str
    expected: str
    actual: str

    def __str__(self) -> str:
        at = f"{self.path}: " if self.path else ""
        return f"{at}expected {self.expected}, found {self.actual}"


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test; without mismatches it passed. Texts are without secrets."""

    # for pytest, which takes every class of such a name for tests
    __test__ = False

    name: str
    connector: str
    location: Location
    mismatches: tuple[Mismatch, ...]


def check(expected: Expected, outcome: Outcome) -> tuple[Mismatch, ...]:
    """Returns the differences; none if the test passes."""
    match expected, outcome:
        case ExpectedRecord(parts=values), DeliveredRecord():
            return tuple(_record(values, outcome))
        case ExpectedDrop(), DroppedRecord():
            return ()
        case ExpectedError(stage=stage, message=message), FailedRecord():
            return tuple(_error(stage, message, outcome))
        case _:
            return (Mismatch("", _expected_text(expected), outcome_text(outcome)),)


def outcome_text(outcome: Outcome) -> str:
    """Returns an outcome in words."""
    match outcome:
        case DeliveredRecord():
            return "a record"
        case DroppedRecord():
            return "that it was dropped"
        case FailedRecord():
            owner = f" of {outcome.class_name}" if outcome.class_name else ""
            return f"an error in {outcome.stage}{owner}: {outcome.text}"


def _expected_text(expected: Expected) -> str:
    match expected:
        case ExpectedRecord():
            return "a record"
        case ExpectedDrop():
            return "that it is dropped"
        case ExpectedError(stage=stage):
            return f"an error in {stage}" if stage else "an error"


def _error(stage: str | None, message: str, failed: FailedRecord) -> Iterator[Mismatch]:
    if stage is not None and stage != failed.stage:
        yield Mismatch("error.stage", stage, failed.stage)
    if message not in failed.text:
        yield Mismatch("error.message", f"a text with {message!r}", repr(failed.text))


def _record(expected: Mapping[str, Json], outcome: DeliveredRecord) -> Iterator[Mismatch]:
    record = outcome.in_kafka or outcome.record
    in_kafka = outcome.in_kafka is not None
    for name, value in expected.items():
        match name:
            case "key" | "value":
                yield from _value(name, value, getattr(record, name), in_kafka=in_kafka)
            case "key_schema" | "value_schema":
                actual = getattr(outcome.record, name.removesuffix("_schema"))
                yield from differences(name, value, actual.schema)
            case "headers":
                yield from _headers(value, record.headers, in_kafka=in_kafka)
            case _:
                yield from differences(name, value, getattr(record, name))


def _headers(
    expected: tuple[tuple[str, Json], ...],
    headers: tuple[tuple[str, ShownValue], ...],
    *,
    in_kafka: bool,
) -> Iterator[Mismatch]:
    """Compares the headers of each name in their order; the order of different names is free."""
    for name in dict.fromkeys((*(key for key, _ in expected), *(key for key, _ in headers))):
        values = [value for key, value in expected if key == name]
        actual = [value for key, value in headers if key == name]
        for at in range(max(len(values), len(actual))):
            path = f"headers.{name}" + (f"[{at}]" if at else "")
            if at >= len(actual):
                yield Mismatch(path, _text(values[at]), _NOTHING)
            elif at >= len(values):
                yield Mismatch(path, _NOTHING, _text(actual[at].json))
            else:
                yield from _value(path, values[at], actual[at], in_kafka=in_kafka)


def _value(path: str, expected: Json, actual: ShownValue, *, in_kafka: bool) -> Iterator[Mismatch]:
    """Compares bytes of Kafka as text with a text, and as JSON with other values."""
    if not in_kafka or actual.raw is None or expected is None:
        yield from differences(path, expected, actual.json)
    elif isinstance(expected, str):
        yield from differences(path, expected, kafka_text(actual.raw))
    else:
        parsed = parsed_json(actual.raw)
        yield from differences(path, expected, actual.json if parsed is ... else parsed)


def differences(path: str, expected: Json, actual: Json) -> Iterator[Mismatch]:
    """Yields the differences of two JSON values. 1, 1.0 and true are not equal."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in dict.fromkeys((*expected, *actual)):
            member = f"{path}.{key}"
            if key not in actual:
                yield Mismatch(member, _text(expected[key]), _NOTHING)
            elif key not in expected:
                yield Mismatch(member, _NOTHING, _text(actual[key]))
            else:
                yield from differences(member, expected[key], actual[key])
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for at, (first, second) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(f"{path}[{at}]", first, second)
    elif type(expected) is not type(actual) or expected != actual:
        yield Mismatch(path, _text(expected), _text(actual))


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
