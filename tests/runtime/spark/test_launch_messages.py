"""Launches and outcomes as JSON; launches are encrypted with a key that travels separately."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from connect_runtime.spark.launch_messages import (
    SECRET,
    SECRET_FILE,
    NotDecrypted,
    decrypt,
    encrypt,
    envelope_from_json,
    envelope_json,
    key_in,
    key_of,
    launch_from_json,
    launch_json,
    new_key,
    outcome_from_json,
    outcome_json,
)
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
    assert launch_from_json(decrypt(found.encrypted, key)) == given


def test_an_outcome_comes_back() -> None:
    for ended in AttemptEnd:
        given = Outcome(TaskId("c", 1), 2, ended, "trace\n")
        assert outcome_from_json(outcome_json(given)) == given
    alive = Outcome(TaskId("c", 1), 2, AttemptEnd.LOST, "trace", dead=False)
    assert outcome_from_json(outcome_json(alive)) == alive


def test_a_trace_may_hold_what_utf8_cannot() -> None:
    given = Outcome(TaskId("c", 1), 2, AttemptEnd.FAILED, "half \ud800")
    assert outcome_from_json(outcome_json(given)).trace == "half ?"


def test_only_the_same_key_opens_what_was_sealed() -> None:
    key = new_key()
    token = encrypt("pässword", key)
    assert "pässword" not in token
    assert decrypt(token, key) == "pässword"
    with pytest.raises(NotDecrypted, match="another key than this node's"):
        decrypt(token, new_key())
    with pytest.raises(NotDecrypted):
        decrypt(token[:-8], key)


def test_a_key_comes_from_the_file_before_the_environment(tmp_path: Path) -> None:
    key, other = new_key(), new_key()
    file = tmp_path / "key"
    file.write_text(f"{key}\n")
    assert key_in(file) == key
    assert key_of({SECRET: other}) == other
    assert key_of({SECRET: other, SECRET_FILE: str(file)}) == key


def test_without_a_key_it_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(NotDecrypted, match=f"Neither {SECRET} nor {SECRET_FILE}"):
        key_of({})
    with pytest.raises(NotDecrypted, match=r"nowhere .* cannot be read: No such file"):
        key_of({SECRET_FILE: str(tmp_path / "nowhere")})
    file = tmp_path / "key"
    file.write_text("hunter2")
    with pytest.raises(NotDecrypted, match="not a Fernet key") as caught:
        key_in(file)
    assert "hunter2" not in str(caught.value)
