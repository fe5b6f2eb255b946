"""Translates a Kafka client's properties from Java's names to librdkafka settings.

Most names are equal. Different ones are translated, those of the JVM and of listeners are dropped
silently, and the rest is dropped and listed for a warning. Pure; values are never shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

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
    socket.connection.setup.timeout.ms ssl.key.password ssl.keystore.password transaction.timeout.ms
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

# JVM class loading and metrics; nothing is lost without them.
_JAVA_ONLY = frozenset(
    """
    auto.include.jmx.reporter buffer.memory default.api.timeout.ms exclude.internal.topics
    interceptor.classes key.deserializer key.serializer max.block.ms max.poll.records
    metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms security.providers
    socket.connection.setup.timeout.max.ms ssl.keymanager.algorithm ssl.keystore.type ssl.protocol
    ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.type
    value.deserializer value.serializer
    """.split()
)
# Of a worker's REST listeners, which share prefixes with its clients: `ssl.`, and `admin.`
_OF_LISTENERS = re.compile(r"ssl\.client\.auth|listeners(\.https\..*)?")
_JAAS_MODULE = re.compile(r"\s*([\w.$]+)\s+\w+")
_JAAS_OPTION = re.compile(
    r'([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([^\s;]+))'
)


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """`settings` for librdkafka, and the names of `unsupported` properties that were dropped."""

    settings: Mapping[str, str]
    unsupported: tuple[str, ...] = ()


def client_config(properties: Mapping[str, str]) -> ClientConfig:
    """Translates a client's properties from Java's names and values to librdkafka's."""
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
    if name in ("ssl.truststore.location", "ssl.truststore.password"):
        return _trust_store(name, value, properties)
    if name == "ssl.keystore.location":
        return _key_store(value, properties)
    if name == "client.dns.lookup":
        return {name: value} if value in _DNS_LOOKUPS else {}
    if name == "group.protocol":
        return {name: value.strip().lower()}
    if name == "auto.offset.reset":
        # Java's `none` fails the consumer if no offset is committed, as librdkafka's `error` does
        return {name: "error" if value.strip().lower() == "none" else value}
    if name == "partition.assignment.strategy":
        names = [_ASSIGNORS.get(each.strip()) for each in value.split(",")]
        known = [each for each in names if each is not None]
        return {name: ",".join(known)} if len(known) == len(names) else None
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


def _login(value: str) -> dict[str, str] | None:
    """Returns user and password of a JAAS config, for login modules with an equivalent."""
    module = _JAAS_MODULE.match(value)
    options = {
        name: re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _JAAS_OPTION.findall(value)
    }
    kind = module[1].rpartition(".")[2] if module else ""
    if kind in ("PlainLoginModule", "ScramLoginModule"):
        wanted = {"username": "sasl.username", "password": "sasl.password"}
    elif kind == "OAuthBearerLoginModule":
        wanted = {
            "clientId": "sasl.oauthbearer.client.id",
            "clientSecret": "sasl.oauthbearer.client.secret",
            "scope": "sasl.oauthbearer.scope",
        }
    elif kind == "Krb5LoginModule":
        wanted = {
            "keyTab": "sasl.kerberos.keytab",
            "principal": "sasl.kerberos.principal",
            "serviceName": "sasl.kerberos.service.name",
        }
    else:
        return None
    return {setting: options[option] for option, setting in wanted.items() if option in options}


def _trust_store(name: str, value: str, properties: Mapping[str, str]) -> dict[str, str] | None:
    if properties.get("ssl.truststore.type", "JKS").upper() != "PEM":
        return None
    return {"ssl.ca.location": value} if name == "ssl.truststore.location" else {}


def _key_store(value: str, properties: Mapping[str, str]) -> dict[str, str] | None:
    kind = properties.get("ssl.keystore.type", "JKS").upper()
    if kind == "PEM":
        # one file that holds the private key and the certificates
        return {"ssl.key.location": value, "ssl.certificate.location": value}
    return {"ssl.keystore.location": value} if kind == "PKCS12" else None
