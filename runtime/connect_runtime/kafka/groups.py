"""Lists and changes the offsets of sink connectors' consumer groups.

Kafka refuses to change the offsets of a group that has members; that raises `GroupActive`, which a
caller may retry. A connector is STOPPED as soon as its config says so, while its tasks commit and
leave the group moments later: `SinkGroups` waits for that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicPartition

from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.errors import (
    GROUP_IN_USE,
    NO_SUCH_GROUP,
    NOT_A_CONSUMER_GROUP,
    as_failure,
    error_of,
    reason,
)
from connect_runtime.kafka.kafka_logging import logged
from connect_runtime.kafka.librdkafka import Coordinators, delete_partition_offsets
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.waiting import retry_while
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed

Partition: TypeAlias = tuple[str, int]

_REQUEST_S = 15.0

_log = logging.getLogger(__name__)

# The time that tasks have to end.
_LEAVING_S = 5.0
_RETRY_S = 0.1


class GroupActive(Failed):
    """The group still has members, so its offsets were left unchanged."""


def list_group_offsets(properties: Mapping[str, str], group: str) -> dict[Partition, int]:
    """Returns the group's committed offsets; none if the group does not exist."""
    return list_offsets_of_groups(properties, (group,))[group]


@logged("get the offsets of group", "groups")
def list_offsets_of_groups(
    properties: Mapping[str, str], groups: Iterable[str]
) -> dict[str, dict[Partition, int]]:
    """Returns the committed offsets of many groups, requested at the same time."""
    with Coordinators(properties) as coordinators:
        answers = coordinators.offsets(list(groups), _REQUEST_S)
    offsets: dict[str, dict[Partition, int]] = {}
    for group, answer in answers.items():
        if isinstance(answer, KafkaError):
            if answer.code() not in NO_SUCH_GROUP:
                raise _failure(answer, "The offsets cannot be read", group)
            entries = []
        else:
            entries = answer.topic_partitions
        offsets[group] = {
            (at.topic, at.partition): at.offset
            for at in entries
            if at.error is None and at.offset >= 0
        }
    return offsets


@logged("describe groups", "groups")
def members_of_groups(
    properties: Mapping[str, str], groups: Iterable[str]
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Returns the client id and host of each group's members. There are none of a group that does
    not exist, or that is no consumer group."""
    with Coordinators(properties) as coordinators:
        answers = coordinators.describe(list(groups), _REQUEST_S)
    members: dict[str, tuple[tuple[str, str], ...]] = {}
    for group, answer in answers.items():
        if isinstance(answer, KafkaError):
            if answer.code() not in (*NO_SUCH_GROUP, NOT_A_CONSUMER_GROUP):
                raise _failure(answer, "The group cannot be read", group)
            members[group] = ()
        else:
            members[group] = tuple((member.client_id, member.host) for member in answer.members)
    return members


@logged("list groups of", "properties")
def idle_groups(properties: Mapping[str, str]) -> list[str]:
    """Returns the groups without members, of those that this login may see."""
    client = admin(properties)
    answer = client.list_consumer_groups(
        states={ConsumerGroupState.EMPTY}, request_timeout=_REQUEST_S
    )
    try:
        groups = answer.result()
    except KafkaException as exception:
        raise _failure(error_of(exception), "The groups cannot be listed", "Kafka") from None
    # A broker that did not answer hides its groups: the list may be incomplete
    return sorted(group.group_id for group in groups.valid)


@logged("set offsets of group", "group", "offsets")
def alter_group_offsets(
    properties: Mapping[str, str], group: str, offsets: Mapping[Partition, int]
) -> None:
    """Sets the group's offsets of these partitions. Raises GroupActive, Failed."""
    if not offsets:
        return
    if min(offsets.values()) < 0:
        raise Failed(Diagnostic("group.negative-offset", "Offsets are 0 or greater", group))
    places = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
    try:
        with Coordinators(properties) as coordinators:
            answer = coordinators.alter(group, places, _REQUEST_S)
    except ValueError as error:  # the client refuses names and numbers that no partition has
        problem = "The offsets cannot be altered"
        raise Failed(Diagnostic("group.no-partition", problem, group, str(error))) from error
    if isinstance(answer, KafkaError):
        raise _failure(answer, "The offsets cannot be altered", group)
    for at in answer.topic_partitions:
        if at.error is not None:
            place = f"{group}, {at.topic}-{at.partition}"
            raise _failure(at.error, "The offset cannot be altered", place)


@logged("delete offsets of group", "group", "partitions")
def delete_group_offsets(
    properties: Mapping[str, str], group: str, partitions: Sequence[Partition]
) -> None:
    """Deletes the group's offsets of these partitions; succeeds if there are none.

    Raises GroupActive, Failed.
    """
    if not partitions:
        return
    for error in delete_partition_offsets(properties, group, partitions):
        if error.code() not in NO_SUCH_GROUP:
            raise _failure(error, "The offsets cannot be deleted", group)


@logged("delete group", "group")
def delete_group(properties: Mapping[str, str], group: str) -> None:
    """Deletes the group and its offsets; succeeds if it does not exist. Raises GroupActive,
    Failed."""
    with Coordinators(properties) as coordinators:
        answer = coordinators.delete(group, _REQUEST_S)
    if isinstance(answer, KafkaError) and answer.code() not in NO_SUCH_GROUP:
        raise _failure(answer, "The group cannot be deleted", group)


def _failure(error: KafkaError, problem: str, place: str) -> ConnectError:
    if error.code() in GROUP_IN_USE:
        return GroupActive(
            Diagnostic("group.active", f"{problem}: the group has members", place, reason(error))
        )
    return as_failure(error, problem, place)


class SinkGroups:
    """Uses each sink's admin client. Moving offsets waits some seconds for members that are
    leaving, then raises GroupActive."""

    def offsets(self, sink: ConnectorClients) -> Mapping[Partition, int]:
        """Returns committed offsets; none if the group does not exist."""
        return list_group_offsets(sink.admin(), sink.group)

    def alter(self, sink: ConnectorClients, offsets: Mapping[Partition, int]) -> None:
        """Sets offsets."""
        _moved(lambda: alter_group_offsets(sink.admin(), sink.group, offsets))

    def forget(self, sink: ConnectorClients, partitions: Sequence[Partition]) -> None:
        """Deletes the offsets of some partitions."""
        _moved(lambda: delete_group_offsets(sink.admin(), sink.group, partitions))

    def delete(self, sink: ConnectorClients) -> None:
        """Deletes the group."""
        _moved(lambda: delete_group(sink.admin(), sink.group))


def _moved(move: Callable[[], None]) -> None:
    try:
        retry_while(
            lambda error: isinstance(error, GroupActive), move, _LEAVING_S, every_s=_RETRY_S
        )
    except GroupActive:
        raise
    except ConnectError as error:
        # Connect's answer to the caller does not give the reason
        _log.warning("%s (%s)", error, error.why)
        raise
