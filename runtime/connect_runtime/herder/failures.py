"""What could not be done for which connector, and whether it is tried again by itself.

What Kafka refuses waits for a restart or another config, as in KIP-618. What Kafka was too slow or
too far away for is tried again, with pauses that double up to a minute.
"""

from __future__ import annotations

import logging
import math
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace

from connect_runtime.herder.runs import Failure
from connect_runtime.herder.view import View
from connect_runtime.storage.status_topic import storable_trace
from connect_specs.diagnostics import ConnectError
from connect_specs.redaction import Redactor

_log = logging.getLogger(__name__)

_RETRY_S = 2.0
_RETRY_MOST_S = 60.0
_UNREACHABLE = "kafka.unreachable"


class Failures:
    """Failures by connector. Belongs to the herder's thread; `all` is replaced, never changed."""

    def __init__(self, redactor: Callable[[Mapping[str, str]], Redactor]) -> None:
        """`redactor` hides the secrets of a connector's stored config and the worker's."""
        self._redactor = redactor
        self.all: dict[str, Failure] = {}
        # How often in a row: a failure that is tried again is forgotten meanwhile.
        self._counts: dict[str, int] = {}
        # What was logged last: what is tried again and again is not logged each time.
        self._logged: dict[str, str] = {}

    def add(
        self,
        name: str,
        error: Exception | str,
        view: View,
        now: float,
        again_s: float = math.inf,
    ) -> None:
        """Takes note of why the connector cannot be brought to what is asked of it now, and that it
        is looked at again in `again_s` seconds."""
        trace = error if isinstance(error, str) else "".join(traceback.format_exception(error))
        state = view.config.connectors.get(name)
        trace = storable_trace(self._redactor(state.config if state else {}).redact(trace))
        if self._logged.get(name) != trace:
            self._logged[name] = trace
            _log.error("Connector %s fails: %s", name, trace)
        asked = view.config.connectors.get(name)
        # not the view's: in this round it may have been forgotten
        known = self.all.get(name)
        if known is not None and known.is_about(asked):
            # its status is all that could still be written
            self.all = {**self.all, name: replace(known, unsaid=True)}
            return
        retry_at = now + again_s
        if _passes(error):
            count = self._counts[name] = self._counts.get(name, 0) + 1
            retry_at = now + min(_RETRY_S * 2 ** (count - 1), _RETRY_MOST_S)
        else:
            self._counts.pop(name, None)
        self.all = {**self.all, name: Failure(trace, asked, retry_at=retry_at)}

    def forget(self, name: str, view: View) -> None:
        """The connector is tried again."""
        known = self.all.get(name)
        if known is not None and not known.is_about(view.config.connectors.get(name)):
            self._counts.pop(name, None)
        self.all = {key: failure for key, failure in self.all.items() if key != name}

    def succeeded(self, name: str) -> None:
        """What failed before has worked: the next pause is a short one again."""
        self._counts.pop(name, None)
        self._logged.pop(name, None)

    def clear(self) -> None:
        """Another runtime leads now."""
        self.all = {}
        self._counts.clear()
        self._logged.clear()


def _passes(error: Exception | str) -> bool:
    return isinstance(error, ConnectError) and any(
        diagnostic.code == _UNREACHABLE for diagnostic in error.diagnostics
    )
