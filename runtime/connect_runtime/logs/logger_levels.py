"""The levels of this process's loggers, by the names and levels that Connect's REST API has
(KIP-495, KIP-976).

`org.apache.kafka.connect` stands for `connect_runtime`; all other loggers keep their Python names.
Setting a namespace sets every existing logger whose name begins with it. Processes of tasks have
loggers of their own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from connect_runtime.java.scalars import java_trim
from connect_runtime.storage.snapshots import ConfigSnapshot

ROOT: Final = "root"
_CONNECT: Final = "org.apache.kafka.connect"
_OURS: Final = "connect_runtime"
# At DEBUG it prints all that passes between Spark and Python, secrets included.
_LEFT_ALONE: Final = "py4j"

_OFF: Final = logging.CRITICAL + 10
_LEVELS: Final = {
    "ALL": 1,
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": _OFF,
}

# When each logger's level was changed through `set_level`, by its Python name
_modified_ms: dict[str, int] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger's level, and when it was last changed here, in milliseconds of Unix time."""

    level: str
    last_modified_ms: int | None


def is_level(text: str) -> bool:
    """Returns True for the name of a level, in any case and with blanks around it."""
    return _level(text) in _LEVELS


def levels() -> Mapping[str, LoggerLevel]:
    """Returns all loggers by name, sorted, but those that are off."""
    by_name = {_connect_name(name): _level_of(name) for name in _names()}
    return {name: level for name, level in sorted(by_name.items()) if level.level != "OFF"}


def level_of(name: str) -> LoggerLevel | None:
    """Returns one logger's level; None if there is no such logger."""
    ours = _python_name(name)
    return _level_of(ours) if ours in _names() else None


def set_level(namespace: str, level: str) -> list[str]:
    """Sets a logger and those below it, and returns the names of those that it changed, sorted.
    Makes the logger of that name if there is none."""
    name_of_level = _level(level)
    number = _LEVELS[name_of_level]
    prefix = _python_name(namespace)
    if _is_left_alone(prefix):
        return []
    now_ms = int(time.time() * 1000)
    with _lock:
        logger = logging.getLogger("" if prefix == ROOT else prefix)
        names = [name for name in _names() if prefix == ROOT or name.startswith(prefix)]
        changed = [name for name in names if _level_of(name).level != name_of_level]
        for name in changed:
            _modified_ms[name] = now_ms
        for name in names:
            _logger(name).setLevel(number)
        logger.setLevel(number)
    return sorted(map(_connect_name, changed))


class ClusterLevels:
    """Applies the levels that requests set for all workers, which the config topic holds; not those
    from before `start`."""

    def __init__(self, set_level: Callable[[str, str], object] = set_level) -> None:
        self._set_level = set_level
        self._end: int | None = None

    def start(self, config: ConfigSnapshot) -> None:
        """Notes the end of the config topic when this process started."""
        self._end = config.offset

    def follow(self, config: ConfigSnapshot) -> None:
        """Applies what is new in the config topic."""
        if self._end is None:
            return
        start, self._end = self._end, config.offset
        requests = [request for request in config.loggers.values() if request.offset >= start]
        for request in sorted(requests, key=lambda request: request.offset):
            if is_level(request.level):
                self._set_level(request.namespace, request.level)


def _names() -> list[str]:
    """Returns the Python names of the loggers that exist."""
    loggers = list(logging.root.manager.loggerDict.items())
    return [
        ROOT,
        *(
            name
            for name, logger in loggers
            if isinstance(logger, logging.Logger) and not _is_left_alone(name)
        ),
    ]


def _is_left_alone(name: str) -> bool:
    return name.split(".")[0] == _LEFT_ALONE


def _logger(name: str) -> logging.Logger:
    return logging.getLogger("" if name == ROOT else name)


def _level(text: str) -> str:
    return java_trim(text).upper()


def _level_of(name: str) -> LoggerLevel:
    number = _logger(name).getEffectiveLevel()
    level = next((level for level, least in _LEVELS.items() if number <= least), "OFF")
    return LoggerLevel(level, _modified_ms.get(name))


def _python_name(name: str) -> str:
    if name.lower() == ROOT:
        return ROOT
    if name == _CONNECT or name.startswith(f"{_CONNECT}."):
        return _OURS + name.removeprefix(_CONNECT)
    return name


def _connect_name(name: str) -> str:
    if name == _OURS or name.startswith(f"{_OURS}."):
        return _CONNECT + name.removeprefix(_OURS)
    return name
