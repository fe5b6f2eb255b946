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
    """A connector that is there. `tasks` is how many it has; `made`: from this very config.
    `generation` tells one set of task configs from another."""

    config: Mapping[str, str]
    target: TargetState
    tasks: int = 0
    made: bool = True
    generation: int = 0


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
        self.read()
        return self.known(name)

    def read(self) -> None:
        """Reads to the end. Raises ConnectError."""
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

    def known(self, name: str) -> Found | None:
        """The connector as it was read last."""
        state = self._snapshot.connectors.get(name)
        if state is None:
            return None
        made = state.applied_config == state.config and not state.inconsistent
        return Found(state.config, state.target, len(state.task_configs), made, state.generation)

    def close(self) -> None:
        """Closes the reader."""
        self._reader.close()
