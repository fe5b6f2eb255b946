"""Finds on a node of a cluster what a JVM of Java plugins needs: plugins, and the engine's jars.

A file is at the path that it has on the runtime's machine, or where the archive of `connect
package` has it: below `FILES`, the same path.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import quote, unquote

import orjson

from connect_runtime.engine.plugin_path import PLUGIN_PATH, entries

# In the environment that the archive holds
FILES: Final = "share/connect/files"
JARS: Final = "share/connect/jars"

# Property of a JVM, as JSON: the places on plugin.path that it loads, as URLs, and their plugins
_KNOWN: Final = "java.plugins.known"
# The place of plugins on the class path
CLASS_PATH: Final = "classpath"
_FILE: Final = "file:"
# Java leaves these as they are in the URL of a file
_AS_JAVA: Final = "/;:@&=+$,!~*'()"

# Name, type and version of the plugins of each place
KnownPlugins: TypeAlias = Mapping[str, Sequence[Mapping[str, str]]]


def with_known(worker: Mapping[str, str], plugins: KnownPlugins) -> Mapping[str, str]:
    """Returns the properties of a JVM that knows these plugins, and looks for no others."""
    return {**worker, _KNOWN: orjson.dumps(plugins).decode()}


def known_plugins(worker: Mapping[str, str]) -> KnownPlugins:
    """Returns the plugins that a JVM with these properties knows."""
    plugins: KnownPlugins = orjson.loads(worker.get(_KNOWN, "{}"))
    return plugins


def place(location: str) -> Path:
    """Returns the folder or jar with this URL."""
    return Path(unquote(location.removeprefix(_FILE)))


def sent_jars() -> tuple[Path, ...]:
    """Returns the engine's class path in the archive, its own jar first; none elsewhere."""
    folder = _environment() / JARS
    engines = [*folder.glob("engine-*.jar")]
    further = sorted({*folder.glob("*.jar")} - {*engines})
    return (*engines, *further) if len(engines) == 1 else ()


def with_places_here(worker: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the properties of a worker, or of one of its JVMs, with the places of their plugins
    on this node."""
    if not (_environment() / FILES).is_dir():
        return worker
    paths = [path for entry in entries(worker) for path in (entry, _sent(entry)) if path.exists()]
    if not paths:
        return worker
    on_node = {**worker, PLUGIN_PATH: ",".join(map(str, paths))}
    plugins = known_plugins(worker)
    return with_known(on_node, {_local(at): plugins[at] for at in plugins}) if plugins else on_node


def missing_places(worker: Mapping[str, str]) -> list[Path]:
    """Returns the places of a JVM's plugins that this node lacks, as they are on the runtime's
    machine."""
    locations = [location for location in known_plugins(worker) if location.startswith(_FILE)]
    return [place(location) for location in locations if not place(_local(location)).exists()]


def sent_path(path: Path) -> str:
    """Returns the path in the archive of a file of the runtime's machine."""
    return f"{FILES}{os.path.normpath(path)}"


def _local(location: str) -> str:
    """Returns the URL of a place here; of the class path its own."""
    path = place(location)
    if not location.startswith(_FILE) or path.exists() or not _sent(path).exists():
        return location
    folder = "/" if location.endswith("/") else ""
    return f"{_FILE}{quote(str(_sent(path)), safe=_AS_JAVA)}{folder}"


def _sent(path: Path) -> Path:
    return _environment() / sent_path(path)


def _environment() -> Path:
    """Returns this Python's environment; Spark runs it by a link."""
    return Path(sys.prefix).resolve()
