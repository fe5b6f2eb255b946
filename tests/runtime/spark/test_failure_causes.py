"""Which nodes cannot run a task, and what is said about them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connect_runtime.spark.launch_messages import (
    NodeMissingPlugin,
    missing_plugin_json,
    outcome_from_json,
)
from connect_runtime.spark.launcher import node_failures_trace, wrong_python
from connect_runtime.spark.worker import check_plugins
from runtime.spark.bodies import launch

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
