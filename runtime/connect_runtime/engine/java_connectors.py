"""Starts, asks and stops the objects of Java connectors, in a JVM that they share.

As in a worker of Apache's, they share it; unlike there, the runtime and the tasks go on if it ends.
Then all start again: those with a call in progress, one of which may have ended it, in a JVM of
their own. One that ends that, too, has failed.
"""

from __future__ import annotations

import base64
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from connect_runtime.config_providers.registry import SHORTEST_RELOAD_S
from connect_runtime.engine.catalog import JavaCatalog, used_catalog
from connect_runtime.engine.jvm import PluginJvm, call_timeout_s
from connect_runtime.engine.jvm_connection import SLOW_S, Fields, JvmEnded
from connect_runtime.engine.renewed_jvm import RenewedJvm
from connect_runtime.herder.runs import (
    Event,
    InstanceFailed,
    InstanceStarted,
)
from connect_runtime.storage.log import LogBlocked
from connect_runtime.traces import JavaError
from connect_runtime.waiting import TakesTooLong, retry_while
from connect_specs.diagnostics import Unreachable
from connect_specs.secrets import secrets_in

_log = logging.getLogger(__name__)

# Longer than the JVM waits for a connector's `stop`
_STOP_S: Final = 10.0
_FENCE_S: Final = 75.0
# A JVM that has ended is replaced after so long, then after 2 s, 4, ... up to a minute
_AGAIN_S: Final = 1.0
_AGAIN_MAX_S: Final = 60.0
# One that lived so long before its end begins with the shortest pause
_SETTLED_S: Final = 300.0
_REPEAT_S: Final = 0.1
# Errors of a read of offsets that ends well later
_PASSING: Final = (LogBlocked, Unreachable)
_OUT_OF_MEMORY: Final = "java.lang.OutOfMemoryError"

_Key: TypeAlias = tuple[str, int]


@dataclass(slots=True, eq=False)
class _JavaConnector:
    """A connector's object in a JVM. `alone`: it is the only one there; `starting`: its `start` has
    not returned; `asking`: it is being asked for task configs; `repeat`: and once more after that;
    `failed`: it is not started again; `lost`: its JVM has ended; `fingerprint` and `reload_in_s` as
    in InstanceStarted."""

    config: Mapping[str, str]
    jvm: PluginJvm
    alone: bool = False
    starting: bool = True
    asking: bool = False
    repeat: bool = False
    failed: bool = False
    lost: bool = False
    kind: Literal["source", "sink"] = "source"
    version: str | None = None
    fingerprint: str = ""
    reload_in_s: float | None = None


class JavaConnectors:
    """Java connectors by name and serial number. `report` gets their events; `pool` runs what may
    take long; `read_offsets` returns the values of rows of the offsets of the connector
    of a config, by their keys."""

    def __init__(
        self,
        report: Callable[[Event], None],
        worker: Mapping[str, str],
        worker_id: str,
        pool: Executor,
        read_offsets: Callable[[Mapping[str, str], list[bytes]], list[bytes | None]],
    ) -> None:
        self._report = report
        self._worker = worker
        self._worker_id = worker_id
        self._pool = pool
        self._read_offsets = read_offsets
        self._call_s = call_timeout_s(worker)
        self._salt = base64.b64encode(secrets.token_bytes(32)).decode()
        self._lock = threading.Lock()
        self._shared = RenewedJvm(self._new_jvm)
        self._ends = 0
        self._connectors: dict[_Key, _JavaConnector] = {}

    def start(self, name: str, serial: int, config: Mapping[str, str]) -> None:
        """Starts a connector; reports InstanceStarted or InstanceFailed later. Returns when its JVM
        knows it."""
        self._start(name, serial, config)

    def _start(
        self,
        name: str,
        serial: int,
        config: Mapping[str, str],
        *,
        alone: bool = False,
        replaces: _JavaConnector | None = None,
    ) -> None:
        """Starts a connector; not again, in place of `replaces`, if that was stopped by now."""
        key = name, serial
        with self._lock:
            if self._connectors.get(key) is not replaces:
                return
        try:
            jvm = self._new_jvm() if alone else self._shared.get()
        except Exception as error:  # there is no Java, or no Connect
            self._failed(key, str(error))
            return
        connector = _JavaConnector(config, jvm, alone)
        with self._lock:  # it took its time
            unwanted = self._connectors.get(key) is not replaces
            if not unwanted:
                self._connectors[key] = connector
        if unwanted:
            if alone:
                jvm.end()
            return
        try:
            jvm.hide(secrets_in(config))
            jvm.call(
                "start-connector",
                self._call_s,
                connector=name,
                serial=serial,
                config=dict(config),
                salt=self._salt,
            )
        except JvmEnded as error:
            self._later(self._restart, jvm, str(error))
        except JavaError as error:
            self._failed(key, error.trace)
        except TakesTooLong:
            self._failed(key, f"The connector was not created in {self._call_s:.0f} s")

    def ask(self, name: str, serial: int) -> None:
        """Asks for task configs soon, and reports the answer; logs what the connector throws
        instead, and is to be asked again. Returns at once. However often it is called, one call is
        in progress, so an earlier answer never overtakes a later one."""
        with self._lock:
            connector = self._connectors.get((name, serial))
            if connector is None or connector.starting:
                return
            connector.repeat = True
            if connector.asking:
                return
            connector.asking = True
        self._later(self._ask, (name, serial), connector)

    def _ask(self, key: _Key, connector: _JavaConnector) -> None:
        pause_s = 0.0
        while self._is_to_be_asked(key, connector):
            # a plugin that requests it in every answer must not keep a core busy
            time.sleep(pause_s)
            pause_s = _REPEAT_S
            try:
                self._ask_once(key, connector)
            except JvmEnded:
                return  # it may have ended the JVM, and starts again as one that is being asked

    def _is_to_be_asked(self, key: _Key, connector: _JavaConnector) -> bool:
        with self._lock:
            current = self._connectors.get(key) is connector and not connector.lost
            connector.asking = connector.repeat and current
            connector.repeat = False
            return connector.asking

    def _ask_once(self, key: _Key, connector: _JavaConnector) -> None:
        name, serial = key
        text = f"Connector {name} has not returned its task configs in"
        try:
            answer = connector.jvm.call(
                "task-configs",
                self._call_s,
                on_slow=lambda: self._report_asked(key, connector, f"{text} {SLOW_S:.0f} s"),
                connector=name,
                serial=serial,
                config=dict(connector.config),
            )
        except JavaError as error:
            text = "Connector %s threw when asked for task configs, and is asked again: %s"
            _log.error(text, name, error.trace, extra={"connector": name})
            self._report_asked(key, connector, error.trace)
        except TakesTooLong:
            self._failed(key, f"{text} {self._call_s:.0f} s")
        else:
            configs = tuple({k: v for k, v in task.items() if v is not None} for task in answer)
            self._report_asked(key, connector, None, configs)

    def _report_asked(
        self,
        key: _Key,
        connector: _JavaConnector,
        trace: str | None,
        configs: tuple[Mapping[str, str], ...] | None = None,
    ) -> None:
        self._report(
            InstanceStarted(
                *key,
                connector.kind,
                connector.version,
                configs,
                connector.fingerprint,
                connector.reload_in_s,
                trace,
            )
        )

    def stop(self, name: str, serial: int) -> None:
        """Stops a connector; logs it if its `stop` throws or hangs."""
        with self._lock:
            connector = self._connectors.pop((name, serial), None)
        if connector is not None:
            self._end((name, serial), connector)

    def _end(self, key: _Key, connector: _JavaConnector) -> None:
        name, serial = key
        about = {"connector": name}
        try:
            if not connector.jvm.call("stop-connector", _STOP_S, connector=name, serial=serial):
                raise TakesTooLong
        except JavaError as error:
            text = "Connector %s threw while it was stopped: %s"
            _log.error(text, name, error.trace, extra=about)
        except TakesTooLong:
            _log.error("Connector %s did not stop in time, and is abandoned", name, extra=about)
        except JvmEnded:
            pass  # the connector has ended with it
        if connector.alone:
            connector.jvm.end()

    def fence(self, config: Mapping[str, str], ids: Sequence[str]) -> None:
        """Fences transactional ids, all at once, with the admin client of a connector. Raises
        JavaError, JvmEnded, TakesTooLong, and what starting a JVM raises."""
        jvm = self._shared.get()
        try:
            jvm.call("fence", _FENCE_S, config=dict(config), ids=list(ids))
        except JvmEnded:
            # by a connector that has nothing to do with this one; Kafka may be away, though
            if jvm.unusable:
                raise
            self._forget(jvm)
            self._shared.get().call("fence", _FENCE_S, config=dict(config), ids=list(ids))

    def close(self, timeout_s: float) -> None:
        """Stops all connectors, and ends the JVMs; what takes longer than `timeout_s` is
        abandoned."""
        with self._lock:
            connectors = dict(self._connectors)
            self._connectors.clear()
        ends = [self._pool.submit(self._end, *running) for running in connectors.items()]
        wait(ends, timeout_s)
        for connector in connectors.values():
            if connector.alone:
                connector.jvm.end()
        self._shared.close()

    # --- JVMs ---

    def _new_jvm(self) -> PluginJvm:
        holder: list[PluginJvm] = []

        def on_event(event: str, fields: Fields) -> None:
            if holder:  # before, it has no connectors
                self._take(event, fields, holder[0])

        catalog = used_catalog() or JavaCatalog(self._worker, self._worker_id)
        jvm = catalog.new_jvm(self._worker, on_event=on_event, answers={"offsets": self._offsets})
        holder.append(jvm)
        return jvm

    def _offsets(self, fields: Fields) -> list[str | None]:
        """Returns values of rows of a connector's offsets. Waits for a Kafka that is away, and for
        transactions of others, as Apache's worker does: the plugin's call has a limit."""
        name, keys = fields["connector"], [base64.b64decode(key) for key in fields["keys"]]
        values = retry_while(
            lambda error: self._config(name) is not None and isinstance(error, _PASSING),
            lambda: self._read_offsets(self._config(name) or {}, keys),
            self._call_s,
            every_s=_REPEAT_S,
        )
        return [None if value is None else base64.b64encode(value).decode() for value in values]

    def _config(self, name: str) -> Mapping[str, str] | None:
        """Returns a connector's config; None once it was stopped."""
        with self._lock:
            return next((c.config for (n, _), c in self._connectors.items() if n == name), None)

    def _take(self, event: str, fields: Fields, jvm: PluginJvm) -> None:
        """Takes an event, on the thread that reads them. Those of a connector that was stopped, or
        has started again in another JVM, come late and are dropped."""
        if event == "ended":
            self._later(self._restart, jvm, str(fields["why"]))
            return
        key = (fields.get("connector", ""), fields.get("serial", 0))
        connector = self._connectors.get(key)
        if connector is None or connector.jvm is not jvm:
            return
        match event:
            case "connector-resolved":
                connector.fingerprint = fields["fingerprint"]
                reload_ms = fields["reloadMs"]
                if reload_ms is not None:
                    connector.reload_in_s = max(reload_ms / 1000, SHORTEST_RELOAD_S)
            case "connector-started":
                connector.starting = False
                connector.kind, connector.version = fields["kind"], fields["version"]
                self.ask(*key)
            case "connector-reconfigured":
                self.ask(*key)
            case "connector-failed":
                failure = fields["failure"]
                self._failed(key, jvm.error(failure).trace)
                if failure["type"] == _OUT_OF_MEMORY:
                    # others would have no memory or threads, either
                    self._later(jvm.end)
            case _:
                pass

    def _later(self, call: Callable[..., None], *arguments: Any) -> None:
        """Runs a call that may take long, unless the runtime ends."""
        with suppress(RuntimeError):
            self._pool.submit(call, *arguments)

    def _failed(self, key: _Key, trace: str) -> None:
        """Reports a connector's first failure."""
        connector = self._connectors.get(key)
        version, reload_in_s = None, None
        if connector is not None:
            if connector.failed:
                return
            connector.failed = True
            version, reload_in_s = connector.version, connector.reload_in_s
        self._report(InstanceFailed(*key, trace, version, reload_in_s))

    def _forget(self, jvm: PluginJvm) -> None:
        """Has another JVM made for the connectors to share, and counts the ends in a row."""
        lived_s = self._shared.forget(jvm)
        if lived_s is not None:
            self._ends = 1 if lived_s > _SETTLED_S else self._ends + 1

    def _restart(self, jvm: PluginJvm, why: str) -> None:
        """Starts the connectors of a JVM that has ended again, after a pause. One that had a call
        in progress may have ended it, and starts in a JVM of its own; one that had such a JVM has
        failed."""
        self._forget(jvm)
        with self._lock:
            lost = {
                key: c
                for key, c in self._connectors.items()
                if c.jvm is jvm and not c.failed and not c.lost
            }
            for connector in lost.values():
                connector.lost = True
        if not lost:
            return
        _log.error("The JVM of %d connectors has ended: %s", len(lost), why)
        # what could not start at all has run no plugin
        alone = {key for key, c in lost.items() if c.alone and not jvm.unusable}
        for key in alone:
            self._failed(key, why)
        if lost.keys() - alone:
            time.sleep(min(_AGAIN_S * 2 ** max(self._ends - 1, 0), _AGAIN_MAX_S))
        for key in lost.keys() - alone:
            connector = lost[key]
            suspect = (connector.starting or connector.asking) and not jvm.unusable
            self._later(
                partial(self._start, alone=connector.alone or suspect, replaces=connector),
                *key,
                connector.config,
            )
