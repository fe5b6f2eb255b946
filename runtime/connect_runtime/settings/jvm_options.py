"""The options of the JVMs that run Java plugins: the defaults, those of the worker and of a
connector, and what the variables of Apache's start script mean here.

A later option wins, as on Java's command line; of garbage collectors only the last is passed on, as
a JVM does not start with two.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from connect_runtime.api import ConfigError
from connect_runtime.config_providers.references import PROVIDERS, PROVIDERS_OF_JVM
from connect_runtime.settings.connector_clients import OWN_CLIENTS
from connect_runtime.settings.slots import memory_limit

OPTIONS_KEY: Final = "java.jvm.options"
TASKS_KEY: Final = "java.tasks.jvm"
# The tasks of a node share a JVM, or each has its own
NODE: Final = "node"
OWN: Final = "own"

_MIB: Final = 1 << 20
# Debezium's snapshot and stream, and its JDBC sink, are as fast with more
HEAP_MIB: Final = 512
# As Apache's start script gives a worker, which holds as many tasks
NODE_HEAP_MIB: Final = 2048
# Of a JVM that tasks share: at most an eighth of its heap is for new objects. With one thread that
# collects, Debezium is a quarter slower, and with a third of the heap no faster
_OF_NODE: Final = (
    "-XX:+UseParallelGC",
    "-XX:NewRatio=7",
    # A heap that is nearly full for a while makes tasks slow, as with Apache's collector
    "-XX:-UseGCOverheadLimit",
)
# The first alone limits compiled code to less than an option of the worker may ask for
_COMPILED_ONCE: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
_SIZE: Final = re.compile(r"-X(mx|ms|ss)[1-9]\d*[kKmMgG]?")
_COLLECTOR: Final = re.compile(r"-XX:\+Use(Serial|Parallel|G1|Z|Shenandoah)GC")
_ALLOWED: Final = "-Xmx, -Xms, -Xss and -XX:+Use…GC"

_HEAP: Final = "KAFKA_HEAP_OPTS"
# Variables that have no effect, with the reason and what to do instead
_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "KAFKA_LOG4J_OPTS": "plugins log into our log: set levels by /admin/loggers",
    "KAFKA_LOG4J_CMD_OPTS": "plugins log into our log: set levels by /admin/loggers",
    "KAFKA_GC_LOG_OPTS": f"several JVMs would write one file: -Xlog belongs in {OPTIONS_KEY}",
    "KAFKA_JMX_OPTS": "several JVMs cannot share a port: set java.jmx.port in the worker's file",
    "JMX_PORT": "several JVMs cannot share a port: set java.jmx.port in the worker's file",
    "KAFKA_DEBUG": "several JVMs cannot share a port: -agentlib:jdwp=… with address=0 belongs in "
    f"{OPTIONS_KEY}",
    "EXTRA_ARGS": "it has options of Apache's script",
    "LOG_DIR": "the log is below the runtime's own folder, or on stderr",
}
_OF_THIS_PROCESS: Final = ("metric.reporters", PROVIDERS_OF_JVM)
_AGENTS: Final = ("-javaagent:", "-agentlib:", "-agentpath:")


@dataclass(frozen=True, slots=True)
class StartVariables:
    """Variables of Apache's start script: the options of JVMs that they give, and sentences about
    those that have no effect, or another one."""

    options: tuple[str, ...]
    sentences: tuple[str, ...]


def jvm_options(
    worker: Mapping[str, str], connector: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Returns the options of a JVM on this machine: for a task with the connector's, which an
    Apache worker may have stored unchecked; without a connector for one that moves no records, and
    is compiled once, with less memory. Raises ConfigError, ValueError."""
    of_worker, of_connector = (c.get(OPTIONS_KEY, "") for c in (worker, connector or {}))
    problem = options_problem(of_connector)
    if problem is not None:
        raise ConfigError.invalid(OPTIONS_KEY, of_connector, problem)
    defaults = default_options(memory_limit())
    compiler = _COMPILED_ONCE if connector is None else ()
    return joined(defaults, compiler, split_options(of_worker), split_options(of_connector))


def node_jvm_options(worker: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the options of a JVM that tasks share on this machine. Raises ValueError."""
    defaults = _defaults(_heap_mib(memory_limit(), NODE_HEAP_MIB))
    of_worker = split_options(worker.get(OPTIONS_KEY, ""))
    has_collector = any(map(_COLLECTOR.fullmatch, of_worker))
    return joined(defaults, () if has_collector else _OF_NODE, of_worker)


def shares_jvm(worker: Mapping[str, str], connector: Mapping[str, str]) -> bool:
    """Returns whether tasks of the connector share a JVM with others on their node. Options of a
    connector need JVMs of their own."""
    jvm = connector.get(TASKS_KEY) or worker.get(TASKS_KEY) or NODE
    return jvm.strip().lower() != OWN and not connector.get(OPTIONS_KEY)


def jvm_properties(worker: Mapping[str, str]) -> dict[str, str]:
    """Returns the worker's properties that a JVM gets: without config providers in Python, if it is
    known which are, the logins of this runtime's own clients, and reporters, whose ports the JVMs
    cannot share."""
    properties = {
        key: value
        for key, value in worker.items()
        if key not in _OF_THIS_PROCESS and not key.startswith(OWN_CLIENTS)
    }
    if PROVIDERS_OF_JVM in worker:
        properties[PROVIDERS] = worker[PROVIDERS_OF_JVM]
    return properties


def default_options(memory_bytes: int) -> tuple[str, ...]:
    """Returns the options of a JVM on a machine or in a container with so much memory. A small heap
    at first and one thread that collects: a task that waits takes little. A quarter of a small
    machine is what Java itself would take."""
    return _defaults(_heap_mib(memory_bytes, HEAP_MIB))


def _heap_mib(memory_bytes: int, most: int) -> int:
    return min(most, memory_bytes // 4 // _MIB)


def _defaults(heap_mib: int) -> tuple[str, ...]:
    return ("-Xms16m", f"-Xmx{heap_mib}m", "-XX:+UseSerialGC")


def joined(*options: Sequence[str]) -> tuple[str, ...]:
    """Returns options in order, with the last of several garbage collectors."""
    every = [option for some in options for option in some]
    collectors = [option for option in every if _COLLECTOR.fullmatch(option)]
    return tuple(o for o in every if o not in collectors or o == collectors[-1])


def split_options(text: str) -> tuple[str, ...]:
    """Returns the options in a text that quotes them as a shell does. Raises ValueError."""
    return tuple(shlex.split(text))


def options_problem(text: str) -> str | None:
    """Returns why a connector's options are refused; None if they are not."""
    try:
        options = split_options(text)
    except ValueError as error:
        return f"{error}"
    for option in options:
        if not (_SIZE.fullmatch(option) or _COLLECTOR.fullmatch(option)):
            return (
                f"{option} is not allowed in a connector, only {_ALLOWED}; "
                f"others are for {OPTIONS_KEY} of the worker"
            )
    return None


def tasks_problem(text: str) -> str | None:
    """Returns why a connector's `java.tasks.jvm` is refused; None if it is not."""
    return None if text.strip().lower() in (NODE, OWN) else f"it must be {NODE} or {OWN}"


def start_variables(environment: Mapping[str, str]) -> StartVariables:
    """Returns what the variables of Apache's start script mean here. JAVA_HOME and CLASSPATH are
    read where a JVM starts, and JAVA_TOOL_OPTIONS by Java itself."""
    options: list[str] = []
    sentences = [
        f"{name} has no effect: {reason}"
        for name, reason in _WITHOUT_EFFECT.items()
        if environment.get(name)
    ]
    for name in (_HEAP, "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_OPTS"):
        try:
            every = split_options(environment.get(name, ""))
        except ValueError as error:
            sentences.append(f"{name} has no effect: {error}")
            continue
        if name == _HEAP and every:
            # it sizes one JVM of all tasks: a task that needs so much gets it, and none begins so
            every = tuple(option for option in every if option.startswith("-Xmx"))
            sentences.append(
                f"{_HEAP}: {' '.join(every) or 'nothing of it'} is used, as the limit of each JVM; "
                f"{OPTIONS_KEY} in a connector's config sets others"
            )
        options += (option for option in every if not option.startswith(_AGENTS))
        sentences += _about_agents(name, every)
    return StartVariables(tuple(options), tuple(sentences))


def with_start_variables(worker: Mapping[str, str], variables: StartVariables) -> Mapping[str, str]:
    """Returns the worker's properties with options that the variables give before its own."""
    options = f"{shlex.join(variables.options)} {worker.get(OPTIONS_KEY, '')}".strip()
    return {**worker, OPTIONS_KEY: options}


def _about_agents(name: str, options: Iterable[str]) -> Iterable[str]:
    return (
        f"{option.partition('=')[0]} in {name} has no effect: an agent that serves a port can run "
        f"in one JVM only, and /metrics needs none. Others belong in {OPTIONS_KEY} of the worker"
        for option in options
        if option.startswith(_AGENTS)
    )
