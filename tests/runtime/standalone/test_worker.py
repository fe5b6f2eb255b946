"""A standalone worker: what it keeps, what it forgets, and what it does if its file fails it."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from connect_runtime.herder.verbs import RequestError
from connect_runtime.java.offset_bytes import decode_map
from connect_runtime.storage.snapshots import State
from connect_specs.desired import OffsetEntry, TargetState
from support.broker import BrokerAddress, create_topic, produce, read_to_end
from support.connectors import SINK, SOURCE, ObedientSinkTask, partition
from support.standalone import standalone_worker
from support.thread_cluster import ThreadCluster
from support.wait import wait_until


class Place:
    """A worker's file and topic, over several lives of the worker."""

    def __init__(self, broker: BrokerAddress, folder: Path, name: str) -> None:
        self.kafka = broker.bootstrap_servers
        self.file = folder / "connect.offsets"
        self.topic = name
        self.config = {"connector.class": SOURCE, "name": "c", "topic": name, "last": "6"}
        create_topic(self.kafka, name)

    def worker(self, leaving_s: float = 0.0) -> AbstractContextManager[ThreadCluster]:
        # as long as a test may hold up the disk
        settings = {"offset.flush.timeout.ms": "60000"}
        return standalone_worker(self.kafka, self.file, settings, leaving_s)

    def values(self) -> list[str]:
        return [message.value().decode() for message in read_to_end(self.kafka, self.topic)]

    def stored(self) -> dict[str, object]:
        """The file's positions by connector."""
        if not self.file.exists():
            return {}
        entries = decode_map(self.file.read_bytes())
        return {
            json.loads(key or b"")[0]: json.loads(value or b"null")
            for key, value in entries.items()
        }

    def wait_for(self, position: int) -> None:
        wait_until(
            lambda: self.stored().get("c") == {"position": position}, what=f"position {position}"
        )


@pytest.fixture
def place(broker: BrokerAddress, tmp_path: Path, unique: str) -> Place:
    return Place(broker, tmp_path, unique)


def numbers(end: int, begin: int = 0) -> list[str]:
    return [str(number) for number in range(begin, end)]


def test_a_restart_forgets_connectors_and_continues_from_the_file(place: Place) -> None:
    with place.worker() as worker:
        worker.verbs.create("c", place.config, None)
        place.wait_for(6)
        wait_until(lambda: list(worker.verbs.topics("c")) == [place.topic], what="its topic")
    with place.worker() as worker:
        assert list(worker.verbs.connectors()) == []
        # offsets outlive their connector, as in Connect
        worker.verbs.create("c", {**place.config, "last": "8"}, None)
        place.wait_for(8)
    assert place.values() == numbers(8)


def test_offsets_are_in_the_file_whatever_the_connector_says(place: Place) -> None:
    config = {**place.config, "offsets.storage.topic": "mine", "producer.override.ssl.x": "y"}
    with place.worker() as worker:
        worker.verbs.create("c", config, None)
        place.wait_for(6)
        worker.stop_connector("c")
        assert worker.verbs.offsets("c") == [OffsetEntry(partition("0"), {"position": 6})]
        worker.verbs.reset_offsets("c")
        assert place.stored() == {}


@pytest.mark.parametrize("state", [TargetState.PAUSED, TargetState.STOPPED])
def test_a_first_state_starts_no_task(place: Place, state: TargetState) -> None:
    with place.worker() as worker:
        worker.verbs.create("c", place.config, state)
        worker.wait_for("c", State(state.value.upper()))
        assert worker.launcher.launches == []
        worker.verbs.resume("c")
        place.wait_for(6)
    assert place.values() == numbers(6)


def test_offsets_are_altered_and_reset_while_stopped(place: Place) -> None:
    # as a script does: nothing is waited for between the stop and the change of offsets
    with place.worker(leaving_s=30) as worker:
        worker.verbs.create("c", place.config, None)
        place.wait_for(6)
        moved = [OffsetEntry(partition("0"), {"position": 4})]
        with pytest.raises(RequestError, match="must be in the STOPPED state"):
            worker.verbs.alter_offsets("c", moved)

        worker.verbs.stop("c")
        worker.verbs.alter_offsets("c", moved)
        assert place.stored() == {"c": {"position": 4}}
        assert worker.verbs.offsets("c") == moved
        worker.verbs.resume("c")
        place.wait_for(6)
        assert place.values() == [*numbers(6), "4", "5"]

        worker.verbs.stop("c")
        worker.verbs.reset_offsets("c")
        assert place.stored() == {}
        assert worker.verbs.offsets("c") == []
        worker.verbs.delete("c")


def test_a_sink_continues_after_a_restart(place: Place) -> None:
    config = {"connector.class": SINK, "name": place.topic, "topics": place.topic}
    got = ObedientSinkTask.got.setdefault(place.topic, [])
    produce(place.kafka, place.topic, [(None, b"a")])
    with place.worker() as worker:
        worker.verbs.create(place.topic, config, None)
        wait_until(lambda: got == ["a"], what="the first record")
        wait_until(lambda: positions(worker, place.topic) == [1], what="its commit")
    produce(place.kafka, place.topic, [(None, b"b")])
    with place.worker() as worker:
        worker.verbs.create(place.topic, config, None)
        wait_until(lambda: got == ["a", "b"], what="the second record")
        wait_until(lambda: positions(worker, place.topic) == [2], what="its commit")


def positions(worker: ThreadCluster, sink: str) -> list[object]:
    found = worker.verbs.offsets(sink)
    return [each.offset["kafka_offset"] for each in found if each.offset is not None]


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While the event is set, nothing gets to the disk."""
    full, sync = threading.Event(), os.fsync

    def fail(descriptor: int) -> None:
        if full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    yield full
    full.clear()


def test_a_full_disk_is_seen_and_loses_nothing(
    place: Place, full_disk: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    with place.worker() as worker:
        worker.verbs.create("c", place.config, None)
        place.wait_for(6)
        before = place.file.read_bytes()
        full_disk.set()
        worker.verbs.put_config("c", {**place.config, "last": "10"})
        wait_until(lambda: worker.verbs.problem() is not None, what="the problem")
        for shown in (worker.verbs.problem(), worker.verbs.runtime().problem, caplog.text):
            assert shown is not None
            assert str(place.file) in shown
            assert "No space left on device" in shown
        assert "offsets.file-not-written" in caplog.text
        assert place.file.read_bytes() == before
        assert worker.verbs.offsets("c") == [OffsetEntry(partition("0"), {"position": 6})]
        wait_until(lambda: place.values() == numbers(10), what="all records")

        worker.stop_connector("c")
        with pytest.raises(RequestError) as caught:
            worker.verbs.reset_offsets("c")
        assert caught.value.status == 500
        assert "No space left on device" in caught.value.message
        assert place.file.read_bytes() == before

        full_disk.clear()
        # what was sent without an offset is sent again
        worker.verbs.resume("c")
        place.wait_for(10)
        wait_until(lambda: worker.verbs.problem() is None, what="the end of the problem")
    assert place.values() == [*numbers(10), *numbers(10, begin=6)]


def test_a_stop_waits_for_the_commit_and_offsets_move_only_after_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trap: a commit that arrives late overwrites the offsets that a user has just set."""
    held, release, sync = threading.Event(), threading.Event(), os.fsync

    def hold(descriptor: int) -> None:
        held.set()
        assert release.wait(30)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", hold)
    moved = [OffsetEntry(partition("0"), {"position": 1})]
    with place.worker() as worker:
        try:
            worker.verbs.create("c", place.config, None)
            assert held.wait(30)
            worker.verbs.stop("c")
            with pytest.raises(RequestError) as caught:
                worker.verbs.alter_offsets("c", moved)
            assert caught.value.status == 500
            assert "may still write" in caught.value.message
        finally:
            release.set()
        worker.wait_for("c", State.STOPPED)
        assert place.stored() == {"c": {"position": len(place.values())}}
        worker.verbs.alter_offsets("c", moved)
        assert place.stored() == {"c": {"position": 1}}
