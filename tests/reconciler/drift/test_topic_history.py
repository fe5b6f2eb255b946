"""Since when something is as it is: told by records, also where some were compacted away."""

from __future__ import annotations

from collections.abc import Iterable

from connect_reconciler.drift.model import History, Mark, history_of
from connect_reconciler.ledger.journal import (
    Ending,
    Journal,
    JournalEntry,
    journal_record,
    steps_record,
)
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_specs.desired import TargetState


def written(records: Iterable[NewRecord | None]) -> list[LogRecord]:
    """One a second, from second 0; None is one that was compacted away."""
    return [
        LogRecord(each.topic, 0, at, at * 1000, each.key, each.value)
        for at, each in enumerate(records)
        if each is not None
    ]


def of_config(*records: NewRecord | None) -> History:
    return history_of(written(records), (), ())


def config(**keys: str) -> NewRecord:
    return config_topic.connector_record("c", "a", keys)


def state(of: TargetState) -> NewRecord:
    return config_topic.target_state_record("c", "a", of)


def second(mark: Mark | None) -> float | None:
    return None if mark is None else mark.timestamp_ms / 1000


def test_a_key_is_so_since_the_record_that_changed_it() -> None:
    found = of_config(config(j="1", k="1"), config(j="1", k="2"), config(j="1", k="2", new="1"))
    assert {key: second(mark) for (_, key), mark in found.keys.items()} == {
        "j": 0,
        "k": 1,
        "new": 2,
    }
    assert found.keys["a", "k"] == Mark(1000, "c", 0, 1)
    removed = of_config(config(k="1"), config())
    assert second(removed.keys["a", "k"]) == 1


def test_a_connector_is_there_since_it_was_created_and_gone_since_it_was_deleted() -> None:
    removal = config_topic.removal_records("c", "a")
    assert second(of_config(config(), config(k="1")).connectors["a"]) == 0
    assert second(of_config(config(), *removal).connectors["a"]) == 1
    assert second(of_config(config(), *removal, config()).connectors["a"]) == 3
    # all but the newest record of a key may be gone
    assert second(of_config(None, *removal).connectors["a"]) == 1


def test_a_state_is_so_since_it_was_asked_for_first() -> None:
    states = map(state, (TargetState.RUNNING, TargetState.PAUSED, TargetState.PAUSED))
    assert second(of_config(*states).targets["a"]) == 1


def test_offsets_by_partition_also_where_they_were_removed() -> None:
    entry, other = {"f": "x"}, {"f": "y"}
    held = OffsetSnapshot()
    records = [
        *offsets_topic.offset_records("o", "a", [(entry, {"n": 1}), (other, {"n": 1})], held),
        *offsets_topic.offset_records("o", "a", [(entry, None)], held),
        NewRecord("o", b"not Connect's", b"{}"),
    ]
    found = history_of((), written(records), ())
    assert {key: second(mark) for key, mark in found.offsets.items()} == {
        ("a", '{"f":"x"}'): 2,
        ("a", '{"f":"y"}'): 1,
    }


def test_an_apply_did_what_was_written_while_it_was_at_that_connector() -> None:
    def journal(run: str, ending: Ending | None = None) -> NewRecord:
        return journal_record("l", Journal(run, "orders", "me", int(run) * 60_000, 2, ending))

    create = JournalEntry(1, "a", "Create", 61_000, "done", 62_000)
    cut_off = JournalEntry(2, "a", "Stop", 63_000)
    other = JournalEntry(1, "a", "Create", 121_000, "done", 122_000)
    records = [
        journal("1"),
        steps_record("l", "1", "a", [create, cut_off]),
        journal("1", Ending.INTERRUPTED),
        journal("2"),
        steps_record("l", "2", "a", [other]),
        journal("2", Ending.DONE),
    ]
    found = history_of((), (), written(records))

    def run_of(connector: str, at_ms: int) -> str | None:
        run = found.run_of(connector, Mark(at_ms, "c", 0, 1))
        return None if run is None else run.id

    assert run_of("a", 61_500) == "1"
    assert run_of("a", 64_000) == "1"
    assert run_of("b", 61_500) is None
    assert run_of("a", 90_000) is None
    assert run_of("a", 121_500) == "2"
    assert found.run_of("a", None) is None
