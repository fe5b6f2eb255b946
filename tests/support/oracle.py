"""A real Apache Kafka Connect worker, to compare with.

In distributed mode with topics, group and port of its own, so that several can run on one Kafka.
`python -m support.oracle` makes the archive of classes with which they start in half the CPU time.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from typing import Self

import httpx

from connect_runtime import KAFKA_VERSION
from connect_runtime.class_archives import ClassArchive
from connect_runtime.kafka.embedded import LOGGING, EmbeddedBroker
from connect_runtime.kafka.jars import jars_folder
from connect_runtime.kafka.local_processes import (
    LOOPBACK,
    end_process,
    find_java,
    free_port,
    is_alive,
    spawn,
    start_time,
)
from support.connect_jars import worker_classpath
from support.wait import wait_until

_JVM_FLAGS = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# It looks at all classes of its plugins, beside whatever else the machine does
_START_S = 240.0

# Log4j 1, as workers had it before
_OLD_LOGGING = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""


@dataclass(frozen=True, slots=True)
class Oracle:
    """A running worker and the names that it was given."""

    url: str
    group_id: str
    folder: Path
    pid: int
    started: float
    command: tuple[str, ...]
    verify: SSLContext | bool = False

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
        version: str = KAFKA_VERSION,
        verify: SSLContext | bool = False,
        java_flags: Sequence[str] | None = None,
    ) -> Self:
        """Starts a worker and returns when it answers for its connectors.

        `settings` are worker properties that replace or add to the ones here, `verify` what its
        TLS is checked with, `java_flags` replace those that use the class archive. Raises
        AssertionError with the end of its log if it does not get there.
        """
        java = find_java()
        assert java is not None, "Java not found"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plugins").mkdir(exist_ok=True)
        url = f"http://{LOOPBACK}:{free_port()}"
        properties = _properties(folder, bootstrap_servers, group_id, url, exactly_once)
        properties.update(settings or {})
        url = properties["listeners"]
        worker_file = folder / "worker.properties"
        worker_file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = [
            str(java),
            *_JVM_FLAGS,
            *(_archive_flags(version) if java_flags is None else java_flags),
            *_logging(folder, version),
            "-cp",
            worker_classpath(version),
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(worker_file),
        ]
        return cls._spawned(command, url, group_id, folder, verify)

    @classmethod
    def standalone(cls, worker_file: Path, connectors: Sequence[Path], url: str) -> Self:
        """Starts a standalone worker, and returns when its REST API answers at `url`. What it
        writes is beside `worker_file`."""
        java = find_java()
        assert java is not None, "Java not found"
        folder = worker_file.parent
        command = [
            str(java),
            *_JVM_FLAGS,
            *_archive_flags(KAFKA_VERSION),
            *_logging(folder, KAFKA_VERSION),
            "-cp",
            worker_classpath(KAFKA_VERSION),
            "org.apache.kafka.connect.cli.ConnectStandalone",
            str(worker_file),
            *map(str, connectors),
        ]
        return cls._spawned(command, url, "", folder, False)

    @classmethod
    def _spawned(
        cls,
        command: Sequence[str],
        url: str,
        group_id: str,
        folder: Path,
        verify: SSLContext | bool,
    ) -> Self:
        log = folder / "worker.log"
        pid = spawn(command, log=log)
        started = start_time(pid)
        assert started is not None, f"the worker ended at once: {_tail(log)}"
        worker = cls(url, group_id, folder, pid, started, tuple(command), verify)
        try:
            wait_until(worker.answers, what=f"{url}/connectors to be 200", timeout_s=_START_S)
        except BaseException:
            worker.stop()
            raise
        return worker

    def again(self) -> Self:
        """The same worker once more, at the same address, after it was killed or stopped."""
        return self._spawned(self.command, self.url, self.group_id, self.folder, self.verify)

    def answers(self) -> bool:
        """Whether it has started and takes part in its cluster."""
        log = self.folder / "worker.log"
        assert is_alive(self.pid, self.started), f"the worker ended: {_tail(log)}"
        try:
            return (
                httpx.get(f"{self.url}/connectors", timeout=5, verify=self.verify).status_code
                == 200
            )
        except httpx.TransportError:
            return False

    def put(self, config: Mapping[str, str]) -> None:
        """Creates or changes a connector; repeats what a rebalance turns away."""
        url = f"{self.url}/connectors/{config['name']}/config"

        def accepted() -> bool:
            answer = httpx.put(url, json=dict(config), timeout=90, verify=self.verify)
            assert answer.is_success or answer.status_code == 409, answer.text
            return answer.is_success

        wait_until(accepted, what=f"PUT {url}", timeout_s=90)

    def stop(self, patience_s: float = 20) -> None:
        """Ends the worker: SIGTERM, and SIGKILL after `patience_s` seconds."""
        end_process(self.pid, self.started, patience_s=patience_s)

    def kill(self) -> None:
        """Ends the worker by SIGKILL, at once."""
        end_process(self.pid, self.started, patience_s=0)


def _archive_flags(version: str) -> list[str]:
    # other versions start too seldom to be worth one
    return class_archive().flags() if version == KAFKA_VERSION else []


def class_archive() -> ClassArchive:
    """The archive of the pinned version's classes, made or not."""
    return ClassArchive("connect", (jars_folder("broker"), jars_folder("connect")))


def make_class_archive() -> None:
    """Makes the archive if it is missing: starts a worker once."""
    if class_archive().flags():
        return
    with tempfile.TemporaryDirectory() as name, class_archive().making() as flags:
        folder = Path(name)
        broker = EmbeddedBroker.start(folder / "broker")
        try:
            worker = Oracle.start(
                folder / "worker", broker.bootstrap_servers, group_id="any", java_flags=flags
            )
            # writing it takes seconds
            worker.stop(patience_s=60)
        finally:
            broker.stop()


def _logging(folder: Path, version: str) -> tuple[str, ...]:
    new = int(version.split(".")[0]) >= 4
    file = folder / ("log4j2.properties" if new else "log4j.properties")
    file.write_text(LOGGING if new else _OLD_LOGGING)
    if new:
        return (f"-Dlog4j2.configurationFile={file}",)
    return (f"-Dlog4j.configuration=file:{file}",)


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


if __name__ == "__main__":
    make_class_archive()
