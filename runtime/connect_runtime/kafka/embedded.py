"""Starts, finds and stops an embedded Kafka broker on this machine.

One KRaft node in its own process, which outlives the process that started it. A folder holds its
data and a record of its process, so the next start in that folder adopts the running broker, or
starts it again on the same data, ports and cluster id. Listens on loopback only, and only this user
can read its files, one of which may hold a password that clients need.
"""

import contextlib
import fcntl
import json
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from connect_runtime.class_archives import ClassArchive
from connect_runtime.files import (
    PRIVATE,
    ensure_password,
    make_private_folder,
    read_password,
    replace_file,
    tighten,
)
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.jars import classpath, jars_folder
from connect_runtime.kafka.local_processes import (
    LOOPBACK,
    NO_JAVA_HINT,
    end_process,
    find_java,
    free_port,
    is_alive,
    is_free,
    spawn,
    start_time,
)
from connect_runtime.waiting import wait_until
from connect_specs.diagnostics import Diagnostic, Unreachable

_PASSWORD = "password"

# Few internal partitions and no wait for more group members make the start faster. A killed
# broker's successor is admitted only when the killed one's session has expired. Open transactions
# of killed writers are checked each second: until then they hide later records. The controller
# writes no records while nothing changes: two a second would be a third of an idle broker's work.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
auto.create.topics.enable=true
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
metadata.max.idle.interval.ms=0
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
share.coordinator.state.topic.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""

# Both listeners require a login; their names stay, so that all else does.
_AUTHENTICATION = """\
listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.controller.protocol=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.plaintext.plain.sasl.jaas.config={login} user_{user}="{password}";
listener.name.controller.plain.sasl.jaas.config={login} user_{user}="{password}";
"""
_USER = "connect"
_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="{user}" password="{password}"'
)


def console_logging(level: str, pattern: str) -> str:
    """Returns properties of Log4j with which a JVM logs on its output."""
    return f"""\
rootLogger.level={level}
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern={pattern}
"""


LOGGING = console_logging("WARN", "%d %p %m (%c)%n")
_RECORD = "broker.json"
_LOG = "broker.log"
_START_S = 30.0
_STOP_S = 15.0
_TRIES_S = 0.05

# With only the C1 compiler the broker starts in two thirds of the time and carries as many records
# a second: it mostly copies bytes, and with few cores the C2 compiler takes time from it.
_JVM_FLAGS = (
    "-Xms256m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)


def server_properties(port: int, controller_port: int, data: Path, password: str | None) -> str:
    """Returns the broker's properties file; with a password, both listeners require it."""
    properties = _PROPERTIES.format(
        host=LOOPBACK, port=port, controller_port=controller_port, data=data
    )
    if not password:
        return properties
    login = _LOGIN.format(user=_USER, password=password)
    return properties + _AUTHENTICATION.format(login=login, user=_USER, password=password)


def client_properties(port: int, password: str | None) -> dict[str, str]:
    """Returns the properties that clients need to connect, under Java's names."""
    properties = {"bootstrap.servers": f"{LOOPBACK}:{port}"}
    if password:
        properties |= {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{_LOGIN.format(user=_USER, password=password)};",
        }
    return properties


class BrokerError(Unreachable):
    """The broker is not available."""


def _failure(problem: str, *, log_tail: Sequence[str] = (), hint: str = "") -> BrokerError:
    return BrokerError(Diagnostic("kafka.embedded", problem, why="\n".join(log_tail), hint=hint))


@dataclass(frozen=True, slots=True)
class BrokerRecord:
    """A broker's process, by pid and start time, and how to reach and identify it."""

    pid: int
    started: float
    port: int
    controller_port: int
    cluster_id: str


def find_broker(folder: Path) -> BrokerRecord | None:
    """Returns the folder's running broker, or None. Asks only the system, not the broker."""
    record = _read_record(folder)
    return record if record and is_alive(record.pid, record.started) else None


def _read_record(folder: Path) -> BrokerRecord | None:
    try:
        return BrokerRecord(**json.loads((folder / _RECORD).read_bytes()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise _failure(
            f"{folder / _RECORD} is not a broker's record: {error}",
            hint="If no broker runs on that folder, remove the file.",
        ) from error


def _write_record(folder: Path, record: BrokerRecord) -> None:
    content = json.dumps(asdict(record), indent=2) + "\n"
    replace_file(folder / _RECORD, content, mode=PRIVATE)


class EmbeddedBroker:
    """A running broker. `adopted`: it was running before start was called.

    It outlives this object; call stop to end it.
    """

    def __init__(self, folder: Path, record: BrokerRecord, *, adopted: bool) -> None:
        self.folder = folder
        self._password = read_password(folder / _PASSWORD)
        self.adopted = adopted
        self._record = record

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        port: int | None = None,
        authentication: bool = False,
        java_flags: Sequence[str] | None = None,
    ) -> Self:
        """Adopts the folder's broker if it runs, else starts it; ready when this returns.

        `port` is the one that clients connect to; by default that of the last start, or a free one.
        With `authentication`, connections require the password that a file in the folder holds.
        `java_flags` replace those that use the broker's class archive. Waits 30 s at most. Raises
        BrokerError, and ArtifactsError if Kafka's jars are not available.
        """
        folder = folder.absolute()
        make_private_folder(folder)
        with _locked(folder):
            living = find_broker(folder)
            if living is not None:
                if port not in (None, living.port):
                    raise _failure(
                        f"the broker in {folder} runs on port {living.port}, not {port}",
                        hint=f"Stop it first; its pid is {living.pid}.",
                    )
                if authentication != bool(read_password(folder / _PASSWORD)):
                    login = "no login" if authentication else "a login"
                    raise _failure(
                        f"the broker in {folder} runs, and asks for {login}",
                        hint=f"Stop it first, to change that; its pid is {living.pid}.",
                    )
                _wait_until_ready(folder, living)
                return cls(folder, living, adopted=True)
            started = _start_process(folder, port, java_flags, authentication=authentication)
            try:
                _wait_until_ready(folder, started)
            except BaseException:
                end_process(started.pid, started.started, patience_s=0)
                raise
            return cls(folder, started, adopted=False)

    @property
    def bootstrap_servers(self) -> str:
        return f"{LOOPBACK}:{self._record.port}"

    @property
    def client_properties(self) -> dict[str, str]:
        """Returns the properties that clients need to connect, under Java's names, with the
        password if there is one."""
        return client_properties(self._record.port, self._password)

    @property
    def cluster_id(self) -> str:
        return self._record.cluster_id

    @property
    def pid(self) -> int:
        return self._record.pid

    def stop(self, patience_s: float = _STOP_S) -> None:
        """Ends exactly this process: SIGTERM, and SIGKILL after `patience_s` seconds."""
        end_process(self._record.pid, self._record.started, patience_s=patience_s)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "broker.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def class_archive() -> ClassArchive:
    """Returns the archive of the broker's classes, made or not. Raises ArtifactsError."""
    return ClassArchive("broker", (jars_folder("broker"),))


def _start_process(
    folder: Path, port: int | None, java_flags: Sequence[str] | None, *, authentication: bool
) -> BrokerRecord:
    java = find_java()
    if java is None:
        raise _failure("Kafka needs Java 17 or newer, and there is none", hint=NO_JAVA_HINT)
    java_command = [str(java), *_JVM_FLAGS, "-cp", classpath("broker")]
    archived = class_archive().flags()
    planned = _plan_record(folder, port)
    properties = folder / "server.properties"
    tighten(folder)
    if not authentication:
        (folder / _PASSWORD).unlink(missing_ok=True)
    password = ensure_password(folder / _PASSWORD) if authentication else None
    content = server_properties(planned.port, planned.controller_port, folder / "data", password)
    replace_file(properties, content, mode=PRIVATE)
    logging = folder / "log4j2.properties"
    replace_file(logging, LOGGING, mode=PRIVATE)
    java_command.append(f"-Dlog4j2.configurationFile={logging}")
    _format_once(folder, [*java_command, *archived], properties, planned.cluster_id)
    java_command += archived if java_flags is None else java_flags
    pid = spawn([*java_command, "kafka.Kafka", str(properties)], log=folder / _LOG, private=True)
    started = start_time(pid)
    if started is None:
        raise _failure("the broker ended at once", log_tail=_log_tail(folder))
    record = replace(planned, pid=pid, started=started)
    _write_record(folder, record)
    return record


def _plan_record(folder: Path, port: int | None) -> BrokerRecord:
    """Returns ports and cluster id for the next start: the previous ones, if possible."""
    if port is not None and not is_free(port):
        raise _failure(f"port {port} is taken", hint="Name another port, or omit it.")
    last = _read_record(folder)
    client_port = port or (last.port if last and is_free(last.port) else free_port())
    controller_port = last.controller_port if last else 0
    if controller_port in (0, client_port) or not is_free(controller_port):
        controller_port = free_port(other_than=[client_port])
    cluster_id = _recorded_cluster_id(folder) or _new_cluster_id()
    return BrokerRecord(0, 0.0, client_port, controller_port, cluster_id)


def _new_cluster_id() -> str:
    # Kafka's form of a UUID, without dashes: a leading one would read as an option.
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")


def _recorded_cluster_id(folder: Path) -> str | None:
    """Returns the cluster id of the data; None before it is formatted."""
    try:
        lines = (folder / "data" / "meta.properties").read_text().splitlines()
    except FileNotFoundError:
        return None
    return next((line.partition("=")[2] for line in lines if line.startswith("cluster.id=")), None)


def _format_once(folder: Path, java_command: list[str], properties: Path, cluster_id: str) -> None:
    if _recorded_cluster_id(folder) is not None:
        return
    try:
        done = subprocess.run(
            [
                *java_command,
                "kafka.tools.StorageTool",
                "format",
                "--cluster-id",
                cluster_id,
                "--config",
                str(properties),
            ],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_START_S,
            umask=0o077,
        )
    except subprocess.TimeoutExpired:
        raise _failure(f"{folder / 'data'} was not formatted within {_START_S:.0f} s") from None
    if done.returncode != 0:
        tail = (done.stdout + done.stderr).strip().splitlines()[-5:]
        raise _failure(f"{folder / 'data'} cannot be formatted", log_tail=tail)


def _log_tail(folder: Path) -> Sequence[str]:
    try:
        return (folder / _LOG).read_text(errors="replace").splitlines()[-5:]
    except FileNotFoundError:
        return ()


def _wait_until_ready(folder: Path, record: BrokerRecord) -> None:
    """Returns when the broker answers with the recorded cluster id."""
    deadline = time.monotonic() + _START_S
    _wait_for(lambda: _listens(record.port), folder, record, deadline)
    # Reconnects at once and logs no refusals: the broker is only starting.
    client = admin(
        client_properties(record.port, read_password(folder / _PASSWORD)),
        {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0},
    )
    _wait_for(lambda: _answers(client, folder, record), folder, record, deadline)


def _wait_for(
    condition: Callable[[], bool], folder: Path, record: BrokerRecord, deadline: float
) -> None:
    """Raises BrokerError if the process ends before the condition holds, or the time is up."""

    def holds() -> bool:
        if condition():
            return True
        if is_alive(record.pid, record.started):
            return False
        raise _not_started("the broker ended while it started", folder)

    if not wait_until(holds, deadline - time.monotonic(), every_s=_TRIES_S):
        problem = f"the broker (pid {record.pid}) did not answer within {_START_S:.0f} s"
        raise _not_started(problem, folder)


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _answers(client: AdminClient, folder: Path, record: BrokerRecord) -> bool:
    """Returns whether the broker serves. Raises BrokerError for a broker of another cluster."""
    try:
        metadata = client.list_topics(timeout=2.0)
    except KafkaException:
        return False
    if metadata.cluster_id not in (None, record.cluster_id):
        raise _failure(
            f"port {record.port} is cluster {metadata.cluster_id}, "
            f"not the one in {folder}, {record.cluster_id}",
            hint=f"Find out what listens there; the broker's pid is {record.pid}.",
        )
    return metadata.cluster_id == record.cluster_id and bool(metadata.brokers)


def _not_started(problem: str, folder: Path) -> BrokerError:
    return _failure(problem, log_tail=_log_tail(folder), hint=f"Its whole log: {folder / _LOG}")
