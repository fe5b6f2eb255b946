"""Builds a connector's client properties and locates its offsets; applies the worker's policy on
the properties that a connector may override.

One value for tasks, herder, offsets API and the reconciler. Properties have Java's names and are
combined as Connect does: the worker's, then its `producer.*`, `consumer.*` or `admin.*`, then the
connector's overrides (KIP-458). `runtime.client.*` of the worker's file replaces the worker's in
this runtime's clients, for logins that librdkafka lacks; Java tasks keep the worker's.

A connector that overrides the `bootstrap.servers` of the client that moves its data, a source's
producer or a sink's consumer, works on that cluster: its other clients follow with the same login,
unless they override `bootstrap.servers` themselves.

`connector.client.config.override.policy` is All, None, Principal or Allowlist (KIP-458, KIP-1188),
or the name of Apache's class for one of them. A property that the policy forbids is an error of the
config, and its connector does not run.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from connect_runtime.api import ConfigError
from connect_runtime.settings.connector_topics import TopicSettings, storage_config
from connect_specs.names import sink_group, task_transactional_id

Kind = Literal["source", "sink"]

OFFSETS_TOPIC_KEY: Final = "offsets.storage.topic"
DEAD_LETTERS_KEY: Final = "errors.deadletterqueue.topic.name"
PRODUCER: Final = "producer.override."
CONSUMER: Final = "consumer.override."
ADMIN: Final = "admin.override."
PREFIXES: Final = (PRODUCER, CONSUMER, ADMIN)
# Of the worker's file
OWN_CLIENTS: Final = "runtime.client."

POLICY_KEY: Final = "connector.client.config.override.policy"
ALLOWLIST_KEY: Final = "connector.client.config.override.allowlist"
_PRINCIPAL: Final = "Principal"
_POLICIES: Final = ("All", "None", _PRINCIPAL, "Allowlist")
_OF_A_PRINCIPAL: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
_APACHE: Final = (
    "org.apache.kafka.connect.connector.policy.",
    "ConnectorClientConfigOverridePolicy",
)
POLICY_CLASSES: Final = tuple(f"{_APACHE[0]}{policy}{_APACHE[1]}" for policy in _POLICIES)

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
# Apache's Utils.HOST_PORT_PATTERN
_ADDRESS: Final = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
_PORTS: Final = 65536
_NO_ADDRESS: Final = "No resolvable bootstrap urls given in {}"


@dataclass(frozen=True, slots=True)
class OffsetsPlace:
    """The place of a source's offsets: `topic`, on the cluster that the source produces to.

    `underneath` is the worker's topic on the worker's cluster, for offsets that `topic` lacks
    (KIP-618, smooth migration); None if `topic` is the worker's. `elsewhere`: the cluster's
    addresses are not the worker's.
    """

    topic: str
    underneath: str | None
    elsewhere: bool


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
        texts = [text for _, text in forbidden_overrides(self.config, self.worker, self.kind)]
        if texts:
            raise ConfigError(f"Client Config Overrides not allowed [{' '.join(texts)}]")

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
        return _prefixed(self._worker, "admin.") | _connection(self.producer()) | own

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
        return _connection(self._worker)

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
        """Returns True if the connector's data is on another cluster than the worker's topics."""
        prefix = PRODUCER if self.kind == "source" else CONSUMER
        override = self.config.get(f"{prefix}bootstrap.servers")
        return override is not None and _servers(override) != _servers(
            self.worker.get("bootstrap.servers", "")
        )

    @property
    def servers(self) -> frozenset[str]:
        """Returns the addresses of the cluster that the connector's data is on."""
        return _servers(self._data_client["bootstrap.servers"])

    @property
    def own_login(self) -> bool:
        """Returns True if offsets are reached in another way than by the worker's clients: a client
        of the connector reaches Kafka in another way."""
        overrides = ((prefix, key) for key in self.config for prefix in PREFIXES)
        return not self.in_file and any(
            key.startswith(prefix) and key.removeprefix(prefix).startswith(_REACH)
            for prefix, key in overrides
        )

    @property
    def own_offsets_login(self) -> bool:
        """Returns True if a source's offsets are reached by the connector's clients: it overrides
        how they reach Kafka, or has a topic of its own, and the worker gives connectors other
        logins."""
        own_topic = self.place.underneath is not None
        clients = (self.producer(), self.consumer(), self.admin())
        return self.own_login or (own_topic and any(map(self._has_other_login, clients)))

    @property
    def own_producer(self) -> bool:
        """Returns True if a source's tasks write to another cluster than the worker, or with
        another login."""
        return not self.in_file and (self.elsewhere or self._has_other_login(self.producer()))

    @property
    def new_offsets_topic(self) -> TopicSettings:
        """Returns the worker's settings for its own topic (KIP-618: the connector chooses only the
        name)."""
        return TopicSettings(
            partitions=int(self.worker.get(f"{_STORAGE}partitions") or 25),
            replication_factor=int(self.worker.get(f"{_STORAGE}replication.factor") or 3),
            config=storage_config(self.worker, _STORAGE),
        )

    def transactional_id(self, task: int) -> str:
        """Returns the transactional id of a source task's producer."""
        return task_transactional_id(self.group_id, self.name, task)

    # --- internals ---

    @property
    def _worker(self) -> Mapping[str, str]:
        return own_clients(self.worker)

    @property
    def _data_client(self) -> dict[str, str]:
        return self.producer() if self.kind == "source" else self.consumer()

    def _of(self, prefix: str, overrides: str) -> dict[str, str]:
        worker = self._worker
        base = {"bootstrap.servers": worker.get("bootstrap.servers", "")}
        if prefix == "admin.":
            base |= _connection(worker)
        base |= _prefixed(worker, prefix)
        follow = (ADMIN, CONSUMER) if self.kind == "source" else (ADMIN,)
        alone = f"{overrides}bootstrap.servers" in self.config
        if overrides in follow and not alone and self.elsewhere:
            # drops the worker's login: the other cluster has no such user
            base = {k: v for k, v in base.items() if not k.startswith(_CONNECTION)}
            base |= _connection(self._data_client)
        return base | _prefixed(self.config, overrides)

    def _has_other_login(self, client: Mapping[str, str]) -> bool:
        return _login(client) != _login(self._worker)


def own_clients(worker: Mapping[str, str]) -> Mapping[str, str]:
    """Returns worker properties with those of this runtime's own clients in place of the others."""
    own = _prefixed(worker, OWN_CLIENTS)
    if not own:
        return worker
    prefixes = ("", "producer.", "consumer.", "admin.")
    return {**worker, **{f"{prefix}{key}": own[key] for prefix in prefixes for key in own}}


def is_client_key(key: str) -> bool:
    """Returns True if a connector's clients use this key of its config."""
    return key.startswith(PREFIXES) or key in (OFFSETS_TOPIC_KEY, DEAD_LETTERS_KEY)


def _servers(addresses: str) -> frozenset[str]:
    return frozenset(address.strip() for address in addresses.split(",") if address.strip())


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


def policy_of(worker: Mapping[str, str]) -> str:
    """Returns the policy's short name. Raises ConfigError for an unknown one."""
    text, short = _policy(worker)
    if short not in _POLICIES:
        allowed = f"must be one of {', '.join(_POLICIES)}"
        raise ConfigError.invalid(POLICY_KEY, text, allowed)
    return short


def deprecated_policy(worker: Mapping[str, str]) -> str:
    """Returns a warning of a policy that Kafka 5.0 will not have; empty for others."""
    if _policy(worker)[1] != _PRINCIPAL:
        return ""
    allowlist = ",".join(sorted(_OF_A_PRINCIPAL))
    return (
        f"{POLICY_KEY}={_PRINCIPAL} is deprecated, and Kafka 5.0 will not have it: Allowlist with "
        f"{ALLOWLIST_KEY}={allowlist} does the same"
    )


def _policy(worker: Mapping[str, str]) -> tuple[str, str]:
    """Returns the policy as the worker names it, and its short name."""
    text = (worker.get(POLICY_KEY) or "All").strip()
    package, suffix = _APACHE
    return text, text.removeprefix(package).removesuffix(suffix)


def forbidden_overrides(
    config: Mapping[str, str | None], worker: Mapping[str, str], kind: Kind
) -> Iterator[tuple[str, str]]:
    """Yields each override that the policy forbids, with Connect's text. Raises ConfigError.

    A sink's producer only writes dead letters: without them its properties are not checked, as in
    Connect.
    """
    policy = policy_of(worker)
    if policy == "All":
        return
    allowed = _OF_A_PRINCIPAL if policy == _PRINCIPAL else frozenset[str]()
    if policy == "Allowlist":
        names = (worker.get(ALLOWLIST_KEY) or "").split(",")
        allowed = frozenset(name.strip() for name in names)
    unused = kind == "sink" and not (config.get(DEAD_LETTERS_KEY) or "").strip()
    for key in config:
        prefix = next((prefix for prefix in PREFIXES if key.startswith(prefix)), None)
        if prefix is None or (prefix == PRODUCER and unused):
            continue
        name = key.removeprefix(prefix)
        if name not in allowed:
            yield (
                key,
                f"The '{policy}' policy does not allow '{name}' to be overridden in the connector "
                "configuration.",
            )


def check_addresses(key: str, addresses: Iterable[str]) -> list[tuple[str, int]]:
    """Returns hosts and ports of brokers. Raises ConfigError, as Java's clients do (`ClientUtils`),
    if there are none, or for one that is neither."""
    brokers = []
    for address in filter(None, addresses):
        match = _ADDRESS.fullmatch(address)
        if match is None:
            raise ConfigError(f"Invalid url in {key}: {address}")
        host, port = match.groups()
        if len(port) > 9 or int(port) >= _PORTS:
            raise ConfigError(f"Invalid port in {key}: {address}")
        brokers.append((host, int(port)))
    if not brokers:
        raise ConfigError(_NO_ADDRESS.format(key))
    return brokers


def check_known(key: str, addresses: Iterable[str]) -> None:
    """Raises ConfigError if no address has a host that is known here: librdkafka would look for it
    for ever, without an error. May take as long as DNS does."""
    for host, port in check_addresses(key, addresses):
        with suppress(OSError, UnicodeError):
            socket.getaddrinfo(host, port)
            return
    raise ConfigError(_NO_ADDRESS.format(key))
