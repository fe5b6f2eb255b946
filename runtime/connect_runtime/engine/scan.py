"""Finds the Java plugins on plugin.path, once for the same files.

A JVM looks for them as the worker's `plugin.discovery` says, and ends. Other JVMs load only the
folders that they need, and look at classes only where some have no manifest.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import orjson

from connect_runtime import KAFKA_VERSION
from connect_runtime.engine.jvm import Fields, JvmEnded, PluginJvm
from connect_runtime.engine.plugin_path import (
    PLUGIN_PATH,
    Manifests,
    entries,
    plugin_files,
    problems,
)
from connect_runtime.files import replace_file
from connect_runtime.kafka.jars import cache_folder
from connect_runtime.kafka.local_processes import find_java
from connect_specs.diagnostics import Diagnostic, Failed
from connect_specs.plugin_definitions import SUFFIXES

_log = logging.getLogger(__name__)

PROVIDER: Final = "configprovider"
_CLASS_PATH: Final = "classpath"
_ISOLATION: Final = "org.apache.kafka.connect.runtime.isolation"
# Properties of the engine: the class Discovery has them
_LOADED: Final = "java.plugins.loaded"
_SCANNED: Final = "java.plugins.scanned"
# Apache's worker has no limit
_SCAN_S: Final = 600.0


class Unscannable(Failed):
    """Apache's worker would not start with these plugins either."""


@dataclass(frozen=True, slots=True)
class JavaPlugin:
    """A Java class that a config may name. `location` is the URL of its folder or jar;
    `has_manifest`: that names it for ServiceLoader, so no class need be looked at to find it."""

    class_name: str
    kind: str
    version: str
    location: str
    has_manifest: bool = True

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


def scan(worker: Mapping[str, str]) -> Scan:
    """Returns the Java plugins of a worker, which takes seconds unless their files are known.
    Raises Unscannable where Apache's worker would not start, JarsError, JvmEnded, TakesTooLong."""
    file = cache_folder() / "java-plugins" / f"{_key(worker)}.json"
    try:
        content = orjson.loads(file.read_bytes())
    except (OSError, ValueError):
        content = _scanned(worker)
        with suppress(OSError):  # such as a full disk: the next start scans them again
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, orjson.dumps(content))
    return Scan(tuple(JavaPlugin(*row) for row in content["plugins"]), tuple(content["problems"]))


def settings(worker: Mapping[str, str], plugins: Iterable[JavaPlugin]) -> Mapping[str, str]:
    """Returns the properties with which a JVM loads these plugins, and no others of plugin.path."""
    loaded = {_CLASS_PATH: None} | {plugin.location: None for plugin in plugins}
    scanned = {p.location: None for p in plugins if not p.has_manifest and p.location in loaded}
    path = ",".join(map(str, entries(worker)))
    # Connect refuses an empty one
    on_path = {PLUGIN_PATH: path} if path else {}
    return {**on_path, _LOADED: "\n".join(loaded), _SCANNED: "\n".join(scanned)}


def _scanned(worker: Mapping[str, str]) -> dict[str, Any]:
    began = time.monotonic()
    failures: dict[str, None] = dict.fromkeys(problems(worker))

    def on_log(frame: Fields) -> None:
        if frame["logger"].startswith(_ISOLATION) and frame["level"] == "ERROR":
            failures[frame["text"]] = None

    path = {PLUGIN_PATH: ",".join(map(str, entries(worker)))}
    jvm = PluginJvm({**worker, **path}, "", on_log=on_log)
    try:
        plugins = jvm.call("plugins", _SCAN_S)
    except JvmEnded as error:
        if jvm.unusable:
            raise Unscannable(Diagnostic("engine.plugins", str(error))) from None
        raise
    finally:
        jvm.end()
    _log.info("Java plugins were scanned in %.1f s", time.monotonic() - began)
    manifests = Manifests()

    def has_manifest(location: str, class_name: str) -> bool:
        return location == _CLASS_PATH or manifests.name(_place(location), class_name)

    rows = [[row[column] for column in ("class", "type", "version", "location")] for row in plugins]
    return {
        "plugins": [[*row, has_manifest(row[3], row[0])] for row in rows],
        "problems": [jvm.redact(text) for text in failures],
    }


def _place(location: str) -> Path:
    return Path(unquote(location.removeprefix("file:")))


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
    subject = [KAFKA_VERSION, str(find_java()), class_path, paths, discovery, files]
    return hashlib.sha256(orjson.dumps(subject)).hexdigest()[:24]
