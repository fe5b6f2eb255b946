"""Builds a connector's client properties and locates its offsets.

One value for tasks, herder, offsets API and the reconciler. Properties have Java's names and are
combined as Connect does: the worker's, then its `producer.*`, `consumer.*` or `admin.*`, then the
connector's overrides (KIP-458). Pure.

A connector that overrides the `bootstrap.servers` of the client that moves its data, a source's
producer or a sink's consumer, works on that cluster: its other clients follow with the same login,
unless they override `bootstrap.servers` themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from connect_runtime.settings.client_overrides import (
    ADMIN,
    CONSUMER,
    DEAD_LETTERS_KEY,
    PREFIXES,
    PRODUCER,
    Kind,
    check_overrides,
)
from connect_specs.names import sink_group, task_transactional_id

OFFSETS_TOPIC_KEY: Final = "offsets.storage.topic"

_LOGIN: Final = ("sasl.", "security.", "ssl.")
# The cluster that a client reaches, and its login
_REACH: Final = ("bootstrap.servers", *_LOGIN)
_CONNECTION: Final = (*_REACH, "client.dns.lookup", "request.timeout.ms")
# Properties for group members only, or that every reader of offsets sets itself
_OF_MEMBERS: Final = (
    "auto.",
    "enable.auto.commit",
    "group.",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.poll.",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
_STORAGE: Final = "offset.storage."
# Connect's own keys with this prefix; the others are settings of the topic
_NO_TOPIC_SETTINGS: Final = frozenset(
    {"topic", "partitions", "replication.factor", "cleanup.policy", "file.filename"}
)


@dataclass(frozen=True, slots=True)
class OffsetsPlace:
    """Where a source's offsets are: `topic`, on the cluster that the source produces to.

    `underneath` is the worker's topic on the worker's cluster, for offsets that `topic` lacks
    (KIP-618, smooth migration); None if `topic` is the worker's. `elsewhere`: the cluster's
    addresses are not the worker's.
    """

    topic: str
    underneath: str | None
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class NewOffsetsTopic:
    """Settings for creating a connector's own offsets topic. -1 leaves a number to the broker."""

    partitions: int
    replication_factor: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConnectorClients:
    """A connector's clients. `worker` holds all worker properties, `offsets_topic` is the worker's.
    `config` has its references resolved wherever a client is created from these properties.
    `in_file`: sources' offsets are in a standalone worker's file, wherever their records go."""

    group_id: str
    offsets_topic: str
    worker: Mapping[str, str] = field(repr=False)
    name: str
    config: Mapping[str, str] = field(repr=False)
    kind: Kind
    in_file: bool = False

    def check(self) -> None:
        """Raises ConfigError if the worker's policy forbids an override."""
        check_overrides(self.config, self.worker, self.kind)

    # --- properties ---

    def producer(self) -> dict[str, str]:
        """Returns producer properties of a source's tasks."""
        return self._of("producer.", PRODUCER)

    def consumer(self) -> dict[str, str]:
        """Returns consumer properties of a sink's tasks."""
        return self._of("consumer.", CONSUMER)

    def admin(self) -> dict[str, str]:
        """Returns properties of the admin client that creates the connector's topics and moves a
        sink's offsets."""
        return self._of("admin.", ADMIN)

    def dead_letters_admin(self) -> dict[str, str]:
        """Returns properties of the client that creates a sink's dead letter queue, on the cluster
        that its producer writes to."""
        own = _prefixed(self.config, ADMIN)
        return _prefixed(self.worker, "admin.") | _connection(self.producer()) | own

    def offsets_consumer(self) -> dict[str, str]:
        """Returns properties for reading a source's offsets: all partitions, without a group."""
        return {k: v for k, v in self.consumer().items() if not k.startswith(_OF_MEMBERS)}

    def offsets_producer(self) -> dict[str, str]:
        """Returns properties for writing a source's offsets in place of its tasks: their login
        only, since their tuning does not suit a few records."""
        return _connection(self.producer())

    def worker_client(self) -> dict[str, str]:
        """Returns properties for the cluster's own topics: with the worker's login, never the
        connector's."""
        return _connection(self.worker)

    # --- offsets ---

    @property
    def group(self) -> str:
        """Returns a sink's consumer group."""
        return sink_group(self.name, self.config, self.worker)

    @property
    def place(self) -> OffsetsPlace:
        """Returns where a source's offsets are."""
        if self.in_file:
            return OffsetsPlace(self.offsets_topic, None, elsewhere=False)
        elsewhere = self.elsewhere
        topic = (self.config.get(OFFSETS_TOPIC_KEY) or "").strip() or self.offsets_topic
        own = elsewhere or topic != self.offsets_topic
        return OffsetsPlace(topic, self.offsets_topic if own else None, elsewhere)

    @property
    def elsewhere(self) -> bool:
        """Whether the connector's data is on another cluster than the worker's topics."""
        given = self.config.get(f"{self._data_prefix}bootstrap.servers")
        return given is not None and _servers(given) != _servers(
            self.worker.get("bootstrap.servers", "")
        )

    @property
    def servers(self) -> frozenset[str]:
        """Returns the addresses of the cluster that the connector's data is on."""
        data = self.producer() if self.kind == "source" else self.consumer()
        return _servers(data["bootstrap.servers"])

    @property
    def own_login(self) -> bool:
        """Whether offsets are reached in another way than by the worker's clients: a client of the
        connector reaches Kafka in another way."""
        return not self.in_file and any(
            self._overridden(each) for each in (PRODUCER, CONSUMER, ADMIN)
        )

    @property
    def own_offsets_login(self) -> bool:
        """Whether a source's offsets are reached by the connector's clients: it overrides how they
        reach Kafka, or has a topic of its own, and the worker gives connectors other logins."""
        own_topic = self.place.underneath is not None
        others = (self.producer(), self.consumer(), self.admin())
        return self.own_login or (own_topic and any(map(self._not_the_workers, others)))

    @property
    def own_producer(self) -> bool:
        """Whether a source's tasks write to another cluster than the worker, or with another
        login."""
        return not self.in_file and (self.elsewhere or self._not_the_workers(self.producer()))

    @property
    def new_offsets_topic(self) -> NewOffsetsTopic:
        """Returns the worker's settings for its own topic (KIP-618: the connector chooses only the
        name)."""
        given = self.worker.get
        return NewOffsetsTopic(
            partitions=int(given(f"{_STORAGE}partitions") or 25),
            replication_factor=int(given(f"{_STORAGE}replication.factor") or 3),
            config={
                name: value
                for key, value in self.worker.items()
                if key.startswith(_STORAGE)
                and (name := key.removeprefix(_STORAGE)) not in _NO_TOPIC_SETTINGS
            },
        )

    def transactional_id(self, task: int) -> str:
        """Returns the transactional id of a source task's producer."""
        return task_transactional_id(self.group_id, self.name, task)

    # --- internals ---

    @property
    def _data_prefix(self) -> str:
        return PRODUCER if self.kind == "source" else CONSUMER

    def _of(self, prefix: str, overrides: str) -> dict[str, str]:
        return self._base(prefix, overrides) | _prefixed(self.config, overrides)

    def _base(self, prefix: str, overrides: str) -> dict[str, str]:
        """Returns everything but the client's own overrides."""
        base = {"bootstrap.servers": self.worker.get("bootstrap.servers", "")}
        if prefix == "admin.":
            base |= _connection(self.worker)
        base |= _prefixed(self.worker, prefix)
        follow = (ADMIN, CONSUMER) if self.kind == "source" else (ADMIN,)
        alone = f"{overrides}bootstrap.servers" in self.config
        if overrides not in follow or alone or not self.elsewhere:
            return base
        # drops the worker's login: the other cluster does not know it
        data = self.producer() if self.kind == "source" else self.consumer()
        return {k: v for k, v in base.items() if not k.startswith(_CONNECTION)} | _connection(data)

    def _not_the_workers(self, client: Mapping[str, str]) -> bool:
        """Whether a client's login is not the worker's own."""
        return _login(client) != _login(self.worker)

    def _overridden(self, overrides: str) -> bool:
        return any(
            key.removeprefix(overrides).startswith(_REACH)
            for key in self.config
            if key.startswith(overrides)
        )


def is_client_key(key: str) -> bool:
    """Whether a connector's clients use this key of its config."""
    return key.startswith(PREFIXES) or key in (OFFSETS_TOPIC_KEY, DEAD_LETTERS_KEY)


def _servers(addresses: str) -> frozenset[str]:
    return frozenset(each.strip() for each in addresses.split(",") if each.strip())


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key.startswith(_LOGIN)}


def _connection(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in properties.items() if key.startswith(_CONNECTION)}


def _prefixed(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value
        for key, value in properties.items()
        if key.startswith(prefix)
    }
