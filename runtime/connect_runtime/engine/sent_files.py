"""Finds on a node of a cluster what a JVM of Java plugins needs: plugins, and the engine's jars.

A file is at the path that it has on the runtime's machine, or where the archive of `connect
package` has it: below `FILES`, the same path.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from connect_runtime.engine.plugin_path import PLUGIN_PATH

# In the environment that the archive holds
FILES: Final = "share/connect/files"
JARS: Final = "share/connect/jars"

# Properties of a JVM: the places on plugin.path that it loads, and those whose classes it looks at,
# as URLs in lines
LOADED: Final = "java.plugins.loaded"
SCANNED: Final = "java.plugins.scanned"
# The place of plugins on the class path
CLASS_PATH: Final = "classpath"
_FILE: Final = "file:"
# Java leaves these as they are in the URL of a file
_AS_JAVA: Final = "/;:@&=+$,!~*'()"


def place(location: str) -> Path:
    """Returns the folder or jar with this URL."""
    return Path(unquote(location.removeprefix(_FILE)))


def sent_jars() -> tuple[Path, ...]:
    """Returns the engine's class path in the archive, its own jar first; none elsewhere."""
    jars = (_environment() / JARS).glob("*.jar")
    return tuple(sorted(jars, key=lambda jar: (not jar.name.startswith("engine-"), jar.name)))


def with_places_here(worker: Mapping[str, str]) -> Mapping[str, str]:
    """Returns a JVM's properties with the places of its plugins on this node."""
    locations = [*_locations(worker)]
    moved = {location: _here(location) for location in locations}
    if all(location == local for location, local in moved.items()):
        return worker
    # links of an entry may lead elsewhere here, so the folder of each place is an entry
    folders = dict.fromkeys(str(place(local).parent) for local in moved.values())
    lists = {
        key: "\n".join(moved.get(location, location) for location in worker[key].split("\n"))
        for key in (LOADED, SCANNED)
    }
    return {**worker, **lists, PLUGIN_PATH: ",".join(folders)}


def missing_places(worker: Mapping[str, str]) -> list[Path]:
    """Returns the places of a JVM's plugins that this node lacks, as they are on the runtime's
    machine."""
    lacking = (location for location in _locations(worker) if not place(_here(location)).exists())
    return [place(location) for location in lacking]


def _locations(worker: Mapping[str, str]) -> Iterator[str]:
    for location in worker.get(LOADED, "").split("\n"):
        if location.startswith(_FILE):
            yield location


def _here(location: str) -> str:
    path = place(location)
    if path.exists():
        return location
    sent = _environment() / FILES
    return location.replace(_FILE, f"{_FILE}{quote(str(sent), safe=_AS_JAVA)}", 1)


def _environment() -> Path:
    """Returns this Python's environment; Spark runs it by a link."""
    return Path(sys.prefix).resolve()
