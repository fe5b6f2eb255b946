"""Archives of Java's classes, with which a JVM starts in half the CPU time (class-data sharing).

An archive belongs to one Java and one set of jars, and lies in the cache folder beside Kafka's
jars. A JVM without one starts as well, only slower. `python -m connect_runtime.make_class_archives`
makes them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from connect_runtime.kafka.jars import cache_folder
from connect_runtime.kafka.local_processes import find_java

# Each of 50 to 70 MB. Several installations may share the folder.
_KEPT = 4
_OPTIONS = (
    # An archive that does not fit, or lacks classes, is no concern of a process's log.
    "-Xlog:cds=off",
    "-Xlog:cds+dynamic=off",
    # Java moves archives to random addresses, and so writes to nearly all of their pages: 30 MB of
    # each JVM. At their own address, JVMs share them.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:ArchiveRelocationMode=0",
)


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of the JVMs with this class path: jars, and folders of jars, in this order."""

    name: str
    class_path: tuple[Path, ...]

    def flags(self) -> list[str]:
        """Returns the flags of a JVM that uses the archive; none if it has not been made."""
        file = self._file()
        if file is None or not file.is_file():
            return []
        return [f"-XX:SharedArchiveFile={file}", *_OPTIONS]

    @contextlib.contextmanager
    def making(self) -> Iterator[list[str]]:
        """Yields the flags of one JVM that writes the archive when it ends, within the context.
        Safe for concurrent processes: each writes a file of its own. Raises OSError if the cache
        folder cannot be written to."""
        file = self._file()
        if file is None:
            yield []
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="making-", dir=file.parent) as folder:
            archive = Path(folder, "archive")
            yield [f"-XX:ArchiveClassesAtExit={archive}", *_OPTIONS]
            if archive.is_file():
                _keep(archive, file)
        self._remove_old(file.parent)

    def _file(self) -> Path | None:
        java = find_java()
        if java is None:
            return None
        files = [
            java.resolve(),
            *(jar for place in self.class_path for jar in _jars(place)),
        ]
        stats = [(str(file), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files]
        key = hashlib.sha256(json.dumps([_OPTIONS, stats]).encode()).hexdigest()[:16]
        return cache_folder() / "class-archives" / f"{self.name}-{key}.jsa"

    def _remove_old(self, folder: Path) -> None:
        files = sorted(folder.glob(f"{self.name}-*.jsa"), key=lambda file: file.stat().st_mtime)
        for file in files[:-_KEPT]:
            file.unlink(missing_ok=True)


def _jars(place: Path) -> Iterable[Path]:
    return (place,) if place.is_file() else sorted(place.glob("*.jar"))


def _keep(archive: Path, file: Path) -> None:
    # a JVM crashes on an archive that a crash of the machine truncated
    with archive.open("rb") as content:
        os.fsync(content.fileno())
    archive.replace(file)
