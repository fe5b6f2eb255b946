"""The files on a worker's `plugin.path`: its folders, jars, and what of them cannot be used."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from connect_runtime.java.scalars import java_list

PLUGIN_PATH: Final = "plugin.path"
_ARCHIVES: Final = (".jar", ".zip")
_CLASSES: Final = ".class"


def entries(worker: Mapping[str, str]) -> list[Path]:
    """Returns the entries of `plugin.path`; relative ones are below the working directory."""
    return [Path(entry).absolute() for entry in java_list(worker.get(PLUGIN_PATH, "")) if entry]


def has_java_plugins(worker: Mapping[str, str]) -> bool:
    """Returns whether there is a jar or a class on `plugin.path`, at any depth."""
    return next(plugin_files(worker), None) is not None


def plugin_files(worker: Mapping[str, str]) -> Iterator[Path]:
    """Yields the archives and classes on `plugin.path`. A file that is an entry is an archive."""
    for entry in entries(worker):
        if entry.is_dir():
            yield from _below(entry, _CLASSES)
        elif _is_archive(entry) and entry.is_file():
            yield entry


def every_file(worker: Mapping[str, str]) -> Iterator[Path]:
    """Yields all files on `plugin.path`, also native libraries. Raises OSError."""
    for entry in entries(worker):
        yield from _files(entry, ())


def _files(path: Path, folders: Sequence[str]) -> Iterator[Path]:
    """Yields a file, or those below a folder, also where links lead, but for links to a folder that
    they are in."""
    if path.is_file():
        yield path
    elif path.is_dir() and (real := os.path.realpath(path)) not in folders:
        for child in sorted(path.iterdir()):
            yield from _files(child, (*folders, real))


def _below(folder: Path, *further: str) -> Iterator[Path]:
    """Yields the archives below a folder, and files that end so, also where links lead."""
    folders, visited = [folder], set[str]()
    while folders:
        current = folders.pop()
        real = os.path.realpath(current)
        if real in visited:
            continue
        visited.add(real)
        with suppress(OSError):
            for path in sorted(current.iterdir()):
                if path.is_dir():
                    folders.append(path)
                elif path.name.lower().endswith((*_ARCHIVES, *further)) and path.is_file():
                    yield path


def _is_archive(path: Path) -> bool:
    return path.name.lower().endswith(_ARCHIVES)


def problems(worker: Mapping[str, str]) -> Iterator[str]:
    """Yields a sentence for each entry that cannot be read, and each jar that is none. All other
    plugins can be used."""
    for entry in entries(worker):
        try:
            if entry.is_dir():
                next(entry.iterdir(), None)
            else:
                entry.stat()
        except OSError as error:
            yield f"{entry} on plugin.path cannot be read: {error.strerror}"
    for file in plugin_files(worker):
        if _is_archive(file):
            try:
                zipfile.ZipFile(file).close()
            except (OSError, zipfile.BadZipFile) as error:
                yield f"{file} is not a jar that can be read: {error}"
