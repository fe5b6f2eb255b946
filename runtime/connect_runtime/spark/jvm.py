"""The JVM that Spark's driver runs in: starts it, connects to it, and ends it.

Other users can read a process's command line, so settings are passed in a file and secrets in the
environment.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from connect_runtime.kafka.local_processes import find_java
from connect_runtime.logs.log_output import open_log
from connect_specs.diagnostics import Diagnostic, Failed

JAVA_AT_LEAST = 17

_HINT = f"install Java {JAVA_AT_LEAST} or newer, or set JAVA_HOME to one"
_KILLED_S = 5.0
_POLL_S = 0.05
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"} | {c: f"\\{c}" for c in "\\ =:#!"}
# PySpark reads a gateway's address from the process's environment only
_connecting = threading.Lock()


def ensure_java() -> None:
    """Raises Failed unless a Java is installed that Spark runs on."""
    java = find_java()
    if java is None:
        raise Failed(Diagnostic("spark.no-java", "Java was not found", hint=_HINT))
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if version is None:
        raise Failed(Diagnostic("spark.java", f"{java} does not report its version", hint=_HINT))
    if int(version[1]) < JAVA_AT_LEAST:
        problem = f"{java} is Java {version[1]}, and Spark needs {JAVA_AT_LEAST}"
        raise Failed(Diagnostic("spark.java", problem, hint=_HINT))


class Jvm:
    """One JVM with a Py4J gateway. Only its user can read `folder`."""

    def __init__(
        self,
        settings: Mapping[str, str],
        folder: Path,
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        """Starts the process and returns at once; `environment` is added to this process's own.
        Raises OSError."""
        self._log = log
        self._gateway: Any = None
        self._info = Path(tempfile.mkdtemp(dir=folder)) / "gateway"
        file = folder / "spark.conf"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as text:
            text.writelines(f"{_escaped(k)}={_escaped(v)}\n" for k, v in settings.items())
        submit = Path(_find_spark_home()) / "bin" / "spark-submit"
        words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        with open_log(log) as output:
            self._process = subprocess.Popen(
                # spark-defaults.conf still applies to settings not given here
                [submit, "--properties-file", file, "--load-spark-defaults", *words],
                env=os.environ
                | environment
                | {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._info)},
                # the JVM ends when its stdin does
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                # A terminal's Ctrl-C is for the driver, which ends the JVM in order.
                process_group=0,
            )

    @property
    def alive(self) -> bool:
        """Returns whether the process still runs."""
        return self._process.poll() is None

    def connect(self) -> Any:
        """Waits for the gateway and returns it. Raises Failed when the JVM ends before that."""
        while not self._info.exists():
            if not self.alive:
                code = self._process.returncode
                problem = f"Spark's JVM ended with exit code {code} while it started"
                raise Failed(Diagnostic("spark.start", problem, str(self._log)))
            time.sleep(_POLL_S)
        with self._info.open("rb") as info:
            port, secret = read_int(info), UTF8Deserializer().loads(info)
        self._info.unlink()
        with _connecting:
            os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
            try:
                self._gateway = launch_gateway()
            finally:
                del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        return self._gateway

    def kill(self) -> None:
        """Kills the JVM and the scripts that start it (SIGKILL)."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self, patience_s: float) -> None:
        """Waits that long for the process to end, then kills it."""
        # the next SparkContext would use this gateway
        SparkContext._gateway = None  # noqa: SLF001
        SparkContext._jvm = None  # noqa: SLF001
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILLED_S)
        # not before: it calls the JVM, which may not answer
        if self._gateway is not None:
            with contextlib.suppress(Exception):
                self._gateway.shutdown()


def jars_folder() -> Path:
    """Returns the folder of Spark's jars."""
    return Path(_find_spark_home()) / "jars"


def _escaped(text: str) -> str:
    """Escapes text for a Java properties file."""
    return "".join(_ESCAPES.get(char, char) for char in text)


@dataclass(frozen=True, slots=True)
class JvmFigures:
    """`memory` in bytes by area (heap, nonheap); `collections`, by collector: how many, and the
    seconds that they took."""

    memory: Mapping[str, int]
    threads: int
    collections: Mapping[str, tuple[int, float]]


def jvm_figures(jvm: Any) -> JvmFigures:
    """Asks through Py4J: about ten calls. Blocks until the JVM answers."""
    beans = jvm.java.lang.management.ManagementFactory
    memory = beans.getMemoryMXBean()
    return JvmFigures(
        {
            "heap": memory.getHeapMemoryUsage().getUsed(),
            "nonheap": memory.getNonHeapMemoryUsage().getUsed(),
        },
        beans.getThreadMXBean().getThreadCount(),
        {
            bean.getName(): (bean.getCollectionCount(), bean.getCollectionTime() / 1000)
            for bean in beans.getGarbageCollectorMXBeans()
        },
    )
