"""Fetches and verifies the jars of the pinned Kafka version.

They are fetched once into a cache folder by version, and each is checked against the SHA-256 in
jars.sha256. That list is complete, so nothing is resolved. `broker` is what a broker needs;
`connect` is what Apache Kafka Connect needs in addition, `compiler` compiles the engine for Java
plugins, `tools` what Kafka's own performance tests do.
"""

import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from connect_runtime import KAFKA_VERSION
from connect_runtime.files import replace_file, sha256_of
from connect_runtime.maven import ArtifactsError, Coordinate, fetch
from connect_specs.diagnostics import Diagnostic
from connect_specs.plain_text import render_diagnostics

JarSet = Literal["broker", "connect", "compiler", "tools"]

_SUMS = Path(__file__).with_name("jars.sha256")
_MARKER = ".verified"


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a list: a jar, or an archive of jars."""

    sha256: str
    coordinate: Coordinate

    @property
    def file_name(self) -> str:
        return self.coordinate.file_name


def read_list(name: str, sums: Path | None = None) -> tuple[Jar, ...]:
    """Returns the jars of a set from a list: by default of a JarSet, from the one in this
    package. Its lines have a SHA-256, the set, and
    `organisation:module:version[:classifier[:extension]]`."""
    lines = (line.split() for line in (sums or _SUMS).read_text().splitlines())
    return tuple(
        Jar(sha256, Coordinate(*jar.split(":")))
        for sha256, jar_set, jar in lines
        if jar_set == name
    )


def cache_folder() -> Path:
    """Returns `$CONNECT_CACHE`, else `connect` in the user's cache folder. It may not exist yet."""
    own = os.environ.get("CONNECT_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "connect"


def classpath(jar_set: JarSet) -> str:
    """Returns the set's Java class path, fetching it first if needed. Raises ArtifactsError."""
    folders = [jars_folder("broker")]
    if jar_set != "broker":
        folders.append(jars_folder(jar_set))
    return os.pathsep.join(f"{folder}/*" for folder in folders)


def jars_folder(jar_set: JarSet) -> Path:
    """Returns the folder of the set's verified jars, fetching them first if needed. Raises
    ArtifactsError."""
    return fetch_jars(read_list(jar_set), cache_folder() / f"kafka-{KAFKA_VERSION}" / jar_set)


def fetch_jars(jars: Sequence[Jar], folder: Path) -> Path:
    """Returns the folder, with all these jars verified; fetches those that it lacks. Raises
    ArtifactsError.

    Jars that were verified before and have kept size and modification time are not read again. Safe
    for concurrent processes: one fetches and the others wait.
    """
    if _is_verified(folder, jars):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent / f"{folder.name}.lock"):
        if not _is_verified(folder, jars):
            missing = [jar for jar in jars if not (folder / jar.file_name).is_file()]
            if missing:
                _fetch(missing, into=folder)
            for jar in jars:
                _verify(jar, folder / jar.file_name)
            replace_file(folder / _MARKER, json.dumps(_fingerprint(folder, jars)))
    return folder


def _is_verified(folder: Path, jars: Sequence[Jar]) -> bool:
    try:
        marker = json.loads((folder / _MARKER).read_bytes())
        return bool(marker == _fingerprint(folder, jars))
    except (OSError, ValueError):
        return False


def _fingerprint(folder: Path, jars: Sequence[Jar]) -> dict[str, list[object]]:
    stats: dict[str, list[object]] = {}
    for jar in jars:
        stat = (folder / jar.file_name).stat()
        stats[jar.file_name] = [jar.sha256, stat.st_size, stat.st_mtime_ns]
    return stats


def _verify(jar: Jar, path: Path) -> None:
    checksum = sha256_of(path)
    if checksum != jar.sha256:
        path.unlink()
        text = f"{path} was not the file that is expected: SHA-256 {checksum}, not {jar.sha256}"
        hint = "It was removed; run the command again to fetch it again."
        raise ArtifactsError(Diagnostic("kafka.jars", text, hint=hint))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(jars: Sequence[Jar], *, into: Path) -> None:
    """Downloads to a folder beside `into`, then moves files with the right checksum, one by one."""
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=into.parent) as temporary:
        files = fetch([jar.coordinate for jar in jars], Path(temporary))
        for jar in jars:
            _verify(jar, files[jar.coordinate])
        for jar in jars:
            files[jar.coordinate].replace(into / jar.file_name)


def main(arguments: Sequence[str]) -> int:
    """Fetches a set (`broker` unless named) and prints its folder."""
    name = arguments[0] if arguments else "broker"
    for jar_set in get_args(JarSet):
        if name == jar_set:
            try:
                classpath(jar_set)
                sys.stdout.write(f"{jars_folder(jar_set)}\n")
            except ArtifactsError as error:
                sys.stderr.write(render_diagnostics(error.diagnostics))
                return 1
            return 0
    sys.stderr.write("usage: python -m connect_runtime.kafka.jars [broker|connect|tools]\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
