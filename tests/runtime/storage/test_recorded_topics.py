"""Topics that an earlier version has written say the same to this one, and what a later version
adds changes nothing.

`data/` holds all records of a cluster that version 6cc5f90 ran: connectors of each state, one with
fewer tasks than before, one deleted, one that failed and was restarted, offsets that were moved.
`data/state.json` is what that version read from them, without fields that have their default.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.storage import assignments_topic, config_topic, offsets_topic, status_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import (
    AssignmentSnapshot,
    ConfigSnapshot,
    OffsetSnapshot,
    StatusSnapshot,
    TaskId,
)

DATA = Path(__file__).parent / "data"
STATE = json.loads((DATA / "state.json").read_text())
READERS: dict[str, Callable[[list[LogRecord]], Any]] = {
    "assignments": lambda records: assignments_topic.reduce_all(AssignmentSnapshot(), records),
    "config": lambda records: config_topic.reduce_all(ConfigSnapshot(), records),
    "offsets": lambda records: offsets_topic.reduce_all(OffsetSnapshot(), records),
    "status": lambda records: status_topic.reduce_all(StatusSnapshot(), records),
}
# what that version did not look at
ADDED = {"tasks_ever"}
NEVER_READ = {"offsets"}  # a source's own: whatever an offset holds is the source's


def _recorded(topic: str, change: Callable[[str], str] = str) -> list[LogRecord]:
    lines = map(json.loads, (DATA / f"{topic}.jsonl").read_text().splitlines())
    return [
        LogRecord(
            topic,
            each["partition"],
            each["offset"],
            each["timestamp_ms"],
            each["key"].encode(),
            None if each["value"] is None else change(each["value"]).encode(),
        )
        for each in lines
    ]


def _plain(value: Any) -> Any:
    """As in `state.json`."""
    if isinstance(value, TaskId):
        return str(value)
    if dataclasses.is_dataclass(value):
        return {
            field.name: _plain(held)
            for field in dataclasses.fields(value)
            if field.name not in ADDED and (held := getattr(value, field.name)) != _default(field)
        }
    if isinstance(value, Mapping):
        return {_plain(key): _plain(held) for key, held in value.items()}
    if isinstance(value, frozenset):
        return sorted(map(_plain, value))
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


@pytest.mark.parametrize("topic", READERS)
def test_an_earlier_versions_topics_say_the_same(topic: str) -> None:
    records = _recorded(topic)
    assert records
    assert _plain(READERS[topic](records)) == STATE[topic]


@pytest.mark.parametrize("topic", sorted(READERS.keys() - NEVER_READ))
def test_fields_that_a_later_version_adds_are_ignored(topic: str) -> None:
    def with_more(value: str) -> str:
        return json.dumps(json.loads(value) | {"of-a-later-version": {"x": [1]}})

    assert _plain(READERS[topic](_recorded(topic, with_more))) == STATE[topic]


@pytest.mark.parametrize("topic", READERS)
def test_records_that_a_later_version_adds_are_ignored(topic: str) -> None:
    """They stand before all others, so that positions stay what they are."""
    unknown = [LogRecord(topic, 0, 0, 0, key, b'{"x": 1}') for key in (b"of-a-later-version", None)]
    assert _plain(READERS[topic](unknown + _recorded(topic))) == STATE[topic]
