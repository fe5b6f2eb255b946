"""standalone: what it says before anything starts."""

from pathlib import Path

import pytest

from connect_runtime.kafka.local_processes import free_port
from support.command import Command

WORKER = """\
bootstrap.servers=127.0.0.1:1
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename=offsets
listeners=http://127.0.0.1:{port}
"""
VALID = "name=good\nconnector.class=FileStreamSource\ntopic=t\nfile=/tmp/x\n"


@pytest.fixture
def worker(connect: Command) -> Path:
    return connect.write("worker.properties", WORKER.format(port=free_port()))


def test_mistakes_in_worker_properties_are_told_at_once(connect: Command) -> None:
    connect.write("worker.properties", "bootstrap.servers=localhost:1\nlisteners=ftp://x\n")
    done = connect("standalone", "worker.properties")
    assert done.returncode == 2
    for key in ("offset.storage.file.filename", "key.converter", "listeners"):
        assert key in done.stderr
    for key in ("group.id", "config.storage.topic"):
        assert key not in done.stderr


@pytest.mark.usefixtures("worker")
def test_one_invalid_connector_aborts_before_anything_starts(connect: Command) -> None:
    connect.write("good", VALID)
    connect.write("broken", '{"name": ')
    done = connect("standalone", "worker.properties", "good", "broken", "gone")
    assert done.returncode == 2
    assert "error[file.syntax]: broken:1:" in done.stderr
    assert "error[file.unreadable]: gone" in done.stderr

    connect.write("wrong", "name=wrong\nconnector.class=FileStreamSource\ntasks.max=many\n")
    connect.write("other", "name=other\nconnector.class=NoSuchClass\n")
    done = connect("standalone", "worker.properties", "good", "wrong", "other")
    assert done.returncode == 2
    assert "error[connector.invalid]: wrong:1:6" in done.stderr
    assert "error[connector.invalid]: other:1:6" in done.stderr
    assert "Invalid value many for configuration tasks.max" in done.stderr
    assert "good" not in done.stderr
    assert not (connect.folder / "offsets").exists()
    assert not (connect.folder / ".connect").exists()


@pytest.mark.usefixtures("worker")
def test_a_file_that_is_not_connects_is_refused_and_left(connect: Command) -> None:
    file = connect.write("offsets", "something else")
    done = connect("standalone", "worker.properties")
    assert done.returncode == 1
    assert f"error[offsets.file-unknown]: {file}" in done.stderr
    assert file.read_text() == "something else"


def test_a_converter_that_is_not_installed_is_told_at_once(connect: Command, worker: Path) -> None:
    text = worker.read_text().replace("StringConverter", "NoConverter", 1)
    worker.write_text(text + "header.converter=FileStreamSource\n")
    done = connect("standalone", "worker.properties")
    assert done.returncode == 2
    name = "org.apache.kafka.connect.storage.NoConverter"
    assert f"Invalid value {name} for configuration key.converter: Class {name}" in done.stderr
    assert "does not implement the HeaderConverter interface" in done.stderr


def test_tasks_run_on_this_machine(connect: Command, worker: Path) -> None:
    worker.write_text(worker.read_text() + "spark.master=spark://host:7077\n")
    done = connect("standalone", "worker.properties")
    assert done.returncode == 2
    assert "spark.master: must be local[N]" in done.stderr
