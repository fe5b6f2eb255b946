"""The levels of the loggers of this process and of all JVMs of Java plugins (KIP-495, KIP-976).

A level that is set concerns the JVMs that run, here and in the processes of tasks, which read it in
a file, and those that start later, until this process ends. Each JVM does with a level what
Apache's worker does with it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson

from connect_runtime.api import ConnectorError
from connect_runtime.engine.jvm import PluginJvm, running_jvms
from connect_runtime.files import replace_file
from connect_runtime.logs import logger_levels
from connect_runtime.logs.logger_levels import LoggerLevel
from connect_runtime.waiting import TakesTooLong

_log = logging.getLogger(__name__)

# A JVM that is frozen holds no request up for longer
_CALL_S: Final = 2.0

# Levels by namespace, each with its number: a later one of a parent changes its children
_Levels: TypeAlias = dict[str, tuple[str, int]]

_set: _Levels = {}
_soon = ThreadPoolExecutor(1, thread_name_prefix="java-loggers")
_files: list[Path] = []
_lock = threading.Lock()


def share_levels(file: Path) -> None:
    """Writes the levels to the file from now on, for the processes of tasks. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with _lock:
        _files[:] = [file]
        _write()


def set_levels(jvm: PluginJvm) -> None:
    """Sets the levels of a JVM that has started; waits for no answer."""
    with _lock:
        levels = _in_order(_set)
    if levels:
        _soon.submit(_set_all, jvm, levels)


def set_level(namespace: str, level: str) -> list[str]:
    """Sets a logger and those below it, here and in JVMs, and returns the names of those that it
    changed in this process and its JVMs, sorted."""
    changed = set(logger_levels.set_level(namespace, level))
    name = level.strip().upper()
    for jvm in _note(namespace, name):
        changed.update(_call(jvm, "log-level", logger=namespace, level=name) or ())
    return sorted(changed)


def set_level_soon(namespace: str, level: str) -> None:
    """Does the same, and waits for no JVM."""
    logger_levels.set_level(namespace, level)
    name = level.strip().upper()
    for jvm in _note(namespace, name):
        _soon.submit(_call, jvm, "log-level", logger=namespace, level=name)


def _note(namespace: str, level: str) -> list[PluginJvm]:
    """Notes a level for JVMs that start later, and returns those that run."""
    with _lock:
        number = 1 + max((number for _, number in _set.values()), default=0)
        _set[namespace] = (level, number)
        with suppress(OSError):  # such as a full disk: tasks' levels stay what they were
            _write()
    return running_jvms()


def levels() -> Mapping[str, LoggerLevel]:
    """Returns all loggers of this process and its JVMs by name, sorted, but those that are off."""
    return dict(sorted({**_of_jvms(), **logger_levels.levels()}.items()))


def level_of(name: str) -> LoggerLevel | None:
    """Returns one logger's level; None if there is no such logger."""
    return logger_levels.level_of(name) or _of_jvms().get(name)


class SharedLevels:
    """Reads the file of `share_levels` in the process of a task."""

    def __init__(self, file: str | None) -> None:
        self._file = None if file is None else Path(file)
        self._version = (0, 0)
        self._latest = 0

    def changes(self) -> Iterator[tuple[str, str]]:
        """Yields the namespaces and levels that were set since the last call, in that order."""
        if self._file is None:
            return
        try:
            stat = self._file.stat()
            # each write makes another file; two may have one time
            version = stat.st_mtime_ns, stat.st_ino
            if version == self._version:
                return
            levels: _Levels = orjson.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return
        self._version = version
        for namespace, (level, number) in _in_order(levels):
            if number > self._latest:
                self._latest = number
                yield namespace, level


def _in_order(levels: _Levels) -> list[tuple[str, tuple[str, int]]]:
    return sorted(levels.items(), key=lambda item: item[1][1])


def _set_all(jvm: PluginJvm, levels: list[tuple[str, tuple[str, int]]]) -> None:
    for namespace, (level, _) in levels:
        _call(jvm, "log-level", logger=namespace, level=level)


def _of_jvms() -> Mapping[str, LoggerLevel]:
    answers = [_call(jvm, "loggers") or {} for jvm in running_jvms()]
    return {
        name: LoggerLevel(level["level"], level["last_modified"])
        for answer in answers
        for name, level in answer.items()
    }


def _call(jvm: PluginJvm, call: str, **arguments: Any) -> Any:
    try:
        return jvm.call(call, _CALL_S, **arguments)
    except (ConnectorError, TakesTooLong) as error:  # it has ended, or is frozen
        _log.debug("A JVM has no answer about its loggers: %s", error)
        return None


def _write() -> None:
    for file in _files:
        replace_file(file, orjson.dumps(_set))
