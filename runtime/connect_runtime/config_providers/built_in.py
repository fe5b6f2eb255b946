"""Implements Apache Kafka's config providers: properties files, folders of files, the environment.

Error texts name paths and keys, never values. A file is read only if it is a regular one of at most
`BYTES_MAX`: a config must not be able to block or fill this process with a pipe or a device.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from connect_runtime.api import ConfigData, ConfigError, ConfigProvider
from connect_runtime.java import regex as java_regex
from connect_specs.properties_documents import read_properties

BYTES_MAX: Final = 1024 * 1024
ALLOWED_PATHS: Final = "allowed.paths"
ALLOWLIST_PATTERN: Final = "allowlist.pattern"


class _PathConfigProvider(ConfigProvider):
    """Reads below the folders and files that `allowed.paths` names; everywhere if it names none.

    Unlike Apache's it resolves symbolic links, so none can escape.
    """

    def configure(self, params: Mapping[str, str]) -> None:
        text = params.get(ALLOWED_PATHS, "")
        self._below = [_existing(path) for path in text.split(",") if path.strip()]
        if text and not self._below:
            raise ConfigError.invalid(ALLOWED_PATHS, text, "it names no path")

    def get(self, path: str, keys: frozenset[str]) -> ConfigData:
        if not path:
            return ConfigData({})
        self._check(Path(path))
        return ConfigData(self._values(Path(path), keys))

    @abstractmethod
    def _values(self, path: Path, keys: frozenset[str]) -> dict[str, str]:
        """Returns the values of the keys that exist at a path that may be read."""

    def _check(self, path: Path) -> None:
        """Raises ConfigError unless `path` may be read."""
        real = Path(os.path.realpath(path))
        if self._below and not any(real.is_relative_to(path) for path in self._below):
            raise ConfigError(f"The path {path} is not below the worker's {ALLOWED_PATHS}")


def _existing(text: str) -> Path:
    path = Path(text.strip())
    if not path.is_absolute() or not path.exists():
        raise ConfigError(f"Path {path} is not valid. The path should be absolute and exist")
    return Path(os.path.realpath(path))


class FileConfigProvider(_PathConfigProvider):
    """`${file:/run/db.properties:password}`: a key of a Java properties file in UTF-8."""

    def _values(self, path: Path, keys: frozenset[str]) -> dict[str, str]:
        try:
            properties = read_properties(_text(path))
        except ValueError as error:
            raise _unreadable(str(path), str(error)) from None
        return {key: properties[key] for key in keys & properties.keys()}


class DirectoryConfigProvider(_PathConfigProvider):
    """`${dir:/run/secrets:password}`: the whole text of a file, whose name is the key."""

    def _values(self, path: Path, keys: frozenset[str]) -> dict[str, str]:
        if not path.is_dir():
            raise ConfigError(f"The path {path} is not a directory")
        values: dict[str, str] = {}
        for key in keys:
            file = path / key
            if file.name == key and file.is_file():
                self._check(file)
                values[key] = _text(file)
        return values


class EnvVarConfigProvider(ConfigProvider):
    """`${env:NAME}`: a variable of this process's environment."""

    def configure(self, params: Mapping[str, str]) -> None:
        pattern = params.get(ALLOWLIST_PATTERN, ".*")
        try:
            self._allowed = java_regex.compile(pattern)
        except java_regex.InvalidPattern as error:
            raise ConfigError.invalid(ALLOWLIST_PATTERN, pattern, str(error)) from None

    def get(self, path: str, keys: frozenset[str]) -> ConfigData:
        if path:
            raise ConfigError(
                f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'"
            )
        allowed = {key for key in keys if self._allowed.fullmatch(key)}
        return ConfigData({key: os.environ[key] for key in allowed & os.environ.keys()})


BUILT_IN: Final[Mapping[str, type[ConfigProvider]]] = {
    f"org.apache.kafka.common.config.provider.{cls.__name__}": cls
    for cls in (FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider)
}


def _text(file: Path) -> str:
    try:
        if not file.is_file():
            # also for a missing file, or one in a folder without access
            file.stat()
            raise _unreadable(str(file), "not a regular file")
        with file.open("rb") as stream:
            data = stream.read(BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise _unreadable(str(file), reason or type(error).__name__) from None
    if len(data) > BYTES_MAX:
        raise _unreadable(str(file), f"larger than {BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise _unreadable(str(file), "not UTF-8") from None


def _unreadable(path: str, reason: str) -> ConfigError:
    return ConfigError(f"Could not read properties from file {path}: {reason}")
