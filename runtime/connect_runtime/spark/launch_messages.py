"""Messages between driver and worker: a TaskLaunch, encrypted, and an Outcome, both as JSON.

A launch holds configs, and Spark stores copies of it on disks. The key travels separately: in the
environment of Spark's processes, or in a file on each node. An envelope around the launch names the
attempt, so a worker that cannot decrypt it can still answer. Does not depend on Spark.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import orjson
from cryptography.fernet import Fernet, InvalidToken

from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import AttemptEnd, Outcome, TaskLaunch
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
