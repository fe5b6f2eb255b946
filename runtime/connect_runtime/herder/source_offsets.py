"""The offsets topic, read when somebody asks: source offsets by connector.

Reading to the end waits for transactions of running tasks, so it happens on the asker's thread,
never on the herder's.
"""

from __future__ import annotations

import threading

from connect_runtime.storage import offsets_topic
from connect_runtime.storage.log import LogReader, Logs
from connect_runtime.storage.snapshots import OffsetSnapshot

READ_TIMEOUT_S = 30.0


class SourceOffsets:
    """One reader for all askers; each call reads on to the end. Raises LogBlocked."""

    def __init__(self, logs: Logs, topic: str) -> None:
        self._logs = logs
        self._topic = topic
        self._lock = threading.Lock()
        self._reader: LogReader | None = None
        self._snapshot = OffsetSnapshot()

    def read(self) -> OffsetSnapshot:
        """All committed source offsets as they are now."""
        with self._lock:
            if self._reader is None:
                self._reader = self._logs.reader(self._topic)
            records = self._reader.read_to_end(READ_TIMEOUT_S)
            self._snapshot = offsets_topic.reduce_all(self._snapshot, records)
            return self._snapshot

    def close(self) -> None:
        """Closes the reader."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
