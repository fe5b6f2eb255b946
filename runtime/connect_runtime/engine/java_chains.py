"""Runs converters and transformations of Java plugins over single records, in one JVM, without a
connector and without Kafka.

A plugin that ends the JVM, or does not return, fails the records of its own chain alone: the next
chain gets another JVM.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from connect_runtime.api import ConnectorError
from connect_runtime.engine.catalog import JavaCatalog
from connect_runtime.engine.jvm import PluginJvm
from connect_runtime.engine.jvm_connection import Fields, JvmEnded
from connect_runtime.engine.renewed_jvm import RenewedJvm
from connect_runtime.waiting import TakesTooLong
from connect_specs.secrets import secrets_in

# Plugins may be scanned first
_CALL_S: Final = 90.0


class JavaChains:
    """The Java plugins on plugin.path of a worker with these properties. A JVM starts when they are
    first needed."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._catalog = JavaCatalog(worker, "records")
        # Not one that ends when it is not asked: it holds the chains
        self._jvm = RenewedJvm(lambda: self._catalog.new_jvm(self._catalog.worker))
        # Of each chain its JVM, and its number there
        self._chains: list[tuple[PluginJvm, int]] = []

    def has(self, kinds: Collection[str], name: str) -> bool:
        """Returns whether there is a Java plugin of one of these kinds and this name or short name.
        Raises Failed or JarsError without Java or Connect's jars, JavaError and TakesTooLong if the
        plugins cannot be scanned."""
        if not self._catalog.plugins:
            self._catalog.find()
        return any(
            plugin.kind in kinds and name in plugin.names for plugin in self._catalog.plugins
        )

    def open(self, config: Mapping[str, str], *, sink: bool) -> int:
        """Makes the chain of a config whose references are resolved, and returns its number. Raises
        JavaError, JvmEnded, and ConnectorError without an answer in time."""
        jvm = self._jvm.get()
        try:
            chain = self._opened(jvm, config, sink=sink)
        except JvmEnded:
            self._jvm.forget(jvm)
            chain = self._opened(self._jvm.get(), config, sink=sink)
        self._chains.append(chain)
        return len(self._chains) - 1

    def _opened(
        self, jvm: PluginJvm, config: Mapping[str, str], *, sink: bool
    ) -> tuple[PluginJvm, int]:
        jvm.hide(secrets_in(config))
        return jvm, _call(jvm, "open-chain", config=dict(config), sink=sink)

    def run(self, number: int, record: Fields) -> Fields:
        """Returns the outcome of a record as the class `Chains` describes it. Raises JavaError,
        JvmEnded, and ConnectorError without an answer in time."""
        jvm, chain = self._chains[number]
        outcome: Fields = _call(jvm, "run-record", chain=chain, record=record)
        return outcome

    def close_chain(self, number: int) -> None:
        """Closes the plugins of a chain. Raises what they raise."""
        jvm, chain = self._chains[number]
        _call(jvm, "close-chain", chain=chain)

    def close(self) -> None:
        """Ends the JVM."""
        self._jvm.close()
        self._catalog.close()


def _call(jvm: PluginJvm, name: str, **arguments: Any) -> Any:
    try:
        return jvm.call(name, _CALL_S, **arguments)
    except TakesTooLong:
        jvm.end()  # else each further record would take as long
        raise ConnectorError(f"The JVM has not answered in {_CALL_S:.0f} s") from None
