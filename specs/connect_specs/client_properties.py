"""Lists the properties of Kafka's clients, and finds the one that an unknown name may mean.

connect.yaml takes Java's names. A property that no client knows would have no effect, so a typo is
an error: with `security.protocl`, clients would connect without encryption.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect_specs.diagnostics import Diagnostic, Location, warning
from connect_specs.fields import did_you_mean, typo_of

# Of consumers, producers and admin clients, and those that Kafka 4.0 took away
CLIENT_PROPERTIES: Final = frozenset(
    """
    acks allow.auto.create.topics auto.commit.interval.ms auto.include.jmx.reporter
    auto.offset.reset batch.size bootstrap.controllers bootstrap.servers buffer.memory check.crcs
    client.dns.lookup client.id client.rack compression.gzip.level compression.lz4.level
    compression.type compression.zstd.level config.providers connections.max.idle.ms
    default.api.timeout.ms delivery.timeout.ms enable.auto.commit enable.idempotence
    enable.metrics.push
    exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id
    group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    interceptor.classes isolation.level key.deserializer key.serializer linger.ms
    max.block.ms max.in.flight.requests.per.connection max.partition.fetch.bytes
    max.poll.interval.ms max.poll.records max.request.size metadata.max.age.ms
    metadata.max.idle.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    partition.assignment.strategy partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys
    receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms
    retries retry.backoff.max.ms retry.backoff.ms sasl.client.callback.handler.class
    sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class
    sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
    sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
    sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url security.protocol security.providers
    send.buffer.bytes session.timeout.ms share.acknowledgement.mode share.acquire.mode
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
    ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
    transaction.timeout.ms transaction.two.phase.commit.enable transactional.id
    value.deserializer value.serializer
    """.split()
)
_LIBRDKAFKA: Final[Mapping[str, str]] = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.jaas.config",
    "sasl.oauthbearer.client.secret": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "sasl.username": "sasl.jaas.config",
    "ssl.ca.location": "ssl.truststore.location, with ssl.truststore.type: PEM",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location, with ssl.keystore.type: PEM",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location, with ssl.keystore.type: PEM",
    "ssl.key.pem": "ssl.keystore.key",
}
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "sasl.mechanism": ("GSSAPI", "OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
    "security.protocol": ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL", "SSL"),
}
_WORKER_PREFIXES: Final = ("admin.", "consumer.", "producer.")


def near_client_property(key: str) -> str | None:
    """Returns the property that an unknown name is probably a typo of, or None."""
    return typo_of(key.lower(), CLIENT_PROPERTIES)


def check_client_properties(
    values: Mapping[str, str],
    places: Mapping[str, Location],
    problems: list[Diagnostic],
    warnings: list[Diagnostic],
) -> None:
    """Reports properties that no client knows: typos as problems, others as warnings."""
    for key, location in places.items():
        if key not in CLIENT_PROPERTIES:
            problem = _unknown(key, location)
            (problems if problem.severity == "error" else warnings).append(problem)
        elif key in _WORDS and values.get(key, "").strip().upper() not in _WORDS[key]:
            hint = did_you_mean(values.get(key, ""), _WORDS[key])
            message = f"Kafka's clients do not know this value of {key!r}"
            problems.append(Diagnostic("project.client-property", message, location, hint=hint))


def _unknown(key: str, location: Location) -> Diagnostic:
    code, message = "project.client-property", f"Kafka's clients have no property {key!r}"
    if key in _LIBRDKAFKA:
        message = f"{key!r} is librdkafka's name of a property; connect.yaml takes Java's names"
        return Diagnostic(code, message, location, hint=f"write {_LIBRDKAFKA[key]}")
    prefix, _, client_key = key.partition(".")
    if f"{prefix}." in _WORKER_PREFIXES and client_key in CLIENT_PROPERTIES:
        hint = f"write {client_key}, or move it to 'worker'"
        return Diagnostic(code, message, location, hint=hint)
    near = near_client_property(key)
    if near is not None:
        return Diagnostic(code, message, location, hint=f"did you mean {near!r}?")
    message, hint = f"{message}; it has no effect", "remove it, or correct its name"
    return warning(code, message, location, hint=hint)
