"""Pins: the texts of `to` that are a place in a topic, the moment that a time is, and entries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_specs.desired import Pin, Position, content_hash
from connect_specs.diagnostics import Diagnostic, Location
from connect_specs.documents import Scalar
from connect_specs.pins import read_pin, read_position
from connect_specs.yaml_documents import parse_yaml


def read(text: str, *, plain: bool = True) -> tuple[Position | None, list[Diagnostic]]:
    problems: list[Diagnostic] = []
    return read_position(Scalar(text, Location("f", 1, 1), plain), problems), problems


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("1970-01-01T00:00:00Z", 0),
        ("2001-09-09T01:46:40Z", 1_000_000_000_000),
        ("2001-09-09T03:46:40+02:00", 1_000_000_000_000),
        ("2001-09-08 20:16:40.25-05:30", 1_000_000_000_250),
        ("2001-09-09T01:46:40.0019999Z", 1_000_000_000_001),
        ("2001-09-09T01:46Z", 999_999_960_000),
    ],
)
def test_positions(text: str, expected: Position) -> None:
    assert read(text) == read(text, plain=False) == (expected, [])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("2001-09-09T01:46:40", "without a time zone"),
        ("2001-09-09", "without a time"),
        ("2001-02-30T00:00:00Z", "does not exist"),
        ("2001-02-03T25:00:00Z", "does not exist"),
        ("0000-02-03T00:00:00Z", "does not exist"),
        ("2001-02-03T00:00:00+24:00", "does not exist"),
        ("1969-12-31T23:59:59.999Z", "before 1970"),
        ("1970-01-01T00:00:00+00:01", "before 1970"),
        *(
            (text, "not a position")
            for text in ("", "end", "EARLIEST", "1000000000000", "2001-9-9T1:1Z")
        ),
        ("\uff12001-09-09T01:46Z", "not a position"),
    ],
)
def test_what_is_no_position(text: str, what: str) -> None:
    position, (problem,) = read(text)
    assert position is None
    assert problem.code == "offsets.bad-position"
    assert what in problem.what
    assert problem.hint


ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(1970, 1, 3), timezones=ZONES))  # noqa: DTZ001
def test_every_time_is_its_milliseconds(time: datetime) -> None:
    position, problems = read(time.isoformat())
    assert problems == []
    assert isinstance(position, int)
    back = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=position)
    assert timedelta(0) <= time - back < timedelta(milliseconds=1)


def test_a_position_is_content() -> None:
    pins = [Pin("p", to="earliest"), Pin("p", to="latest"), Pin("p", to=0), Pin("p", to=1)]
    hashes = {content_hash(pin) for pin in (*pins, Pin("p", reset=True), Pin("p"))}
    assert len(hashes) == 6
    # sha256 of {"to":"earliest"} and {"to":1}
    assert content_hash(pins[0]) == (
        "5e97a2d943edfe575ff5aeb1e56ba110d35db23e81df455e071804a5ab085820"
    )
    assert content_hash(pins[3]) == (
        "3638a14db34c8643a36c90c6cf9df0f5ab6560291e2eb7aa16fbedfb96f207f4"
    )


@pytest.mark.parametrize("second", ["*first", "{partition: {file: x}, offset: {position: 2}}"])
def test_a_partition_that_is_set_twice_is_a_mistake_also_by_an_alias(second: str) -> None:
    text = (
        f"{{pin: p, set: [&first {{partition: {{file: x}}, offset: {{position: 1}}}}, {second}]}}"
    )
    (node,) = parse_yaml(text, "a.yaml").documents
    problems: list[Diagnostic] = []
    read_pin(node, problems)
    assert [problem.code for problem in problems] == ["offsets.same-partition"]
