"""Resolves a launch for the process that runs the task, and alone reads what the launch holds.

References to config providers are resolved here. Everything that can fail is made when it is first
used, in the order of a start, so that an attempt that is not the newest one fails no task.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from typing import Final

from connect_runtime.agent.client import AgentClient
from connect_runtime.api import ConfigError, SinkTask, SourceTask
from connect_runtime.config_providers.references import PROVIDERS
from connect_runtime.config_providers.registry import ConfigProviders, Resolved
from connect_runtime.data.converters import Converters, converters_of
from connect_runtime.engine.sent_files import with_places_here
from connect_runtime.errors.handler import ErrorPolicy, LogReporter
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.plugins import registry
from connect_runtime.plugins.definitions import password_keys
from connect_runtime.plugins.modules import allow_modules
from connect_runtime.settings.connector_clients import (
    CONSUMER,
    PRODUCER,
    ConnectorClients,
    Kind,
    check_known,
)
from connect_runtime.settings.connector_topics import (
    TopicCreation,
    TopicTracking,
    named_topics,
    topic_pattern,
)
from connect_runtime.settings.jvm_options import jvm_options, shares_jvm
from connect_runtime.tasks.launch import TaskLaunch, exactly_once
from connect_runtime.traces import trace_text
from connect_runtime.transforms.chain import Chain, chain_of
from connect_specs.names import task_transactional_id
from connect_specs.secrets import Redactor

# Worker properties that no task reads: their files may exist only where the runtime runs
_OF_THE_RUNTIME: Final = ("admin.listeners", "listeners", "rest.", "spark.", f"{PROVIDERS}.")

_BATCH_SIZE: Final = "batch.size"
_LARGEST_BATCH: Final = 1_000_000  # librdkafka's default
_SMALLER_BATCHES: Final = (16_384, 1)  # Java's default, then one record each

_TRANSACTION_TIMEOUT_MS: Final = 60_000  # Kafka's default
_INTERVAL_SLACK_MS: Final = 60_000
# A commit sends what waits; until then, larger requests cost less.
_LINGER_MS: Final = 50
_EXACTLY_ONCE: Final = {"enable.idempotence": "true", "acks": "all"}
_FOREVER_MS: Final = "2147483647"


def resolve_launch(launch: TaskLaunch) -> TaskSetup:
    """Returns the setup with all references resolved, which must not leave this process.

    Raises ConfigError for a reference that cannot be resolved here.
    """
    providers = ConfigProviders(with_places_here(launch.worker))
    try:
        worker = providers.worker
        _check(worker)
        if launch.java:
            return TaskSetup(replace(launch, worker=worker.config), worker.provided.values())
        connector = providers.resolve(launch.connector_config)
        task = providers.resolve(launch.config)
    finally:
        providers.close()
    resolved = replace(
        launch, config=task.config, connector_config=connector.config, worker=worker.config
    )
    secret_values = {
        *worker.provided.values(),
        *connector.provided.values(),
        *task.provided.values(),
    }
    return TaskSetup(resolved, secret_values)


def _check(worker: Resolved) -> None:
    problems = [p for p in worker.problems if not p.key.startswith(_OF_THE_RUNTIME)]
    if problems:
        raise ConfigError(" ".join(problem.text for problem in problems))


class TaskSetup:
    """One attempt at running a task: its settings, parsed, and the plugins that it uses.

    `config` is the task's own. `socket` is the path at which a standalone worker serves the
    cluster's topics; None if they are in Kafka. `secret_values` are hidden in all texts.
    """

    def __init__(self, launch: TaskLaunch, secret_values: Collection[str] = ()) -> None:
        self._launch = launch
        self.secret_values = secret_values
        self.id = launch.id
        self.attempt = launch.attempt
        self.leader_term = launch.leader_term
        self.worker_id = launch.worker_id
        self.topics = launch.topics
        self.assignments_offset = launch.assignments_offset
        self.socket = launch.socket
        self.config = launch.config
        self.connector_config = launch.connector_config
        self.worker = launch.worker
        self.java = launch.java
        self.logger_levels = launch.logger_levels
        self.lease: int | None = None
        self.task_count = launch.count
        self.exactly_once = exactly_once(launch.worker)
        self.transactional = launch.transactional
        self.tracks_topics = TopicTracking.of(launch.worker).enabled

    # --- plugins ---

    def new_task(self) -> SourceTask | SinkTask:
        """Returns a new object of the task's class. Raises what importing and creating it raise."""
        allow_modules(self._launch.worker)
        task: SourceTask | SinkTask = registry.task(self.config["task.class"])()
        return task

    @cached_property
    def converters(self) -> Converters:
        """Returns the converters. Raises ConfigError."""
        return converters_of(self._launch.connector_config, self._launch.worker)

    @cached_property
    def chain(self) -> Chain:
        """Returns the transformations. Raises ConfigError."""
        return chain_of(self._launch.connector_config)

    # --- Java plugins ---

    @property
    def jvm_options(self) -> tuple[str, ...]:
        """Returns the options of the JVM that runs the task. Raises ConfigError, ValueError."""
        return jvm_options(self.worker, self.connector_config)

    @property
    def shares_jvm(self) -> bool:
        """Returns whether the task runs in the JVM of its node, and not in one of its own."""
        return shares_jvm(self.worker, self.connector_config)

    @property
    def transactional_id(self) -> str:
        """Returns the id of the producer of an exactly-once source."""
        return task_transactional_id(self._launch.group_id, self.id.connector, self.id.task)

    @property
    def graceful_s(self) -> float:
        """Returns how long the JVM waits for a task to stop."""
        return int(self.worker.get("task.shutdown.graceful.timeout.ms") or 5_000) / 1000

    # --- errors ---

    @cached_property
    def error_policy(self) -> ErrorPolicy:
        """Returns the policy for records that fail. Raises ValueError for invalid numbers."""
        return ErrorPolicy.of(self._launch.connector_config)

    def log_reporters(self, metrics: TaskMetrics) -> list[LogReporter]:
        """Returns the reporter that logs failed records; none if the connector wants no log."""
        policy = self.error_policy
        if not policy.logs:
            return []
        with_records = policy.logs_messages
        return [LogReporter(str(self.id), self.trace, metrics, with_records=with_records)]

    def redact(self, text: str) -> str:
        """Returns a text without the secrets of all configs."""
        return self._redactor.redact(text)

    def text(self, error: BaseException) -> str:
        """Returns the error's text, with the secrets of all configs redacted."""
        return self.redact(str(error))

    def trace(self, error: BaseException) -> str:
        """Returns the error's traceback, with the secrets of all configs redacted."""
        return trace_text(error, self._redactor)

    @cached_property
    def _redactor(self) -> Redactor:
        """Returns a redactor for the values from config providers, those of keys that the
        connector's definition or their names mark as passwords, and secrets within values, like
        the password in `sasl.jaas.config`. It costs nothing before the first error."""
        launch = self._launch
        configs = (launch.config, launch.connector_config, launch.worker)
        passwords = password_keys(launch.connector_config)
        return Redactor.of_configs(*configs, named=passwords, texts=self.secret_values)

    # --- topics and commits ---

    @property
    def topic_creation(self) -> TopicCreation | None:
        """Returns a source's settings for new topics; None if the broker creates them."""
        return TopicCreation.of(self._launch.connector_config, self._launch.worker)

    @property
    def topic_pattern(self) -> re.Pattern[str] | None:
        """Returns a sink's `topics.regex`. Raises ConfigError if it is not valid."""
        return topic_pattern(self._launch.connector_config)

    @property
    def topic_names(self) -> frozenset[str]:
        """Returns a sink's `topics`. Raises ConfigError if there are none."""
        return named_topics(self._launch.connector_config)

    @property
    def transaction_boundary(self) -> str:
        """Returns what ends a source's transactions: `poll`, `interval` or `connector`."""
        return self._launch.connector_config.get("transaction.boundary", "poll").strip().lower()

    @property
    def boundary_interval_s(self) -> float:
        """Returns how long a transaction may last with `transaction.boundary=interval`."""
        interval = self._launch.connector_config.get("transaction.boundary.interval.ms")
        return int(interval) / 1000 if interval else self.flush_interval_s

    @property
    def flush_interval_s(self) -> float:
        """Returns how often offsets are committed by default."""
        return int(self._launch.worker.get("offset.flush.interval.ms") or 60_000) / 1000

    @property
    def flush_timeout_s(self) -> float:
        """Returns how long a commit without transactions waits for acknowledgements."""
        return int(self._launch.worker.get("offset.flush.timeout.ms") or 5_000) / 1000

    def with_smaller_batches(self) -> TaskSetup | None:
        """Returns the same setup whose producer makes smaller batches; None if they are the
        smallest, or of a size that the connector's config sets."""
        launch = self._launch
        if f"{PRODUCER}{_BATCH_SIZE}" in launch.connector_config:
            return None
        size = int(launch.worker.get(f"producer.{_BATCH_SIZE}") or _LARGEST_BATCH)
        smaller = next((limit for limit in _SMALLER_BATCHES if limit < size), None)
        if smaller is None:
            return None
        worker = {**launch.worker, f"producer.{_BATCH_SIZE}": str(smaller)}
        return TaskSetup(replace(launch, worker=worker), self.secret_values)

    # --- clients: properties with Java's names; our defaults, then the connector's, then ours ---

    @cached_property
    def source_clients(self) -> ConnectorClients:
        """Returns a source connector's clients, and where its offsets are."""
        return self._clients("source")

    @cached_property
    def sink_clients(self) -> ConnectorClients:
        """Returns a sink connector's clients."""
        return self._clients("sink")

    def _clients(self, kind: Kind) -> ConnectorClients:
        launch = self._launch
        return ConnectorClients(
            launch.group_id,
            launch.topics.offsets,
            launch.worker,
            launch.id.connector,
            launch.connector_config,
            kind,
            in_file=launch.socket is not None,
        )

    def worker_client(self, purpose: str) -> dict[str, str]:
        """Returns properties of a client for the cluster's own topics: with the worker's login."""
        launch = self._launch
        base = "-".join(filter(None, (launch.group_id, launch.worker.get("client.id"))))
        return self.source_clients.worker_client() | {"client.id": f"{base}-{purpose}"}

    def agent(self, purpose: str) -> AgentClient:
        """Returns the way to this task's agent, whose client of Kafka has the worker's login."""
        return AgentClient(self.socket, {} if self.socket else self.worker_client(purpose))

    def transactional_producer(self) -> dict[str, str]:
        """Returns properties of a source's transactional producer.

        Its transactions may last as long as Kafka's default allows, and a minute longer than an
        interval that the connector requests: slow polls and suspended machines are not failures.
        """
        timeout_ms = _TRANSACTION_TIMEOUT_MS
        if self.transaction_boundary != "poll":
            timeout_ms = round(self.boundary_interval_s * 1000) + _INTERVAL_SLACK_MS
        return (
            self._source_defaults
            | {"transaction.timeout.ms": str(timeout_ms), "linger.ms": str(_LINGER_MS)}
            | self._source_settings()
            | _EXACTLY_ONCE
            | {"transactional.id": self.source_clients.transactional_id(self.id.task)}
        )

    def plain_producer(self) -> dict[str, str]:
        """Returns properties of a source's producer with `exactly.once.source.support=disabled`.

        It retries forever unless configured otherwise, as Connect's does, and repeats no record
        within one attempt unless that is turned off or other `acks` forbid it.
        """
        settings = self._source_settings()
        settings.pop("transactional.id", None)
        settings.pop("transaction.timeout.ms", None)
        once = settings.get("acks", "all") in ("all", "-1")
        return (
            self._source_defaults
            | {
                "acks": "all",
                "enable.idempotence": str(once).lower(),
                "delivery.timeout.ms": _FOREVER_MS,
            }
            | settings
        )

    def offsets_producer(self) -> dict[str, str]:
        """Returns properties of a source's separate offsets producer, used without transactions:
        the worker's login for the worker's topic, the connector's for its own topic."""
        properties = self.worker_offsets_producer()
        if self.source_clients.place.underneath is None:
            return properties
        return self.source_clients.offsets_producer() | {"client.id": properties["client.id"]}

    def worker_offsets_producer(self) -> dict[str, str]:
        """Returns properties of a producer of source offsets in the worker's topic."""
        return self.worker_client(f"offsets-{self.id}")

    def dropped_overrides(self) -> list[str]:
        """Returns the user's producer settings, of the worker or the connector, that exactly-once
        sources cannot use."""
        usable = {**_EXACTLY_ONCE, "acks": ("all", "-1"), "transactional.id": ()}
        launch = self._launch
        return [
            f"{prefix}{name}"
            for config, prefix in (
                (launch.worker, "producer."),
                (launch.connector_config, PRODUCER),
            )
            for key, value in config.items()
            if key.startswith(prefix)
            and (name := key.removeprefix(prefix)) in usable
            and value.strip().lower() not in usable[name]
        ]

    def sink_consumer(self) -> dict[str, str]:
        """Returns properties of a sink's consumer.

        Unlike Apache's, it reads only committed records unless configured otherwise: our sources
        write in transactions, and a sink that read aborted records would copy them. Its session is
        shorter than 45 s: until a killed task's session ends, its successor gets no records and
        offsets cannot be moved. Raises ConfigError for an override that the worker forbids, or an
        address that does not exist.
        """
        clients = self.sink_clients
        clients.check()
        self._check_address(CONSUMER)
        return (
            {
                "client.id": f"connector-consumer-{self.id}",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": "10000",
            }
            | clients.consumer()
            | {"enable.auto.commit": "false", "group.id": clients.group}
        )

    def dead_letter_producer(self) -> dict[str, str]:
        """Returns properties of the producer of a sink's dead letter queue. It retries forever
        unless configured otherwise, as a source's does. Raises ConfigError for an override that
        the worker forbids."""
        self.sink_clients.check()
        return {
            "client.id": f"connector-dlq-producer-{self.id}",
            # Java's default: a larger one may be too large for the queue's topic
            "batch.size": "16384",
            "acks": "all",
            "delivery.timeout.ms": _FOREVER_MS,
        } | self.sink_clients.producer()

    @property
    def _source_defaults(self) -> dict[str, str]:
        # librdkafka's default of 100 ms, and a race that it loses, would delay each start
        return {"client.id": f"connector-producer-{self.id}", "reconnect.backoff.ms": "1"}

    def _source_settings(self) -> dict[str, str]:
        """Returns the source's producer settings. Raises ConfigError for an override that the
        worker forbids, or an address that does not exist."""
        self.source_clients.check()
        self._check_address(PRODUCER)
        return self.source_clients.producer()

    def _check_address(self, prefix: str) -> None:
        key = "bootstrap.servers"
        addresses = self._launch.connector_config.get(f"{prefix}{key}")
        if addresses is not None:
            check_known(key, [address.strip() for address in addresses.split(",")])
