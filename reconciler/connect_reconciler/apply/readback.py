"""What does the cluster say about one connector right now: its config and its target state?

Asked before each action, so it must be cheap: a reader that follows the config topic, which is the
truth on both kinds of cluster. Connect's REST API does not tell target states.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from connect_runtime.storage import config_topic
from connect_runtime.storage.log import LogReader
from connect_runtime.storage.snapshots import ConfigSnapshot
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
    """Follows the config topic, for many threads. Implements `ReadBack`."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._snapshot = ConfigSnapshot()
        self._reading = threading.Lock()

    def __call__(self, name: str) -> Found | None:
        with self._reading:
            records = self._reader.read_to_end(_READ_TIMEOUT_S)
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
