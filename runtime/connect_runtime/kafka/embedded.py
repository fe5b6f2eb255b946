"""Starts, finds and stops an embedded Kafka broker on this machine.

One KRaft node in its own process, which outlives the process that started it. A folder holds its
data and a record of its process, so the next start in that folder adopts the running broker, or
starts it again on the same data, ports and cluster id. Listens on loopback only, and only this user
can read its files.
"""

import contextlib
import fcntl
import json
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException

from connect_runtime.class_archives import ClassArchive
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.embedded_settings import (
    LOGGING,
    client_properties,
    ensure_password,
    read_password,
    server_properties,
)
from connect_runtime.kafka.jars import classpath, jars_folder
from connect_runtime.kafka.java import NO_JAVA_HINT, find_java
from connect_runtime.kafka.ports import LOOPBACK, free_port, is_free
from connect_runtime.kafka.process import end_process, is_alive, spawn, start_time
from connect_runtime.private_files import make_private_folder, tighten, write_private
from connect_specs.diagnostics import Diagnostic, Unreachable

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


class BrokerError(Unreachable):
    """The broker is not available: `what` went wrong, `log_tail` of its log, and a `hint`."""

    def __init__(self, what: str, *, log_tail: tuple[str, ...] = (), hint: str = "") -> None:
        why = "\n".join(log_tail)
        super().__init__(Diagnostic("kafka.embedded", what, why=why, hint=hint))
        self.what = what
        self.log_tail = log_tail
        self.hint = hint


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
        raise BrokerError(
            f"{folder / _RECORD} is not a broker's record: {error}",
            hint="If no broker runs on that folder, remove the file.",
        ) from error


def _write_record(folder: Path, record: BrokerRecord) -> None:
    write_private(folder / _RECORD, json.dumps(asdict(record), indent=2) + "\n")


class EmbeddedBroker:
    """A running broker. `adopted`: it was running before start was called.

    It outlives this object; call stop to end it.
    """

    def __init__(self, folder: Path, record: BrokerRecord, *, adopted: bool) -> None:
        self.folder = folder
        self._password = read_password(folder)
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
        BrokerError, and JarsError if Kafka's jars are not available.
        """
        folder = folder.absolute()
        make_private_folder(folder)
        with _locked(folder):
            living = find_broker(folder)
            if living is not None:
                if port not in (None, living.port):
                    raise BrokerError(
                        f"the broker in {folder} runs on port {living.port}, not {port}",
                        hint=f"Stop it first; its pid is {living.pid}.",
                    )
                if authentication != bool(read_password(folder)):
                    now = "no login" if authentication else "a login"
                    raise BrokerError(
                        f"the broker in {folder} runs, and asks for {now}",
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
        """Returns what clients need to connect, in Java's names. Contains the password, if there is
        one."""
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
    with (folder / "broker.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def class_archive() -> ClassArchive:
    """Returns the archive of the broker's classes, made or not. Raises JarsError."""
    return ClassArchive("broker", (jars_folder("broker"),))


def _start_process(
    folder: Path, port: int | None, java_flags: Sequence[str] | None, *, authentication: bool
) -> BrokerRecord:
    java = find_java()
    if java is None:
        raise BrokerError("Kafka needs Java 17 or newer, and there is none", hint=NO_JAVA_HINT)
    java_command = [str(java), *_JVM_FLAGS, "-cp", classpath("broker")]
    archived = class_archive().flags()
    planned = _plan_record(folder, port)
    properties = folder / "server.properties"
    tighten(folder)
    password = ensure_password(folder, wanted=authentication)
    write_private(
        properties,
        server_properties(planned.port, planned.controller_port, folder / "data", password),
    )
    logging = folder / "log4j2.properties"
    write_private(logging, LOGGING)
    java_command.append(f"-Dlog4j2.configurationFile={logging}")
    _format_once(folder, [*java_command, *archived], properties, planned.cluster_id)
    java_command += archived if java_flags is None else java_flags
    pid = spawn([*java_command, "kafka.Kafka", str(properties)], log=folder / _LOG, private=True)
    started = start_time(pid)
    if started is None:
        raise BrokerError("the broker ended at once", log_tail=_log_tail(folder))
    record = replace(planned, pid=pid, started=started)
    _write_record(folder, record)
    return record


def _plan_record(folder: Path, port: int | None) -> BrokerRecord:
    """Returns ports and cluster id for the next start: the previous ones, if possible."""
    if port is not None and not is_free(port):
        raise BrokerError(f"port {port} is taken", hint="Name another port, or omit it.")
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
        raise BrokerError(f"{folder / 'data'} was not formatted within {_START_S:.0f} s") from None
    if done.returncode != 0:
        tail = (done.stdout + done.stderr).strip().splitlines()[-5:]
        raise BrokerError(f"{folder / 'data'} cannot be formatted", log_tail=tuple(tail))


def _log_tail(folder: Path) -> tuple[str, ...]:
    try:
        lines = (folder / _LOG).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    return tuple(lines[-5:])


def _wait_until_ready(folder: Path, record: BrokerRecord) -> None:
    """Returns when the broker answers with the recorded cluster id."""
    deadline = time.monotonic() + _START_S
    _wait_for_port(folder, record, deadline)
    # Reconnects at once and logs no refusals: the broker is only starting.
    client = admin(
        client_properties(record.port, read_password(folder)),
        {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 0},
    )
    while True:
        try:
            found = client.list_topics(timeout=2.0)
            if found.cluster_id == record.cluster_id and found.brokers:
                return
            if found.cluster_id not in (None, record.cluster_id):
                raise BrokerError(
                    f"port {record.port} is cluster {found.cluster_id}, "
                    f"not the one in {folder}, {record.cluster_id}",
                    hint=f"Find out what listens there; the broker's pid is {record.pid}.",
                )
        except KafkaException:
            pass
        _check_still_starting(folder, record, deadline)
        time.sleep(_TRIES_S)


def _wait_for_port(folder: Path, record: BrokerRecord, deadline: float) -> None:
    while True:
        try:
            socket.create_connection((LOOPBACK, record.port), timeout=1.0).close()
            return
        except OSError:
            _check_still_starting(folder, record, deadline)
            time.sleep(_TRIES_S)


def _check_still_starting(folder: Path, record: BrokerRecord, deadline: float) -> None:
    if not is_alive(record.pid, record.started):
        raise BrokerError(
            "the broker ended while it started",
            log_tail=_log_tail(folder),
            hint=f"Its whole log: {folder / _LOG}",
        )
    if time.monotonic() > deadline:
        raise BrokerError(
            f"the broker (pid {record.pid}) did not answer within {_START_S:.0f} s",
            log_tail=_log_tail(folder),
            hint=f"Its whole log: {folder / _LOG}",
        )
