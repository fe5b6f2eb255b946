"""Checks what became of a record against what its test expects. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from connect_reconciler.testing.outcomes import (
    Delivered,
    Dropped,
    Failed,
    Outcome,
    Part,
    kafka_text,
    parsed_json,
)
from connect_specs.diagnostics import Location
from connect_specs.record_input import Json
from connect_specs.record_tests import Expected, ExpectedDrop, ExpectedError, ExpectedRecord

_NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One difference: at `path`, or of the record as a whole if that is empty. Texts."""

    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        at = f"{self.path}: " if self.path else ""
        return f"{at}expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test; without mismatches it passed. Texts are without secrets."""

    # for pytest, which takes every class of such a name for tests
    __test__ = False

    name: str
    connector: str
    where: Location
    mismatches: tuple[Mismatch, ...]


def check(expected: Expected, outcome: Outcome) -> tuple[Mismatch, ...]:
    """Returns what is not as expected; nothing if the test passes."""
    match expected, outcome:
        case ExpectedRecord(parts=parts), Delivered():
            return tuple(_parts(parts, outcome))
        case ExpectedDrop(), Dropped():
            return ()
        case ExpectedError(stage=stage, message=message), Failed():
            return tuple(_error(stage, message, outcome))
        case _:
            return (Mismatch("", _wanted(expected), outcome_text(outcome)),)


def outcome_text(outcome: Outcome) -> str:
    """Returns an outcome in words."""
    match outcome:
        case Delivered():
            return "a record"
        case Dropped():
            return "that it was dropped"
        case Failed():
            whose = f" of {outcome.class_name}" if outcome.class_name else ""
            return f"an error in {outcome.stage}{whose}: {outcome.text}"


def _wanted(expected: Expected) -> str:
    match expected:
        case ExpectedRecord():
            return "a record"
        case ExpectedDrop():
            return "that it is dropped"
        case ExpectedError(stage=stage):
            return f"an error in {stage}" if stage else "an error"


def _error(stage: str | None, message: str, failed: Failed) -> Iterator[Mismatch]:
    if stage is not None and stage != failed.stage:
        yield Mismatch("error.stage", stage, failed.stage)
    if message not in failed.text:
        yield Mismatch("error.message", f"a text with {message!r}", repr(failed.text))


def _parts(parts: Mapping[str, Json], outcome: Delivered) -> Iterator[Mismatch]:
    record = outcome.written or outcome.record
    in_kafka = outcome.written is not None
    for name, wanted in parts.items():
        match name:
            case "key" | "value":
                yield from _part(name, wanted, getattr(record, name), in_kafka=in_kafka)
            case "key_schema" | "value_schema":
                part = getattr(outcome.record, name.removesuffix("_schema"))
                yield from differences(name, wanted, part.schema)
            case "headers":
                yield from _headers(wanted, record.headers, in_kafka=in_kafka)
            case _:
                yield from differences(name, wanted, getattr(record, name))


def _headers(
    wanted: tuple[tuple[str, Json], ...],
    found: tuple[tuple[str, Part], ...],
    *,
    in_kafka: bool,
) -> Iterator[Mismatch]:
    """Headers are equal in the order of each name; the order of different names is not."""
    for name in dict.fromkeys((*(n for n, _ in wanted), *(n for n, _ in found))):
        expected = [value for n, value in wanted if n == name]
        parts = [part for n, part in found if n == name]
        for at in range(max(len(expected), len(parts))):
            path = f"headers.{name}" + (f"[{at}]" if at else "")
            if at >= len(parts):
                yield Mismatch(path, _text(expected[at]), _NOTHING)
            elif at >= len(expected):
                yield Mismatch(path, _NOTHING, _text(parts[at].json))
            else:
                yield from _part(path, expected[at], parts[at], in_kafka=in_kafka)


def _part(path: str, wanted: Json, part: Part, *, in_kafka: bool) -> Iterator[Mismatch]:
    """Bytes of Kafka are compared as text with a text, and as JSON with all else."""
    if not in_kafka or part.raw is None or wanted is None:
        yield from differences(path, wanted, part.json)
    elif isinstance(wanted, str):
        yield from differences(path, wanted, kafka_text(part.raw))
    else:
        parsed = parsed_json(part.raw)
        yield from differences(path, wanted, part.json if parsed is ... else parsed)


def differences(path: str, wanted: Json, found: Json) -> Iterator[Mismatch]:
    """Yields where two JSON values differ. 1, 1.0 and true are not equal."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in dict.fromkeys((*wanted, *found)):
            inner = f"{path}.{key}"
            if key not in found:
                yield Mismatch(inner, _text(wanted[key]), _NOTHING)
            elif key not in wanted:
                yield Mismatch(inner, _NOTHING, _text(found[key]))
            else:
                yield from differences(inner, wanted[key], found[key])
    elif isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        for at, (a, b) in enumerate(zip(wanted, found, strict=True)):
            yield from differences(f"{path}[{at}]", a, b)
    elif type(wanted) is not type(found) or wanted != found:
        yield Mismatch(path, _text(wanted), _text(found))


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
