"""The connectors' plugin objects: made, started, asked for task configs and stopped off the thread.

A plugin may block or throw wherever it likes; only its events reach the herder. One call at a time
for each instance.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Literal, cast

from connect_runtime import plugins
from connect_runtime.api import (
    OffsetStorageReader,
    SinkConnector,
    SourceConnector,
    SourceOffset,
    SourcePartition,
)
from connect_runtime.config_providers.registry import ConfigProviders
from connect_runtime.config_providers.resolved import Resolved
from connect_runtime.herder.events import (
    Event,
    InstanceFailed,
    InstanceStarted,
    InstanceStopped,
)
from connect_runtime.herder.source_offsets import SourceOffsets
from connect_runtime.plugins import Plugin
from connect_runtime.storage import offsets_topic
from connect_runtime.traces import trace_text

_log = logging.getLogger(__name__)

_THREADS = 16


@dataclass(frozen=True, slots=True)
class _Live:
    """A started connector, with the config that it was started with."""

    plugin: Plugin
    connector: SourceConnector | SinkConnector
    config: Resolved


class Instances:
    """Runs plugin objects by name and serial number; `report` receives what came of it. `pool` is
    where their methods run, threads of its own by default."""

    def __init__(
        self,
        report: Callable[[Event], None],
        sources: SourceOffsets,
        providers: ConfigProviders,
        pool: Executor | None = None,
    ) -> None:
        self._report = report
        self._sources = sources
        self._providers = providers
        self._salt = secrets.token_bytes(32)
        self._pool = pool or ThreadPoolExecutor(_THREADS, thread_name_prefix="connector")
        # Those that are starting, and whether they were asked to stop meanwhile.
        self._starting: dict[tuple[str, int], bool] = {}
        self._live: dict[tuple[str, int], _Live] = {}
        self._lock = threading.Lock()

    def start(self, name: str, serial: int, config: Mapping[str, str]) -> None:
        """Reports InstanceStarted or InstanceFailed later."""
        with self._lock:
            self._starting[name, serial] = False
        self._pool.submit(self._start, name, serial, dict(config))

    def stop(self, name: str, serial: int) -> None:
        """Reports InstanceStopped later, whatever the plugin's stop does."""
        self._pool.submit(self._stop, name, serial)

    def close(self, timeout_s: float) -> None:
        """Stops all of them; those that take longer than `timeout_s` are left behind."""
        waiting = [self._pool.submit(self._stop, name, serial) for name, serial in list(self._live)]
        _, late = wait(waiting, timeout_s)
        if late:
            _log.warning("%d connectors did not stop within %s s", len(late), timeout_s)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self, name: str, serial: int, config: dict[str, str]) -> None:
        version: str | None = None
        resolved = Resolved(config, config, {})
        try:
            resolved = self._providers.look_up(config)
            resolved.check()
            plugin = plugins.connector(resolved.config.get("connector.class", ""))
            version = plugin.version
            connector = cast(SourceConnector | SinkConnector, plugin.cls())
            context = _Context(
                reconfigure=lambda: self._reconfigure(name, serial),
                fail=lambda error: self._fail(name, serial, error, version, resolved),
                reader=_Reader(name, self._sources),
            )
            connector.initialize(context)
            connector.start(dict(resolved.config))
            live = _Live(plugin, connector, resolved)
            with self._lock:
                unwanted = self._starting[name, serial]
                if not unwanted:
                    self._live[name, serial] = live
            if unwanted:
                # Whoever asked was told at once: a start may hang for ever.
                self._stop_plugin(name, live)
                return
            self._ask_tasks(name, serial)
        except Exception as error:
            self._fail(name, serial, error, version, resolved)
        finally:
            with self._lock:
                del self._starting[name, serial]

    def _fail(
        self, name: str, serial: int, error: Exception, version: str | None, config: Resolved
    ) -> None:
        trace = trace_text(error, self._providers.redactor(config))
        self._report(InstanceFailed(name, serial, trace, version, config.reload_in_s))

    def _ask_tasks(self, name: str, serial: int) -> None:
        with self._lock:
            live = self._live.get((name, serial))
        if live is None:
            return
        configs = task_configs(name, live.connector, live.config)
        kind: Literal["sink", "source"] = "sink" if live.plugin.kind == "sink" else "source"
        self._report(
            InstanceStarted(
                name,
                serial,
                kind,
                live.plugin.version,
                configs,
                live.config.fingerprint(self._salt),
                live.config.reload_in_s,
            )
        )

    def _reconfigure(self, name: str, serial: int) -> None:
        def again() -> None:
            with self._lock:
                live = self._live.get((name, serial))
            try:
                self._ask_tasks(name, serial)
            except Exception as error:
                if live is not None:
                    self._fail(name, serial, error, live.plugin.version, live.config)

        self._pool.submit(again)

    def _stop(self, name: str, serial: int) -> None:
        with self._lock:
            live = self._live.pop((name, serial), None)
            if (name, serial) in self._starting:
                self._starting[name, serial] = True
        if live is not None:
            self._stop_plugin(name, live)
        self._report(InstanceStopped(name, serial))

    def _stop_plugin(self, name: str, live: _Live) -> None:
        try:
            live.connector.stop()
        except Exception as error:
            # A stopped connector is STOPPED, whatever its stop method thought of it (KIP-875).
            trace = trace_text(error, self._providers.redactor(live.config))
            _log.error("Connector %s threw while it was stopped: %s", name, trace)


class _Context:
    """What a connector may ask of the runtime; only sources use the reader."""

    def __init__(
        self,
        reconfigure: Callable[[], None],
        fail: Callable[[Exception], None],
        reader: OffsetStorageReader,
    ) -> None:
        self._reconfigure = reconfigure
        self._fail = fail
        self.offset_storage_reader = reader

    def request_task_reconfiguration(self) -> None:
        self._reconfigure()

    def raise_error(self, error: Exception) -> None:
        self._fail(error)


class _Reader:
    """A connector's own committed source offsets."""

    def __init__(self, name: str, sources: SourceOffsets) -> None:
        self._name = name
        self._sources = sources

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        return self.offsets([partition])[0]

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        snapshot = self._sources.read()
        return [offsets_topic.offset_of(snapshot, self._name, each) for each in partitions]


def task_configs(
    name: str,
    connector: SourceConnector | SinkConnector,
    config: Resolved,
) -> tuple[Mapping[str, str], ...]:
    """The connector's answer as the config topic holds it: with `task.class`, and the topics of a
    sink, and references in the place of what config providers gave. Raises ValueError when there
    are more than `tasks.max` allows."""
    given = config.config
    most = int(given.get("tasks.max", "1"))
    found = connector.task_configs(most)
    if len(found) > most and given.get("tasks.max.enforce", "true").lower() != "false":
        raise ValueError(
            f"The connector {name} has generated {len(found)} tasks, which is greater than {most}, "
            "the maximum number of tasks it is configured to create. This behaviour should be "
            "considered a bug and is disallowed. If necessary, it can be permitted by "
            "reconfiguring the connector with 'tasks.max.enforce' set to false; however, this "
            "option will be removed in a future release of Kafka Connect."
        )
    added = {key: config.raw[key] for key in ("topics", "topics.regex") if key in config.raw}
    task_class = plugins.task_class_name(connector.task_class())
    return tuple({**config.task_config(task), "task.class": task_class, **added} for task in found)
