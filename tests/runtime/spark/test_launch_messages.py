"""Launches and outcomes as JSON; launches are encrypted with a key that travels separately. Nodes
that cannot run a task say why.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from connect_runtime.spark.launch_messages import (
    SECRET,
    SECRET_FILE,
    NodeMissingPlugin,
    NotDecrypted,
    decrypt,
    encrypt,
    envelope_from_json,
    envelope_json,
    key_in,
    key_of,
    launch_from_json,
    launch_json,
    missing_plugin_json,
    new_key,
    outcome_from_json,
    outcome_json,
)
from connect_runtime.spark.launcher import node_failures_trace, wrong_python
from connect_runtime.spark.worker import check_plugins
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
