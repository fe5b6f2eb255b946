"""Lists the worker properties of Connect, and those that have an effect here.

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
    NonEmptyString,
    OneOf,
    Range,
    ValidList,
)
from connect_runtime.plugins.modules import PLUGIN_MODULES, is_module_name
from connect_runtime.rest import tls
from connect_runtime.rest.rest_settings import define_rest_keys
from connect_runtime.rest.tls import ADMIN_LISTENERS, LISTENERS
from connect_runtime.settings.connector_clients import (
    ALLOWLIST_KEY,
    OWN_CLIENTS,
    POLICY_KEY,
    check_addresses,
    policy_of,
)
from connect_runtime.settings.connector_topics import (
    ENABLE_KEY,
    TRACKING_KEY,
    TRACKING_RESET_KEY,
)
from connect_runtime.settings.jvm_options import (
    NODE,
    OPTIONS_KEY,
    OWN,
    TASKS_KEY,
    split_options,
)
from connect_runtime.settings.slots import PAUSED_RELEASE
from connect_specs.client_properties import CLIENT_PROPERTIES, near_client_property
from connect_specs.fields import typo_of
from connect_specs.names import is_topic_name

JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
OFFSET_FILE: Final = "offset.storage.file.filename"
# The time that workers wait for Kafka at their start; in Apache's, a property of the admin client
REACH: Final = "default.api.timeout.ms"
# Our own: how long the executors that a standalone Spark master has granted may take to start.
EXECUTOR_START: Final = "executor.start.timeout.ms"

# Properties of connections to Kafka: for the clients of this runtime's own topics.
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
    OWN_CLIENTS,
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
    metrics.sample.window.ms rebalance.timeout.ms
    scheduled.rebalance.max.delay.ms session.timeout.ms
    value.converter.plugin.version worker.sync.timeout.ms worker.unsync.backoff.ms
    """.split()
) | {OFFSET_FILE}
WITHOUT_EFFECT_PREFIXES: Final = ("metrics.context.",)

_CLIENTS: Final = ("admin.", "consumer.", "producer.", OWN_CLIENTS)
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


def _port(name: str, value: Any) -> None:
    if value is not None:
        Range(low=1, high=65_535)(name, value)


def _jvm_options(name: str, value: Any) -> None:
    try:
        split_options(value)
    except ValueError as error:
        raise ConfigError.invalid(name, value, f"{error}") from None


def _override_policy(name: str, value: Any) -> None:
    policy_of({name: value})


def _storage(keys: ConfigDef, kind: str, partitions: int | None) -> None:
    keys.define(f"{kind}.storage.topic", ConfigType.STRING, validator=_topic_name)
    keys.define(f"{kind}.storage.replication.factor", ConfigType.SHORT, 3, validator=_count)
    if partitions is not None:
        key = f"{kind}.storage.partitions"
        keys.define(key, ConfigType.INT, partitions, validator=_count)


def _supported() -> ConfigDef:
    keys = ConfigDef()
    text, names, ms = ConfigType.STRING, ConfigType.LIST, ConfigType.LONG
    support = OneOf.any_case("DISABLED", "ENABLED", "PREPARING")
    discovery = OneOf.any_case("ONLY_SCAN", "SERVICE_LOAD", "HYBRID_WARN", "HYBRID_FAIL")
    positive = Range(low=1)
    keys.define("bootstrap.servers", names, validator=_addresses)
    keys.define("group.id", text, validator=NonEmptyString())
    keys.define("key.converter", ConfigType.CLASS)
    keys.define("value.converter", ConfigType.CLASS)
    keys.define("header.converter", ConfigType.CLASS, SIMPLE_HEADER_CONVERTER)
    _storage(keys, "config", None)
    _storage(keys, "offset", 25)
    _storage(keys, "status", 5)
    keys.define("offset.flush.interval.ms", ms, 60_000, validator=positive)
    keys.define("task.shutdown.graceful.timeout.ms", ms, 5_000, validator=Range(low=0))
    keys.define("exactly.once.source.support", text, "enabled", validator=support)
    define_rest_keys(keys)
    keys.define(REACH, ConfigType.INT, 60_000, validator=Range(low=0))
    keys.define("offset.flush.timeout.ms", ms, 5_000, validator=positive)
    keys.define(TRACKING_KEY, ConfigType.BOOLEAN, True)
    keys.define(TRACKING_RESET_KEY, ConfigType.BOOLEAN, True)
    keys.define("client.id", text, "")
    keys.define(PLUGIN_MODULES, names, "", validator=_modules)
    keys.define("plugin.path", names, "", validator=_list)
    keys.define("plugin.discovery", text, "HYBRID_WARN", validator=discovery)
    keys.define(OPTIONS_KEY, text, "", validator=_jvm_options)
    keys.define(TASKS_KEY, text, NODE, validator=OneOf.any_case(NODE, OWN))
    keys.define("java.jmx.port", ConfigType.INT, None, validator=_port)
    keys.define("java.call.timeout.ms", ms, 600_000, validator=positive)
    keys.define("java.file.connectors", ConfigType.BOOLEAN, False)
    keys.define("config.providers", names, "", validator=_list)
    keys.define(POLICY_KEY, text, "All", validator=_override_policy)
    keys.define(ALLOWLIST_KEY, names, "", validator=_list)
    keys.define(ENABLE_KEY, ConfigType.BOOLEAN, True)
    keys.define("spark.master", text, None, validator=NonEmptyString())
    keys.define(PAUSED_RELEASE, ConfigType.BOOLEAN, False)
    keys.define(EXECUTOR_START, ms, 300_000, validator=positive)
    return keys


SUPPORTED: Final = _supported()


def is_client_key(key: str) -> bool:
    """Returns True if the key, without prefix, is about reaching Kafka."""
    return key in CLIENT_KEYS or key.startswith(CLIENT_PREFIXES)


def is_known(key: str) -> bool:
    """Returns True if Apache's workers read the key, or pass it on and it has no typo."""
    is_apaches = key in WITHOUT_EFFECT or key in _FIXED or key.startswith(WITHOUT_EFFECT_PREFIXES)
    return is_apaches or not _without_effect(key)


def without_effect(keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields the keys that have no effect here, sorted, each with a sentence about it."""
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
    https = _prefix(key, (LISTENERS, ADMIN_LISTENERS))
    if key.removeprefix(https) in tls.KEYS:
        return ""
    if https:
        near = typo_of(key.removeprefix(https), tls.KEYS)
        return f"{key} has no effect{_hint(near and https + near)}"
    if key.startswith((*_CLIENTS, *CLIENT_PREFIXES)):
        near = _near_of_client(key)
    elif key.startswith(TOPIC_PREFIXES):
        near = _near_of_topic(key)
    elif key.startswith(PASSED_PREFIXES):
        near = None
    else:
        near = typo_of(key, (*SUPPORTED.keys, *CLIENT_KEYS, *WITHOUT_EFFECT))
        return f"{key} is not a worker property that Connect knows{_hint(near)}; it has no effect"
    return f"{key} has no effect{_hint(near)}" if near else ""


def _hint(near: str | None) -> str:
    return f" (did you mean {near}?)" if near else ""


def _prefix(key: str, prefixes: Iterable[str]) -> str:
    return next((prefix for prefix in prefixes if key.startswith(prefix)), "")


def _near_of_client(key: str) -> str | None:
    """Returns the key that was probably meant. Interceptors and callbacks have their own
    properties, so only typos are reported."""
    prefix = _prefix(key, _CLIENTS)
    name = key.removeprefix(prefix)
    near = None if name in CLIENT_PROPERTIES else near_client_property(name)
    return near and prefix + near


def _near_of_topic(key: str) -> str | None:
    """Returns the key that was probably meant. A topic takes any Kafka config, so only typos in
    Connect's own keys are reported."""
    kind, dot, name = key.partition(".storage.")
    near = typo_of(name, ("topic", "partitions", "replication.factor", "cleanup.policy"))
    return near and kind + dot + near
