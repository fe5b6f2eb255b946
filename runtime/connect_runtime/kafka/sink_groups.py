"""The consumer groups of sink connectors, as the herder moves their offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect_runtime.kafka import groups

Partition = tuple[str, int]


class SinkGroups:
    """Groups on the cluster that `properties`, under Java's names, lead to. Moving offsets raises
    GroupActive while a group has members."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def offsets(self, group: str) -> Mapping[Partition, int]:
        """Committed offsets; none if there is no such group."""
        return groups.list_group_offsets(self._properties, group)

    def alter(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Sets offsets."""
        groups.alter_group_offsets(self._properties, group, offsets)

    def forget(self, group: str, partitions: Sequence[Partition]) -> None:
        """Deletes the offsets of some partitions."""
        groups.delete_group_offsets(self._properties, group, partitions)

    def delete(self, group: str) -> None:
        """Deletes the group."""
        groups.delete_group(self._properties, group)
