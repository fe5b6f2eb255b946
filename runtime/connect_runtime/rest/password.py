"""Logins of the REST API: the user `connect`, whose password is in a file in the data folder that
only its owner can read, and the users of Apache's basic-auth extension.

The runtime and our own verbs read the password for each use, so a new one takes effect at once.
"""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from connect_runtime import files
from connect_runtime.kafka.client_config import login_module
from connect_specs.diagnostics import Diagnostic, Failed, Invalid
from connect_specs.properties_documents import read_properties

_log = logging.getLogger(__name__)

USER: Final = "connect"
EXTENSION: Final = (
    "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
)

_EXTENSIONS: Final = "rest.extension.classes"
_MODULE: Final = "PropertyFileLoginModule"
_JAAS_FILE: Final = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
# Variables by which Apache's start script, and Java itself, get system properties
_VARIABLES: Final = ("KAFKA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_COMMENT: Final = re.compile(r"/\*.*?\*/|(?<!\S)//[^\n]*", re.DOTALL)
_SECTION: Final = re.compile(r"\bKafkaConnect\s*\{(.*?)\}\s*;", re.DOTALL)


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


def users_file(environment: Mapping[str, str]) -> Path:
    """Returns the file with users and passwords of Apache's basic-auth extension, which the JAAS
    file of the start script's variables names. Raises Invalid."""
    texts = [environment.get(name, "") for name in _VARIABLES]
    match = next(filter(None, map(_JAAS_FILE.search, texts)), None)
    if match is None:
        raise _refused(
            f"{_VARIABLES[0]} names no JAAS file: -Djava.security.auth.login.config=FILE"
        )
    jaas = match[1].strip("\"'")
    try:
        text = Path(jaas).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(f"{jaas} cannot be read") from error
    section = _SECTION.search(_COMMENT.sub("", text))
    modules = [module for module in section[1].split(";") if module.strip()] if section else []
    if len(modules) != 1:
        raise _refused(f"{jaas} needs a section KafkaConnect with one login module")
    kind, options = login_module(modules[0])
    if kind != _MODULE or not options.get("file"):
        raise _refused(f"the login module in {jaas} must be {_MODULE}, with an option file")
    return Path(options["file"])


def _refused(reason: str) -> Invalid:
    text = f"Invalid value {EXTENSION} for configuration {_EXTENSIONS}: {reason}"
    hint = "rest.authentication=basic asks for a login without a file of Java's"
    return Invalid(Diagnostic("worker.invalid", text, _EXTENSIONS, hint=hint))


class Logins:
    """Admits the user of the data folder's password, and those of a file if there is one.

    The file is read again when it has changed. One that cannot be read, or is empty, admits nobody.
    """

    def __init__(self, folder: Path, users: Path | None = None) -> None:
        """Raises Invalid for a file that cannot be read."""
        self._folder = folder
        self._users = users
        self._stamp: tuple[int, int, int] | None = None
        self._passwords: Mapping[str, str] = {}
        if users is not None and not self._read(users):
            raise _refused(f"{users} cannot be read")

    def admits(self, user: str, password: str) -> bool:
        """Returns whether a request with this login may be answered."""
        if self._users is not None:
            self._read(self._users)
        accepted = [self._passwords.get(user)]
        if user == USER:
            accepted.append(read_password(self._folder))
        matches = [
            hmac.compare_digest(password.encode(), text.encode()) for text in accepted if text
        ]
        return any(matches)

    def _read(self, file: Path) -> bool:
        """Returns whether the file can be read."""
        try:
            stamp = files.stamp(file)
            if stamp is None or stamp != self._stamp:
                # as java.util.Properties reads bytes
                self._passwords = read_properties(file.read_text("latin-1"))
                self._stamp = stamp
        except (OSError, ValueError) as error:
            if self._passwords:
                _log.warning("Nobody of %s is admitted: it cannot be read: %s", file, error)
            self._passwords, self._stamp = {}, None
            return False
        return True
