"""Kafka clients from properties under Java's names; and can the cluster be reached at all?

Nobody asks by `describe_cluster`: librdkafka 2.16 ends the whole process (an assertion in
`rd_kafka_admin_response_parse`) where the answer names no broker, as that of a broker does which
was frozen, until the cluster takes it back.

What librdkafka has to say goes to the logger `connect.kafka`, never to the terminal by itself.
Properties that it does not know are named there once, without their values.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from connect_runtime.kafka.calls import told
from connect_runtime.kafka.client_config import ClientConfig, client_config
from connect_runtime.kafka.client_limits import within_limits
from connect_runtime.kafka.errors import AUTHENTICATION, TELLING, TLS, error_of, reason
from connect_runtime.kafka.outages import ClusterLog
from connect_specs.diagnostics import Diagnostic, Invalid, Unreachable

__all__ = ["ClientConfig", "admin", "check_reachable", "client_config", "consumer", "producer"]

_log = logging.getLogger("connect.kafka")
# Without a handler of any kind Python prints warnings to the terminal.
_log.addHandler(logging.NullHandler())

# A request that comes before its connection stands waits for the next attempt: 50 ms by default,
# in most of the short-lived clients. And a broker that was restarted should be found in a second.
QUICK_CONNECTING: Mapping[str, Any] = {
    "reconnect.backoff.ms": 1,
    "reconnect.backoff.max.ms": 1000,
}
_QUOTED_VALUE = re.compile(r'Invalid value ".*" for', re.DOTALL)
_already_named: set[str] = set()
_cluster_logs: dict[str, ClusterLog] = {}
_cluster_logs_lock = threading.Lock()
# A cluster that takes longer is told as failing.
_ANSWER_S = 3.0
_FIRST_ASK_S = 0.25
_ASK_AGAIN_S = 0.05
_silent = logging.Logger("connect.kafka.silent", logging.CRITICAL)


class _Admin(AdminClient):
    """An admin client that no thread of its own destroys.

    Its answers are made in such a thread, where Python may collect garbage; were the client in it,
    librdkafka would abort the process. It is kept then until a thread of ours comes by.
    """

    _left: ClassVar[list[_Admin]] = []

    def __del__(self) -> None:
        if threading.get_ident() not in [thread.ident for thread in threading.enumerate()]:
            self._left.append(self)

    @classmethod
    def destroy_left(cls) -> None:
        """Destroys what could not be destroyed where it became garbage."""
        cls._left.clear()


def admin(properties: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> AdminClient:
    """An admin client. `settings` are librdkafka's own and win over the properties.

    Raises Invalid, as all three do, naming the property that does not fit.
    """
    _Admin.destroy_left()
    client: AdminClient = _made(_Admin, properties, settings or {})
    return client


def consumer(properties: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> Consumer:
    """A consumer. `settings` are librdkafka's own and win over the properties."""
    return _made(Consumer, properties, settings or {})


def producer(properties: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> Producer:
    """A producer. It chooses partitions as Java's does, so that a key stays where it is."""
    return _made(Producer, properties, {"partitioner": "murmur2_random", **(settings or {})})


@told("ask for the id of Kafka at", "properties")
def check_reachable(properties: Mapping[str, str], timeout_s: float = 8) -> str:
    """The cluster's id. Raises Unreachable with the address and the reason, a refused login at
    once, anything else after `timeout_s`."""
    seen: list[KafkaError] = []
    address = properties.get("bootstrap.servers", "")
    if not address:
        raise Unreachable(Diagnostic("kafka.no-address", "bootstrap.servers is not set"))
    deadline = time.monotonic() + timeout_s
    client = admin(properties, {"error_cb": seen.append})
    # Not in one request: a refused login is seen only between two of them
    patience_s = _FIRST_ASK_S
    while True:
        left_s = max(deadline - time.monotonic(), _FIRST_ASK_S)
        try:
            found = client.list_topics(timeout=min(patience_s, left_s))
            if found.cluster_id:
                return str(found.cluster_id)
        except KafkaException:
            pass  # why is told to `seen`
        client.poll(_ASK_AGAIN_S)
        refused = next((error for error in seen if error.code() in AUTHENTICATION), None)
        if refused is not None:
            raise Unreachable(
                Diagnostic(
                    "kafka.authentication",
                    "Kafka refuses the login",
                    address,
                    reason(refused),
                    "Check sasl.mechanism and sasl.jaas.config.",
                )
            )
        if time.monotonic() >= deadline:
            raise _silence(properties, seen)
        patience_s *= 2


def _silence(properties: Mapping[str, str], seen: list[KafkaError]) -> Unreachable:
    """Nobody answers, for the newest reason that tells something."""
    telling = [error for error in seen if error.code() in TELLING]
    if telling and (telling[-1].code() in TLS or "SSL" in telling[-1].str()):
        hint = "Check ssl.truststore.location and ssl.keystore.location, with ssl.*.type PEM."
        ignored = [name for name in client_config(properties).unsupported if name[:4] == "ssl."]
        if ignored:
            hint += f" These have no effect: {', '.join(ignored)}."
    else:
        hint = "Check bootstrap.servers and security.protocol, and whether the broker runs."
    return Unreachable(
        Diagnostic(
            "kafka.unreachable",
            "Kafka cannot be reached",
            properties["bootstrap.servers"],
            reason(telling[-1]) if telling else "it does not answer",
            hint,
        )
    )


def _cluster_log(properties: Mapping[str, str]) -> ClusterLog:
    """The one log of all clients of a cluster."""
    address = properties.get("bootstrap.servers", "")
    with _cluster_logs_lock:
        if address not in _cluster_logs:
            _cluster_logs[address] = ClusterLog(address, lambda: _answers(properties))
        return _cluster_logs[address]


def _answers(properties: Mapping[str, str]) -> bool:
    """Whether the cluster answers now, asked by a client that logs nothing."""
    try:
        settings = {**client_config(properties).settings, "log_level": 0}
        client = _Admin({**QUICK_CONNECTING, **settings}, logger=_silent)
        client.list_topics(timeout=_ANSWER_S)
    except KafkaException:
        return False
    return True


def _made(kind: Any, properties: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    translated = client_config(properties)
    unnamed = set(translated.unsupported) - _already_named
    if unnamed:
        _already_named.update(unnamed)
        _log.warning("These Kafka client properties have no effect: %s", ", ".join(sorted(unnamed)))
    try:
        known = within_limits({**QUICK_CONNECTING, **translated.settings, **settings})
        return kind(known, logger=_cluster_log(properties))
    except KafkaException as error:
        # the text quotes the value, which may be a secret
        why = _QUOTED_VALUE.sub("Invalid value for", reason(error_of(error)))
    raise Invalid(
        Diagnostic("kafka.properties", "These Kafka client properties do not fit", why=why)
    )
