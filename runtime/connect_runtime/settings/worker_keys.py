"""Lists the worker properties that Connect knows, and which of them have an effect here.

`SUPPORTED` defines those that this runtime reads. The others are passed on by prefix to Kafka
clients, converters and Spark, or have no effect here; then a warning names the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from connect_runtime.api import (
    ConfigDef,
    ConfigError,
    ConfigType,
    Described,
    Importance,
    NonEmptyString,
    OneOf,
    Range,
    ValidList,
)
from connect_runtime.plugins.modules import PLUGIN_MODULES, is_module_name
from connect_runtime.rest import tls
from connect_runtime.rest.settings import define_rest_keys
from connect_runtime.rest.tls import ADMIN_LISTENERS, LISTENERS
from connect_runtime.settings import topic_tracking
from connect_runtime.settings.addresses import check_addresses
from connect_runtime.settings.client_overrides import ALLOWLIST_KEY, POLICY_KEY, policy_of
from connect_runtime.settings.slots import PAUSED_RELEASE
from connect_specs.client_properties import CLIENT_PROPERTIES, near_client_property
from connect_specs.fields import typo_of
from connect_specs.names import is_topic_name

JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
OFFSET_FILE: Final = "offset.storage.file.filename"
# How long Apache's workers wait for Kafka at their start: a property of the client that asks it
REACH: Final = "default.api.timeout.ms"
# Our own: how long the executors that a standalone Spark master has granted may take to start.
EXECUTOR_START: Final = "executor.start.timeout.ms"

# How to reach Kafka: for the clients of this runtime's own topics.
CLIENT_KEYS: Final = frozenset(
    """
    bootstrap.servers client.dns.lookup client.id connections.max.idle.ms metadata.max.age.ms
    receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms
    retry.backoff.max.ms retry.backoff.ms security.protocol send.buffer.bytes
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    """.split()
)
CLIENT_PREFIXES: Final = ("sasl.", "security.", "ssl.")

# Passed on to what they configure, such as a provider's parameters.
PASSED_PREFIXES: Final = (
    "admin.",
    "admin.listeners.https.",
    "config.providers.",
    "consumer.",
    "header.converter.",
    "key.converter.",
    "listeners.https.",
    "producer.",
    "spark.",
    "value.converter.",
)
TOPIC_PREFIXES: Final = ("config.storage.", "offset.storage.", "status.storage.")

# Known to Apache's workers, without effect here.
WITHOUT_EFFECT: Final = frozenset(
    """
    connect.protocol
    header.converter.plugin.version heartbeat.interval.ms
    inter.worker.key.generation.algorithm inter.worker.key.size inter.worker.key.ttl.ms
    inter.worker.signature.algorithm inter.worker.verification.algorithms internal.key.converter
    internal.value.converter key.converter.plugin.version metadata.recovery.rebootstrap.trigger.ms
    metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms plugin.discovery plugin.path rebalance.timeout.ms
    scheduled.rebalance.max.delay.ms session.timeout.ms
    value.converter.plugin.version worker.sync.timeout.ms worker.unsync.backoff.ms
    """.split()
) | {OFFSET_FILE}
WITHOUT_EFFECT_PREFIXES: Final = ("metrics.context.",)

_CLIENTS: Final = ("admin.", "consumer.", "producer.")
# Topics that are always compacted, each with a fixed number of partitions
_FIXED: Final = (
    "config.storage.partitions",
    *(f"{prefix}cleanup.policy" for prefix in TOPIC_PREFIXES),
)


def _list(name: str, value: Any, *, allows_empty: bool = True) -> None:
    """Checks a list as Apache's workers do, which drop duplicates."""
    without_duplicates = None if value is None else list(dict.fromkeys(value))
    ValidList(allows_empty=allows_empty)(name, without_duplicates)


def _addresses(name: str, value: Any) -> None:
    _list(name, value, allows_empty=False)
    check_addresses(name, value)


def _topic_name(name: str, value: Any) -> None:
    if value is not None and not is_topic_name(value):
        raise ConfigError.invalid(name, value, "not a name that Kafka allows for a topic")


def _count(name: str, value: Any) -> None:
    if value is None or (value != -1 and value < 1):
        raise ConfigError.invalid(
            name, value, "Value must be positive, or -1 to use the broker's default"
        )


def _modules(name: str, value: Any) -> None:
    for module in value or ():
        if not is_module_name(module):
            raise ConfigError.invalid(name, module, "not the name of a Python module or package")


def _override_policy(name: str, value: Any) -> None:
    policy_of({name: value})


_LIST: Final = Described(_list, "no empty entries")
_POLICY: Final = Described(_override_policy, "All, None, Principal or Allowlist")
_COUNT: Final = Described(_count, "positive, or -1 to use the broker's default")
_TOPIC: Final = Described(_topic_name, "topic name")


def _storage(keys: ConfigDef, kind: str, partitions: int | None) -> None:
    low = Importance.LOW
    keys.define(f"{kind}.storage.topic", ConfigType.STRING, validator=_TOPIC)
    key = f"{kind}.storage.replication.factor"
    keys.define(key, ConfigType.SHORT, 3, validator=_COUNT, importance=low)
    if partitions is not None:
        key = f"{kind}.storage.partitions"
        keys.define(key, ConfigType.INT, partitions, validator=_COUNT, importance=low)


def _supported() -> ConfigDef:
    keys = ConfigDef()
    keys.define(
        "bootstrap.servers",
        ConfigType.LIST,
        validator=Described(_addresses, "addresses such as host:9092"),
    )
    keys.define("group.id", ConfigType.STRING, validator=NonEmptyString())
    keys.define("key.converter", ConfigType.CLASS)
    keys.define("value.converter", ConfigType.CLASS)
    keys.define("header.converter", ConfigType.CLASS, SIMPLE_HEADER_CONVERTER)
    _storage(keys, "config", None)
    _storage(keys, "offset", 25)
    _storage(keys, "status", 5)
    at_least_one = Range(low=1)
    keys.define("offset.flush.interval.ms", ConfigType.LONG, 60_000, validator=at_least_one)
    keys.define("task.shutdown.graceful.timeout.ms", ConfigType.LONG, 5_000, validator=Range(low=0))
    keys.define(
        "exactly.once.source.support",
        ConfigType.STRING,
        "enabled",
        validator=OneOf.any_case("DISABLED", "ENABLED", "PREPARING"),
    )
    define_rest_keys(keys)
    keys.define(REACH, ConfigType.INT, 60_000, validator=Range(low=0))
    keys.define("offset.flush.timeout.ms", ConfigType.LONG, 5_000, validator=at_least_one)
    keys.define(topic_tracking.ENABLE, ConfigType.BOOLEAN, True)
    keys.define(topic_tracking.ALLOW_RESET, ConfigType.BOOLEAN, True)
    keys.define("client.id", ConfigType.STRING, "")
    keys.define(PLUGIN_MODULES, ConfigType.LIST, "", validator=Described(_modules, "module names"))
    keys.define("config.providers", ConfigType.LIST, "", validator=_LIST)
    keys.define(POLICY_KEY, ConfigType.STRING, "All", validator=_POLICY)
    keys.define(ALLOWLIST_KEY, ConfigType.LIST, "", validator=_LIST)
    keys.define("topic.creation.enable", ConfigType.BOOLEAN, True)
    keys.define("spark.master", ConfigType.STRING, None, validator=NonEmptyString())
    keys.define(PAUSED_RELEASE, ConfigType.BOOLEAN, False)
    keys.define(EXECUTOR_START, ConfigType.LONG, 300_000, validator=at_least_one)
    return keys


SUPPORTED: Final = _supported()


def is_client_key(key: str) -> bool:
    """Whether the key, without prefix, is about reaching Kafka."""
    return key in CLIENT_KEYS or key.startswith(CLIENT_PREFIXES)


def is_known(key: str) -> bool:
    """Whether Apache's workers know the key, or pass it on and it has no typo."""
    is_theirs = key in WITHOUT_EFFECT or key in _FIXED or key.startswith(WITHOUT_EFFECT_PREFIXES)
    return is_theirs or not _without_effect(key)


def without_effect(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields the keys that have no effect here, sorted, each with a sentence that says so."""
    for key in sorted(keys):
        sentence = _without_effect(key)
        if sentence:
            yield key, sentence


def _without_effect(key: str) -> str:
    if key in _FIXED:
        return f"{key} has no effect: the topic is compacted, of fixed partitions"
    if key in SUPPORTED.keys or key in CLIENT_KEYS:
        return ""
    if key in WITHOUT_EFFECT or key.startswith(WITHOUT_EFFECT_PREFIXES):
        return f"{key} has no effect in this runtime"
    near = ""
    https = next((each for each in (LISTENERS, ADMIN_LISTENERS) if key.startswith(each)), "")
    if key.removeprefix(https) in tls.KEYS:
        return ""
    if https:
        near = typo_of(key.removeprefix(https), tls.KEYS) or ""
        return f"{key} has no effect" + (f" (did you mean {https}{near}?)" if near else "")
    if key.startswith((*_CLIENTS, *CLIENT_PREFIXES)):
        near = _near_of_client(key)
    elif key.startswith(TOPIC_PREFIXES):
        near = _near_of_topic(key)
    elif not key.startswith(PASSED_PREFIXES):
        near = typo_of(key, (*SUPPORTED.keys, *CLIENT_KEYS, *WITHOUT_EFFECT)) or ""
        meant = f" (did you mean {near}?)" if near else ""
        return f"{key} is not a worker property that Connect knows{meant}; it has no effect"
    return f"{key} has no effect (did you mean {near}?)" if near else ""


def _near_of_client(key: str) -> str:
    """Returns the key that was probably meant. Interceptors and callbacks have their own
    properties, so only typos are reported."""
    prefix = next((each for each in _CLIENTS if key.startswith(each)), "")
    name = key.removeprefix(prefix)
    near = None if name in CLIENT_PROPERTIES else near_client_property(name)
    return f"{prefix}{near}" if near else ""


def _near_of_topic(key: str) -> str:
    """Returns the key that was probably meant. A topic takes any Kafka config, so only typos in
    Connect's own keys are reported."""
    kind, dot, name = key.partition(".storage.")
    near = typo_of(name, ("topic", "partitions", "replication.factor", "cleanup.policy"))
    return f"{kind}{dot}{near}" if near else ""
