"""The REST API's password, in a file in the data folder that only its owner can read.

The runtime and our own verbs read it for each use, so a new one takes effect at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from connect_runtime import files
from connect_specs.diagnostics import Diagnostic, Failed

USER: Final = "connect"


def password_file(folder: Path) -> Path:
    """Returns its path below a data folder."""
    return folder / "rest-password"


def read_password(folder: Path) -> str | None:
    """Returns the password; None if there is none or it cannot be read."""
    return files.read_password(password_file(folder))


def login(folder: Path) -> str | None:
    """Returns `user:password`; None if there is no password."""
    password = read_password(folder)
    return None if password is None else f"{USER}:{password}"


def make_password(folder: Path, *, replace: bool = False) -> None:
    """Creates a password if there is none, or replaces it. Raises Failed."""
    file = password_file(folder)
    try:
        (files.replace_password if replace else files.ensure_password)(file)
    except OSError as error:
        message = "the password file of the REST API cannot be written"
        reason = error.strerror or str(error)
        raise Failed(Diagnostic("rest.password", message, str(file), reason)) from error
