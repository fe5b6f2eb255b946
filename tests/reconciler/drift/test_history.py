"""Since when something is as it is: told by records, also where some were compacted away."""

from __future__ import annotations

from collections.abc import Iterable

from connect_reconciler.drift.history import History, Mark, history_of
from connect_reconciler.ledger.journal import Ending, Journal, Step, journal_record, steps_record
from connect_runtime.storage import config_topic, offsets_topic
from connect_runtime.storage.log import LogRecord, NewRecord
from connect_runtime.storage.snapshots import OffsetSnapshot
from connect_specs.states import TargetState


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


def test_an_apply_lasts_until_its_last_record_and_not_until_it_was_found_dead() -> None:
    def journal(run: str, since_ms: int, ending: Ending | None = None) -> NewRecord:
        return journal_record("l", Journal(run, "orders", "me", since_ms, 1, ending))

    killed, done = journal("r1", 0), journal("r2", 60_000)
    begun = steps_record("l", "r1", "a", [Step(1, "a", "Create")])
    records = [killed, begun, *[None] * 60, journal("r1", 0, Ending.INTERRUPTED), done]
    records.append(journal("r2", 60_000, Ending.DONE))
    first, other = history_of((), (), written(records)).runs
    assert (first.id, first.since_ms, first.until_ms) == ("r1", 0, 1_000)
    assert (other.id, other.since_ms, other.until_ms) == ("r2", 60_000, 64_000)
    runs = History(runs=(first, other))
    assert runs.run_at(Mark(30_000, "c", 0, 1)) is None
    assert runs.run_at(Mark(63_000, "c", 0, 1)) == other
