"""Starts and ends this process's one SparkContext, with what long-running Python tasks need.

Everything that Spark writes goes below one data folder: block files, its log and what Python
workers print. The terminal stays quiet. Knows nothing of tasks.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

from connect_runtime.kafka.java import find_java
from connect_runtime.private_files import make_private_folder
from connect_specs.diagnostics import Diagnostic, Failed

JAVA_AT_LEAST = 17

_END_S = 5.0
_HINT = f"install Java {JAVA_AT_LEAST} or newer, or set JAVA_HOME to one"
# The executor's Python is killed this long after its task was: the newest attempt need not wait.
_KILL_TIMEOUT = "100ms"
_LOG4J = """\
rootLogger.level=warn
rootLogger.appenderRef.err.ref=err
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=%d %p %c{1}: %m%n
logger.native.name=org.apache.hadoop.util.NativeCodeLoader
logger.native.level=error
"""


def ensure_java() -> None:
    """Raises Failed unless there is a Java that Spark runs on."""
    java = find_java()
    if java is None:
        raise Failed(Diagnostic("spark.no-java", "Java was not found", hint=_HINT))
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    said = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if said is None:
        raise Failed(Diagnostic("spark.java", f"{java} does not tell its version", hint=_HINT))
    if int(said[1]) < JAVA_AT_LEAST:
        what = f"{java} is Java {said[1]}, and Spark needs {JAVA_AT_LEAST}"
        raise Failed(Diagnostic("spark.java", what, hint=_HINT))


class SparkSession:
    """A SparkContext and the JVM under it. At most one at a time in a process."""

    def __init__(self, context: SparkContext, jvm: subprocess.Popen[bytes]) -> None:
        self.context = context
        self._jvm = jvm

    @classmethod
    def start(
        cls, master: str, data_folder: Path, settings: Mapping[str, str] | None = None
    ) -> SparkSession:
        """Starts a JVM and connects to it; takes seconds. `settings` win over ours.

        Raises Failed with the place of the log, or what Spark raises.
        """
        folder = (data_folder / "spark").resolve()
        _prepare(folder)
        # it tells of every connection that it closes
        logging.getLogger("py4j").setLevel(logging.WARNING)
        _set_environment(master)
        conf = _conf(master, folder, settings or {})
        log = folder / "spark.log"
        with log.open("ab") as stderr:
            outputs = {"stdout": stderr, "stderr": stderr}
            try:
                gateway = launch_gateway(conf, outputs)
            except Exception as error:
                what = "Spark did not start"
                raise Failed(Diagnostic("spark.start", what, str(log), str(error))) from error
        try:
            context = SparkContext(conf=conf, gateway=gateway)
        except BaseException:
            _end_gateway(gateway, gateway.proc)
            raise
        return cls(context, gateway.proc)

    @property
    def alive(self) -> bool:
        """Whether the JVM still runs."""
        return self._jvm.poll() is None

    def close(self) -> None:
        """Ends the context and the JVM, within a bounded time, also when the JVM is gone."""
        gateway = self.context._gateway  # noqa: SLF001 - Spark never closes it by itself
        if self.alive:
            with contextlib.suppress(Exception):
                self.context.stop()
        # A JVM that died leaves its context behind, and no other one could be made.
        with SparkContext._lock:  # noqa: SLF001
            SparkContext._active_spark_context = None  # noqa: SLF001
        _end_gateway(gateway, self._jvm)


def _end_gateway(gateway: Any, jvm: subprocess.Popen[bytes]) -> None:
    # the next SparkContext would take the gateway that it finds here
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    with contextlib.suppress(Exception):
        gateway.shutdown()
    if jvm.stdin is not None:
        # the JVM ends when its stdin does
        with contextlib.suppress(OSError):
            jvm.stdin.close()
    try:
        jvm.wait(_END_S)
    except subprocess.TimeoutExpired:
        jvm.send_signal(signal.SIGKILL)
        jvm.wait()


def _prepare(folder: Path) -> None:
    # task configs pass through Spark's block files on their way to a worker
    for each in (folder, folder / "local", folder / "work"):
        make_private_folder(each)
    (folder / "log4j2.properties").write_text(_LOG4J)


def _set_environment(master: str) -> None:
    """What Spark takes from the environment only."""
    # unset, it is the `python3` on PATH, which may lack this package
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def is_local(master: str) -> bool:
    """Whether all executors run on this machine."""
    return master.startswith("local")


def _conf(master: str, folder: Path, settings: Mapping[str, str]) -> SparkConf:
    java_options = (
        "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
        f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}"
    )
    conf = SparkConf(loadDefaults=False).setMaster(master).setAppName("connect")
    defaults = {
        "spark.driver.extraJavaOptions": java_options,
        # heartbeats of idle executors are most of what they cost
        "spark.executor.heartbeatInterval": "60s",
        "spark.network.timeout": "300s",
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.executorEnv.SPARK_WORKER_DIR": str(folder / "work"),
        "spark.local.dir": str(folder / "local"),
        "spark.python.daemon.module": "connect_runtime.spark.daemon",
        "spark.python.task.killTimeout": _KILL_TIMEOUT,
        # every attempt in a process of its own, without what the one before left behind
        "spark.python.worker.reuse": "false",
        "spark.speculation": "false",
        # the herder launches again, under a new attempt number; Spark never does
        "spark.task.maxFailures": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in {**defaults, **settings}.items():
        conf.set(key, value)
    return conf
