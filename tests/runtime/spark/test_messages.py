"""Launches and outcomes as JSON."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from connect_runtime.spark.messages import (
    envelope_from_json,
    envelope_json,
    launch_from_json,
    launch_json,
    outcome_from_json,
    outcome_json,
)
from connect_runtime.spark.sealing import new_key, unseal
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd, Outcome
from runtime.spark.bodies import launch


def test_a_launch_comes_back() -> None:
    given = launch("a-b/ü", task=3, attempt=7, file="${env:X}")
    assert launch_from_json(launch_json(given)) == given
    read_only = replace(given, config=MappingProxyType({"a": "b"}))
    assert launch_from_json(launch_json(read_only)).config == {"a": "b"}


def test_an_envelope_tells_whose_launch_it_is_and_nothing_else() -> None:
    given = launch("c", task=3, attempt=7, password="hunter2")
    key = new_key()
    text = envelope_json(given, key, "/leases/1")
    assert "hunter2" not in text
    found = envelope_from_json(text)
    assert (found.id, found.attempt, found.lease) == (given.id, 7, "/leases/1")
    assert launch_from_json(unseal(found.sealed, key)) == given


def test_what_config_providers_gave_stays_in_its_process() -> None:
    resolved = replace(launch("a", task=0, attempt=1), given=frozenset({"s3cret"}))
    assert "s3cret" not in launch_json(resolved)
    assert "s3cret" not in repr(resolved)


def test_an_outcome_comes_back() -> None:
    for ended in AttemptEnd:
        given = Outcome(TaskId("c", 1), 2, ended, "trace\n")
        assert outcome_from_json(outcome_json(given)) == given
    alive = Outcome(TaskId("c", 1), 2, AttemptEnd.LOST, "trace", dead=False)
    assert outcome_from_json(outcome_json(alive)) == alive


def test_a_trace_may_hold_what_utf8_cannot() -> None:
    given = Outcome(TaskId("c", 1), 2, AttemptEnd.FAILED, "half \ud800")
    assert outcome_from_json(outcome_json(given)).trace == "half ?"
