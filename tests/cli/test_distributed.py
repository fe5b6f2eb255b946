"""distributed: what it says about a file before anything starts."""

from support.command import Command


def test_mistakes_in_the_file_are_told_at_once(connect: Command) -> None:
    connect.write("worker.properties", "bootstrap.servers=localhost:1\n\nlisteners=ftp://x\n")
    done = connect("distributed", "worker.properties")
    assert done.returncode == 2
    assert "error[worker.invalid]: worker.properties:3:1: Invalid value ftp://x" in done.stderr
    assert "error[worker.invalid]: worker.properties: Missing required" in done.stderr
    for key in ("group.id", "key.converter", "config.storage.topic", "listeners"):
        assert key in done.stderr


def test_a_file_that_is_not_there(connect: Command) -> None:
    done = connect("distributed", "gone/worker.properties")
    assert done.returncode == 2
    assert "error[file.unreadable]: gone/worker.properties: " in done.stderr


def test_slots_and_master_exclude_each_other(connect: Command) -> None:
    done = connect("distributed", "w.properties", "--slots", "3", "--master", "spark://h:7077")
    assert done.returncode == 2
    assert "--slots and --master" in done.stderr
