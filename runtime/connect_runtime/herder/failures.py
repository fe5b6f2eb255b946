"""Failures of connectors, and when each is tried again."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from connect_runtime.herder.runs import ConnectorFailure
from connect_runtime.herder.view import View
from connect_runtime.kafka.errors import UNREACHABLE
from connect_runtime.storage.status_topic import storable_trace
from connect_runtime.traces import trace_text
from connect_specs.diagnostics import ConnectError
from connect_specs.secrets import Redactor

_log = logging.getLogger(__name__)

# A failure that passes by itself is retried after so long
_RETRY_S = 2.0
_RETRY_MAX_S = 60.0


class Failures:
    """Failures by connector, and whether they are retried automatically.

    If Kafka refuses something, the connector waits for a restart or another config, as in KIP-618.
    If Kafka was too slow or unreachable, it is retried with pauses that double up to a minute; so
    is the cleanup of a deleted connector. `all` is replaced, never changed.
    """

    def __init__(self, redactor: Callable[[Mapping[str, str]], Redactor]) -> None:
        """Keeps `redactor`, which redacts the secrets of a connector's stored config and the
        worker's."""
        self._redactor = redactor
        self.all: dict[str, ConnectorFailure] = {}
        # Consecutive failures, kept while a retry has cleared the failure itself.
        self._counts: dict[str, int] = {}
        # The last logged failure, so that retries are not logged each time.
        self._logged: dict[str, str] = {}

    def add(
        self,
        name: str,
        error: Exception | str,
        view: View,
        now: float,
        again_s: float = math.inf,
    ) -> None:
        """Records why the connector cannot be brought to its wanted state, and that it is retried
        in `again_s` seconds."""
        state = view.config.connectors.get(name)
        redactor = self._redactor(state.config if state else {})
        text = redactor.redact(error) if isinstance(error, str) else trace_text(error, redactor)
        trace = storable_trace(text)
        if self._logged.get(name) != trace:
            self._logged[name] = trace
            _log.error("Connector %s fails: %s", name, trace, extra={"connector": name})
        failure = self.all.get(name)
        if failure is not None and failure.is_about(state) and now < failure.retry_at:
            # only its status could still be written
            self.all = {**self.all, name: replace(failure, not_reported=True)}
            return
        retry_at = now + again_s
        # a deleted connector cannot be restarted, and its attempts must end
        passes = isinstance(error, ConnectError) and any(
            diagnostic.code == UNREACHABLE for diagnostic in error.diagnostics
        )
        if passes or state is None:
            count = self._counts[name] = self._counts.get(name, 0) + 1
            retry_at = now + min(_RETRY_S * 2 ** (count - 1), _RETRY_MAX_S)
        else:
            self._counts.pop(name, None)
        self.all = {**self.all, name: ConnectorFailure(trace, state, retry_at=retry_at)}

    def forget(self, name: str, view: View) -> None:
        """Clears the connector's failure, so that it is tried again."""
        failure = self.all.get(name)
        if failure is not None and not failure.is_about(view.config.connectors.get(name)):
            self._counts.pop(name, None)
        self.all = {key: failure for key, failure in self.all.items() if key != name}

    def succeeded(self, name: str) -> None:
        """Resets the retry pause: what failed before has worked."""
        self._counts.pop(name, None)
        self._logged.pop(name, None)

    def clear(self) -> None:
        """Clears all failures, because another runtime leads now."""
        self.all = {}
        self._counts.clear()
        self._logged.clear()
