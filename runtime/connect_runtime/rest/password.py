"""The REST API's password, in a file in the data folder that only its owner can read.

The runtime and our own verbs read it for each use, so a new one takes effect at once.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from connect_runtime.files import replace_file
from connect_specs.diagnostics import Diagnostic, Failed

USER: Final = "connect"

_FILE: Final = "rest-password"
_BYTES: Final = 24


def password_file(folder: Path) -> Path:
    """Returns its path below a data folder."""
    return folder / _FILE


def read_password(folder: Path) -> str | None:
    """Returns the password; None if there is none or it cannot be read."""
    try:
        return password_file(folder).read_text().strip() or None
    except (OSError, ValueError):
        return None


def login(folder: Path) -> str | None:
    """Returns `user:password`; None if there is no password."""
    password = read_password(folder)
    return None if password is None else f"{USER}:{password}"


def ensure_password(folder: Path) -> None:
    """Creates a password if there is none. Raises Failed."""
    if read_password(folder) is None:
        replace_password(folder)
        return
    try:
        password_file(folder).chmod(0o600)
    except OSError as error:
        raise _unusable(folder, error) from error


def replace_password(folder: Path) -> None:
    """Replaces the password with a new one, at once. Raises Failed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(password_file(folder), secrets.token_urlsafe(_BYTES) + "\n", mode=0o600)
    except OSError as error:
        raise _unusable(folder, error) from error


def _unusable(folder: Path, error: OSError) -> Failed:
    text = "the password file of the REST API cannot be written"
    file = str(password_file(folder))
    return Failed(Diagnostic("rest.password", text, file, error.strerror or str(error)))
