"""Which properties do a task's Kafka clients have?

In Java's names, as Connect puts them together: its own defaults, then the worker's `producer.*` or
`consumer.*`, then the connector's `producer.override.*` or `consumer.override.*`, then what cannot
be overridden. Clients for our own topics take the worker's unprefixed keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect_runtime.tasks.launch import TaskLaunch
from connect_specs.names import sink_group, task_transactional_id

# Of the worker's keys, those that say how to reach Kafka; the others are not for clients.
_CONNECTION: Final = (
    "bootstrap.servers",
    "client.dns.lookup",
    "request.timeout.ms",
    "sasl.",
    "security.",
    "ssl.",
)
_LONGEST_POLL_TRANSACTION_MS: Final = 10_000
_INTERVAL_SLACK_MS: Final = 60_000


def control(launch: TaskLaunch, purpose: str) -> dict[str, str]:
    """Clients of the cluster's own topics."""
    base = "-".join(filter(None, (launch.group_id, launch.worker.get("client.id"))))
    properties = {k: v for k, v in launch.worker.items() if k.startswith(_CONNECTION)}
    return properties | {"client.id": f"{base}-{purpose}"}


def source_producer(launch: TaskLaunch) -> dict[str, str]:
    """The transactional producer of a source task.

    A killed task's open transaction holds up readers until it times out, so that is short unless
    the connector asks for long transactions.
    """
    config = launch.connector_config
    timeout_ms = _LONGEST_POLL_TRANSACTION_MS
    if config.get("transaction.boundary", "poll").lower() != "poll":
        timeout_ms = boundary_interval_ms(launch) + _INTERVAL_SLACK_MS
    return (
        _defaults(launch, f"connector-producer-{launch.id}")
        | {
            "transaction.timeout.ms": str(timeout_ms),
            # librdkafka's 100 ms, and a race that it loses, would delay each start
            "reconnect.backoff.ms": "1",
        }
        | _prefixed(launch.worker, "producer.")
        | _prefixed(config, "producer.override.")
        | {
            "enable.idempotence": "true",
            "acks": "all",
            "transactional.id": task_transactional_id(
                launch.group_id, launch.id.connector, launch.id.task
            ),
        }
    )


def sink_consumer(launch: TaskLaunch) -> dict[str, str]:
    """The consumer of a sink task.

    Unlike Apache's, it reads committed records only unless told otherwise: our sources write in
    transactions, and a sink that read aborted records would copy them. And its group waits for a
    killed task no 45 s: until then its successor gets no records, and offsets cannot be moved.
    """
    config = launch.connector_config
    return (
        _defaults(launch, f"connector-consumer-{launch.id}")
        | {
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": "10000",
        }
        | _prefixed(launch.worker, "consumer.")
        | _prefixed(config, "consumer.override.")
        | {
            "enable.auto.commit": "false",
            "group.id": sink_group(launch.id.connector, config, launch.worker),
        }
    )


def boundary_interval_ms(launch: TaskLaunch) -> int:
    """How long a transaction may last with `transaction.boundary=interval`."""
    given = launch.connector_config.get("transaction.boundary.interval.ms")
    return int(given or launch.worker.get("offset.flush.interval.ms") or 60_000)


def _defaults(launch: TaskLaunch, client_id: str) -> dict[str, str]:
    return {"bootstrap.servers": launch.worker["bootstrap.servers"], "client.id": client_id}


def _prefixed(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
