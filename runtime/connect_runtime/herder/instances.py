"""Creates, starts, queries and stops the connectors' plugin objects off the herder's thread.

A plugin may block or throw anywhere; only its events reach the herder. One thread at a time asks an
instance for task configs, so an earlier answer never overtakes a later one.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias, TypeVar, cast

import orjson

from connect_runtime.api import (
    OffsetStorageReader,
    SinkConnector,
    SourceConnector,
    SourceOffset,
    SourcePartition,
)
from connect_runtime.config_providers.registry import ConfigProviders, Resolved
from connect_runtime.engine.catalog import used_catalog
from connect_runtime.engine.java_connectors import JavaConnectors
from connect_runtime.engine.jvm_connection import JvmEnded
from connect_runtime.herder.launcher import WorkerSettings
from connect_runtime.herder.runs import (
    Event,
    Identified,
    InstanceFailed,
    InstanceStarted,
    InstanceStopped,
    Kind,
)
from connect_runtime.herder.source_offsets import SourceOffsets
from connect_runtime.kafka.errors import UNREACHABLE
from connect_runtime.plugins import registry, sides
from connect_runtime.plugins.registry import Plugin
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.settings.jvm_options import shares_jvm
from connect_runtime.storage import offsets_topic
from connect_runtime.traces import JavaError, trace_text
from connect_runtime.waiting import TakesTooLong
from connect_specs.diagnostics import Diagnostic, Unreachable
from connect_specs.names import task_transactional_id

_log = logging.getLogger(__name__)

T = TypeVar("T")

_RETRY_S = 0.1
_AT_ONCE = 16
_LONG_S = 5.0
_LOOK_S = 0.5
# Of an answer without an end, so many are looked at, and of one whose number nothing limits
_MOST_TASKS = 100_000

_Key: TypeAlias = tuple[str, int]


@dataclass(slots=True)
class _Live:
    """A started plugin object with its resolved config. `asking`: it is being asked for task
    configs; `repeat`: another request came during that."""

    plugin: Plugin
    connector: SourceConnector | SinkConnector
    config: Resolved
    asking: bool = False
    repeat: bool = False


class Instances:
    """Runs plugin objects by name and serial number and reports results to `report`. `pool` runs
    their methods."""

    def __init__(
        self,
        report: Callable[[Event], None],
        sources: SourceOffsets,
        providers: ConfigProviders,
        pool: Executor,
        settings: WorkerSettings,
    ) -> None:
        self._report = report
        self._sources = sources
        self._providers = providers
        self._salt = secrets.token_bytes(32)
        self._pool = pool
        self._group_id = settings.group_id
        # Instances that are starting; True for those that were asked to stop during that.
        self._starting: dict[_Key, bool] = {}
        self._live: dict[_Key, _Live] = {}
        self._lock = threading.Lock()
        self._java = JavaConnectors(
            report, settings.properties, settings.worker_id, pool, self._offset_rows
        )

    def identify(self, class_name: str) -> None:
        """Reports Identified later, because loading a class may run third-party code."""
        self._pool.submit(lambda: self._report(_identified(class_name)))

    def start(self, name: str, serial: int, config: Mapping[str, str]) -> None:
        """Reports InstanceStarted or InstanceFailed later."""
        with self._lock:
            self._starting[name, serial] = False
        self._pool.submit(self._start, name, serial, dict(config))

    def stop(self, name: str, serial: int) -> None:
        """Reports InstanceStopped later, even if the plugin's stop fails."""
        self._pool.submit(self._stop, name, serial)

    def fence(self, name: str, config: Mapping[str, str], tasks: Iterable[int]) -> None:
        """Fences the producers of a source's tasks. Raises ConnectError, ConfigError, JavaError."""
        if not sides.is_java(config):
            self._sources.fence(name, config, tasks)
            return
        ids = [task_transactional_id(self._group_id, name, task) for task in tasks]
        try:
            self._java.fence(config, ids)
        except (JvmEnded, TakesTooLong, JavaError) as error:
            if isinstance(error, JavaError) and not error.type.endswith(".TimeoutException"):
                raise
            problem = f"The producers of {name} were not fenced"
            raise Unreachable(Diagnostic(UNREACHABLE, problem, why=str(error))) from error

    def close(self, timeout_s: float) -> None:
        """Stops all instances; those that take longer than `timeout_s` are abandoned."""
        until = time.monotonic() + timeout_s
        waiting = [self._pool.submit(self._stop, name, serial) for name, serial in list(self._live)]
        _, late = wait(waiting, timeout_s)
        if late:
            _log.warning("%d connectors did not stop within %s s", len(late), timeout_s)
        self._java.close(max(0.0, until - time.monotonic()))
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self, name: str, serial: int, config: dict[str, str]) -> None:
        version: str | None = None
        resolved = Resolved(config, config, {})
        java = sides.java_connector(config)
        if java is not None:
            if java.reason:
                _log.info(
                    "Connector %s runs in a JVM: %s", name, java.reason, extra={"connector": name}
                )
            self._java.start(name, serial, config)
            with self._lock:
                unwanted = self._starting.pop((name, serial))
            if unwanted:
                # the caller was told at once: a JVM may take its time to start
                self._java.stop(name, serial)
            return
        try:
            resolved = self._providers.look_up(config)
            resolved.check()
            plugin = registry.connector(resolved.config.get("connector.class", ""))
            version = plugin.version
            kind: Literal["sink", "source"] = "sink" if plugin.kind == "sink" else "source"
            clients = self._sources.clients(name, config, kind)
            clients.check()
            if kind == "source":
                self._sources.prepare(clients)
            connector = cast(SourceConnector | SinkConnector, plugin.cls())
            context = _Context(
                reconfigure=lambda: self.ask(name, serial),
                fail=lambda error: self._fail(name, serial, error, version, resolved),
                reader=_OwnOffsets(clients, self._sources),
            )
            connector.initialize(context)
            connector.start(dict(resolved.config))
            live = _Live(plugin, connector, resolved)
            with self._lock:
                unwanted = self._starting[name, serial]
                if not unwanted:
                    self._live[name, serial] = live
            if unwanted:
                # The caller was told at once: a start may hang forever.
                self._stop_plugin(name, live)
                return
            started = self._to_ask(name, serial)
            if started is not None:
                self._ask_tasks(name, serial, started)
        except BaseException as error:  # a plugin may also call sys.exit
            self._fail(name, serial, error, version, resolved)
        finally:
            with self._lock:
                del self._starting[name, serial]

    def _offset_rows(self, config: Mapping[str, str], keys: list[bytes]) -> list[bytes | None]:
        """Returns the values of rows of a connector's offsets, by their keys."""
        clients = self._sources.clients(config["name"], config, "source")
        reader = _OwnOffsets(clients, self._sources)
        subjects = [offsets_topic.subject(key) for key in keys]
        offsets = reader.offsets([{} if s is None else s[1] for s in subjects])
        return [None if offset is None else orjson.dumps(offset) for offset in offsets]

    def _fail(
        self, name: str, serial: int, error: BaseException, version: str | None, config: Resolved
    ) -> None:
        trace = trace_text(error, self._providers.redactor(config))
        self._report(InstanceFailed(name, serial, trace, version, config.reload_in_s))

    def ask(self, name: str, serial: int) -> None:
        """Asks for task configs soon. However often a plugin requests it, one call is in the pool,
        which all connectors share. Reports InstanceStarted or InstanceFailed later."""
        self._java.ask(name, serial)
        live = self._to_ask(name, serial)
        if live is not None:
            self._pool.submit(self._ask_tasks, name, serial, live)

    def _to_ask(self, name: str, serial: int) -> _Live | None:
        """Returns the instance to ask for task configs; None if it has not started, has stopped, or
        is being asked, and will be once more."""
        with self._lock:
            live = self._live.get((name, serial))
            if live is None:
                return None
            live.repeat = True
            if live.asking:
                return None
            live.asking = True
            return live

    def _ask_tasks(self, name: str, serial: int, live: _Live) -> None:
        """Asks for task configs until there is no further request for them."""
        pause_s = 0.0
        while True:
            with self._lock:
                live.asking = live.repeat and (name, serial) in self._live
                live.repeat = False
                if not live.asking:
                    return
            # a plugin that requests it in every answer must not keep a core busy
            time.sleep(pause_s)
            pause_s = _RETRY_S
            try:
                answer = live.connector.task_configs(_most(live.config))
            except BaseException as error:  # a plugin may also call sys.exit
                trace = trace_text(error, self._providers.redactor(live.config))
                text = "Connector %s threw when asked for task configs, and is asked again: %s"
                _log.error(text, name, trace, extra={"connector": name})
                self._report_started(name, serial, live, None, trace)
                continue
            try:
                configs = task_configs(name, live.connector, live.config, answer)
            except BaseException as error:
                self._fail(name, serial, error, live.plugin.version, live.config)
            else:
                self._report_started(name, serial, live, configs)

    def _report_started(
        self,
        name: str,
        serial: int,
        live: _Live,
        configs: tuple[Mapping[str, str], ...] | None,
        trace: str | None = None,
    ) -> None:
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
                trace,
            )
        )

    def _stop(self, name: str, serial: int) -> None:
        with self._lock:
            live = self._live.pop((name, serial), None)
            is_starting = (name, serial) in self._starting
            if is_starting:
                self._starting[name, serial] = True
        if live is not None:
            self._stop_plugin(name, live)
        if not is_starting:
            self._java.stop(name, serial)
        self._report(InstanceStopped(name, serial))

    def _stop_plugin(self, name: str, live: _Live) -> None:
        try:
            live.connector.stop()
        except BaseException as error:
            # A stopped connector is STOPPED even if its stop method throws (KIP-875).
            trace = trace_text(error, self._providers.redactor(live.config))
            text = "Connector %s threw while it was stopped: %s"
            _log.error(text, name, trace, extra={"connector": name})


class PluginCalls(Executor):
    """An executor that runs `at_once` calls at a time, not counting those that have run for
    `long_s` seconds."""

    def __init__(self, at_once: int = _AT_ONCE, long_s: float = _LONG_S) -> None:
        self._at_once = at_once
        self._long_s = long_s
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        # Start time of each counted call; long-running calls are removed.
        self._counted: dict[Future[Any], float] = {}
        self._closed = False
        self._watching = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Raises RuntimeError after `shutdown`."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._waiting.append((future, lambda: fn(*args, **kwargs)))
            self._begin()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accepts no more calls. Never waits, because a call may hang."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                while self._waiting:
                    self._waiting.popleft()[0].cancel()

    def _begin(self) -> None:
        """Starts queued calls up to the limit. The caller holds the lock."""
        while self._waiting and len(self._counted) < self._at_once:
            future, call = self._waiting.popleft()
            self._counted[future] = time.monotonic()
            threading.Thread(
                target=self._run, args=(future, call), name="plugin-call", daemon=True
            ).start()
        if self._waiting and not self._watching:
            self._watching = True
            threading.Thread(target=self._watch, name="plugin-calls", daemon=True).start()

    def _run(self, future: Future[Any], call: Callable[[], Any]) -> None:
        try:
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:  # the future's owner handles it
                    future.set_exception(error)
                else:
                    future.set_result(result)
        finally:
            with self._lock:
                self._counted.pop(future, None)
                self._begin()

    def _watch(self) -> None:
        """Starts queued calls beside calls that take long, until none is queued."""
        while True:
            time.sleep(min(_LOOK_S, self._long_s))
            with self._lock:
                now_s = time.monotonic()
                for future, began in list(self._counted.items()):
                    if now_s - began >= self._long_s:
                        del self._counted[future]
                self._begin()
                if not self._waiting:
                    self._watching = False
                    return


class _Context:
    """The context that a connector gets from the runtime; only sources use the reader."""

    def __init__(
        self,
        reconfigure: Callable[[], None],
        fail: Callable[[Exception], None],
        reader: OffsetStorageReader,
    ) -> None:
        self._reconfigure = reconfigure
        self._fail = fail
        self._failed = False
        self.offset_storage_reader = reader

    def request_task_reconfiguration(self) -> None:
        self._reconfigure()

    def raise_error(self, error: Exception) -> None:
        if not self._failed:  # a plugin that repeats it must not keep the herder busy
            self._failed = True
            self._fail(error)


class _OwnOffsets:
    """Reads a connector's own committed source offsets."""

    def __init__(self, clients: ConnectorClients, sources: SourceOffsets) -> None:
        self._clients = clients
        self._sources = sources

    def offset(self, partition: SourcePartition) -> SourceOffset | None:
        return self.offsets([partition])[0]

    def offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        merged = self._sources.read(self._clients).merged
        return [
            offsets_topic.offset_of(merged, self._clients.name, partition)
            for partition in partitions
        ]


class TooManyTasks(ValueError):
    """A connector has more tasks than its `tasks.max` allows."""


def check_task_count(name: str, count: int, config: Mapping[str, str]) -> None:
    """Raises TooManyTasks. A `tasks.max` that is a reference to a config provider is not looked
    up."""
    enforced = config.get("tasks.max.enforce", "true").lower() != "false"
    most = config.get("tasks.max", "1").strip()
    if enforced and most.isdecimal() and count > int(most):
        raise TooManyTasks(
            f"The connector {name} has generated {count} tasks, which is greater than {most}, "
            "the maximum number of tasks it is configured to create. This behaviour should be "
            "considered a bug and is disallowed. If necessary, it can be permitted by "
            "reconfiguring the connector with 'tasks.max.enforce' set to false; however, this "
            "option will be removed in a future release of Kafka Connect."
        )


def task_configs(
    name: str,
    connector: SourceConnector | SinkConnector,
    config: Resolved,
    answer: Iterable[Mapping[str, str]],
) -> tuple[Mapping[str, str], ...]:
    """Returns the connector's answer as the config topic holds it: with `task.class`, a sink's
    topics, and references in place of resolved values. Raises TooManyTasks for more than
    `tasks.max` configs, ValueError for values that are not text."""
    resolved, most = config.config, _most(config)
    # a generator may have no end
    answers = list(islice(answer, max(most, _MOST_TASKS) + 1))
    check_task_count(name, len(answers), resolved)
    if len(answers) > max(most, _MOST_TASKS):
        raise ValueError(f"The connector {name} has generated more than {_MOST_TASKS} tasks")
    added = {key: config.raw[key] for key in ("topics", "topics.regex") if key in config.raw}
    task_class = registry.task_class_name(connector.task_class())
    return tuple(
        {**config.task_config(_texts(number, task)), "task.class": task_class, **added}
        for number, task in enumerate(answers)
    )


def _most(config: Resolved) -> int:
    return int(config.config.get("tasks.max", "1"))


def _texts(number: int, config: Any) -> dict[str, str]:
    """Converts a task config for the config topic; keys without a value are left out, as when it is
    read back. Raises ValueError if a key or value is not text."""
    if not isinstance(config, Mapping):
        raise ValueError(f"Task config {number} is a {type(config).__name__}, not a mapping")
    texts: dict[str, str] = {}
    for key, value in config.items():
        for role, text in (("key", key), ("value", "" if value is None else value)):
            if not isinstance(text, str):
                kind = type(text).__name__
                raise ValueError(f"Task config {number}, {key!r}: its {role} is {kind}, not text")
            try:
                text.encode()
            except UnicodeEncodeError:
                problem = f"its {role} is not valid Unicode"
                raise ValueError(f"Task config {number}, {key!r}: {problem}") from None
        if value is not None:
            texts[key] = value
    return texts


def java_settings(config: Mapping[str, str]) -> Mapping[str, str] | None:
    """Returns the worker properties with which the JVM of a Java connector's tasks finds its
    classes, and those of all others that may share it; None for other connectors."""
    catalog = used_catalog()
    if catalog is None or not sides.is_java(config):
        return None
    shared = shares_jvm(catalog.worker, config)
    return catalog.settings_of_all() if shared else catalog.settings_of(config)


def _identified(class_name: str) -> Identified:
    try:
        plugin = registry.connector(class_name)
    except BaseException as error:  # importing it and asking its version run third-party code
        _log.warning("It is not known whether %s is a source or a sink: %s", class_name, error)
        return Identified(class_name, "unknown")
    kind: Kind = "sink" if plugin.kind == "sink" else "source"
    return Identified(class_name, kind, plugin.version)
