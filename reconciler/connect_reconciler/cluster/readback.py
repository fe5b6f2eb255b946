"""What does the cluster say about one connector right now: its config and its target state?

Asked before each action, so it must be cheap: a reader that follows the config topic, which is the
truth on both kinds of cluster. Connect's REST API does not tell target states.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.storage import config_topic
from connect_runtime.storage.log import LogReader
from connect_runtime.storage.snapshots import ConfigSnapshot
from connect_specs.diagnostics import ConnectError
from connect_specs.states import TargetState

_READ_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Found:
    """A connector that is there. `tasks` is how many were published for this very config."""

    config: Mapping[str, str]
    target: TargetState
    tasks: int = 0


class ReadBack(Protocol):
    """Reads one connector; None where there is none. Raises ConnectError."""

    def __call__(self, name: str) -> Found | None: ...


class ConfigTopic:
    """Follows the config topic, for many threads. Implements `ReadBack`.

    Whoever waited while a reading failed is told so at once: threads do not wait one after another
    for a Kafka that is gone.
    """

    def __init__(self, reader: LogReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
        self._clock = clock
        self._snapshot = ConfigSnapshot()
        self._reading = threading.Lock()
        self._failed: tuple[float, ConnectError] | None = None

    def __call__(self, name: str) -> Found | None:
        asked = self._clock()
        with self._reading:
            if self._failed is not None and self._failed[0] > asked:
                raise self._failed[1]
            try:
                records = self._reader.read_to_end(_READ_TIMEOUT_S)
            except ConnectError as error:
                self._failed = (self._clock(), error)
                raise
            if records:
                self._snapshot = config_topic.reduce_all(self._snapshot, records)
            state = self._snapshot.connectors.get(name)
        if state is None:
            return None
        tasks = len(state.task_configs) if state.applied_config == state.config else 0
        return Found(state.config, state.target, tasks)

    def close(self) -> None:
        """Closes the reader."""
        self._reader.close()
