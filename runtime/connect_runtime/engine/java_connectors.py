"""Starts, asks and stops the objects of Java connectors, in a JVM that they share.

As in a worker of Apache's, they share it; unlike there, the runtime and the tasks go on if it ends.
Then all start again: those with a call in progress, one of which may have ended it, in a JVM of
their own. One that ends that, too, has failed.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from connect_runtime.engine.catalog import used_catalog
from connect_runtime.engine.jvm import Fields, JvmEnded, PluginJvm
from connect_runtime.herder.runs import (
    Event,
    InstanceFailed,
    InstanceStarted,
)
from connect_runtime.traces import JavaError
from connect_runtime.waiting import TakesTooLong
from connect_specs.secrets import secrets_in

_log = logging.getLogger(__name__)

# A start that takes longer is given up only at a change or a stop
_CALL_S: Final = 600.0
_STOP_S: Final = 30.0
# A JVM that could not start, such as for want of Kafka, is replaced after so long
_AGAIN_S: Final = 5.0

_Key: TypeAlias = tuple[str, int]


@dataclass(slots=True)
class _JavaConnector:
    """A connector's object. `calls` counts those in progress; `alone`: in a JVM of its own;
    `failed`: it is not started again."""

    config: Mapping[str, str]
    jvm: PluginJvm
    alone: bool = False
    calls: int = 0
    failed: bool = False
    kind: Literal["source", "sink"] = "source"
    version: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


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
        self._lock = threading.Lock()
        self._shared: PluginJvm | None = None
        self._connectors: dict[_Key, _JavaConnector] = {}

    def start(self, name: str, serial: int, config: Mapping[str, str]) -> None:
        """Starts a connector; reports InstanceStarted or InstanceFailed later. Returns when its JVM
        knows it."""
        self._start(name, serial, config)

    def has(self, name: str, serial: int) -> bool:
        """Returns whether this connector was started here, and not stopped."""
        return (name, serial) in self._connectors

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
        try:
            jvm = self._new_jvm() if alone else self._shared_jvm()
        except Exception as error:  # there is no Java, or no Connect
            self._failed(name, serial, error)
            return
        try:
            jvm.hide(secrets_in(config))
            connector = _JavaConnector(config, jvm, alone)
            with self._lock:
                unwanted = self._connectors.get(key) is not replaces
                if not unwanted:
                    self._connectors[key] = connector
            if not unwanted:
                self._call(connector, "start-connector", name, serial, config=dict(config))
                # a stop that the JVM got before this start has stopped nothing
                unwanted = self._connectors.get(key) is not connector
            if unwanted:
                self._end(name, serial, connector)
        except JvmEnded as error:
            self._later(self._restart, [jvm], str(error))
        except Exception as error:
            self._failed(name, serial, error)

    def ask(self, name: str, serial: int) -> None:
        """Asks for task configs, and reports the answer; logs what it throws instead, and is to be
        asked again."""
        connector = self._connectors.get((name, serial))
        if connector is None:
            return
        with connector.lock:  # an earlier answer never overtakes a later one
            trace: str | None = None
            configs: tuple[Mapping[str, str], ...] | None = None
            try:
                answer = self._call(
                    connector, "task-configs", name, serial, config=dict(connector.config)
                )
                configs = tuple({k: v for k, v in task.items() if v is not None} for task in answer)
            except JavaError as error:
                trace = error.trace
                text = "Connector %s threw when asked for task configs, and is asked again: %s"
                _log.error(text, name, trace, extra={"connector": name})
            except (JvmEnded, TakesTooLong):
                return
        fingerprint = hashlib.sha256(repr(configs).encode()).hexdigest()
        self._report(
            InstanceStarted(
                name,
                serial,
                connector.kind,
                connector.version,
                configs,
                fingerprint,
                trace=trace,
            )
        )

    def stop(self, name: str, serial: int) -> None:
        """Stops a connector; logs it if its `stop` throws or hangs."""
        with self._lock:
            connector = self._connectors.pop((name, serial), None)
        if connector is not None:
            self._end(name, serial, connector)

    def _end(self, name: str, serial: int, connector: _JavaConnector) -> None:
        try:
            connector.jvm.call("stop-connector", _STOP_S, connector=name, serial=serial)
        except (JavaError, JvmEnded, TakesTooLong) as error:
            _log.error("Connector %s threw while it was stopped: %s", name, error)
        if connector.alone:
            connector.jvm.end()

    def close(self) -> None:
        """Ends the JVMs. Their connectors have been stopped."""
        with self._lock:
            jvms = {id(c.jvm): c.jvm for c in self._connectors.values()}
            if self._shared is not None:
                jvms[id(self._shared)] = self._shared
            self._connectors.clear()
            self._shared = None
        for jvm in jvms.values():
            jvm.end()

    def _call(
        self, connector: _JavaConnector, call: str, name: str, serial: int, **arguments: Any
    ) -> Any:
        connector.calls += 1
        try:
            return connector.jvm.call(call, _CALL_S, connector=name, serial=serial, **arguments)
        finally:
            if call != "start-connector":  # its end is an event
                connector.calls -= 1

    # --- JVMs ---

    def _shared_jvm(self) -> PluginJvm:
        with self._lock:
            if self._shared is None:
                self._shared = self._new_jvm()
            return self._shared

    def _new_jvm(self) -> PluginJvm:
        holder: list[PluginJvm] = []

        def on_event(event: str, fields: Fields) -> None:
            self._take(event, fields, holder)

        catalog = used_catalog()
        settings = {} if catalog is None else catalog.settings_of_all()
        jvm = PluginJvm(
            {**self._worker, **settings},
            self._worker_id,
            on_event=on_event,
            answers={"offsets": self._offsets},
        )
        holder.append(jvm)
        return jvm

    def _offsets(self, fields: Fields) -> list[str | None]:
        name = fields["connector"]
        config = next((c.config for (n, _), c in self._connectors.items() if n == name), {})
        values = self._read_offsets(config, [base64.b64decode(key) for key in fields["keys"]])
        return [None if value is None else base64.b64encode(value).decode() for value in values]

    def _take(self, event: str, fields: Fields, jvm: list[PluginJvm]) -> None:
        """Takes an event, on the thread that reads them."""
        if event == "ended":
            self._later(self._restart, jvm, str(fields["why"]))
            return
        key = (fields.get("connector", ""), fields.get("serial", 0))
        connector = self._connectors.get(key)
        if connector is None:
            return
        match event:
            case "connector-started":
                connector.calls -= 1
                connector.kind, connector.version = fields["kind"], fields["version"]
                self._later(self.ask, *key)
            case "connector-reconfigured":
                self._later(self.ask, *key)
            case "connector-failed":
                self._failed(*key, connector.jvm.error(fields["failure"]))
            case _:
                pass

    def _later(self, call: Callable[..., None], *arguments: Any) -> None:
        """Runs a call that may take long, unless the runtime ends."""
        with suppress(RuntimeError):
            self._pool.submit(call, *arguments)

    def _failed(self, name: str, serial: int, error: Exception) -> None:
        trace = error.trace if isinstance(error, JavaError) else str(error)
        connector = self._connectors.get((name, serial))
        version = None
        if connector is not None:
            connector.failed, version = True, connector.version
        self._report(InstanceFailed(name, serial, trace, version))

    def _restart(self, holder: list[PluginJvm], why: str) -> None:
        """Starts the connectors of a JVM that has ended again, after a pause if that JVM could not
        start at all."""
        unusable = any(jvm.unusable for jvm in holder)
        if unusable:
            time.sleep(_AGAIN_S)
        with self._lock:
            if self._shared in holder:
                self._shared = None
            lost = {
                key: c for key, c in self._connectors.items() if c.jvm in holder and not c.failed
            }
        if lost:
            _log.error("The JVM of %d connectors is started again: %s", len(lost), why)
        for key, connector in lost.items():
            suspect = bool(connector.calls) and not unusable
            if connector.alone and suspect:
                self._failed(*key, JvmEnded(why))
            else:
                alone = connector.alone or suspect
                self._start(*key, connector.config, alone=alone, replaces=connector)
