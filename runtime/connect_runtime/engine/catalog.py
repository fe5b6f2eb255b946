"""Holds the Java plugins of a worker, and asks them for their keys and the validation of configs.

They are scanned once, and no JVM starts while nothing is asked that the scan does not answer. A
worker whose plugin.path has no jar has no Java plugins and starts no JVM.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from connect_runtime.api import ConfigError, ConnectorError
from connect_runtime.config_providers.references import (
    PROVIDERS,
    PROVIDERS_OF_JVM,
    DeclaredProvider,
    declared_providers,
)
from connect_runtime.engine import java_loggers, scan
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_connection import Fields
from connect_runtime.engine.jvm_on_demand import SLACK_S, JvmOnDemand
from connect_runtime.engine.plugin_path import has_java_plugins
from connect_runtime.engine.scan import JavaPlugin, Scan, Unscannable
from connect_runtime.plugins.versions import InvalidVersionRange, required_versions
from connect_runtime.traces import JavaError
from connect_runtime.waiting import TakesTooLong
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed
from connect_specs.secrets import secrets_in

if TYPE_CHECKING:
    from connect_runtime.config_providers.registry import ConfigProviders

_log = logging.getLogger(__name__)

# The JVM itself gives a validation up
TIMEOUT: Final = "java.util.concurrent.TimeoutException"
_SCAN_AGAIN_S: Final = 30.0
_CONNECTORS: Final = ("sink", "source")
# Of no config of a connector
_OF_WORKERS: Final = ("rest_extension", "connector_client_config_override_policy")
# In place of a Python class in the worker's file, which is no default for Java connectors
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CONVERTERS: Final = {
    "key.converter": "converter",
    "value.converter": "converter",
    "header.converter": "header_converter",
}


@dataclass(frozen=True, slots=True)
class JavaValidation:
    """Apache's answer to a validation, and what removes resolved values from its texts."""

    answer: Fields
    redact: Callable[[str], str]


class JavaCatalog:
    """The Java plugins of a worker with these properties. `providers` are the worker's, for
    references in its file; `anew` as in `scan`. Thread-safe."""

    def __init__(
        self,
        worker: Mapping[str, str],
        worker_id: str,
        providers: ConfigProviders | None = None,
        *,
        anew: bool = False,
    ) -> None:
        self.worker = worker
        self._providers = providers
        self._anew = anew
        self._worker_id = worker_id
        self._jvm = JvmOnDemand(self._start)
        self._definitions: dict[tuple[str, str | None], list[Fields]] = {}
        self._scan = Scan((), ())
        self._failure: str | None = None
        self._closed = threading.Event()

    def find(self) -> None:
        """Finds the plugins, which takes seconds unless their files are known. Raises
        Unscannable where Apache's worker would not start, Failed without Java, JarsError, JvmEnded
        and TakesTooLong."""
        self._scan = scan.scan(self.worker, anew=self._anew)

    def scan(self) -> bool:
        """Finds the plugins. Returns whether it did; else the log has the reason. Raises
        Unscannable as `find`."""
        try:
            self.find()
        except Unscannable:
            raise
        except (ConnectError, ConnectorError, TakesTooLong, OSError) as error:
            why = str(error) or "their scan takes too long"
            self._failure = f"Java plugins cannot be used: {why}"
            _log.error("%s", self._failure)
            return False
        self._failure = None
        for problem in self._scan.problems:
            _log.error("%s", problem)
        return True

    def scan_until_done(self) -> bool:
        """Finds the plugins; after a failure in the background, until it succeeds. Returns whether
        it did at once. Raises Unscannable as `scan`."""
        done = self.scan()
        if not done:
            threading.Thread(target=self._scan_again, name="java-plugins", daemon=True).start()
        return done

    def _scan_again(self) -> None:
        try:
            while not self._closed.wait(_SCAN_AGAIN_S) and not self.scan():
                pass
        except Unscannable as error:
            self._failure = f"Java plugins cannot be used: {error}"
            _log.error("%s", self._failure)

    @property
    def plugins(self) -> tuple[JavaPlugin, ...]:
        """Returns the plugins of connectors that were found, in the order of Apache's worker."""
        return tuple(plugin for plugin in self._scan.plugins if plugin.kind not in _OF_WORKERS)

    @property
    def problems(self) -> tuple[str, ...]:
        """Returns a sentence for each file or class that cannot be used, or why none can."""
        return self._scan.problems if self._failure is None else (self._failure,)

    def connector(self, name: str) -> JavaPlugin | None:
        """Returns the newest version of a connector of this name; None: there is none. Of a short
        name of several, any: validation refuses it."""
        exact = [p for p in self.plugins if p.kind in _CONNECTORS and p.class_name == name]
        matches = exact or [p for p in self.plugins if p.kind in _CONNECTORS and name in p.names]
        return matches[-1] if matches else None

    def matching(self, name: str, kinds: Collection[str] = ()) -> tuple[JavaPlugin, ...]:
        """Returns the versions of the class that a name means, the oldest first; of all kinds if
        `kinds` is empty. A short name of several classes means none."""
        matches = [p for p in self.plugins if name in p.names and (not kinds or p.kind in kinds)]
        exact = tuple(plugin for plugin in matches if plugin.class_name == name)
        unique = len({plugin.class_name for plugin in matches}) == 1
        return exact or (tuple(matches) if unique else ())

    def versions(self, class_name: str) -> tuple[str, ...]:
        """Returns the versions of a class, the oldest first."""
        return tuple(plugin.version for plugin in self.matching(class_name))

    def definition(self, class_name: str, version: str | None = None) -> list[Fields]:
        """Returns the keys of a plugin as REST shows them. Raises JavaError, JvmEnded,
        TakesTooLong."""
        key = class_name, version
        if key not in self._definitions:
            self._definitions[key] = self._jvm.ask(
                lambda jvm, left_s: jvm.call(
                    "definition", left_s, plugin=class_name, version=version
                )
            )
        return self._definitions[key]

    def validate(self, config: Mapping[str, str | None]) -> JavaValidation:
        """Returns Apache's answer to a validation of the config. Raises JavaError, JvmEnded,
        TakesTooLong."""
        texts = {key: value for key, value in config.items() if value is not None}

        def ask(jvm: PluginJvm, left_s: float) -> JavaValidation:
            jvm.hide(secrets_in(texts))
            left_ms = int((left_s - SLACK_S) * 1000)
            try:
                answer = jvm.call("validate", left_s, config=dict(config), timeoutMs=left_ms)
            except JavaError as error:
                if error.type == TIMEOUT:
                    self._jvm.retire(jvm)
                raise
            if self._lacks(texts):
                # asked again, Apache's herder answers with a NullPointerException
                self._jvm.retire(jvm)
            return JavaValidation(answer, jvm.redact)

        return self._jvm.ask(ask)

    def _lacks(self, config: Mapping[str, str]) -> bool:
        """Returns whether no version of the connector is one that its config allows."""
        versions = self.versions(config.get("connector.class", ""))
        try:
            required = required_versions(config.get("connector.plugin.version"))
        except InvalidVersionRange:
            return False
        return required is not None and not any(version in required for version in versions)

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Any]]
    ) -> bool:
        """Asks a connector whether its offsets may be changed: pairs of a partition and its offset,
        which is null for a reset. Returns whether it knows. Raises JavaError, JvmEnded,
        TakesTooLong."""
        return self._jvm.ask(
            lambda jvm, left_s: bool(
                jvm.call("alter-offsets", left_s, config=dict(config), offsets=list(offsets))
            )
        )

    def settings_of(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """Returns the properties with which a JVM finds the classes that a connector's config and
        the worker name, and loads no other folder: of each the newest version, which is the last,
        unless they ask for one. Plugins may bundle Connect's own converters."""
        named = {**self.worker, **config}
        class_names = {
            value.strip()
            for key, value in named.items()
            if key.endswith((".class", ".converter", ".type"))
        }
        plugins = [plugin for plugin in self.plugins if plugin.names & class_names]
        if not any(key.endswith("plugin.version") for key in named):
            newest = {(plugin.class_name, plugin.kind): plugin for plugin in plugins}
            plugins = [*newest.values()]
        return self._settings(plugins)

    def settings_of_all(self) -> Mapping[str, str]:
        """Returns the properties with which a JVM finds all plugins; none before they are scanned:
        it scans them itself."""
        return self._settings(self._scan.plugins) if self._scan.plugins else {}

    def _settings(self, plugins: Sequence[JavaPlugin]) -> Mapping[str, str]:
        classes = {
            key: _BYTES
            for key, kind in _CONVERTERS.items()
            if self.worker.get(key) and not self.matching(self.worker[key], (kind,))
        }
        providers = ",".join(provider.alias for provider in self.providers)
        used = {PROVIDERS_OF_JVM: providers} if PROVIDERS in self.worker else {}
        return {**scan.settings(self.worker, self._scan.plugins, plugins), **classes, **used}

    @property
    def providers(self) -> tuple[DeclaredProvider, ...]:
        """Returns the worker's config providers that are Java classes, Kafka's own among them."""
        declared = declared_providers(self.worker)
        kinds = (scan.PROVIDER,)
        return tuple(entry for entry in declared if self.matching(entry.class_name, kinds))

    def _start(self) -> PluginJvm:
        return self.new_jvm(self.worker)

    def new_jvm(self, worker: Mapping[str, str], **uses: Any) -> PluginJvm:
        """Starts a JVM that finds all plugins of a worker; the caller has to end it. `uses` are
        further arguments of PluginJvm. References to Python providers in the worker's file are
        resolved here. Raises Failed, also if they cannot be, and ArtifactsError."""
        properties: Mapping[str, str] = {**worker, **self.settings_of_all()}
        values: Collection[str] = ()
        if self._providers is not None:
            try:
                resolved = self._providers.for_jvm(properties)
            except ConfigError as error:
                raise Failed(Diagnostic("engine.worker", str(error))) from None
            properties, values = resolved.config, resolved.provided.values()
        jvm = PluginJvm(properties, self._worker_id, **uses)
        jvm.hide(values)
        java_loggers.set_levels(jvm)
        return jvm

    def close(self) -> None:
        """Ends the JVM."""
        self._closed.set()
        self._jvm.close()


_used: list[JavaCatalog] = []


def use_catalog(catalog: JavaCatalog | None) -> None:
    """Makes this the catalog of the process; None: it has no Java plugins."""
    _used[:] = [] if catalog is None else [catalog]


@contextmanager
def java_plugins(
    worker: Mapping[str, str],
    worker_id: str,
    providers: ConfigProviders | None = None,
    *,
    anew: bool = False,
) -> Iterator[None]:
    """Makes the Java plugins on this worker's `plugin.path` usable in the process, for the
    context; `anew` as in `scan`. Without a jar there, nothing starts."""
    if not has_java_plugins(worker):
        yield
        return
    catalog = JavaCatalog(worker, worker_id, providers, anew=anew)
    use_catalog(catalog)
    try:
        catalog.scan_until_done()
        yield
    finally:
        use_catalog(None)
        catalog.close()


def plugin_problems() -> tuple[str, ...]:
    """Returns a sentence for each file or class on `plugin.path` that this process cannot use."""
    return _used[0].problems if _used else ()


def used_catalog() -> JavaCatalog | None:
    """Returns the catalog of the process."""
    return _used[0] if _used else None
