"""Runs converters and transformations of Java plugins over single records, in one JVM, without a
connector and without Kafka."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from connect_runtime.api import ConnectorError
from connect_runtime.engine.catalog import JavaCatalog
from connect_runtime.engine.jvm import Fields
from connect_runtime.waiting import TakesTooLong
from connect_specs.secrets import secrets_in

# Plugins may be scanned first
_CALL_S: Final = 90.0


class JavaChains:
    """The Java plugins on plugin.path of a worker with these properties. A JVM starts when they are
    first needed."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        self._catalog = JavaCatalog(worker, "records")

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
        JavaError."""
        self._catalog.jvm().hide(secrets_in(config))
        number: int = self._call("open-chain", config=dict(config), sink=sink)
        return number

    def run(self, number: int, record: Fields) -> Fields:
        """Returns the outcome of a record as the class `Chains` describes it. Raises JavaError,
        JvmEnded, and ConnectorError without an answer in time."""
        outcome: Fields = self._call("run-record", chain=number, record=record)
        return outcome

    def close_chain(self, number: int) -> None:
        """Closes the plugins of a chain. Raises what they raise."""
        self._call("close-chain", chain=number)

    def close(self) -> None:
        """Ends the JVM."""
        self._catalog.close()

    def _call(self, name: str, **arguments: Any) -> Any:
        try:
            return self._catalog.jvm().call(name, _CALL_S, **arguments)
        except TakesTooLong:
            raise ConnectorError(f"The JVM has not answered in {_CALL_S:.0f} s") from None
