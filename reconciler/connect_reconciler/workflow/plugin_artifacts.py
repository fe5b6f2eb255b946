"""Gets the files of Java plugins: from Maven repositories, web addresses and this machine.

The cache folder keeps each under its SHA-256, for all projects. A file that plugins.lock.json names
is used only if it has the checksum there.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from netrc import NetrcParseError
from pathlib import Path
from typing import IO, Final

import httpx

from connect_reconciler.backend.rest.connection import is_local
from connect_runtime.files import sha256_of
from connect_runtime.kafka.jars import cache_folder, read_list
from connect_runtime.maven import (
    ArtifactsError,
    Coordinate,
    NoRoom,
    NoSuchArtifact,
    fetch,
    parse_coordinate,
    resolve,
)
from connect_runtime.plugins.archives import ENDINGS, JAR, check_jar
from connect_specs.diagnostics import Diagnostic, Failed, Invalid, Unreachable
from connect_specs.plugins_lock import PLUGINS_LOCK, LockedArtifact, LockedPlugin, PluginOrigin
from connect_specs.secrets import secret_parts

# The classifier of Debezium's and others' archives
_ARCHIVE: Final = "plugin"
_EXTENSIONS: Final = ("tar.gz", "zip")
# Libraries of Connect's class path whose classes come before those of a plugin
_BEFORE_PLUGINS: Final = (("org.apache.kafka", "kafka-clients"), ("org.slf4j", "slf4j-api"))
_VERSION: Final = re.compile(r"[-_]v?\d+\w*([.+-]\w+)*$")

_DOWNLOAD_S: Final = 900.0
_ANSWER_S: Final = 60.0
_BYTES_MOST: Final = 2 << 30
_BLOCK_BYTES: Final = 1 << 20
_DOWNLOAD_HINT: Final = (
    "A login can be in ~/.netrc. Without network: download it elsewhere, and install the file."
)


# --- an argument of `connect plugins install` ---


def plugin_name(source: str) -> str:
    """Returns the name of the plugin that a coordinate, an address or a file stands for: that of
    the artifact, without its version."""
    coordinate = parse_coordinate(source)
    if coordinate is not None:
        return coordinate.artifact
    return _VERSION.sub("", stem(file_name(source)))


def file_name(origin: str) -> str:
    """Returns the name of the file of an artifact."""
    coordinate = parse_coordinate(origin)
    if coordinate is not None:
        return coordinate.file_name
    return Path(httpx.URL(origin).path if "://" in origin else origin).name


def stem(name: str) -> str:
    """Returns a file's name without the ending of a jar or an archive."""
    ending = next((end for end in ENDINGS if name.lower().endswith(end)), "")
    return name[: len(name) - len(ending)]


def recorded_source(source: str, folder: Path, project: Path) -> str:
    """Returns what a user wrote in `folder` as the lock has it: without a login, and a path in the
    project relative to it. Raises Invalid if it is no coordinate, address or file of a plugin."""
    if parse_coordinate(source) is not None:
        return source
    if "://" in source:
        recorded = _recorded_address(source)
    else:
        file = (folder / source).resolve()
        recorded = str(file.relative_to(project) if file.is_relative_to(project) else file)
    if not file_name(recorded).lower().endswith(ENDINGS):
        problem = f"{source!r} is neither a coordinate nor the name of a plugin's file"
        if "://" in source:
            problem = "the address does not end in the name of a plugin's file"
        hint = (
            "write group:artifact:version, or an https address or a file whose name ends in "
            f"{', '.join(ENDINGS)}"
        )
        raise Invalid(Diagnostic("plugins.source", problem, hint=hint))
    return recorded


def origin_of(
    source: str, folder: Path, project: Path, present: Collection[str] = ()
) -> PluginOrigin:
    """Gets the files that `source` stands for, which a user wrote in `folder`. `present` are the
    origins of files that the plugin has already: libraries among them are not added.

    Raises Invalid, Unreachable, Failed.
    """
    recorded = recorded_source(source, folder, project)
    coordinate = parse_coordinate(source)
    with _scratch() as scratch:
        if coordinate is not None:
            modules = [key.module for text in present if (key := parse_coordinate(text))]
            files = _from_maven(coordinate, scratch, modules)
            return PluginOrigin(source, tuple(_keep(files[key], str(key)) for key in sorted(files)))
        file = scratch / "file"
        if "://" in source:
            _download(source, file)
        else:
            _copy(folder / source, file)
        return PluginOrigin(recorded, (_keep(file, recorded),))


def _recorded_address(source: str) -> str:
    """Returns the address as the lock has it, without a login. Raises Invalid for one that is not
    safe, or that would put a secret into the lock."""
    try:
        url = httpx.URL(source)
    except httpx.InvalidURL:
        url = httpx.URL()
    address = str(url.copy_with(userinfo=b""))
    is_safe = url.scheme == "https" or (url.scheme == "http" and is_local(url.host))
    if not (is_safe and url.host):
        problem, hint = "the address of a plugin must begin with https://", "or name a file"
        raise Invalid(Diagnostic("plugins.source", problem, hint=hint))
    if secret_parts(address):
        problem = f"the address has a secret in it, and {PLUGINS_LOCK} would show it"
        hint = "put the login into ~/.netrc, or download the file and install it from there"
        raise Invalid(Diagnostic("plugins.source", problem, hint=hint))
    return address


# --- the files that the lock names ---


def artifact_file(artifact: LockedArtifact) -> Path:
    """Returns the place of the artifact in the cache folder."""
    return _cache() / artifact.sha256


def get_missing(plugin: LockedPlugin, project: Path) -> None:
    """Gets the files that are not in the cache, or have been changed there.

    Raises Failed for one that is not as in the lock, Unreachable, Invalid.
    """
    for origin in plugin.origins:
        missing = {a.origin: a for a in origin.artifacts if not _is_intact(a)}
        coordinates = [key for text in missing if (key := parse_coordinate(text))]
        with _scratch() as scratch:
            for coordinate, file in _fetch_listed(coordinates, scratch).items():
                _keep_locked(file, missing.pop(str(coordinate)))
            for text, artifact in missing.items():
                file = scratch / "file"
                if "://" in text:
                    _download(text, file)
                else:
                    _copy(project / text, file)
                _keep_locked(file, artifact)


def _fetch_listed(coordinates: Sequence[Coordinate], folder: Path) -> Mapping[Coordinate, Path]:
    try:
        return fetch(coordinates, folder) if coordinates else {}
    except NoRoom:
        raise
    except ArtifactsError as error:
        raise _with_way_out(error) from None


def _keep_locked(file: Path, artifact: LockedArtifact) -> None:
    checksum = sha256_of(file)
    if checksum != artifact.sha256:
        problem = f"{artifact.origin} is not the file that {PLUGINS_LOCK} names"
        reason = f"its SHA-256 is {checksum}, not {artifact.sha256}"
        hint = "if it was meant to change, install it by name; else ask who provides it"
        raise Failed(Diagnostic("plugins.checksum", problem, why=reason, hint=hint))
    _keep(file, artifact.origin)


def _keep(file: Path, origin: str) -> LockedArtifact:
    """Moves the file into the cache. Raises Invalid for a jar that is none."""
    if file_name(origin).lower().endswith(JAR):
        check_jar(file, origin)
    artifact = LockedArtifact(origin, sha256_of(file))
    file.replace(artifact_file(artifact))
    return artifact


def _is_intact(artifact: LockedArtifact) -> bool:
    file = artifact_file(artifact)
    return file.is_file() and sha256_of(file) == artifact.sha256


def _cache() -> Path:
    return cache_folder() / "artifacts"


@contextmanager
def _scratch() -> Iterator[Path]:
    """Makes a folder beside the cached files, so that they can be moved there."""
    _cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=_cache()) as folder:
        yield Path(folder)


# --- the three places ---


def _from_maven(
    coordinate: Coordinate, scratch: Path, present: Collection[tuple[str, str]]
) -> Mapping[Coordinate, Path]:
    """Downloads what the coordinate stands for: if it names neither classifier nor extension, the
    plugin's archive, else its jar with the libraries that it needs. Raises Unreachable."""
    try:
        if coordinate.extension:
            return fetch([coordinate], scratch, checked=True)
        classified = replace(coordinate, classifier=coordinate.classifier or _ARCHIVE)
        for extension in _EXTENSIONS:
            try:
                return fetch([replace(classified, extension=extension)], scratch, checked=True)
            except NoSuchArtifact:
                continue
        if coordinate.classifier:
            return fetch([coordinate], scratch, checked=True)
        return resolve(coordinate, scratch, {*_of_connect(), *present} - {coordinate.module})
    except (NoSuchArtifact, NoRoom):
        raise
    except ArtifactsError as error:
        raise _with_way_out(error) from None


def _of_connect() -> Iterator[tuple[str, str]]:
    """Yields the modules that Connect itself provides, and a plugin must not bring."""
    yield from _BEFORE_PLUGINS
    for jar in read_list("connect"):
        if jar.coordinate.group == "org.apache.kafka":
            yield jar.coordinate.module


def _with_way_out(error: ArtifactsError) -> Unreachable:
    way_out = (
        "Without network: install it in this project on a machine that has one, copy "
        f"{PLUGINS_LOCK} and the folder {_cache()} from there, and run `connect plugins install`; "
        "or install a file."
    )
    return Unreachable(
        *(replace(d, hint=f"{d.hint.rstrip('.')}. {way_out}") for d in error.diagnostics)
    )


def _copy(source: Path, file: Path) -> None:
    try:
        with source.open("rb") as content, file.open("wb", buffering=0) as out:
            while block := content.read(_BLOCK_BYTES):
                _write(out, block)
    except OSError as error:
        problem, reason = f"{source} cannot be read", error.strerror or type(error).__name__
        hint = "put the file there, or install the plugin from another place"
        raise Invalid(Diagnostic("plugins.file", problem, why=reason, hint=hint)) from error


def _download(source: str, file: Path) -> None:
    """Downloads an address, with its own login or that of ~/.netrc. Raises Unreachable."""
    deadline = time.monotonic() + _DOWNLOAD_S
    url = httpx.URL(source)
    try:
        with (
            _client(url) as client,
            client.stream("GET", url) as response,
            file.open("wb", buffering=0) as out,
        ):
            if not response.is_success:
                raise _not_downloaded(source, f"the answer is {response.status_code}")
            for block in response.iter_raw():
                _write(out, block)
                if out.tell() > _BYTES_MOST:
                    raise _not_downloaded(source, "it is larger than 2 GiB")
                if time.monotonic() > deadline:
                    raise _not_downloaded(source, f"it takes longer than {_DOWNLOAD_S:.0f} s")
    except httpx.TooManyRedirects:
        raise _not_downloaded(source, "it is redirected without an end") from None
    except httpx.TimeoutException:
        raise _not_downloaded(source, f"no answer in {_ANSWER_S:.0f} s") from None
    except (httpx.HTTPError, NetrcParseError, OSError) as error:
        refused = _refused_certificate(error)
        if refused is not None:
            problem = f"a server's certificate is refused: {refused.verify_message}"
            trusted = "SSL_CERT_FILE names a file of all authorities that are trusted"
            raise _not_downloaded(source, problem, f"{trusted}. {_DOWNLOAD_HINT}") from None
        # Texts of the library may quote the address
        reason = f"the connection failed: {type(error).__name__}"
        raise _not_downloaded(source, reason) from None


def _refused_certificate(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__context__
    return error


def _write(out: IO[bytes], block: bytes) -> None:
    """Writes it into an unbuffered file. Raises Failed if the disk does not take it."""
    try:
        while block:
            block = block[out.write(block) :]
    except OSError as error:
        raise unwritable(str(out.name), error) from error


def unwritable(place: str, error: OSError) -> Failed:
    """Returns the error of a disk that does not take a file."""
    reason = error.strerror or type(error).__name__
    hint = "free some space, or correct the rights, and run this again: nothing was changed"
    problem = "the plugin cannot be written"
    return Failed(Diagnostic("plugins.unwritable", problem, place, reason, hint))


def _client(url: httpx.URL) -> httpx.Client:
    auth: httpx.Auth | None = None
    netrc = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    if not url.userinfo and netrc.is_file():
        auth = httpx.NetRCAuth(str(netrc))
    return httpx.Client(
        auth=auth,
        follow_redirects=True,
        timeout=_ANSWER_S,
        verify=ssl.create_default_context(),
        event_hooks={"request": [_refuse_plain]},
        # Of an archive the bytes count, not what a server compresses besides
        headers={"Accept-Encoding": "identity"},
        trust_env=not is_local(url.host),
    )


def _refuse_plain(request: httpx.Request) -> None:
    """Raises UnsupportedProtocol for a redirect that leaves https."""
    if request.url.scheme != "https" and not is_local(request.url.host):
        raise httpx.UnsupportedProtocol("not https")


def _not_downloaded(source: str, reason: str, hint: str = _DOWNLOAD_HINT) -> Unreachable:
    address = str(httpx.URL(source).copy_with(userinfo=b"", query=None))
    return Unreachable(
        Diagnostic("plugins.download", f"{address} was not downloaded", why=reason, hint=hint)
    )
