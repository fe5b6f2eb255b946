"""A PostgreSQL of a test's own, whose changes can be read, and its SQL."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeAlias

from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from support import processes
from support.connect_jars import optional_files
from support.wait import wait_until

USER = "postgres"
# The server trusts each connection, and connectors want one
PASSWORD = "any"

Row: TypeAlias = tuple[str | None, ...]

_SETTINGS = {
    "wal_level": "logical",
    "max_wal_senders": "64",
    "max_replication_slots": "64",
    "fsync": "off",
    "shared_buffers": "32MB",
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
}
_PROTOCOL = 196608
_HEADER = struct.Struct(">cI")


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server. `sql` runs statements in a database; `stop` ends its connections in order, and
    `kill` all of its processes; `start` returns when it answers."""

    port: int
    start: Callable[[], None]
    stop: Callable[[], None]
    kill: Callable[[], None]

    def url(self, database: str) -> str:
        """Returns the database's JDBC address."""
        return f"jdbc:postgresql://{LOOPBACK}:{self.port}/{database}"

    def sql(self, statements: str, database: str = USER) -> list[Row]:
        """Runs statements, in one transaction unless they say otherwise; returns the rows of all.
        Raises RuntimeError with what the server says."""
        with closing(socket.create_connection((LOOPBACK, self.port), timeout=60)) as connection:
            login = f"user\0{USER}\0database\0{database}\0\0".encode()
            connection.sendall(struct.pack(">II", 8 + len(login), _PROTOCOL) + login)
            list(_messages(connection))
            query = statements.encode() + b"\0"
            connection.sendall(_HEADER.pack(b"Q", 4 + len(query)) + query)
            return [_row(content) for kind, content in _messages(connection) if kind == b"D"]


def _messages(connection: socket.socket) -> Iterator[tuple[bytes, bytes]]:
    """Yields what the server sends until it is ready for the next query."""
    problem = None
    with connection.makefile("rb") as incoming:
        kind = b""
        while kind != b"Z":
            header = incoming.read(_HEADER.size)
            if len(header) < _HEADER.size:
                raise RuntimeError("Postgres has closed the connection")
            kind, size = _HEADER.unpack(header)
            content = incoming.read(size - 4)
            if kind == b"E":
                problem = content.replace(b"\0", b" ").decode()
            yield kind, content
    if problem is not None:
        raise RuntimeError(problem)


def _row(content: bytes) -> Row:
    (columns,) = struct.unpack_from(">H", content)
    values: list[str | None] = []
    at = 2
    for _ in range(columns):
        (size,) = struct.unpack_from(">i", content, at)
        at += 4
        values.append(None if size < 0 else content[at : at + size].decode())
        at += max(size, 0)
    return tuple(values)


@contextmanager
def postgres(databases: Sequence[str] = ()) -> Iterator[Postgres]:
    """A running server with these databases; nothing is left of it."""
    with _installed() as folder, _running(folder, folder / "data") as server:
        for database in databases:
            server.sql(f"CREATE DATABASE {database}")
        yield server


@contextmanager
def primary_and_standby(databases: Sequence[str] = ()) -> Iterator[tuple[Postgres, Postgres]]:
    """A server with these databases, and one that follows it with each transaction and takes over
    its slots for failover; nothing is left of them."""
    with _installed() as folder, _running(folder, folder / "data") as primary:
        for database in databases:
            primary.sql(f"CREATE DATABASE {database}")
        primary.sql("SELECT pg_create_physical_replication_slot('standby')")
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.sql("ALTER SYSTEM SET synchronized_standby_slots = 'standby'")
        primary.stop()
        subprocess.run(["cp", "-a", folder / "data", folder / "standby"], check=True)
        (folder / "standby" / "standby.signal").touch()
        follows = {
            "primary_conninfo": f"host={LOOPBACK} port={primary.port} user={USER} dbname={USER}",
            "primary_slot_name": "standby",
            "hot_standby_feedback": "on",
            "sync_replication_slots": "on",
            # as it has none of its own once it is promoted
            "synchronous_standby_names": "",
            "synchronized_standby_slots": "",
        }
        primary.start()
        with _running(folder, folder / "standby", follows) as standby:
            yield primary, standby


@contextmanager
def _installed() -> Iterator[Path]:
    """A folder with the programs, and an empty database cluster in `data`."""
    folder = Path(mkdtemp(prefix="connect-postgres-"))
    try:
        folder.chmod(0o755)
        _unpack(folder)
        data, account = folder / "data", _account()
        data.mkdir(mode=0o700)
        os.chown(data, account.pw_uid, account.pw_gid)
        words = ["-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8"]
        assert _run(folder, "initdb", data, *words).wait(120) == 0, (folder / "log").read_text()
        yield folder
    finally:
        shutil.rmtree(folder)


def _unpack(folder: Path) -> None:
    (jar,) = optional_files("postgres")
    with zipfile.ZipFile(jar) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".txz"))
        with archive.open(name) as content, tarfile.open(fileobj=content, mode="r:xz") as files:
            files.extractall(folder, filter="data")


def _account() -> pwd.struct_passwd:
    # it refuses to run as root
    return pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())


def _run(folder: Path, command: str, data: Path, *arguments: str) -> subprocess.Popen[bytes]:
    account = _account()
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [str(folder / "bin" / command), "-D", str(data), *arguments],
            stdout=log,
            stderr=log,
            cwd="/",
            user=account.pw_uid if os.getuid() == 0 else None,
            group=account.pw_gid if os.getuid() == 0 else None,
            extra_groups=[] if os.getuid() == 0 else None,
            start_new_session=True,
        )


@contextmanager
def _running(folder: Path, data: Path, further: Mapping[str, str] = {}) -> Iterator[Postgres]:
    port = free_port()
    settings = [f"--{name}={value}" for name, value in {**_SETTINGS, **further}.items()]
    process: subprocess.Popen[bytes] | None = None

    def start() -> None:
        nonlocal process
        process = _run(folder, "postgres", data, f"--port={port}", *settings)
        wait_until(answers, what="Postgres")

    def stop() -> None:
        assert process is not None
        process.send_signal(signal.SIGINT)  # SIGTERM would wait for its clients
        process.wait(60)

    def kill() -> None:
        assert process is not None
        others = processes.children(process.pid)
        process.kill()
        process.wait(60)
        processes.kill(*others)

    server = Postgres(port, start, stop, kill)

    def answers() -> bool:
        assert process is not None
        assert process.poll() is None, (folder / "log").read_text()
        try:
            return server.sql("SELECT 1") == [("1",)]
        except (OSError, RuntimeError):
            return False

    try:
        start()
        yield server
    finally:
        stop()
