"""Messages between driver and worker, and the files that they share; a node that cannot run a task
says why.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from connect_runtime.engine.sent_files import CLASS_PATH, with_known
from connect_runtime.spark.attempts import (
    SECRET,
    SECRET_FILE,
    MetricsFile,
    NodeMissingPlugin,
    NotDecrypted,
    ProcessLease,
    decrypt,
    encrypt,
    envelope_from_json,
    envelope_json,
    key_in,
    key_of,
    launch_from_json,
    launch_json,
    lock_lease,
    missing_plugin_json,
    new_key,
    outcome_from_json,
    outcome_json,
    read_metrics,
)
from connect_runtime.spark.launcher import node_failures_trace, wrong_python
from connect_runtime.spark.worker import check_plugins
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd, Outcome
from runtime.spark.bodies import is_gone, launch
from support.wait import wait_until


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


_DAEMON = """\

Error from python worker:
  Traceback (most recent call last):
    File "<frozen runpy>", line 189, in _run_module_as_main
  {last}
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number"""


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (
            'Cannot run program "./environment/bin/python": error=2, No such file or directory',
            'Cannot run program "./environment/bin/python": error=2, No such file or directory',
        ),
        (
            _DAEMON.format(last="ModuleNotFoundError: No module named 'connect_runtime'"),
            "ModuleNotFoundError: No module named 'connect_runtime'",
        ),
        (
            _DAEMON.format(last="This node runs Python 3.10 (/p), and the driver Python 3.11"),
            "This node runs Python 3.10 (/p), and the driver Python 3.11",
        ),
        (_DAEMON.format(last="MemoryError"), None),
        ("Python worker exited unexpectedly (crashed).", None),
        ("ExecutorLostFailure (executor 0 exited)", None),
    ],
)
def test_only_what_an_installation_would_mend_makes_a_node_unfit(
    message: str, why: str | None
) -> None:
    found = wrong_python(message)
    assert (None if found is None else str(found)) == why


_CHAIN = {"transforms": "a", "transforms.a.type": "no.such.Step"}


@pytest.mark.parametrize(
    ("task", "connector", "named"),
    [
        ({"task.class": "no_such_plugin:Task"}, {}, "no_such_plugin:Task"),
        ({}, {"value.converter": "no.such.Converter"}, "no.such.Converter"),
        ({}, {"header.converter": "no.such.Headers"}, "no.such.Headers"),
        ({}, _CHAIN, "no.such.Step"),
        ({}, {"predicates": "b", "predicates.b.type": "no.such.Test"}, "no.such.Test"),
    ],
)
def test_a_plugin_that_is_not_here_is_named(
    task: dict[str, str], connector: dict[str, str], named: str
) -> None:
    given = replace(launch("c"), config=task, connector_config=connector)
    with pytest.raises(NodeMissingPlugin, match=named):
        check_plugins(given)


@pytest.mark.parametrize("error", [FileNotFoundError("no home"), subprocess.TimeoutExpired("", 1)])
def test_a_node_that_cannot_have_the_engine_is_named(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one without an archive and without a home that can be written to."""

    def class_path() -> tuple[Path, ...]:
        raise error

    monkeypatch.setattr("connect_runtime.spark.worker.class_path", class_path)
    with pytest.raises(NodeMissingPlugin, match=str(error)):
        check_plugins(replace(launch("c"), java=True))


def test_a_java_plugin_that_is_not_here_is_named() -> None:
    worker = with_known({}, {CLASS_PATH: [], "file:/no/such/plugin/": []})
    with pytest.raises(NodeMissingPlugin, match=r"/no/such/plugin on plugin\.path"):
        check_plugins(replace(launch("c"), java=True, worker=worker))


def test_built_in_plugins_and_references_are_no_reason() -> None:
    config = {"value.converter": "${env:CONVERTER}", "key.converter": ""}
    task = {"task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}
    check_plugins(replace(launch("c"), config=task, connector_config=config))


def test_the_trace_names_task_nodes_reasons_and_what_to_do() -> None:
    given = launch("c", task=2)
    trace = node_failures_trace(
        given.id, [("node-1", NodeMissingPlugin("no x")), ("node-2", NodeMissingPlugin("no y"))]
    )
    lines = trace.splitlines()
    assert lines[0] == "Task c-2 cannot run on node node-1: no x"
    assert lines[1] == "Task c-2 cannot run on node node-2: no y"
    assert "`connect package`" in lines[2]


def test_a_nodes_answer_comes_back() -> None:
    with pytest.raises(NodeMissingPlugin, match="no x"):
        outcome_from_json(missing_plugin_json(NodeMissingPlugin("no x")))


_HOLDER = """
import sys, time
from connect_runtime.spark.attempts import lock_lease
print(lock_lease(sys.argv[1]) is not None, flush=True)
time.sleep(60)
"""
_FORKER = """
import os, sys, time
from connect_runtime.spark.attempts import keep_from_forks, sockets
from connect_runtime.spark.attempts import lock_lease
keep_from_forks([*sockets(), lock_lease(sys.argv[1])])
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(60)
"""


@contextmanager
def _holder(lease: ProcessLease) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _HOLDER, lease.path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "True\n"
            yield process
        finally:
            process.kill()


def test_a_process_that_lives_holds_it_until_it_dies(tmp_path: Path) -> None:
    lease = ProcessLease(tmp_path)
    with _holder(lease) as process:
        assert not lease.over()
        process.kill()
        process.wait()
        assert lease.over()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_it_forked_does_not_hold_it(tmp_path: Path) -> None:
    """Nor its connections: who waits for the end of one would wait for that of the fork."""
    lease = ProcessLease(tmp_path)
    here, there = socket.socketpair()
    there.set_inheritable(True)
    command = [sys.executable, "-c", _FORKER, str(lease.path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, pass_fds=[there.fileno()]
    ) as process:
        there.close()
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            assert not lease.over()
            process.kill()
            process.wait()
            wait_until(lease.over, what="the lock to be free")
            assert not is_gone(child)
            here.settimeout(60)
            assert here.recv(1) == b""
        finally:
            os.kill(child, signal.SIGKILL)
            here.close()


def test_a_process_that_comes_late_does_not_begin(tmp_path: Path) -> None:
    lease = ProcessLease(tmp_path)
    assert lease.over()
    assert not lock_lease(str(lease.path))
    assert lease.over()


def test_nobody_begins_while_another_lives(tmp_path: Path) -> None:
    lease = ProcessLease(tmp_path)
    with _holder(lease):
        assert not lock_lease(str(lease.path))


def test_the_holder_can_be_killed(tmp_path: Path) -> None:
    lease = ProcessLease(tmp_path)
    lease.kill()
    other = ProcessLease(tmp_path)
    with _holder(other) as process:
        other.kill()
        wait_until(other.over, what="the lock to be free")
        assert is_gone(process.pid)


def test_nobody_asks_for_a_dropped_one(tmp_path: Path) -> None:
    lease = ProcessLease(tmp_path)
    with _holder(lease):
        lease.drop()
        lease.drop()
    assert list(tmp_path.iterdir()) == []


def test_the_newest_reading_is_read(tmp_path: Path) -> None:
    readings = iter([b'{"metrics":{"a":1000}}', b'{"metrics":{"a":2}}'])
    path = tmp_path / "lease.metrics"
    file = MetricsFile(path, lambda: next(readings))
    assert read_metrics(path) is None
    file.publish()
    assert read_metrics(path) == {"metrics": {"a": 1000}}
    file.close()
    assert read_metrics(path) == {"metrics": {"a": 2}}


def test_a_reading_that_did_not_change_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "lease.metrics"
    file = MetricsFile(path, lambda: b"{}")
    assert file.publish()
    os.truncate(path, 0)
    assert not file.publish()
    assert path.stat().st_size == 0


def test_a_reading_that_is_half_written_is_none(tmp_path: Path) -> None:
    path = tmp_path / "lease.metrics"
    MetricsFile(path, lambda: b'{"metrics":{"a":1}}').publish()
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    assert read_metrics(path) is None
    path.write_bytes(content[:5])
    assert read_metrics(path) is None
    assert read_metrics(tmp_path / "none") is None


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert read_metrics(tmp_path) is None
