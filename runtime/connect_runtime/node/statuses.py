"""Writes the statuses of a node's tasks with one producer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from connect_runtime.node.door import WriteStatus
from connect_runtime.storage.log import NewRecord
from connect_runtime.tasks.status_writer import KafkaStatuses, Unwritten, unwritten_line

_LATE: Final = Unwritten("it came too late", passing=True)


class Statuses:
    """Implements Answers."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._kafka = KafkaStatuses(properties)

    def of(self, requests: Sequence[WriteStatus]) -> Sequence[bytes]:
        # whoever asked has given up, and may have written its next status by itself
        now = time.monotonic()
        records = {
            number: NewRecord(
                each.topic, each.key.encode(), None if each.value is None else each.value.encode()
            )
            for number, each in enumerate(requests)
            if now < each.until
        }
        written = dict(zip(records, self._kafka.write_all(list(records.values())), strict=True))
        return [unwritten_line(written.get(number, _LATE)) for number in range(len(requests))]

    def close(self) -> None:
        self._kafka.close()
