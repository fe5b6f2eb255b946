"""A MariaDB of a test's own, whose changes can be read, and its SQL."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import pytest

from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from support.wait import wait_until

USER, PASSWORD = "debezium", "any"
_PATH = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin"
_SETTINGS = {
    "bind-address": LOOPBACK,
    "server-id": "1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-buffer-pool-size": "32M",
    "skip-name-resolve": "ON",
}


@dataclass(slots=True)
class MariaDb:
    """A server, which is reached by a socket in its folder and, with a login, by its port."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def sql(self, statements: str, database: str = "") -> list[tuple[str, ...]]:
        """Runs statements; returns the rows of all. Raises RuntimeError with what the server
        says."""
        command = [_program("mariadb"), "--no-defaults", f"--socket={self.folder}/socket"]
        options = ["--user=root", "--batch", "--skip-column-names", f"--database={database}"]
        done = subprocess.run(
            [*command, *options], input=statements, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    def kill(self) -> None:
        """Ends it by SIGKILL, with all connections."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Starts it, and returns when it answers."""
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        self.process = _spawn(self.folder, "mariadbd", f"--port={self.port}", *settings)
        wait_until(self._answers, what="MariaDB")

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            return self.sql("SELECT 1") == [("1",)]
        except RuntimeError:
            return False


@contextmanager
def mariadb(database: str) -> Iterator[MariaDb]:
    """A running server with this database, and a login that may read its changes; nothing is left
    of it. A test that cannot have it is skipped, and says so."""
    if not all(shutil.which(name, path=_PATH) for name in ("mariadbd", "mariadb")):
        pytest.skip("NOT TESTED: MariaDB is not installed (.ci/mariadb)")
    folder = Path(mkdtemp(prefix="connect-mariadb-"))
    server = MariaDb(free_port(), folder)
    try:
        if os.getuid() == 0:
            account = pwd.getpwnam("nobody")
            os.chown(folder, account.pw_uid, account.pw_gid)
        made = _spawn(folder, "mariadb-install-db", "--auth-root-authentication-method=normal")
        assert made.wait(120) == 0, (folder / "log").read_text()
        server.start()
        server.sql(
            f"CREATE DATABASE {database};"
            f"CREATE USER {USER} IDENTIFIED BY '{PASSWORD}';"
            "GRANT SELECT, RELOAD, SHOW DATABASES, LOCK TABLES, REPLICATION SLAVE, "
            f"REPLICATION CLIENT, BINLOG MONITOR ON *.* TO {USER}"
        )
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(60)
        shutil.rmtree(folder)


def _program(name: str) -> str:
    program = shutil.which(name, path=_PATH)
    assert program is not None
    return program


def _spawn(folder: Path, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Starts a program of the server as `nobody` if this is root, for whom it does not run."""
    where = [f"--datadir={folder}/data", f"--socket={folder}/socket", "--skip-networking=0"]
    account = pwd.getpwnam("nobody") if os.getuid() == 0 else None
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [_program(program), "--no-defaults", *where, *arguments],
            stdout=log,
            stderr=log,
            cwd="/",
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            start_new_session=True,
        )
