"""Creates Kafka clients from properties under Java's names, and checks that a cluster is reachable.

`describe_cluster` is not used: librdkafka 2.16 ends the whole process (an assertion in
`rd_kafka_admin_response_parse`) if the answer names no broker, as the answer of a broker that was
frozen does until the cluster accepts it again.

librdkafka's log goes to the logger `connect.kafka`, never directly to the terminal. Properties that
it does not know are named there once, without their values.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from weakref import WeakValueDictionary

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from connect_runtime.kafka.client_config import client_config, within_limits
from connect_runtime.kafka.errors import (
    AUTHENTICATION,
    REACH_HINT,
    REFUSED_LOGIN,
    SPECIFIC,
    TLS,
    UNREACHABLE,
    error_of,
    login_refused,
    reason,
)
from connect_runtime.kafka.kafka_logging import OutageLog, logged
from connect_specs.diagnostics import Diagnostic, Invalid, Unreachable

_log = logging.getLogger("connect.kafka")
# Without a handler of any kind Python prints warnings to the terminal.
_log.addHandler(logging.NullHandler())

# A request made before its connection is up waits for the next attempt: 50 ms by default, in most
# of the short-lived clients. And a restarted broker should be found within a second.
QUICK_CONNECTING: Mapping[str, Any] = {
    "reconnect.backoff.ms": 1,
    "reconnect.backoff.max.ms": 1000,
}
# librdkafka's admin client is a producer: asked about a topic that was deleted, it would create it
_ADMIN_SETTINGS: Final[Mapping[str, Any]] = {"allow.auto.create.topics": False}
# Java's default; librdkafka's is 1,000,000
_REQUEST_BYTES: Final = str(1 << 20)
_QUOTED_VALUE = re.compile(r'Invalid value ".*" for', re.DOTALL)
_already_named: set[str] = set()
_cluster_logs: dict[str, OutageLog] = {}
_cluster_logs_lock = threading.Lock()
_admins: WeakValueDictionary[frozenset[tuple[str, str]], _Admin] = WeakValueDictionary()
_admins_lock = threading.Lock()
# A cluster that takes longer is reported as failing.
_ANSWER_S = 3.0
_FIRST_TIMEOUT_S = 0.25
# No signal is handled during a request
_LONGEST_REQUEST_S = 4.0
_RETRY_S = 0.05
_GIVE_UP_S = 1.0
_GIVE_UP_POLL_S = 0.02
# Exists wherever transactions do; the metadata of all topics of a cluster may be large
_TRANSACTIONS = "__transaction_state"
_silent = logging.Logger("connect.kafka.silent", logging.CRITICAL)


class _Admin(AdminClient):
    """An admin client that is never destroyed by one of its own threads.

    Its answers are made in such a thread, where Python may collect garbage; destroying the client
    there would make librdkafka abort the process. Such a client is kept until one of our threads
    destroys it.
    """

    _left: ClassVar[list[_Admin]] = []
    over = (
        False  # Python calls `__del__` once: a user that got it afterwards would not be protected
    )

    def __del__(self) -> None:
        self.over = True
        if not _is_pythons(threading.get_ident()):
            self._left.append(self)

    @classmethod
    def destroy_left(cls) -> None:
        """Destroys clients that could not be destroyed on the thread that collected them."""
        cls._left.clear()


def _begin_anew() -> None:
    """Forgets clients after a fork: their threads do not outlive it, nor does the lock's holder."""
    global _admins_lock
    _admins_lock = threading.Lock()
    _admins.clear()


os.register_at_fork(after_in_child=_begin_anew)


def _is_pythons(ident: int) -> bool:
    """Returns whether Python started the thread. Others have no Thread, or a dummy if they once
    logged."""
    return any(
        thread.ident == ident and not isinstance(thread, threading._DummyThread)  # noqa: SLF001
        for thread in threading.enumerate()
    )


def admin(properties: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> AdminClient:
    """Returns an admin client: the same for the same properties while it is in use, because each
    client connects and logs in by itself. `settings` are librdkafka's own and override the
    properties; with them the client is not shared.

    Raises Invalid, as all three do, naming the invalid property.
    """
    _Admin.destroy_left()
    if settings is not None:
        return _new_admin(properties, settings)
    key = frozenset(properties.items())
    with _admins_lock:
        client = _admins.get(key)
        if client is None or client.over:
            client = _admins[key] = _new_admin(properties, {})
        return client


def _new_admin(properties: Mapping[str, str], settings: Mapping[str, Any]) -> _Admin:
    client: _Admin = _made(_Admin, properties, {**_ADMIN_SETTINGS, **settings})
    return client


def consumer(properties: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> Consumer:
    """Creates a consumer. `settings` are librdkafka's own and override the properties."""
    return _made(Consumer, properties, settings or {})


def leave_group(client: Consumer) -> None:
    """Leaves the consumer's group at once, and closes the consumer.

    `close` alone sends nothing for a cooperative member without partitions, and the group waits for
    its session. Partitions are given up before it: a callback within `close` may wait for ever.
    """
    client.unsubscribe()
    deadline = time.monotonic() + _GIVE_UP_S
    while client.assignment() and time.monotonic() < deadline:
        client.poll(_GIVE_UP_POLL_S)
    client.close()


def producer(properties: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> Producer:
    """Creates a producer. It partitions as Java's does, so that a key keeps its partition, and
    takes records of the same size."""
    sized = {"max.request.size": _REQUEST_BYTES, **properties}
    return _made(Producer, sized, {"partitioner": "murmur2_random", **(settings or {})})


def meet_broker(client: Producer, timeout_s: float) -> None:
    """Waits until a producer is connected, before it asks for the coordinator of its transactions.
    Raises KafkaException.

    Twice, and with immediate reconnects: the second answer comes when the first's connection is up,
    and init_transactions then finds a broker to ask. Otherwise it waits for a timer of 500 ms in
    one case of five.
    """
    for _ in range(2):
        client.list_topics(_TRANSACTIONS, timeout=timeout_s)


@logged("get the cluster id of Kafka at", "properties")
def check_reachable(properties: Mapping[str, str], timeout_s: float = 8) -> str:
    """Returns the cluster's id. Raises Unreachable with the address and the reason: at once for a
    refused login, else after `timeout_s`."""
    errors: list[KafkaError] = []
    address = properties.get("bootstrap.servers", "")
    if not address:
        raise Unreachable(Diagnostic("kafka.no-address", "bootstrap.servers is not set"))
    deadline = time.monotonic() + timeout_s
    client = admin(properties, {"error_cb": errors.append})
    # Several requests: a refused login is seen only between two of them
    request_s = _FIRST_TIMEOUT_S
    while True:
        left_s = max(deadline - time.monotonic(), _FIRST_TIMEOUT_S)
        try:
            metadata = client.list_topics(timeout=min(request_s, left_s))
            if metadata.cluster_id:
                return str(metadata.cluster_id)
        except KafkaException:
            pass  # the reason is in `seen`
        client.poll(_RETRY_S)
        refused = next((error for error in errors if error.code() in AUTHENTICATION), None)
        if refused is not None:
            raise login_refused(refused, address)
        if time.monotonic() >= deadline:
            raise _unreachable(properties, errors)
        request_s = min(2 * request_s, _LONGEST_REQUEST_S)


def check_login(properties: Mapping[str, str], timeout_s: float) -> None:
    """Raises Unreachable if Kafka refuses the login, as far as it says so in that time."""
    try:
        check_reachable(properties, timeout_s)
    except Unreachable as error:
        if error.diagnostics[0].code == REFUSED_LOGIN:
            raise


def _unreachable(properties: Mapping[str, str], errors: list[KafkaError]) -> Unreachable:
    """Returns an error for an unreachable cluster, with the newest specific reason."""
    specific = [error for error in errors if error.code() in SPECIFIC]
    if specific and (specific[-1].code() in TLS or "SSL" in specific[-1].str()):
        hint = "Check ssl.truststore.location and ssl.keystore.location."
        ignored = [name for name in client_config(properties).unsupported if name[:4] == "ssl."]
        if ignored:
            hint += f" These have no effect: {', '.join(ignored)}."
    else:
        hint = REACH_HINT
    return Unreachable(
        Diagnostic(
            UNREACHABLE,
            "Kafka cannot be reached",
            properties["bootstrap.servers"],
            reason(specific[-1]) if specific else "it does not answer",
            hint,
        )
    )


def _cluster_log(properties: Mapping[str, str]) -> OutageLog:
    """Returns the log that all clients of a cluster share."""
    address = properties.get("bootstrap.servers", "")
    with _cluster_logs_lock:
        if address not in _cluster_logs:
            _cluster_logs[address] = OutageLog(address, lambda: _answers(properties))
        return _cluster_logs[address]


def _answers(properties: Mapping[str, str]) -> bool:
    """Returns whether the cluster answers now; asks with a client that logs nothing."""
    try:
        settings = {**client_config(properties).settings, "log_level": 0}
        client = _Admin({**QUICK_CONNECTING, **settings}, logger=_silent)
        client.list_topics(timeout=_ANSWER_S)
    except (Invalid, KafkaException):  # a store may just be replaced
        return False
    return True


def _made(kind: Any, properties: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    translated = client_config(properties)
    unnamed = set(translated.unsupported) - _already_named
    if unnamed:
        _already_named.update(unnamed)
        _log.warning("These Kafka client properties have no effect: %s", ", ".join(sorted(unnamed)))
    try:
        limited = within_limits({**QUICK_CONNECTING, **translated.settings, **settings})
        return kind(limited, logger=_cluster_log(properties))
    except KafkaException as error:
        if error_of(error).code() == KafkaError._CRIT_SYS_RESOURCE:  # noqa: SLF001
            problem, hint = "No Kafka client can start here", "Free threads, files or memory."
            raise Unreachable(
                Diagnostic(UNREACHABLE, problem, why=reason(error_of(error)), hint=hint)
            ) from None
        # the text quotes the value, which may be a secret
        text = _QUOTED_VALUE.sub("Invalid value for", reason(error_of(error)))
    problem, address = (
        "These Kafka client properties do not fit",
        properties.get("bootstrap.servers"),
    )
    hint = "Correct the client's properties."
    if translated.unsupported:
        hint = f"These have no effect here, or not this value: {', '.join(translated.unsupported)}."
    raise Invalid(Diagnostic("kafka.properties", problem, address, text, hint))
