"""Finds the Java plugins of a worker, and asks for their keys and the validation of configs.

They are scanned once, by a JVM, and the list is kept in the cache folder for the same files: no JVM
starts while nothing is asked that the list does not answer. A worker whose plugin.path has no jar
has no Java plugins and starts no JVM.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import orjson

from connect_runtime.api import ConnectorError
from connect_runtime.engine import java_loggers
from connect_runtime.engine.jvm import Fields, JvmEnded, PluginJvm
from connect_runtime.engine.renewed_jvm import RenewedJvm
from connect_runtime.files import replace_file
from connect_runtime.java.scalars import java_list
from connect_runtime.kafka.jars import cache_folder
from connect_runtime.waiting import TakesTooLong
from connect_specs.diagnostics import ConnectError
from connect_specs.plugin_definitions import SUFFIXES
from connect_specs.secrets import secrets_in

_log = logging.getLogger(__name__)

# As a request in Apache's worker
_CALL_S: Final = 90.0
# After so long without a question the JVM ends
_IDLE_S: Final = 60.0
_SCAN_AGAIN_S: Final = 30.0
_CLASS_PATH: Final = "classpath"
_BY_MANIFEST: Final = "service_load"
_SERVICES: Final = "META-INF/services/org.apache.kafka."


@dataclass(frozen=True, slots=True)
class JavaPlugin:
    """A Java class that a config may name. `location` is its folder or jar; `has_manifest`: that
    names it for ServiceLoader, so no class need be looked at to find it."""

    class_name: str
    kind: str
    version: str
    location: str
    has_manifest: bool = True

    @property
    def names(self) -> frozenset[str]:
        """Returns the names by which a config finds it: its own and the short ones."""
        if "$" in self.class_name:
            return frozenset({self.class_name})
        simple = self.class_name.rpartition(".")[2]
        return frozenset({self.class_name, simple, simple.removesuffix(SUFFIXES[self.kind])})


def _settings(plugins: Sequence[JavaPlugin]) -> Mapping[str, str]:
    folders = {p.location: None for p in plugins if p.location != _CLASS_PATH}
    have_manifests = all(p.has_manifest for p in plugins if p.location != _CLASS_PATH)
    discovery = {"plugin.discovery": _BY_MANIFEST} if have_manifests else {}
    return {"plugin.path": str(_linked(sorted(folders))), **discovery}


def _linked(places: Sequence[str]) -> Path:
    """Returns a folder that holds these places and no others: what lies in an entry of plugin.path
    is a plugin each."""
    key = hashlib.sha256(orjson.dumps(places)).hexdigest()[:24]
    folder = cache_folder() / "java-plugins" / key
    folder.mkdir(parents=True, exist_ok=True)
    for number, place in enumerate(places):
        link = folder / f"{number}-{Path(place).name}"
        with suppress(FileExistsError):
            link.symlink_to(place)
    return folder


class _Manifests:
    """The classes that the jars of a place name for ServiceLoader."""

    def __init__(self) -> None:
        self._classes: dict[str, frozenset[str]] = {}

    def name(self, location: str, class_name: str) -> bool:
        """Returns whether a jar of the place names the class."""
        if location not in self._classes:
            self._classes[location] = frozenset(_services(Path(location)))
        return class_name in self._classes[location]


def _services(place: Path) -> Iterator[str]:
    jars = [place] if place.is_file() else sorted(place.rglob("*.jar"))
    for jar in jars:
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith(_SERVICES):
                    lines = archive.read(name).decode(errors="replace").splitlines()
                    yield from (line.partition("#")[0].strip() for line in lines)


def has_java_plugins(worker: Mapping[str, str]) -> bool:
    """Returns whether there is a jar on `plugin.path`: as an entry, or one or two folders deep."""
    return next(_jars(worker), None) is not None


def _jars(worker: Mapping[str, str]) -> Iterator[Path]:
    for entry in java_list(worker.get("plugin.path", "")):
        place = Path(entry).absolute()
        if place.suffix == ".jar" and place.is_file():
            yield place
        elif place.is_dir():
            for root, folders, files in os.walk(place, followlinks=True):
                folders.sort()
                yield from (Path(root, file) for file in sorted(files) if file.endswith(".jar"))


class JavaCatalog:
    """The Java plugins of a worker with these properties. Thread-safe."""

    def __init__(self, worker: Mapping[str, str], worker_id: str) -> None:
        self._worker = worker
        self._worker_id = worker_id
        self._jvm = RenewedJvm(self._new_jvm)
        self._used_at = 0.0
        self._definitions: dict[tuple[str, str | None], list[Fields]] = {}
        self._plugins: tuple[JavaPlugin, ...] = ()
        self._closed = threading.Event()

    def find(self) -> None:
        """Finds the plugins, which takes seconds unless their files are known. Raises Failed and
        JarsError without Java or Connect's jars, JavaError, JvmEnded and TakesTooLong."""
        self._plugins = tuple(JavaPlugin(*row) for row in self._rows())

    def scan(self) -> bool:
        """Finds the plugins. Returns whether it did; else the log has the reason."""
        try:
            self.find()
        except (ConnectError, ConnectorError, TakesTooLong, OSError) as error:
            _log.error("Java plugins cannot be used: %s", str(error) or "their scan takes too long")
            return False
        return True

    def scan_until_done(self) -> None:
        """Finds the plugins; after a failure in the background, until it succeeds."""
        if not self.scan():
            threading.Thread(target=self._scan_again, name="java-plugins", daemon=True).start()

    def _scan_again(self) -> None:
        while not self._closed.wait(_SCAN_AGAIN_S) and not self.scan():
            pass

    @property
    def plugins(self) -> tuple[JavaPlugin, ...]:
        """Returns the plugins that were found, in the order of Apache's worker."""
        return self._plugins

    def connector(self, name: str) -> JavaPlugin | None:
        """Returns the newest version of a connector of this name or alias; None: there is none."""
        matches = [
            plugin
            for plugin in self.plugins
            if plugin.kind in ("source", "sink") and name in plugin.names
        ]
        return matches[-1] if matches else None

    def definition(self, name: str, version: str | None = None) -> list[Fields]:
        """Returns the keys of a plugin as REST shows them. Raises JavaError."""
        key = name, version
        if key not in self._definitions:
            self._definitions[key] = self._ask("definition", plugin=name, version=version)
        return self._definitions[key]

    def validate(self, config: Mapping[str, str | None]) -> Fields:
        """Returns Apache's answer to a validation of the config. Raises JavaError."""
        texts = {key: value for key, value in config.items() if value is not None}
        self.jvm().hide(secrets_in(texts))
        answer: Fields = self._ask("validate", config=dict(config))
        return answer

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Any]]
    ) -> bool:
        """Asks a connector whether its offsets may be changed: pairs of a partition and its offset,
        which is null for a reset. Returns whether it knows. Raises JavaError."""
        return bool(self._ask("alter-offsets", config=dict(config), offsets=list(offsets)))

    def settings_of(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """Returns the properties with which a JVM finds the classes that a connector's config and
        the worker name, and scans no other folder."""
        class_names = {
            value.strip()
            for key, value in {**self._worker, **config}.items()
            if key.endswith((".class", ".converter", ".type"))
        }
        used = [plugin for plugin in self.plugins if plugin.names & class_names]
        return _settings(used)

    def settings_of_all(self) -> Mapping[str, str]:
        """Returns the properties with which a JVM finds all plugins without looking at each class,
        if they have manifests."""
        every = [plugin for plugin in self.plugins if plugin.location != _CLASS_PATH]
        return {} if _settings(every).get("plugin.discovery") != _BY_MANIFEST else _settings(every)

    def redact(self, text: str) -> str:
        """Returns the text without values that the JVM has resolved."""
        jvm = self._jvm.current
        return text if jvm is None else jvm.redact(text)

    def close(self) -> None:
        """Ends the JVM."""
        self._closed.set()
        self._jvm.close()

    # --- the list ---

    def _rows(self) -> list[list[Any]]:
        file = cache_folder() / "java-plugins" / f"{self._key()}.json"
        try:
            rows: list[list[Any]] = orjson.loads(file.read_bytes())
        except (OSError, ValueError):
            began = time.monotonic()
            plugins = self._ask("plugins")
            _log.info("Java plugins were scanned in %.1f s", time.monotonic() - began)
            manifests = _Manifests()
            rows = [
                [
                    *(row[column] for column in ("class", "type", "version")),
                    location := unquote(row["location"].removeprefix("file:")).rstrip("/"),
                    manifests.name(location, row["class"]),
                ]
                for row in plugins
            ]
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, orjson.dumps(rows))
        return rows

    def _key(self) -> str:
        """Returns a key of the class path and of the files on plugin.path, by their names, sizes
        and times."""
        files = [
            (str(jar), (stat := jar.stat()).st_size, stat.st_mtime_ns)
            for jar in _jars(self._worker)
        ]
        settings = [self._worker.get(key) for key in ("plugin.path", "plugin.discovery")]
        further = os.environ.get("CLASSPATH")
        return hashlib.sha256(orjson.dumps([settings, further, files])).hexdigest()[:24]

    # --- the JVM ---

    def _ask(self, call: str, **arguments: Any) -> Any:
        jvm = self.jvm()
        try:
            return jvm.call(call, _CALL_S, **arguments)
        except JvmEnded:
            # it may have ended for another call, or for want of one
            self._jvm.forget(jvm)
            return self.jvm().call(call, _CALL_S, **arguments)

    def jvm(self) -> PluginJvm:
        """Returns the JVM, which ends when nothing has asked for it for a while. Raises Failed and
        JarsError."""
        self._used_at = time.monotonic()
        return self._jvm.get()

    def _new_jvm(self) -> PluginJvm:
        settings = self.settings_of_all() if self._plugins else {}
        jvm = PluginJvm({**self._worker, **settings}, self._worker_id)
        java_loggers.set_levels(jvm)
        threading.Thread(
            target=self._end_idle, args=(jvm,), name="java-catalog", daemon=True
        ).start()
        return jvm

    def _end_idle(self, jvm: PluginJvm) -> None:
        while not self._closed.wait(_IDLE_S / 4) and self._jvm.current is jvm:
            if time.monotonic() - self._used_at > _IDLE_S + _CALL_S:
                self._jvm.forget(jvm)
                jvm.end()


_used: list[JavaCatalog] = []


def use_catalog(catalog: JavaCatalog | None) -> None:
    """Makes this the catalog of the process; None: it has no Java plugins."""
    _used[:] = [] if catalog is None else [catalog]


@contextmanager
def java_plugins(worker: Mapping[str, str], worker_id: str) -> Iterator[None]:
    """Makes the Java plugins on this worker's `plugin.path` usable in the process, for the
    context. Without a jar there, nothing starts."""
    if not has_java_plugins(worker):
        yield
        return
    catalog = JavaCatalog(worker, worker_id)
    use_catalog(catalog)
    try:
        catalog.scan_until_done()
        yield
    finally:
        use_catalog(None)
        catalog.close()


def used_catalog() -> JavaCatalog | None:
    """Returns the catalog of the process."""
    return _used[0] if _used else None
