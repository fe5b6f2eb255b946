"""Fetches artifacts from Maven repositories.

The Ivy that PySpark ships does it, so nobody needs Maven. It reads POMs with their parents, BOMs,
scopes, exclusions and optional dependencies; of two versions of a library the newer one counts.
The file that CONNECT_IVY_SETTINGS names says which repositories are asked, and with which
credentials; without it, the public one is.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from connect_runtime.kafka.local_processes import NO_JAVA_HINT, find_java
from connect_specs.diagnostics import Diagnostic, Unreachable

_FETCH_S = 900.0
# A list that has a SHA-256 for each artifact needs neither POMs nor the repository's own weaker
# checksums
_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="public"/>
  <timeout-constraints>
    <timeout-constraint name="public" connectionTimeout="15000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="public" m2compatible="true" timeoutConstraint="public"{options}/>
  </resolvers>
</ivysettings>
"""
_LISTED_ONLY: Final = ' usepoms="false"'
_WITHOUT_CHECKSUMS: Final = ' checksums=""'
_WITH_CHECKSUMS: Final = ' checksums="sha1"'
_PATTERN: Final = "[organisation]/[module]/[revision]/[artifact]-[revision](-[classifier]).[ext]"
_MIRROR_HINT: Final = (
    "Artifacts come from the public Maven repository. Behind a mirror, point CONNECT_IVY_SETTINGS "
    "to an Ivy settings file that names it, with its credentials."
)

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_COORDINATE: Final = re.compile(
    rf"(?P<group>{_NAME}):(?P<artifact>{_NAME}):(?P<version>{_NAME})"
    rf"(?::(?P<classifier>{_NAME}))?(?:@(?P<extension>[a-z0-9.]+))?"
)
# Versions that mean another artifact tomorrow
_NO_VERSION: Final = re.compile(r"(?i)(latest|release)(\..*)?")

_NOT_FOUND: Final = 404
_SERVER_ERROR: Final = 500
_STATUS: Final = re.compile(r"HTTP response status: (\d+) url=(\S+)")
_NO_ANSWER: Final = re.compile(r"^\s*Server access error at url (.*)$", re.MULTILINE)
_NOT_TAKEN: Final = re.compile(r"^(?:WARN:)?\s*\[FAILED *\] (.*?)(?: \(\d+ms\))?$", re.MULTILINE)
# Java's texts are the system's
_NO_ROOM: Final = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
_LOGIN: Final = re.compile(r"://[^/@\s]*@")
_SUMMARY: Final = re.compile("UNRESOLVED DEPENDENCIES|FAILED DOWNLOADS")
_CAUSE: Final = re.compile(r"^(?:Caused by|Exception in thread \S+): (.*)$", re.MULTILINE)
_REASONS_MOST: Final = 5


@dataclass(frozen=True, slots=True, order=True)
class Coordinate:
    """An artifact of a Maven repository: `group:artifact:version[:classifier][@extension]`, as
    Gradle writes it. Without an extension it is a jar."""

    group: str
    artifact: str
    version: str
    classifier: str = ""
    extension: str = ""

    def __str__(self) -> str:
        text = ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier)))
        return f"{text}@{self.extension}" if self.extension else text

    @property
    def module(self) -> tuple[str, str]:
        """Returns the group and the artifact."""
        return self.group, self.artifact

    @property
    def file_name(self) -> str:
        return f"{self._stem}.{self.extension or 'jar'}"

    @property
    def _stem(self) -> str:
        return "-".join(filter(None, (self.artifact, self.version, self.classifier)))


def parse_coordinate(text: str) -> Coordinate | None:
    """Returns the coordinate; None if the text is none, or has no fixed version."""
    match = _COORDINATE.fullmatch(text)
    if match is None or _NO_VERSION.fullmatch(match["version"]):
        return None
    return Coordinate(**{name: value or "" for name, value in match.groupdict().items()})


class ArtifactsError(Unreachable):
    """Artifacts are not available."""


class NoRoom(ArtifactsError):
    """The disk takes no more files."""


class NoSuchArtifact(ArtifactsError):
    """The repositories answered, and do not have it or do not give it."""


def fetch(
    coordinates: Sequence[Coordinate], folder: Path, *, checked: bool = False
) -> Mapping[Coordinate, Path]:
    """Downloads these artifacts and no others into an empty folder, and returns their files. Their
    content is `checked` by what the repository says, which a caller that knows it leaves out.
    Raises ArtifactsError."""
    checksums = _WITH_CHECKSUMS if checked else _WITHOUT_CHECKSUMS
    files = _retrieve(coordinates, (), folder, f"{_LISTED_ONLY}{checksums}")
    arrived = {c: files.get(c) or files.get(_plain(c)) for c in coordinates}
    missing = [str(coordinate) for coordinate, file in arrived.items() if file is None]
    if missing:
        raise NoSuchArtifact(_problem(f"{', '.join(missing)} was not found"))
    return {coordinate: file for coordinate, file in arrived.items() if file is not None}


def resolve(
    coordinate: Coordinate, folder: Path, excluded: Collection[tuple[str, str]] = ()
) -> Mapping[Coordinate, Path]:
    """Downloads a jar and what it needs at run time into an empty folder, and returns their files.
    Modules that are `excluded`, and what only they need, are left out. The repository's checksums
    are verified. Raises ArtifactsError."""
    return _retrieve([coordinate], excluded, folder, _WITH_CHECKSUMS)


def _plain(coordinate: Coordinate) -> Coordinate:
    """Returns the coordinate without an extension that goes without saying."""
    return Coordinate(*coordinate.module, coordinate.version, coordinate.classifier)


def _retrieve(
    coordinates: Sequence[Coordinate],
    excluded: Collection[tuple[str, str]],
    folder: Path,
    options: str,
) -> dict[Coordinate, Path]:
    java, ivy = find_java(), _find_ivy()
    if java is None:
        raise ArtifactsError(_problem("fetching artifacts needs Java 17 or newer", NO_JAVA_HINT))
    with tempfile.TemporaryDirectory(prefix="ivy-", dir=folder) as own:
        module, settings = Path(own, "ivy.xml"), Path(own, "settings.xml")
        module.write_text(_module(coordinates, excluded, follow=_LISTED_ONLY not in options))
        settings.write_text(_SETTINGS.format(options=options))
        command = [str(java), "-jar", str(ivy), "-debug"]
        command += ["-settings", os.environ.get("CONNECT_IVY_SETTINGS") or str(settings)]
        command += ["-cache", str(Path(own, "cache")), "-ivy", str(module)]
        command += ["-retrieve", str(folder / _PATTERN)]
        _run(command, coordinates, folder)
    return {_coordinate_of(f.relative_to(folder)): f for f in folder.rglob("*") if f.is_file()}


def _coordinate_of(file: Path) -> Coordinate:
    group, artifact, version, name = file.parts
    ending = name.removeprefix(f"{artifact}-{version}")
    classifier, _, extension = ending.partition(".")
    return Coordinate(
        group,
        artifact,
        version,
        classifier.removeprefix("-"),
        "" if extension == "jar" else extension,
    )


def _module(
    coordinates: Iterable[Coordinate], excluded: Iterable[tuple[str, str]], *, follow: bool
) -> str:
    dependencies = "".join(_dependency(coordinate, follow=follow) for coordinate in coordinates)
    exclusions = "".join(
        f"<exclude org={quoteattr(group)} module={quoteattr(artifact)}/>"
        for group, artifact in excluded
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="connect" module="artifacts"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}{exclusions}</dependencies></ivy-module>"
    )


def _dependency(coordinate: Coordinate, *, follow: bool) -> str:
    artifact = ""
    if coordinate.classifier or coordinate.extension:
        ending = quoteattr(coordinate.extension or "jar")
        artifact = f"<artifact name={quoteattr(coordinate.artifact)} type={ending} ext={ending}"
        if coordinate.classifier:
            artifact += f" m:classifier={quoteattr(coordinate.classifier)}"
        artifact += "/>"
    return (
        f"<dependency org={quoteattr(coordinate.group)} name={quoteattr(coordinate.artifact)}"
        f' rev={quoteattr(coordinate.version)} transitive="{str(follow).lower()}"'
        f' conf="default-&gt;default">{artifact}</dependency>'
    )


def _find_ivy() -> Path:
    # Not imported: that takes a second, and this process may never need Spark.
    spec = find_spec("pyspark")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for ivy in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return ivy
    raise ArtifactsError(
        _problem(
            "artifacts are fetched with the Ivy in PySpark, which is not installed",
            "pip install '.[runtime]' in the folder of connect's sources",
        )
    )


def _run(command: Sequence[str], coordinates: Sequence[Coordinate], cache: Path) -> None:
    """Runs Ivy, which writes into the folder `cache`. Its debug output has the statuses of answers;
    of all that it prints, only reasons are shown."""
    names = str(coordinates[0])
    if len(coordinates) > 1:
        names += f" and {len(coordinates) - 1} more"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_FETCH_S,
        )
    except subprocess.TimeoutExpired:
        text = f"{names}: not fetched in {_FETCH_S:.0f} s"
        raise ArtifactsError(_problem(text)) from None
    if done.returncode != 0:
        output = done.stdout + done.stderr
        reason = next((text for text in _NO_ROOM if text in output), "")
        if reason:
            hint = f"free some space for {cache.parent}, and run this again"
            raise NoRoom(_problem(f"{names} was not fetched", hint, reason))
        raise _failure(names, output)


def _failure(names: str, output: str) -> ArtifactsError:
    statuses = {(int(status), url) for status, url in _STATUS.findall(output)}
    refusals = sorted(answer for answer in statuses if answer[0] != _NOT_FOUND)
    broken = [*_NO_ANSWER.findall(output), *_NOT_TAKEN.findall(output)]
    if _SUMMARY.search(output) is None:
        # Ivy has not come so far: its settings cannot be read, for one
        broken += _CAUSE.findall(output)[-1:] or ["Ivy has failed"]
    has_answers = all(status < _SERVER_ERROR for status, _ in refusals) and not broken
    reasons = [f"{status} is the answer of {url}" for status, url in refusals] + broken
    unique = list(dict.fromkeys(_LOGIN.sub("://", reason) for reason in reasons))
    kind = NoSuchArtifact if has_answers else ArtifactsError
    text = f"{names} was not {'found' if has_answers else 'fetched'}"
    hint = f"Check the coordinate. {_MIRROR_HINT}" if has_answers else _MIRROR_HINT
    return kind(_problem(text, hint, "\n".join(unique[:_REASONS_MOST])))


def _problem(problem: str, hint: str = _MIRROR_HINT, why: str = "") -> Diagnostic:
    return Diagnostic("maven.artifacts", problem, why=why, hint=hint)
