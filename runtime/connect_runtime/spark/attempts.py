"""The messages between the driver and the worker of an attempt, and the files that they share.

The messages are a TaskLaunch, encrypted, and an Outcome, both as JSON. A launch holds configs, and
Spark stores copies of it on disks. The key travels separately: in the environment of Spark's
processes, or in a file on each node. An envelope around the launch names the attempt, so a worker
that cannot decrypt it can still answer. Does not depend on Spark.

The driver creates a lease. The worker locks it for as long as its process lives, and passes the
lock on to a JVM that it starts; the kernel releases the lock, however the last of them ends. Once
the driver holds the lock it removes the file, and a worker that comes later does not run. Spark
sees the end of the process by the end of its connection. A process that a plugin forks would hold
both, and may outlive the task by days: it loses them at once.

The worker overwrites the file of metrics every few seconds, and the driver reads it when metrics
are asked for: that costs one small write. A half written reading is recognised, and read again.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import struct
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson
from cryptography.fernet import Fernet, InvalidToken

from connect_runtime.kafka.local_processes import end_process, note_process, noted_processes
from connect_runtime.metrics.task_metrics import values_of
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch
from connect_runtime.waiting import wait_until
from connect_specs.names import ClusterTopics

# Spark redacts settings with "secret" in their names (spark.redaction.regex).
SECRET: Final = "CONNECT_LAUNCH_SECRET"
SECRET_FILE: Final = "CONNECT_LAUNCH_SECRET_FILE"
# The property of a Spark job that holds the envelope
ENVELOPE: Final = "connect.envelope"


class NodeMissingPlugin(Exception):
    """A node cannot run a task; the message says why."""


class NotDecrypted(Exception):
    """A launch cannot be decrypted here; the message says why and what to do."""


def new_key() -> str:
    """Returns a random key."""
    return Fernet.generate_key().decode()


def encrypt(text: str, key: str) -> str:
    """Encrypts and authenticates the text. Raises NotDecrypted if `key` is not a key."""
    return _fernet(key).encrypt(text.encode()).decode()


def decrypt(token: str, key: str) -> str:
    """Decrypts a text that `encrypt` encrypted with the same key. Raises NotDecrypted."""
    try:
        return _fernet(key).decrypt(token).decode()
    except InvalidToken as error:
        raise NotDecrypted(
            f"This launch was encrypted with another key than this node's. {SECRET_FILE} must name "
            "a file with the same key on the driver and on every node"
        ) from error


def key_of(environment: Mapping[str, str] = os.environ) -> str:
    """Returns the key from the environment, or from the file that it names. Raises NotDecrypted."""
    file = environment.get(SECRET_FILE)
    if file is not None:
        return key_in(Path(file))
    key = environment.get(SECRET)
    if key is None:
        raise NotDecrypted(f"Neither {SECRET} nor {SECRET_FILE} is in the environment of this node")
    return key


def key_in(file: Path) -> str:
    """Returns the key in a file. Raises NotDecrypted if there is none."""
    try:
        key = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise NotDecrypted(
            f"The key file {file} ({SECRET_FILE}) cannot be read: {reason}"
        ) from error
    _fernet(key)
    return key


def _fernet(key: str) -> Fernet:
    try:
        return Fernet(key)
    except ValueError as error:
        raise NotDecrypted(
            "The launch key is not a Fernet key (32 bytes in URL-safe Base64). Make one with: "
            "openssl rand -base64 32 | tr '+/' '-_'"
        ) from error


@dataclass(frozen=True, slots=True)
class Envelope:
    """A launch on its way: `encrypted` is its JSON; `lease` the path of the file that the worker
    locks, None if driver and worker share no disk."""

    id: TaskId
    attempt: int
    lease: str | None
    encrypted: str


def envelope_json(launch: TaskLaunch, key: str, lease: str | None) -> str:
    """Returns an envelope around the launch, as JSON text."""
    envelope = Envelope(launch.id, launch.attempt, lease, encrypt(launch_json(launch), key))
    return orjson.dumps(envelope).decode()


def envelope_from_json(text: str) -> Envelope:
    """Parses the text of `envelope_json`, without decrypting the launch."""
    fields = orjson.loads(text)
    return Envelope(**fields | {"id": TaskId(**fields["id"])})


def launch_json(launch: TaskLaunch) -> str:
    """Returns the launch as JSON text."""
    return orjson.dumps(launch, default=dict).decode()


def launch_from_json(text: str) -> TaskLaunch:
    """Parses the text of `launch_json`."""
    fields = orjson.loads(text)
    topics = ClusterTopics(**fields["topics"])
    return TaskLaunch(**fields | {"id": TaskId(**fields["id"]), "topics": topics})


def outcome_json(outcome: Outcome) -> str:
    """Returns the outcome as JSON text. A trace may hold text that UTF-8 cannot, such as half a
    surrogate."""
    if outcome.trace is not None:
        trace = outcome.trace.encode("utf-8", "replace").decode()
        outcome = replace(outcome, trace=trace)
    return orjson.dumps(outcome).decode()


def missing_plugin_json(missing: NodeMissingPlugin) -> str:
    """Returns the answer of a node that cannot run the task, instead of an outcome."""
    return orjson.dumps({"unfit": str(missing)}).decode()


def outcome_from_json(text: str) -> Outcome:
    """Parses the text of `outcome_json`. Raises NodeMissingPlugin for that of
    `missing_plugin_json`."""
    fields = orjson.loads(text)
    if "unfit" in fields:
        raise NodeMissingPlugin(fields["unfit"])
    end = AttemptEnd(fields["ended"])
    return Outcome(**fields | {"id": TaskId(**fields["id"]), "ended": end})


_log = logging.getLogger(__name__)

_POLL_S = 0.05
_kept: list[int] = []
_HEAD: Final = struct.Struct("<II")  # length and CRC-32 of what follows
_TRIES: Final = 3


class ProcessLease:
    """The driver's side of one attempt's file. Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._descriptor, name = tempfile.mkstemp(dir=folder)
        self.path = Path(name)
        self._over = False

    def over(self) -> bool:
        """Returns whether the process is dead or never started; if so, none will start."""
        if not self._over and _locked(self._descriptor):
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._over = True
        return self._over

    def drop(self) -> None:
        """Removes the file, which is no longer needed."""
        if not self._over:
            self._over = True
            self.path.unlink(missing_ok=True)
            os.close(self._descriptor)

    def kill(self) -> None:
        """Sends SIGKILL to the process that locked it, and then to those that it has passed the
        lock on to, if any still holds it."""
        if self.over():
            return
        for pid, started in noted_processes(self._descriptor):
            end_process(pid, started, patience_s=0)


def confirm_death(lease: ProcessLease, grace_s: float, most_s: float) -> bool:
    """Waits until the process is dead, and kills it after `grace_s`. False if it may live after
    `most_s`."""

    def killed() -> bool:
        lease.kill()
        return lease.over()

    try:
        return wait_until(lease.over, grace_s, every_s=_POLL_S) or wait_until(
            killed, most_s - grace_s, every_s=_POLL_S
        )
    except OSError as error:
        _log.warning("It is not known whether a process is dead: %s", error)
        return False


def lock_lease(path: str) -> int | None:
    """Locks the lease until this process, the worker, ends. Returns the descriptor that holds the
    lock; None if the lease is over."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    if not _locked(descriptor) or not os.path.exists(path):  # noqa: PTH110 - a plain string
        os.close(descriptor)
        return None
    with contextlib.suppress(OSError):  # such as a full disk: then it cannot be killed by its pid
        note_process(descriptor, os.getpid())
    return descriptor


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def keep_from_forks(descriptors: Iterable[int]) -> None:
    """Processes that this one forks from now on lose these descriptors."""
    _kept[:] = descriptors


def sockets() -> list[int]:
    """Returns the descriptors of this process's sockets; none where the system does not list
    them."""
    with contextlib.suppress(OSError):
        numbers = [int(entry.name) for entry in Path("/dev/fd").iterdir()]
        return [number for number in numbers if _is_socket(number)]
    return []


def _is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:  # that of the list itself
        return False


def _let_go() -> None:
    if not _kept:
        return
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in _kept:
        with contextlib.suppress(OSError):
            # not closed: an object that has the number would close what gets it next
            os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)
    _kept.clear()


os.register_at_fork(after_in_child=_let_go)


def metrics_file(lease: str | Path) -> Path:
    """Returns where the attempt with this lease writes its readings."""
    return Path(f"{lease}.metrics")


class MetricsFile:
    """The task's side. `publish` writes what `reading` returns, unless it is what it was before."""

    def __init__(self, path: Path, reading: Callable[[], bytes]) -> None:
        """Raises OSError."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        self._reading = reading
        self._last = b""

    def publish(self) -> bool:
        """Returns whether the reading is a new one. Never raises for a full disk: the values stay
        what they were."""
        reading = self._reading()
        if reading == self._last:
            return False
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, _HEAD.pack(len(reading), zlib.crc32(reading)) + reading, 0)
            self._last = reading
        return True

    def close(self) -> None:
        """Writes the last reading."""
        self.publish()
        os.close(self._descriptor)


def read_metrics(path: Path) -> Mapping[str, Any] | None:
    """Returns the newest reading; None if there is none, or none can be read."""
    for _ in range(_TRIES):
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if len(content) < _HEAD.size:
            return None
        length, checksum = _HEAD.unpack_from(content)
        payload = content[_HEAD.size : _HEAD.size + length]
        if zlib.crc32(payload) == checksum:
            return values_of(payload)
    return None
