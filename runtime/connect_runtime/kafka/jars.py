"""Fetches and verifies the jars of the pinned Kafka version.

The Ivy that PySpark ships fetches them once into a cache folder by version, and each is checked
against the SHA-256 in jars.sha256. That list is complete, so nothing is resolved: Ivy only
downloads. `broker` is what a broker needs; `connect` is what Apache Kafka Connect needs in
addition, `compiler` compiles the engine for Java plugins, `tools` what Kafka's own performance
tests do.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args
from xml.sax.saxutils import quoteattr

from connect_runtime import KAFKA_VERSION
from connect_runtime.files import replace_file
from connect_runtime.kafka.local_processes import NO_JAVA_HINT, find_java
from connect_specs.diagnostics import Diagnostic, Unreachable
from connect_specs.plain_text import render_diagnostics

JarSet = Literal["broker", "connect", "compiler", "tools"]

_SUMS = Path(__file__).with_name("jars.sha256")
_MARKER = ".verified"
_FETCH_TIMEOUT_S = 900

# No pom is read and no transitive dependency followed: the list is complete, and its SHA-256
# counts, so the repository's own weaker checksums are not requested.
_IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="public"/>
  <resolvers>
    <ibiblio name="public" m2compatible="true" usepoms="false" checksums=""/>
  </resolvers>
</ivysettings>
"""


class JarsError(Unreachable):
    """The jars are not available."""


def _failure(problem: str, hint: str) -> JarsError:
    return JarsError(Diagnostic("kafka.jars", problem, hint=hint))


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a list: a jar, or an archive of jars with another `extension`."""

    sha256: str
    organisation: str
    module: str
    version: str
    classifier: str = ""
    extension: str = "jar"

    @property
    def file_name(self) -> str:
        classifier = self.classifier and f"-{self.classifier}"
        return f"{self.module}-{self.version}{classifier}.{self.extension}"


def read_list(name: str, sums: Path | None = None) -> tuple[Jar, ...]:
    """Returns the jars of a set from a list: by default of a JarSet, from the one in this
    package. Its lines have a SHA-256, the set, and
    `organisation:module:version[:classifier[:extension]]`."""
    lines = (line.split() for line in (sums or _SUMS).read_text().splitlines())
    return tuple(Jar(sha256, *jar.split(":")) for sha256, jar_set, jar in lines if jar_set == name)


def cache_folder() -> Path:
    """Returns `$CONNECT_CACHE`, else `connect` in the user's cache folder. It may not exist yet."""
    own = os.environ.get("CONNECT_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "connect"


def classpath(jar_set: JarSet) -> str:
    """Returns the set's Java class path, fetching it first if needed. Raises JarsError."""
    folders = [jars_folder("broker")]
    if jar_set != "broker":
        folders.append(jars_folder(jar_set))
    return os.pathsep.join(f"{folder}/*" for folder in folders)


def jars_folder(jar_set: JarSet) -> Path:
    """Returns the folder of the set's verified jars, fetching them first if needed. Raises
    JarsError."""
    return fetch_jars(read_list(jar_set), cache_folder() / f"kafka-{KAFKA_VERSION}" / jar_set)


def fetch_jars(jars: Sequence[Jar], folder: Path) -> Path:
    """Returns the folder, with all these jars verified; fetches those that it lacks. Raises
    JarsError.

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
            _verify(jars, folder)
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


def _verify(jars: Sequence[Jar], folder: Path) -> None:
    for jar in jars:
        path = folder / jar.file_name
        with path.open("rb") as content:
            checksum = hashlib.file_digest(content, "sha256").hexdigest()
        if checksum != jar.sha256:
            path.unlink()
            raise _failure(
                f"{path} was not the file that is expected: SHA-256 {checksum}, not {jar.sha256}",
                hint="It was removed; run the command again to fetch it again.",
            )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(jars: Sequence[Jar], *, into: Path) -> None:
    """Downloads to a folder beside `into`, then moves files with the right checksum, one by one."""
    java = find_java()
    if java is None:
        raise _failure("Kafka needs Java 17 or newer, and there is none", hint=NO_JAVA_HINT)
    ivy = _find_ivy()
    temporary = Path(tempfile.mkdtemp(prefix="fetch-", dir=into.parent))
    try:
        _run_ivy(java, ivy, jars, temporary)
        arrived = temporary / "jars"
        for jar in jars:
            if not (arrived / jar.file_name).is_file():
                raise _failure(f"{jar.file_name} was not found", hint=_FETCH_HINT)
        _verify(jars, arrived)
        for jar in jars:
            (arrived / jar.file_name).replace(into / jar.file_name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _find_ivy() -> Path:
    # Not imported: that takes a second, and this process may never need Spark.
    spec = find_spec("pyspark")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for ivy in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return ivy
    raise _failure(
        "Kafka's jars are fetched with the Ivy in PySpark, which is not installed",
        hint="pip install '.[runtime]' in the folder of connect's sources",
    )


_FETCH_HINT = (
    "Kafka's jars come from the public Maven repository. Behind a mirror, point "
    "CONNECT_IVY_SETTINGS to an Ivy settings file that names it."
)


# Ivy knows classifiers as extra attributes of this namespace
_MAVEN = "http://ant.apache.org/ivy/maven"


def _dependency(jar: Jar) -> str:
    classifier = jar.classifier and f" m:classifier={quoteattr(jar.classifier)}"
    return (
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.module)}"
        f' rev={quoteattr(jar.version)} transitive="false" conf="default->default">'
        f"<artifact name={quoteattr(jar.module)} type={quoteattr(jar.extension)}{classifier}/>"
        "</dependency>"
    )


def _run_ivy(java: Path, ivy: Path, jars: Sequence[Jar], temporary: Path) -> None:
    dependencies = "".join(map(_dependency, jars))
    module = temporary / "ivy.xml"
    module.write_text(
        f'<ivy-module version="2.0" xmlns:m="{_MAVEN}"><info organisation="connect" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    settings = temporary / "settings.xml"
    settings.write_text(_IVY_SETTINGS)
    command = [
        str(java),
        "-jar",
        str(ivy),
        "-settings",
        os.environ.get("CONNECT_IVY_SETTINGS") or str(settings),
        "-cache",
        str(temporary / "cache"),
        "-ivy",
        str(module),
        "-retrieve",
        str(temporary / "jars" / "[artifact]-[revision](-[classifier]).[ext]"),
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_FETCH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise _failure(
            f"Kafka's jars were not fetched in {_FETCH_TIMEOUT_S} s", hint=_FETCH_HINT
        ) from None
    if done.returncode != 0:
        tail = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-5:]
        raise _failure("\n".join(["Kafka's jars were not fetched:", *tail]), hint=_FETCH_HINT)


def main(arguments: Sequence[str]) -> int:
    """Fetches a set (`broker` unless named) and prints its folder."""
    name = arguments[0] if arguments else "broker"
    for jar_set in get_args(JarSet):
        if name == jar_set:
            try:
                classpath(jar_set)
                sys.stdout.write(f"{jars_folder(jar_set)}\n")
            except JarsError as error:
                sys.stderr.write(render_diagnostics(error.diagnostics))
                return 1
            return 0
    sys.stderr.write("usage: python -m connect_runtime.kafka.jars [broker|connect|tools]\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
