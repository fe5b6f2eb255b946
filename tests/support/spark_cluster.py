"""A Spark standalone cluster on this machine, from the installed PySpark: a master and workers.

Each is a process that a test can kill and start again. Executors belong to their worker, and end
with it.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from pyspark.find_spark_home import _find_spark_home

from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from connect_runtime.spark.session import JAVA_FLAGS, class_archive
from support import http, processes
from support.processes import Process
from support.wait import wait_until

_DEPLOY = "org.apache.spark.deploy"
_START_S = 90
_PROPERTIES = "spark.master.rest.enabled=false\n"
_SECURED = """\
spark.authenticate=true
spark.authenticate.secret={secret}
spark.network.crypto.enabled=true
"""
_END_S = 10


@dataclass(slots=True)
class SparkCluster:
    """Processes log below `folder`, where executors work, too. `environment` is added to the
    workers', and so to their executors'. Without a secret anybody may connect. `host` is where the
    master and the driver are."""

    folder: Path
    cores: int = 4
    environment: dict[str, str] = field(default_factory=dict)
    secret: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)
    port: int = field(default_factory=free_port)
    web_port: int = field(default_factory=free_port)
    host: str = LOOPBACK
    master: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        """What `--master` takes."""
        return f"spark://{self.host}:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """What an application needs here: addresses of this machine, and small executors."""
        return {
            "spark.driver.host": self.host,
            "spark.driver.bindAddress": self.host,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": _java_options(),
            "spark.authenticate.secret": self.secret,
        }

    def start_master(self) -> None:
        """Returns when the master answers."""
        words = ["--port", str(self.port), "--webui-port", str(self.web_port)]
        self.master = self._start("master", f"{_DEPLOY}.master.Master", self.host, words)
        wait_until(
            lambda: self.state() is not None, what="the master to answer", timeout_s=_START_S
        )

    def start_worker(
        self,
        host: str = "",
        environment: Mapping[str, str] = {},
        starter: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Returns when the master knows the worker. Each address of this machine is a node; the
        environment is that of this one, and `starter` a command that starts it elsewhere."""
        before = self._alive_workers()
        name = f"worker-{len(self.workers)}"
        words = ["--cores", str(self.cores), "--memory", "1g"]
        words += ["--work-dir", str(self.folder / name), "--webui-port", "0", self.url]
        main_class = f"{_DEPLOY}.worker.Worker"
        worker = self._start(name, main_class, host or self.host, words, environment, starter)
        self.workers.append(worker)
        wait_until(
            lambda: self._alive_workers() > before,
            what="the worker to be registered",
            timeout_s=_START_S,
        )
        return worker

    def state(self) -> dict[str, object] | None:
        """What the master says of itself; None while it does not."""
        try:
            answer = http.get(f"http://{self.host}:{self.web_port}/json/", timeout=5)
        except httpx.TransportError:
            return None
        # while it starts, its pages answer in place of its state
        if not answer.is_success or "json" not in answer.headers.get("Content-Type", ""):
            return None
        state: dict[str, object] = answer.json()
        return state

    def executors(self, *workers: subprocess.Popen[bytes]) -> list[Process]:
        """The JVMs of executors, of these workers or of all."""
        alive = [each for each in workers or self.workers if each.poll() is None]
        return [
            found
            for worker in alive
            for found in processes.of_session(worker.pid)
            if "CoarseGrainedExecutorBackend" in found.command
        ]

    def processes(self) -> list[Process]:
        """All that its workers have started, themselves included."""
        return [found for each in self.workers for found in processes.of_session(each.pid)]

    def remove_application(self) -> None:
        """As its button on the master's page does; there must be one application only."""
        with http.client(f"http://{self.host}:{self.web_port}", timeout_s=10) as web:
            tags = re.findall(r"<input [^>]*>", web.get("/").text)
            fields = [dict(re.findall(r'(\w+)="([^"]*)"', tag)) for tag in tags]
            form = {each["name"]: each["value"] for each in fields if "name" in each}
            answer = web.post("/app/kill/", data=form)
        assert answer.status_code in (200, 302), f"{form}: {answer.text}"

    def kill(self, started: subprocess.Popen[bytes]) -> None:
        """SIGKILL to the master or to a worker; executors end by themselves."""
        started.send_signal(signal.SIGKILL)
        started.wait(_END_S)

    def end(self) -> None:
        """Ends all processes, and returns when they are gone."""
        every = [*self.workers, *([self.master] if self.master else [])]
        left = [found for each in every for found in processes.of_session(each.pid)]
        processes.kill(*left)
        for each in every:
            each.wait(_END_S)

    def _alive_workers(self) -> int:
        state = self.state() or {}
        workers = state.get("workers", [])
        assert isinstance(workers, list)
        return sum(each["state"] == "ALIVE" for each in workers)

    def _start(
        self,
        name: str,
        main_class: str,
        host: str,
        words: Sequence[str],
        environment: Mapping[str, str] = {},
        starter: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        home = Path(_find_spark_home())
        self.folder.mkdir(parents=True, exist_ok=True)
        # everybody can read command lines
        properties = self.folder / "spark.properties"
        secured = _SECURED.format(secret=self.secret) if self.secret else ""
        properties.write_text(_PROPERTIES + secured)
        properties.chmod(0o600)
        words = ["--properties-file", str(properties), "--host", host, *words]
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*starter, home / "bin" / "spark-class", main_class, *words],
                env=os.environ
                | {
                    "SPARK_HOME": str(home),
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": _java_options(),
                    "PYSPARK_PYTHON": sys.executable,
                    # Spark in this process may have set it, and its page would listen there
                    "SPARK_LOCAL_IP": host,
                }
                | self.environment
                | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # so that all that it starts is found
                start_new_session=True,
            )


def _java_options() -> str:
    """With which JVMs start as the driver's does: in a part of the CPU time."""
    return shlex.join([*JAVA_FLAGS, *class_archive().flags()])


@contextmanager
def spark_cluster(
    folder: Path,
    *,
    cores: int = 4,
    environment: dict[str, str] | None = None,
    secured: bool = True,
) -> Iterator[SparkCluster]:
    """A master and one worker."""
    cluster = SparkCluster(folder, cores, environment or {})
    if not secured:
        cluster.secret = ""
    try:
        cluster.start_master()
        cluster.start_worker()
        yield cluster
    finally:
        cluster.end()
