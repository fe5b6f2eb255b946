"""FileStreamSink: whole lines, whatever happened to the writer before."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from connect_runtime.api import FLOAT32, FLOAT64, ConnectorError, SinkBatch, TopicPartition
from connect_runtime.connectors.file_sink import FileStreamSinkConnector, FileStreamSinkTask
from connect_runtime.data.primitive_converters import StringConverter
from support.converting import reading


def batch(*values: object) -> SinkBatch:
    return batch_of(list(values))


def batch_of(values: Sequence[object]) -> SinkBatch:
    size = len(values)
    return SinkBatch(values, topics=["t"] * size, partitions=[0] * size, offsets=range(size))


def written(file: Path, *values: object) -> None:
    task = FileStreamSinkTask()
    task.start({"file": str(file)})
    task.put(batch(*values))
    task.flush({TopicPartition("t", 0): len(values)})
    task.stop()


def test_it_appends_lines(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    written(file, "a", "é")
    written(file, None, 1e7, {"k": True}, [1])

    assert file.read_text() == "a\né\nnull\n1.0E7\n{k=true}\n[1]\n"


def test_long_lines_are_written_in_order(tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    lines = [f"{n}" * size for n in range(10) for size in (100_000, 1, 50)]
    written(file, *lines)

    assert file.read_text().split("\n") == [*lines, ""]


@pytest.mark.parametrize("end", ["x", "\u00e9", "\ufffd", "\U0001f600"])
def test_texts_of_the_string_converter_are_written_as_they_were_read(
    tmp_path: Path, end: str
) -> None:
    data = [f"{n}{end}".encode() * size for n in range(10) for size in (0, 50_000, 1)]
    converter = StringConverter()
    converter.configure({})
    task = FileStreamSinkTask()
    task.start({"file": str(tmp_path / "out.txt")})
    task.put(batch_of(reading(converter)(data).values))
    task.stop()

    assert (tmp_path / "out.txt").read_bytes().split(b"\n") == [*data, b""]


def test_schemas_tell_how_numbers_are_written(tmp_path: Path) -> None:
    task = FileStreamSinkTask()
    task.start({"file": str(tmp_path / "out.txt")})
    for schemas in ([FLOAT32, FLOAT32], [FLOAT32, FLOAT64]):
        values = [0.10000000149011612, 0.10000000149011612]
        places = {"topics": ["t"] * 2, "partitions": [0] * 2, "offsets": [0, 1]}
        task.put(SinkBatch(values, value_schemas=schemas, **places))
    task.stop()

    assert (tmp_path / "out.txt").read_text() == "0.1\n0.1\n0.1\n0.10000000149011612\n"


def test_put_records_survive_the_process(tmp_path: Path) -> None:
    task = FileStreamSinkTask()
    task.start({"file": str(tmp_path / "out.txt")})
    task.put(batch("a"))

    assert (tmp_path / "out.txt").read_text() == "a\n"
    task.stop()


@pytest.mark.parametrize("torn", ["half a li", "whole\nhalf a li", "x"])
def test_a_torn_line_does_not_swallow_the_next(tmp_path: Path, torn: str) -> None:
    file = tmp_path / "out.txt"
    file.write_text(torn)
    written(file, "half a line", "next")

    lines = file.read_text().splitlines()
    assert lines == [*torn.splitlines(), "half a line", "next"]


def test_an_empty_batch_writes_nothing(tmp_path: Path) -> None:
    written(tmp_path / "out.txt")

    assert (tmp_path / "out.txt").read_text() == ""


def test_a_file_that_cannot_be_made(tmp_path: Path) -> None:
    file = tmp_path / "no" / "out.txt"
    wanted = f"Couldn't find or create file '{file}' for FileStreamSinkTask"
    with pytest.raises(ConnectorError) as raised:
        written(file, "a")
    assert str(raised.value) == wanted


def test_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    task = FileStreamSinkTask()
    task.start({})
    task.put(batch("a"))
    task.flush({})
    task.stop()

    assert capfdbinary.readouterr().out == b"a\n"


def test_its_connector() -> None:
    connector = FileStreamSinkConnector()
    connector.start({"file": "f"})

    assert connector.task_configs(3) == [{"file": "f"}] * 3
    assert connector.alter_offsets({}, {TopicPartition("t", 0): None})
