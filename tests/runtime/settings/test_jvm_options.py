"""Options of JVMs: defaults, a worker's, a connector's, and variables of Apache's start script."""

from __future__ import annotations

import subprocess

import pytest

from connect_runtime.api import ConfigError
from connect_runtime.kafka.local_processes import find_java
from connect_runtime.settings.jvm_options import (
    OPTIONS_KEY,
    default_options,
    joined,
    jvm_options,
    node_jvm_options,
    options_problem,
    start_variables,
    with_start_variables,
)
from connect_runtime.settings.worker_config import from_properties
from connect_specs.diagnostics import Invalid

GIB = 1 << 30


@pytest.mark.parametrize(
    ("memory", "heap"), [(64 * GIB, "-Xmx512m"), (2 * GIB, "-Xmx512m"), (GIB, "-Xmx256m")]
)
def test_a_small_machine_has_smaller_heaps(memory: int, heap: str) -> None:
    assert default_options(memory) == ("-Xms16m", heap, "-XX:+UseSerialGC")


def test_a_connectors_options_come_after_the_workers_and_those_after_the_defaults() -> None:
    options = jvm_options({OPTIONS_KEY: "-Xmx1g '-Da=b c'"}, {OPTIONS_KEY: "-Xmx2g"})
    assert options[-3:] == ("-Xmx1g", "-Da=b c", "-Xmx2g")
    assert jvm_options({}, {}) == options[:3]


def test_a_jvm_that_moves_no_records_is_compiled_once() -> None:
    once = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
    assert jvm_options({}) == (*jvm_options({}, {}), *once)


def test_a_shared_jvm_collects_with_all_cores_unless_a_collector_is_set() -> None:
    ours = ("-XX:+UseParallelGC", "-XX:NewRatio=7", "-XX:-UseGCOverheadLimit")
    assert node_jvm_options({})[2:] == ours
    chosen = node_jvm_options({OPTIONS_KEY: "-XX:+UseG1GC -Xmx256M"})
    assert chosen[2:] == ("-XX:+UseG1GC", "-Xmx256M")


def test_of_garbage_collectors_the_last_one_counts() -> None:
    options = joined(("-XX:+UseSerialGC", "-Xss1m"), ("-XX:+UseG1GC",), ("-XX:+UseParallelGC",))
    assert options == ("-Xss1m", "-XX:+UseParallelGC")


@pytest.mark.parametrize(
    "options",
    [
        jvm_options({OPTIONS_KEY: "-XX:+UseG1GC"}, {OPTIONS_KEY: "-Xmx1g -Xss2m"}),
        jvm_options({OPTIONS_KEY: "-Xmx32m -XX:InitialCodeCacheSize=64m"}),
        node_jvm_options({OPTIONS_KEY: "-Xmx32m"}),
        node_jvm_options({OPTIONS_KEY: "-XX:+UseZGC -Xmx8g"}),
    ],
)
def test_a_jvm_starts_with_another_collector_and_another_heap(options: tuple[str, ...]) -> None:
    java = find_java()
    assert java is not None
    done = subprocess.run([str(java), *options, "-version"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", ["-Xmx1g", "-Xms64m -Xss512k", "-XX:+UseZGC -Xmx2G", "", " "])
def test_sizes_and_the_collector_are_a_connectors_choice(text: str) -> None:
    assert options_problem(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "-Dx=y",
        "-javaagent:/a.jar",
        "-XX:OnOutOfMemoryError=reboot",
        "-XX:-UseSerialGC",
        "-Xmx1g -cp /tmp",
        "-Xmx",
        "-Xmx0m",
        "-Xmx${env:HEAP}",
        "-Xmx1g;id",
        "@/etc/passwd",
        "-Xmx1g '",
    ],
)
def test_a_connector_can_set_no_other_option(text: str) -> None:
    problem = options_problem(text)
    assert problem is not None
    assert problem == "No closing quotation" or "is not allowed in a connector" in problem


def test_a_task_whose_stored_options_are_refused_does_not_start() -> None:
    with pytest.raises(ConfigError, match=r"-javaagent:/a\.jar is not allowed in a connector"):
        jvm_options({}, {OPTIONS_KEY: "-javaagent:/a.jar"})


def test_a_worker_whose_options_have_an_open_quote_does_not_start() -> None:
    properties = {"bootstrap.servers": "k:1", "group.id": "g", OPTIONS_KEY: "-Da='b"}
    with pytest.raises(Invalid) as error:
        from_properties(properties)
    assert any(OPTIONS_KEY in str(d) and "quotation" in str(d) for d in error.value.diagnostics)


@pytest.mark.parametrize("port", ["0", "70000", "x"])
def test_a_worker_does_not_start_with_a_port_that_is_none(port: str) -> None:
    properties = {"bootstrap.servers": "k:1", "group.id": "g", "java.jmx.port": port}
    with pytest.raises(Invalid) as error:
        from_properties(properties)
    assert any("java.jmx.port" in str(d) for d in error.value.diagnostics)


def test_options_of_apaches_start_script_come_before_the_workers() -> None:
    variables = start_variables(
        {
            "KAFKA_OPTS": "-Djava.security.auth.login.config=/a.conf -javaagent:/b.jar=8080:/c",
            "KAFKA_JVM_PERFORMANCE_OPTS": "-XX:+UseG1GC",
        }
    )
    worker = with_start_variables({OPTIONS_KEY: "-Xmx1g"}, variables)
    assert jvm_options(worker, {})[1:] == (
        jvm_options({})[1],
        "-XX:+UseG1GC",
        "-Djava.security.auth.login.config=/a.conf",
        "-Xmx1g",
    )
    (sentence,) = variables.sentences
    assert sentence.startswith("-javaagent:/b.jar in KAFKA_OPTS has no effect: ")


@pytest.mark.parametrize(
    "name",
    [
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_CMD_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_JMX_OPTS",
        "JMX_PORT",
        "KAFKA_DEBUG",
        "EXTRA_ARGS",
        "LOG_DIR",
    ],
)
def test_a_variable_without_effect_is_named_with_what_to_do(name: str) -> None:
    variables = start_variables({name: "x"})
    assert not variables.options
    (sentence,) = variables.sentences
    assert sentence.startswith(f"{name} has no effect: ")


def test_a_heap_for_all_tasks_is_the_limit_of_each() -> None:
    variables = start_variables({"KAFKA_HEAP_OPTS": "-Xms8g -Xmx12g"})
    assert variables.options == ("-Xmx12g",)
    (sentence,) = variables.sentences
    assert sentence.startswith("KAFKA_HEAP_OPTS: -Xmx12g is used, as the limit of each JVM")


def test_variables_that_are_empty_or_not_of_the_script_are_not_mentioned() -> None:
    assert start_variables({"KAFKA_HEAP_OPTS": "", "PATH": "/bin"}).sentences == ()


def test_a_variable_with_an_open_quote_is_named() -> None:
    (sentence,) = start_variables({"KAFKA_OPTS": "-Da='b"}).sentences
    assert sentence == "KAFKA_OPTS has no effect: No closing quotation"
