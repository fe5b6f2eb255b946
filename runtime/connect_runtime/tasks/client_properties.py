"""Builds the properties of a task's Kafka clients.

In Java's names: our own defaults, then the connector's (`connector_clients`), then properties that
cannot be overridden. Clients for the cluster's own topics use the worker's login.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect_runtime.settings.addresses import check_known
from connect_runtime.settings.client_overrides import CONSUMER, PRODUCER, Kind
from connect_runtime.settings.connector_clients import ConnectorClients
from connect_runtime.tasks.launch import TaskLaunch

_TRANSACTION_TIMEOUT_MS: Final = 60_000  # Kafka's default
_INTERVAL_SLACK_MS: Final = 60_000
# A commit sends what waits; until then, larger requests cost less.
_LINGER_MS: Final = 50
_EXACTLY_ONCE: Final = {"enable.idempotence": "true", "acks": "all"}


def clients_of(launch: TaskLaunch, kind: Kind) -> ConnectorClients:
    """Returns the clients of a task's connector, and where its offsets are."""
    return ConnectorClients(
        launch.group_id,
        launch.topics.offsets,
        launch.worker,
        launch.id.connector,
        launch.connector_config,
        kind,
        in_file=launch.socket is not None,
    )


def control(launch: TaskLaunch, purpose: str) -> dict[str, str]:
    """Returns properties of clients for the cluster's own topics."""
    base = "-".join(filter(None, (launch.group_id, launch.worker.get("client.id"))))
    return clients_of(launch, "source").worker_client() | {"client.id": f"{base}-{purpose}"}


def source_producer(launch: TaskLaunch) -> dict[str, str]:
    """Returns properties of a source task's transactional producer.

    Its transactions may last as long as Kafka's default allows, and a minute longer than an
    interval that the connector requests: slow polls and suspended machines are not failures.
    """
    config = launch.connector_config
    timeout_ms = _TRANSACTION_TIMEOUT_MS
    if config.get("transaction.boundary", "poll").lower() != "poll":
        timeout_ms = boundary_interval_ms(launch) + _INTERVAL_SLACK_MS
    return (
        _source_defaults(launch)
        | {"transaction.timeout.ms": str(timeout_ms), "linger.ms": str(_LINGER_MS)}
        | _source_settings(launch)
        | _EXACTLY_ONCE
        | {
            "transactional.id": clients_of(launch, "source").transactional_id(launch.id.task),
        }
    )


def plain_source_producer(launch: TaskLaunch) -> dict[str, str]:
    """Returns producer properties of a task with `exactly.once.source.support=disabled`.

    It retries forever unless configured otherwise, as Connect's does, and repeats no record within
    one attempt unless that is turned off or other `acks` forbid it.
    """
    settings = _source_settings(launch)
    settings.pop("transactional.id", None)
    settings.pop("transaction.timeout.ms", None)
    once = settings.get("acks", "all") in ("all", "-1")
    return (
        _source_defaults(launch)
        | {
            "acks": "all",
            "enable.idempotence": str(once).lower(),
            "delivery.timeout.ms": "2147483647",
        }
        | settings
    )


def dead_letter_producer(launch: TaskLaunch) -> dict[str, str]:
    """Returns properties of the producer of a sink's dead letter queue. It retries forever unless
    configured otherwise, as a source's does. Raises ConfigError for an override that the worker
    forbids."""
    clients = clients_of(launch, "sink")
    clients.check()
    return {
        "client.id": f"connector-dlq-producer-{launch.id}",
        # Java's default: a larger one may be too large for the queue's topic
        "batch.size": "16384",
        "acks": "all",
        "delivery.timeout.ms": "2147483647",
    } | clients.producer()


def offsets_producer(launch: TaskLaunch) -> dict[str, str]:
    """Returns properties of a source's separate offsets producer, used without transactions: the
    worker's login for the worker's topic, the connector's for its own topic."""
    clients = clients_of(launch, "source")
    properties = control(launch, f"offsets-{launch.id}")
    if clients.place.underneath is None:
        return properties
    return clients.offsets_producer() | {"client.id": properties["client.id"]}


def dropped_overrides(launch: TaskLaunch) -> list[str]:
    """Returns the user's producer settings, of the worker or the connector, that exactly-once
    sources cannot use."""
    kept = {**_EXACTLY_ONCE, "acks": ("all", "-1"), "transactional.id": ()}
    sources = ((launch.worker, "producer."), (launch.connector_config, "producer.override."))
    return [
        f"{prefix}{key}"
        for given, prefix in sources
        for key, value in _prefixed(given, prefix).items()
        if key in kept and value.strip().lower() not in kept[key]
    ]


def flush_timeout_ms(launch: TaskLaunch) -> int:
    """Returns how long a commit without transactions waits for acknowledgements."""
    return int(launch.worker.get("offset.flush.timeout.ms") or 5_000)


def sink_consumer(launch: TaskLaunch) -> dict[str, str]:
    """Returns properties of a sink task's consumer.

    Unlike Apache's, it reads only committed records unless configured otherwise: our sources write
    in transactions, and a sink that read aborted records would copy them. Its session is shorter
    than 45 s: until a killed task's session ends, its successor gets no records and offsets cannot
    be moved. Raises ConfigError for an override that the worker forbids, or an address that does
    not exist.
    """
    clients = clients_of(launch, "sink")
    clients.check()
    _check_address(launch, CONSUMER)
    return (
        {
            "client.id": f"connector-consumer-{launch.id}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": "10000",
        }
        | clients.consumer()
        | {"enable.auto.commit": "false", "group.id": clients.group}
    )


def boundary_interval_ms(launch: TaskLaunch) -> int:
    """Returns how long a transaction may last with `transaction.boundary=interval`."""
    given = launch.connector_config.get("transaction.boundary.interval.ms")
    return int(given or flush_interval_ms(launch))


def flush_interval_ms(launch: TaskLaunch) -> int:
    """Returns how often offsets are committed by default."""
    return int(launch.worker.get("offset.flush.interval.ms") or 60_000)


def _source_defaults(launch: TaskLaunch) -> dict[str, str]:
    # librdkafka's default of 100 ms, and a race that it loses, would delay each start
    return {"client.id": f"connector-producer-{launch.id}", "reconnect.backoff.ms": "1"}


def _source_settings(launch: TaskLaunch) -> dict[str, str]:
    """Returns the source's producer settings. Raises ConfigError for an override that the worker
    forbids, or an address that does not exist."""
    clients = clients_of(launch, "source")
    clients.check()
    _check_address(launch, PRODUCER)
    return clients.producer()


def _check_address(launch: TaskLaunch, prefix: str) -> None:
    key = "bootstrap.servers"
    given = launch.connector_config.get(f"{prefix}{key}")
    if given is not None:
        check_known(key, [each.strip() for each in given.split(",")])


def _prefixed(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
