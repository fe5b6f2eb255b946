"""Encrypts launches on their way through Spark, which stores copies on disks.

The key travels separately: in the environment of Spark's processes, or in a file on each node.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cryptography.fernet import Fernet, InvalidToken

# Spark redacts settings with "secret" in their names (spark.redaction.regex).
SECRET: Final = "CONNECT_LAUNCH_SECRET"
SECRET_FILE: Final = "CONNECT_LAUNCH_SECRET_FILE"


class Unreadable(Exception):
    """A launch cannot be decrypted here; the message says why and what to do."""


def new_key() -> str:
    """Returns a random key."""
    return Fernet.generate_key().decode()


def seal(text: str, key: str) -> str:
    """Encrypts and authenticates the text. Raises Unreadable if `key` is not a key."""
    return _fernet(key).encrypt(text.encode()).decode()


def unseal(token: str, key: str) -> str:
    """Decrypts a text that `seal` encrypted with the same key. Raises Unreadable."""
    try:
        return _fernet(key).decrypt(token).decode()
    except InvalidToken as error:
        raise Unreadable(
            f"This launch was encrypted with another key than this node's. {SECRET_FILE} must name "
            "a file with the same key on the driver and on every node"
        ) from error


def key_of(environment: Mapping[str, str] = os.environ) -> str:
    """Returns the key from the environment, or from the file that it names. Raises Unreadable."""
    file = environment.get(SECRET_FILE)
    if file is not None:
        return key_in(Path(file))
    key = environment.get(SECRET)
    if key is None:
        raise Unreadable(f"Neither {SECRET} nor {SECRET_FILE} is in the environment of this node")
    return key


def key_in(file: Path) -> str:
    """Returns the key in a file. Raises Unreadable if there is none."""
    try:
        key = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise Unreadable(f"The key file {file} ({SECRET_FILE}) cannot be read: {why}") from error
    _fernet(key)
    return key


def _fernet(key: str) -> Fernet:
    try:
        return Fernet(key)
    except ValueError as error:
        raise Unreadable(
            "The launch key is not a Fernet key (32 bytes in URL-safe Base64). Make one with: "
            "openssl rand -base64 32 | tr '+/' '-_'"
        ) from error
