"""A real Apache Kafka Connect worker, to compare with.

Distributed mode, with topics, group and port of its own, so that several can run on one Kafka.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx

from connect_runtime.kafka.jars import classpath
from connect_runtime.kafka.java import find_java
from connect_runtime.kafka.ports import LOOPBACK, free_port
from connect_runtime.kafka.process import end_process, is_alive, spawn, start_time
from support.wait import wait_until

_JVM_FLAGS = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

_LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
"""


@dataclass(frozen=True, slots=True)
class Oracle:
    """A running worker and the names that it was given."""

    url: str
    group_id: str
    folder: Path
    pid: int
    started: float

    @property
    def config_topic(self) -> str:
        return f"{self.group_id}-configs"

    @property
    def offset_topic(self) -> str:
        return f"{self.group_id}-offsets"

    @property
    def status_topic(self) -> str:
        return f"{self.group_id}-status"

    @classmethod
    def start(
        cls,
        folder: Path,
        bootstrap_servers: str,
        *,
        group_id: str,
        exactly_once: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> Self:
        """Starts a worker and returns when its /health is 200, within 60 s.

        `settings` are worker properties that replace or add to the ones here. Raises
        AssertionError with the end of its log if it does not get there.
        """
        java = find_java()
        assert java is not None, "Java not found"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plugins").mkdir(exist_ok=True)
        url = f"http://{LOOPBACK}:{free_port()}"
        properties = _properties(folder, bootstrap_servers, group_id, url, exactly_once)
        properties.update(settings or {})
        worker_file = folder / "worker.properties"
        worker_file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        logging = folder / "log4j2.properties"
        logging.write_text(_LOGGING)
        log = folder / "worker.log"
        command = [
            str(java),
            *_JVM_FLAGS,
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            classpath("connect"),
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(worker_file),
        ]
        pid = spawn(command, log=log)
        started = start_time(pid)
        assert started is not None, f"the worker ended at once: {_tail(log)}"
        worker = cls(url, group_id, folder, pid, started)
        try:
            wait_until(worker._is_healthy, what=f"{url}/health to be 200", timeout_s=60)
        except BaseException:
            worker.stop()
            raise
        return worker

    def _is_healthy(self) -> bool:
        log = self.folder / "worker.log"
        assert is_alive(self.pid, self.started), f"the worker ended: {_tail(log)}"
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """Ends the worker: SIGTERM, and SIGKILL after 20 s."""
        end_process(self.pid, self.started, patience_s=20)

    def kill(self) -> None:
        """Ends the worker by SIGKILL, at once."""
        end_process(self.pid, self.started, patience_s=0)


def _properties(
    folder: Path, bootstrap_servers: str, group_id: str, url: str, exactly_once: bool
) -> dict[str, str]:
    json_converter = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group_id,
        "key.converter": json_converter,
        "value.converter": json_converter,
        "config.storage.topic": f"{group_id}-configs",
        "config.storage.replication.factor": "1",
        "offset.storage.topic": f"{group_id}-offsets",
        "offset.storage.replication.factor": "1",
        "offset.storage.partitions": "4",
        "status.storage.topic": f"{group_id}-status",
        "status.storage.replication.factor": "1",
        "status.storage.partitions": "2",
        "offset.flush.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "0",
        "exactly.once.source.support": "enabled" if exactly_once else "disabled",
        "listeners": url,
        "plugin.discovery": "service_load",
        "plugin.path": str(folder / "plugins"),
    }


def _tail(log: Path) -> str:
    return "\n".join(["", *log.read_text(errors="replace").splitlines()[-10:]])
