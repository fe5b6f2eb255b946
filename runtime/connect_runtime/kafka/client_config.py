"""Translates a Kafka client's properties from Java's names to librdkafka settings.

Most names are equal. Different ones are translated, those of the JVM and of listeners are dropped
silently, and the rest is dropped and listed for a warning. Values that Kafka's own clients accept
and librdkafka does not become the nearest ones that it accepts: Kafka's
`delivery.timeout.ms=120000` is longer than a short transaction, and only means "as long as the
transaction". Settings without a near equivalent stay, and librdkafka refuses them. Stores that it
does not read become PEM in memory. Values are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from connect_runtime.kafka import ssl_stores

_SAME = frozenset(
    """
    acks allow.auto.create.topics auto.commit.interval.ms batch.size
    bootstrap.servers check.crcs client.id client.rack compression.type connections.max.idle.ms
    delivery.timeout.ms enable.auto.commit enable.idempotence enable.metrics.push fetch.max.bytes
    fetch.min.bytes group.id group.instance.id group.remote.assignor
    heartbeat.interval.ms isolation.level linger.ms max.in.flight.requests.per.connection
    max.partition.fetch.bytes max.poll.interval.ms metadata.max.age.ms reconnect.backoff.max.ms
    reconnect.backoff.ms request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url session.timeout.ms
    socket.connection.setup.timeout.ms ssl.key.password transaction.timeout.ms
    transactional.id
    """.split()
)
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.request.size": "message.max.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_ASSIGNORS = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
_DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")

# JVM class loading, metrics, and what is read with a store; nothing is lost without them.
_JAVA_ONLY = frozenset(
    """
    auto.include.jmx.reporter buffer.memory default.api.timeout.ms exclude.internal.topics
    interceptor.classes key.deserializer key.serializer max.block.ms max.poll.records
    metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms security.providers
    socket.connection.setup.timeout.max.ms ssl.keymanager.algorithm ssl.keystore.password
    ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm ssl.truststore.password ssl.truststore.type value.deserializer
    value.serializer
    """.split()
)
# Of a worker's REST listeners, which share prefixes with its clients: `ssl.`, and `admin.`
_OF_LISTENERS = re.compile(r"ssl\.client\.auth|listeners(\.https\..*)?")
_JAAS_MODULE = re.compile(r"\s*([\w.$]+)\s+\w+")
_JAAS_OPTION = re.compile(
    r'([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([^\s;]+))'
)
# librdkafka 2.16, CONFIGURATION.md
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "auto.commit.interval.ms": (0, 86_400_000),
    "batch.size": (1, 2_147_483_647),
    "connections.max.idle.ms": (0, 2_147_483_647),
    "delivery.timeout.ms": (1, 2_147_483_647),
    "fetch.max.bytes": (0, 2_147_483_135),
    "fetch.min.bytes": (1, 100_000_000),
    "fetch.wait.max.ms": (0, 300_000),
    "heartbeat.interval.ms": (1, 3_600_000),
    "linger.ms": (0, 900_000),
    "max.partition.fetch.bytes": (1, 1_000_000_000),
    "max.poll.interval.ms": (1, 86_400_000),
    "message.max.bytes": (1_000, 1_000_000_000),
    "metadata.max.age.ms": (1, 86_400_000),
    "reconnect.backoff.max.ms": (0, 3_600_000),
    "reconnect.backoff.ms": (0, 3_600_000),
    "request.timeout.ms": (1, 900_000),
    "retry.backoff.max.ms": (1, 300_000),
    "retry.backoff.ms": (1, 300_000),
    "sasl.kerberos.min.time.before.relogin": (0, 86_400_000),
    "session.timeout.ms": (1, 3_600_000),
    "socket.connection.setup.timeout.ms": (1_000, 2_147_483_647),
    "socket.receive.buffer.bytes": (0, 100_000_000),
    "socket.send.buffer.bytes": (0, 100_000_000),
    "transaction.timeout.ms": (1_000, 2_147_483_647),
}
_POLL_INTERVAL_MS: Final = 300_000
_MESSAGE_BYTES: Final = 1_000_000
# The broker decides these in KIP-848's protocol.
_OF_CLASSIC_GROUPS: Final = (
    "heartbeat.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
)


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """`settings` for librdkafka, and the names of `unsupported` properties that were dropped."""

    settings: Mapping[str, str]
    unsupported: tuple[str, ...] = ()


def client_config(properties: Mapping[str, str]) -> ClientConfig:
    """Translates a client's properties from Java's names and values to librdkafka's. Raises
    Invalid if a key store or a trust store cannot be read."""
    settings: dict[str, str] = {}
    unsupported: list[str] = []
    for name, value in properties.items():
        if name in _JAVA_ONLY or _OF_LISTENERS.fullmatch(name):
            continue
        translated = _translate(name, value, properties)
        if translated is None:
            unsupported.append(name)
        else:
            settings |= translated
    settings |= ssl_stores.client_settings(properties)
    return ClientConfig(settings, tuple(sorted(unsupported)))


def _translate(name: str, value: str, properties: Mapping[str, str]) -> dict[str, str] | None:
    """Returns the settings for one property; None if there is no equivalent."""
    if name in _SAME:
        return {name: value}
    if name in _RENAMED:
        return {_RENAMED[name]: value}
    if name == "security.protocol":
        return {name: value.lower()}
    if name == "sasl.mechanism":
        return _mechanism(value)
    if name == "sasl.jaas.config":
        return _login(value)
    if name == "ssl.endpoint.identification.algorithm":
        return {name: value.strip().lower() or "none"}
    if name in ("ssl.truststore.location", "ssl.keystore.location"):
        return _pem_file(name, value, properties)
    if name == "client.dns.lookup":
        return {name: value} if value in _DNS_LOOKUPS else {}
    if name == "group.protocol":
        return {name: value.strip().lower()}
    if name == "auto.offset.reset":
        # Java's `none` fails the consumer if no offset is committed, as librdkafka's `error` does
        return {name: "error" if value.strip().lower() == "none" else value}
    if name == "partition.assignment.strategy":
        assignors = [_ASSIGNORS.get(assignor.strip()) for assignor in value.split(",")]
        translated = [assignor for assignor in assignors if assignor is not None]
        return {name: ",".join(translated)} if len(translated) == len(assignors) else None
    if name in ("send.buffer.bytes", "receive.buffer.bytes"):
        # Java's -1, the system default, is librdkafka's 0
        return {f"socket.{name}": "0" if value.strip() == "-1" else value}
    return None


def _mechanism(value: str) -> dict[str, str]:
    settings = {"sasl.mechanism": value}
    if value == "OAUTHBEARER":
        # the other method calls back into the program for tokens, and nothing answers here
        settings["sasl.oauthbearer.method"] = "oidc"
    return settings


def login_module(value: str) -> tuple[str, dict[str, str]]:
    """Returns the class of a JAAS login module, without its package, and its options; an empty name
    for a text that is no login module."""
    module = _JAAS_MODULE.match(value)
    options = {
        name: re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _JAAS_OPTION.findall(value)
    }
    return module[1].rpartition(".")[2] if module else "", options


def _login(value: str) -> dict[str, str] | None:
    """Returns user and password of a JAAS config, for login modules with an equivalent."""
    kind, options = login_module(value)
    if kind in ("PlainLoginModule", "ScramLoginModule"):
        settings = {"username": "sasl.username", "password": "sasl.password"}
    elif kind == "OAuthBearerLoginModule":
        settings = {
            "clientId": "sasl.oauthbearer.client.id",
            "clientSecret": "sasl.oauthbearer.client.secret",
            "scope": "sasl.oauthbearer.scope",
        }
    elif kind == "Krb5LoginModule":
        settings = {
            "keyTab": "sasl.kerberos.keytab",
            "principal": "sasl.kerberos.principal",
            "serviceName": "sasl.kerberos.service.name",
        }
    else:
        return None
    return {setting: options[option] for option, setting in settings.items() if option in options}


def _pem_file(name: str, value: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings for a PEM file; stores of Java's are read by `ssl_stores`."""
    if properties.get(name.replace("location", "type"), "JKS").strip().upper() != "PEM":
        return {}
    if name == "ssl.truststore.location":
        return {"ssl.ca.location": value}
    # one file that holds the private key and the certificates
    return {"ssl.key.location": value, "ssl.certificate.location": value}


def within_limits(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns one client's settings, under librdkafka's names, within its limits."""
    limited = {key: _in_range(key, value) for key, value in settings.items()}
    if str(limited.get("group.protocol", "")).lower() == "consumer":
        limited = {key: value for key, value in limited.items() if key not in _OF_CLASSIC_GROUPS}
    elif "," in str(limited.get("partition.assignment.strategy", "")):
        # a list of eager and cooperative assignors is in transition to cooperative
        names = str(limited["partition.assignment.strategy"]).split(",")
        if "cooperative-sticky" in names:
            limited["partition.assignment.strategy"] = "cooperative-sticky"
    return limited | _agreeing(
        {key: int(limited[key]) for key in limited if _is_number(limited[key])}
    )


def _agreeing(numbers: Mapping[str, int]) -> dict[str, int]:
    """Returns what has to change in pairs of numbers that librdkafka refuses together."""
    changed: dict[str, int] = {}
    longest = [
        numbers[k] for k in ("delivery.timeout.ms", "transaction.timeout.ms") if k in numbers
    ]
    if longest and "delivery.timeout.ms" in numbers:
        changed["delivery.timeout.ms"] = min(longest)
    if longest and "linger.ms" in numbers:
        changed["linger.ms"] = min(numbers["linger.ms"], min(longest) - 1)
    if "reconnect.backoff.ms" in numbers and "reconnect.backoff.max.ms" in numbers:
        pair = (numbers["reconnect.backoff.ms"], numbers["reconnect.backoff.max.ms"])
        changed["reconnect.backoff.max.ms"] = max(pair)
    if "session.timeout.ms" in numbers:
        session = numbers["session.timeout.ms"]
        if "max.poll.interval.ms" in numbers:
            changed["session.timeout.ms"] = min(session, numbers["max.poll.interval.ms"])
        elif session > _POLL_INTERVAL_MS:
            changed["max.poll.interval.ms"] = session
    if "fetch.max.bytes" in numbers:
        least = numbers.get("message.max.bytes", _MESSAGE_BYTES)
        changed["fetch.max.bytes"] = max(numbers["fetch.max.bytes"], least)
    return changed


def _in_range(key: str, value: Any) -> Any:
    if key not in _RANGES or not _is_number(value):
        return value
    low, high = _RANGES[key]
    return min(max(int(value), low), high)


def _is_number(value: Any) -> bool:
    try:
        int(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool)
