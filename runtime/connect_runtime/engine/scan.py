"""Finds the Java plugins on plugin.path, once for the same files.

A JVM looks for them as the worker's `plugin.discovery` says, and ends. A place whose classes end
it, or hang, is left out, and another JVM looks at the others. Other JVMs get the list of plugins in
the folders that they need.
"""

from __future__ import annotations

import hashlib
import logging
import os
import queue
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import orjson

from connect_runtime import KAFKA_VERSION
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_connection import Fields, JvmEnded
from connect_runtime.engine.plugin_path import (
    PLUGIN_PATH,
    entries,
    plugin_files,
    problems,
)
from connect_runtime.engine.sent_files import CLASS_PATH, place, with_known
from connect_runtime.files import replace_file
from connect_runtime.kafka.jars import cache_folder
from connect_runtime.kafka.local_processes import find_java
from connect_runtime.stopped_processes import stat_fields
from connect_runtime.waiting import TakesTooLong
from connect_specs.diagnostics import Diagnostic, Failed
from connect_specs.plugin_definitions import SUFFIXES

_log = logging.getLogger(__name__)

PROVIDER: Final = "configprovider"
_FORMAT: Final = 3
_ISOLATION: Final = "org.apache.kafka.connect.runtime.isolation"
# Properties of the engine: the class Discovery has them
_OF_A_SCAN: Final = ("scanning", "scanned", "ended")
_LEFT_OUT: Final = "java.plugins.left.out"
# Apache's worker has no limit. The classes of one place may take so much CPU time, which does not
# depend on what else the machine does, and may stand still for so long
_CPU_S: Final = 60.0
_STILL_S: Final = 20.0
# A JVM whose threads all wait takes less in that time
_STILL_CPU_S: Final = 0.1
_LOOK_S: Final = 0.5
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_ANSWER_S: Final = 60.0


class _PlaceUnusable(Exception):
    """The scan ended, or stood still, where it looked at one place: its location, and a sentence
    about it."""

    def __init__(self, location: str, sentence: str) -> None:
        super().__init__(sentence)
        self.location = location


class Unscannable(Failed):
    """Apache's worker would not start with these plugins either."""


@dataclass(frozen=True, slots=True)
class JavaPlugin:
    """A Java class that a config may name. `location` is the URL of its folder or jar."""

    class_name: str
    kind: str
    version: str
    location: str

    @property
    def names(self) -> frozenset[str]:
        """Returns the names by which a config finds it."""
        return short_names(self.class_name, self.kind)


@cache
def short_names(class_name: str, kind: str) -> frozenset[str]:
    """Returns a class's name, and the two short ones, which no other class may have."""
    simple = class_name.rpartition(".")[2].rpartition("$")[2]
    suffix = SUFFIXES.get(kind, "ConfigProvider")
    return frozenset({class_name, simple, simple.removesuffix(suffix) or simple})


@dataclass(frozen=True, slots=True)
class Scan:
    """The plugins that were found, in the order of Apache's worker, and a sentence for each file or
    class that cannot be used."""

    plugins: tuple[JavaPlugin, ...]
    problems: tuple[str, ...]


def scan(worker: Mapping[str, str], *, anew: bool = False) -> Scan:
    """Returns the Java plugins of a worker, which takes seconds unless their files are known;
    `anew`: also if places are left out, as the machine may have been busy. Raises Unscannable where
    Apache's worker would not start, JarsError, JvmEnded, TakesTooLong."""
    file = cache_folder() / "java-plugins" / f"{_key(worker)}.json"
    content = None
    with suppress(OSError, ValueError):
        content = orjson.loads(file.read_bytes())
    if content is None or (anew and content["left_out"]):
        content = _scanned(worker)
        with suppress(OSError):  # such as a full disk: the next start scans them again
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, orjson.dumps(content))
    return Scan(tuple(JavaPlugin(*row) for row in content["plugins"]), tuple(content["problems"]))


def settings(
    worker: Mapping[str, str], plugins: Iterable[JavaPlugin], used: Iterable[JavaPlugin]
) -> Mapping[str, str]:
    """Returns the properties with which a JVM knows all of `plugins` in the places of those that
    are `used`, and on the class path."""
    by_place: dict[str, list[Mapping[str, str]]] = {CLASS_PATH: []}
    by_place |= {plugin.location: [] for plugin in used}
    for plugin in plugins:
        if plugin.location in by_place:
            by_place[plugin.location].append(
                {"name": plugin.class_name, "type": plugin.kind, "version": plugin.version}
            )
    path = ",".join(map(str, entries(worker)))
    # Connect refuses an empty one
    on_path = {PLUGIN_PATH: path} if path else {}
    return with_known(on_path, by_place)


def _scanned(worker: Mapping[str, str]) -> dict[str, Any]:
    began = time.monotonic()
    failures: dict[str, None] = dict.fromkeys(problems(worker))
    left_out: list[str] = []
    plugins: Sequence[Fields] | None = None
    while plugins is None:
        try:
            plugins = _looked_for(worker, left_out, failures)
        except _PlaceUnusable as unusable:
            _log.warning("%s", unusable)
            failures[str(unusable)] = None
            left_out.append(unusable.location)
    _log.info("Java plugins were scanned in %.1f s", time.monotonic() - began)
    columns = ("class", "type", "version", "location")
    return {
        "plugins": [[row[column] for column in columns] for row in plugins],
        "problems": list(failures),
        "left_out": left_out,
    }


def _looked_for(
    worker: Mapping[str, str], left_out: Sequence[str], failures: dict[str, None]
) -> Sequence[Fields]:
    """Returns the plugins on plugin.path, without the places that are `left_out`; adds to
    `failures` what the scan logs. Raises _PlaceUnusable, and what `scan` raises."""
    looking: queue.SimpleQueue[Fields] = queue.SimpleQueue()

    def on_log(frame: Fields) -> None:
        if frame["logger"].startswith(_ISOLATION) and frame["level"] == "ERROR":
            failures[jvm.redact(frame["text"])] = None

    def on_event(event: str, fields: Fields) -> None:
        if event in _OF_A_SCAN:
            looking.put({"event": event, **fields})

    path = {PLUGIN_PATH: ",".join(map(str, entries(worker))), _LEFT_OUT: "\n".join(left_out)}
    jvm = PluginJvm({**worker, **path}, "", on_event=on_event, on_log=on_log)
    try:
        _follow(looking, jvm)
        plugins: Sequence[Fields] = jvm.call("plugins", _ANSWER_S)
    except JvmEnded as error:
        if jvm.unusable:
            raise Unscannable(Diagnostic("engine.plugins", str(error))) from None
        raise
    finally:
        jvm.end()
    return plugins


def _follow(looking: queue.SimpleQueue[Fields], jvm: PluginJvm) -> None:
    """Returns when the scan is complete, or its JVM has ended and no place is to blame. Raises
    _PlaceUnusable, and TakesTooLong if no place is."""
    location, pace = CLASS_PATH, _Pace(jvm.pid)
    while True:
        try:
            step = looking.get(timeout=_LOOK_S)
        except queue.Empty:
            reason = pace.problem()
            if reason and location == CLASS_PATH:
                raise TakesTooLong from None
            if reason:
                raise _PlaceUnusable(location, _left_out(location, reason)) from None
            continue
        match step["event"]:
            case "scanning":
                location, pace = step["location"], _Pace(jvm.pid)
            case "ended" if not (location == CLASS_PATH or step["killed"] or jvm.unusable):
                reason = f"its classes ended the JVM that loaded them: {step['why']}"
                raise _PlaceUnusable(location, _left_out(location, reason))
            case _:
                return


class _Pace:
    """The CPU time of a JVM since it began with a place."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._begun = self._moved = self._used_s()
        self._looks = 0

    def problem(self) -> str | None:
        """Returns what is wrong if the classes loop or stand still; called every `_LOOK_S`. Only
        calls count: if the whole machine stood still, the classes have not."""
        used = self._used_s()
        self._looks += 1
        if used - self._moved > _STILL_CPU_S:
            self._moved, self._looks = used, 0
        if used - self._begun > _CPU_S:
            return f"its classes have not loaded in {_CPU_S:.0f} s of CPU time"
        if self._looks * _LOOK_S > _STILL_S:
            return f"its classes have not loaded, and have stood still for {_STILL_S:.0f} s"
        return None

    def _used_s(self) -> float:
        return sum(map(int, stat_fields(self._pid)[11:13])) / _TICKS


def _left_out(location: str, reason: str) -> str:
    return f"{place(location)} on plugin.path is left out until a runtime starts: {reason}"


def _key(worker: Mapping[str, str]) -> str:
    """Returns a key of the class path and of the files on plugin.path, by their names, sizes and
    times."""
    files = [
        (str(file), (stat := file.stat()).st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        for file in plugin_files(worker)
    ]
    paths = [str(entry) for entry in entries(worker)]
    discovery = worker.get("plugin.discovery", "").lower()
    class_path = os.environ.get("CLASSPATH")
    subject = [_FORMAT, KAFKA_VERSION, str(find_java()), class_path, paths, discovery, files]
    return hashlib.sha256(orjson.dumps(subject)).hexdigest()[:24]
