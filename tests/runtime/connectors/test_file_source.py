"""FileStreamSource: lines, positions, and what its connector says."""

import os
import re
import select
import threading
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api import ConnectorError, ExactlyOnceSupport, SourceBatch
from connect_runtime.connectors.file_source import (
    FileStreamSourceConnector,
    FileStreamSourceTask,
    Lines,
)
from support.wait import wait_until


class Stored:
    """A context whose offsets a test sets."""

    def __init__(self, offset: dict[str, Any] | None = None) -> None:
        self.configs: dict[str, str] = {}
        self.transaction_context = None
        self.offset_storage_reader = self
        self._offset = offset

    def offset(self, partition: object) -> dict[str, Any] | None:
        return self._offset

    def offsets(self, partitions: Sequence[object]) -> list[dict[str, Any] | None]:
        return [self._offset for _ in partitions]


def started(file: Path, offset: dict[str, Any] | None = None, **more: str) -> FileStreamSourceTask:
    task = FileStreamSourceTask()
    task.initialize(Stored(offset))
    task.start({"file": str(file), "topic": "t", **more})
    return task


def polled(task: FileStreamSourceTask) -> SourceBatch:
    batch = task.poll()
    assert batch is not None, "no lines came"
    return batch


text = st.text(st.sampled_from("ab é\x0b\x0c\u2028\r\n"), max_size=60)


@given(text, st.lists(st.integers(1, 9), min_size=1), st.integers(1, 5), st.booleans())
def test_lines_do_not_depend_on_how_the_bytes_arrive(
    content: str, cuts: list[int], most: int, bad: bool
) -> None:
    data = content.encode() + (b"\xff\n" if bad else b"")
    # a final \r may be half of \r\n: it ends no line yet
    ends = [m.end() for m in re.finditer(rb"\r\n|\n|\r(?!\Z)", data)]
    wanted = [
        re.sub(rb"(\r\n|\n|\r)\Z", b"", data[a:b]).decode("utf-8", "replace")
        for a, b in zip([0, *ends], ends, strict=False)
    ]

    lines, found, positions = Lines(), [], []
    place, turn = 0, 0
    while place < len(data):
        step = cuts[turn % len(cuts)]
        lines.feed(data[place : place + step])
        place, turn = place + step, turn + 1
        while batch := lines.take(most):
            found += batch
            positions.append(lines.position)
    assert found == wanted
    assert set(positions) <= set(ends)
    assert lines.position == (ends[-1] if ends else 0)


def test_only_complete_lines_come(tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("one\ntwo\nthr")
    task = started(file)

    batch = polled(task)
    assert (batch.values, batch.source_offset) == (["one", "two"], {"position": 8})
    assert task.poll() is None
    with file.open("a") as more:
        more.write("ee\n")
    assert polled(task).values == ["three"]
    task.stop()


def test_a_missing_file_is_waited_for(tmp_path: Path) -> None:
    task = started(tmp_path / "later.txt")

    assert task.poll() is None
    (tmp_path / "later.txt").write_text("here\n")
    assert polled(task).values == ["here"]
    task.stop()


def test_it_resumes_at_bytes_not_characters(tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("äöü\nnext\n")
    task = started(file, None, **{"batch.size": "1"})

    assert polled(task).source_offset == {"position": 7}
    task.stop()
    task = started(file, {"position": 7})
    assert polled(task).values == ["next"]
    task.stop()


def test_a_batch_has_at_most_batch_size_lines(tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("".join(f"{i}\n" for i in range(5)))
    task = started(file, None, **{"batch.size": "2"})

    assert [polled(task).values for _ in range(3)] == [["0", "1"], ["2", "3"], ["4"]]
    task.stop()


def test_a_batch_knows_when_it_was_read(tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("a\n")
    task = started(file)
    before = time.time_ns() // 1_000_000

    (record,) = polled(task).records()
    task.stop()
    assert record.timestamp is not None
    assert before <= record.timestamp <= time.time() * 1000


@pytest.mark.parametrize("size", ["0", "-1"])
def test_a_batch_has_at_least_one_line(tmp_path: Path, size: str) -> None:
    file = tmp_path / "f"
    file.write_text("a\nb\nc\n")
    task = started(file, **{"batch.size": size})
    found = [polled(task) for _ in range(3)]
    task.stop()
    assert [batch.values for batch in found] == [["a"], ["b"], ["c"]]
    assert [batch.last_offset for batch in found] == [{"position": n} for n in (2, 4, 6)]


def test_a_stored_offset_of_the_wrong_type(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match="Offset position is the incorrect type"):
        started(tmp_path / "x", {"position": "7"})


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        ({"filename": "f"}, {"position": 3}, None),
        ({"filename": "f"}, None, None),
        ({"anything": 1}, None, None),
        (None, None, None),
        (None, {"position": 1}, "Partition objects cannot be null"),
        ({}, {"position": 1}, "Partition objects should contain the key 'filename'"),
        ({"filename": "f"}, {}, "should either be null or contain the key 'position'"),
        ({"filename": "f"}, {"position": "1"}, "is expected to be a Long value"),
        ({"filename": "f"}, {"position": 1.5}, "is expected to be a Long value"),
        ({"filename": "f"}, {"position": None}, "is expected to be a Long value"),
        ({"filename": "f"}, {"position": -1}, "should be a non-negative value"),
    ],
)
def test_alter_offsets(partition: Any, offset: Any, text: str | None) -> None:
    connector = FileStreamSourceConnector()
    config = {"file": "f", "topic": "t"}
    if text is None:
        assert connector.alter_offsets(config, [(partition, offset)])
        return
    with pytest.raises(ConnectorError, match=text):
        connector.alter_offsets(config, [(partition, offset)])


def test_offsets_of_standard_input_cannot_be_altered() -> None:
    with pytest.raises(ConnectorError, match="the 'file' configuration is unspecified"):
        FileStreamSourceConnector().alter_offsets({"topic": "t"}, [])


def test_one_task_that_is_exactly_once_with_a_file() -> None:
    connector = FileStreamSourceConnector()
    connector.start({"file": "f", "topic": "t"})

    assert len(connector.task_configs(4)) == 1
    assert connector.exactly_once_support({"file": "f", "topic": "t"}) is (
        ExactlyOnceSupport.SUPPORTED
    )
    assert connector.exactly_once_support({"topic": "t"}) is ExactlyOnceSupport.UNSUPPORTED


def test_its_config() -> None:
    found = {v.name: v.errors for v in FileStreamSourceConnector().validate({"topic": ""})}
    assert found == {
        "file": [],
        "topic": ["Invalid value  for configuration topic: String must be non-empty"],
        "batch.size": [],
    }


def test_an_endless_line_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    with file.open("wb") as out:
        out.write(b"short\n")
        out.truncate(6 + (64 << 20))
    task = started(file)
    assert polled(task).values == ["short"]
    tracemalloc.start()
    try:
        with pytest.raises(
            ConnectorError, match=r"in\.txt: the line that begins at byte 6 is longer than 16777216"
        ):
            task.poll()
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()
    task.stop()


def test_a_long_line_passes_where_the_producer_takes_it(tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"x" * (17 << 20) + b"\n")
    task = started(file, **{"producer.override.max.request.size": str(18 << 20)})
    found = polled(task)
    assert [len(line) for line in found.values] == [17 << 20]
    assert found.source_offset == {"position": (17 << 20) + 1}
    task.stop()


def until_lines(task: FileStreamSourceTask, *wanted: str) -> list[Any]:
    """Polls until these lines have come; the offset of each batch."""
    found: list[str] = []
    offsets = []

    def come() -> bool:
        batch = task.poll()
        if batch is not None:
            found.extend(batch.values)
            offsets.append(batch.source_offset["position"])
        return len(found) >= len(wanted)

    wait_until(come, what="the lines", every_s=0.01)
    assert found == list(wanted)
    return offsets


@pytest.mark.parametrize("rest", ["", "unfinished"])
def test_a_truncated_file_is_read_from_its_beginning(
    tmp_path: Path, rest: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "in.txt"
    file.write_text(f"one\ntwo\n{rest}")
    task = started(file)
    assert until_lines(task, "one", "two") == [8]
    assert task.poll() is None
    file.write_text("new\n")
    if rest:
        assert until_lines(task, rest) == [0]
    assert until_lines(task, "new") == [4]
    assert f"{file} was truncated: it is read from its beginning" in caplog.text
    task.stop()


def test_a_named_pipe_is_read_without_waiting_for_who_writes_to_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    task = started(pipe)
    assert task.poll() is None
    with pipe.open("w") as writer:
        assert task.poll() is None
        writer.write("one\ntw")
        writer.flush()
        assert until_lines(task, "one") == [4]
        writer.write("o\n")
    assert until_lines(task, "two") == [8]
    assert task.poll() is None
    pipe.write_text("three\n")
    assert until_lines(task, "three") == [14]
    task.stop()


def test_a_line_that_is_longer_than_a_pipe_takes_few_polls(tmp_path: Path) -> None:
    """The runtime waits after a poll that returned nothing."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    task = started(pipe)
    assert task.poll() is None
    line = "x" * (1 << 20)
    writing = threading.Thread(target=pipe.write_text, args=(f"{line}\n",))
    writing.start()
    with pipe.open("rb", buffering=0) as begun:
        assert select.select([begun], [], [], 30)[0]
    # the pipe is full 16 times; a piece may be late where the machine is busy
    found = next(filter(None, (task.poll() for _ in range(8))), None)
    writing.join(30)
    task.stop()
    assert found is not None
    assert found.values == [line]


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("more", [0, 1, 300])
@pytest.mark.parametrize("rest", ["", "unfinished"])
def test_a_truncated_file_that_has_grown_again_is_read_from_its_beginning(
    tmp_path: Path, more: int, rest: str, resumed: bool
) -> None:
    """The trap: it is longer than before when it is looked at again. `resumed`: an earlier task
    read what is before the position."""
    file = tmp_path / "in.txt"
    old = [f"old {n}" for n in range(more + 2)]
    file.write_text("\n".join([*old, rest]))
    task = started(file)
    position = until_lines(task, *old)[-1]
    assert task.poll() is None
    if resumed:
        task.stop()
        task = started(file, {"position": position})
        assert task.poll() is None
    new = [f"new {n}" for n in range(more + 5)]
    file.write_text("\n".join([*new, ""]))

    until_lines(task, *([rest] if rest else []), *new)
    with file.open("a") as out:
        out.write("more\n")
    until_lines(task, "more")
    task.stop()


@pytest.mark.parametrize("rest", ["", "unfinished"])
def test_a_replaced_file_is_read_to_its_end_and_then_the_new_one(tmp_path: Path, rest: str) -> None:
    file, old = tmp_path / "in.txt", tmp_path / "in.txt.1"
    file.write_text("one\ntwo\n")
    task = started(file)
    until_lines(task, "one", "two")
    writer = file.open("a")
    file.rename(old)
    assert task.poll() is None, "there is no new one yet"
    file.write_text("new, and longer than the old one\n")
    assert task.poll() is None, "the old one may still be written to"
    writer.write(f"three\n{rest}")
    writer.close()
    assert until_lines(task, "three") == [14]
    if rest:
        assert until_lines(task, rest) == [0]
    assert until_lines(task, "new, and longer than the old one") == [33]
    with file.open("a") as more:
        more.write("more\n")
    assert until_lines(task, "more") == [38]
    task.stop()


def test_a_file_shorter_than_its_position_is_an_error_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("one\n")
    task = started(file, {"position": 5})
    with pytest.raises(
        ConnectorError, match=r"in\.txt has 4 bytes, and 5 of them were read before"
    ):
        task.poll()
    task.stop()
    task = started(file, {"position": 4})
    assert task.poll() is None
    task.stop()


def test_files_without_size_are_followed(tmp_path: Path) -> None:
    task = started(Path("/dev/null"), {"position": 7})
    assert task.poll() is None
    task.stop()
