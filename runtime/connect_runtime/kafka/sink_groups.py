"""Reads and moves the consumer-group offsets of sinks, on the clusters that they read from.

A connector is STOPPED as soon as its config says so, while its tasks commit and leave the group
moments later. Moving offsets right after a stop waits for that here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from connect_runtime.kafka import groups
from connect_runtime.kafka.groups import GroupActive
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_specs.diagnostics import ConnectError

Partition = tuple[str, int]

_log = logging.getLogger(__name__)

# How long tasks may take to end, by default.
_LEAVING_S = 5.0
_RETRY_S = 0.1


class SinkGroups:
    """Uses each sink's admin client. Moving offsets waits some seconds for members that are
    leaving, then raises GroupActive."""

    def offsets(self, sink: ConnectorClients) -> Mapping[Partition, int]:
        """Returns committed offsets; none if the group does not exist."""
        return groups.list_group_offsets(sink.admin(), sink.group)

    def alter(self, sink: ConnectorClients, offsets: Mapping[Partition, int]) -> None:
        """Sets offsets."""
        _moved(lambda: groups.alter_group_offsets(sink.admin(), sink.group, offsets))

    def forget(self, sink: ConnectorClients, partitions: Sequence[Partition]) -> None:
        """Deletes the offsets of some partitions."""
        _moved(lambda: groups.delete_group_offsets(sink.admin(), sink.group, partitions))

    def delete(self, sink: ConnectorClients) -> None:
        """Deletes the group."""
        _moved(lambda: groups.delete_group(sink.admin(), sink.group))


def _moved(move: Callable[[], None]) -> None:
    deadline = time.monotonic() + _LEAVING_S
    while True:
        try:
            move()
            return
        except GroupActive:
            if time.monotonic() > deadline:
                raise
        except ConnectError as error:
            # Connect's answer to the caller does not say why
            _log.warning("%s (%s)", error, error.why)
            raise
        time.sleep(_RETRY_S)
