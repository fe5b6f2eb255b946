"""Reads one runtime's settings from Apache's worker properties or a project's connect.yaml.

Accepts the properties of Apache's workers, with the same names and defaults, and warns about those
that have no effect here. All errors are reported at once; a warning names keys, never values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from connect_runtime.config_providers.references import holds_reference
from connect_runtime.config_providers.registry import ConfigProviders, Resolved
from connect_runtime.engine.plugin_path import PLUGIN_PATH, entries
from connect_runtime.plugins.registry import CONVERTER_KINDS
from connect_runtime.rest.rest_settings import (
    DEFAULT_LISTENER,
    Listener,
    RestSettings,
    advertised,
    is_loopback,
    listener_problem,
    parse_listeners,
    rest_settings,
)
from connect_runtime.rest.tls import ADMIN_LISTENERS, LISTENERS, asks_for_certificates
from connect_runtime.settings.connector_clients import deprecated_policy, own_clients
from connect_runtime.settings.connector_topics import TopicSettings, storage_config
from connect_runtime.settings.slots import PAUSED_RELEASE, default_slots, memory_limit
from connect_runtime.settings.worker_keys import (
    EXECUTOR_START,
    JSON_CONVERTER,
    OFFSET_FILE,
    REACH,
    SUPPORTED,
    TOPIC_PREFIXES,
    is_client_key,
    without_effect,
)
from connect_specs.desired import Project
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.names import ClusterTopics
from connect_specs.secrets import Redactor

STANDALONE_GROUP: Final = "connect-standalone"
# Compaction never touches a topic's newest segment, and every start reads all of it: at most 10
# MiB, some 100,000 offsets, instead of Kafka's 1 GiB.
SMALL_SEGMENTS: Final[Mapping[str, str]] = {"segment.bytes": "10485760"}
_LOCAL: Final = re.compile(r"local\[(\d+)\]")
_KINDS: Final = ("config", "offset", "status")
_LISTENERS_TLS: Final = (LISTENERS, ADMIN_LISTENERS)
_TLS: Final = ("ssl.", *_LISTENERS_TLS)


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """One runtime's settings.

    `client` holds the properties, in Java's names, of clients of our own topics; `properties` all
    worker properties with the defaults of those that tasks read, for `TaskLaunch.worker`, with
    references to config providers unresolved; `resolved_properties` the same with their values, for
    this process alone. `tls` are those of https listeners. Topics are created by `config_topic`,
    `offset_topic` and `status_topic`. `converters` holds classes by property. `spark` holds further
    Spark settings. Everything that the runtime writes on this machine goes below `data_folder`.
    `executor_start_s` is how long Spark's executors may take to start. `offset_file`: of a
    standalone worker, which has no topics in Kafka. `reach_s` is how long it waits for Kafka when
    it starts.
    """

    group_id: str
    topics: ClusterTopics
    client: Mapping[str, str]
    properties: Mapping[str, str]
    resolved_properties: Mapping[str, str] = field(repr=False)
    config_topic: TopicSettings
    offset_topic: TopicSettings
    status_topic: TopicSettings
    listeners: tuple[Listener, ...]
    tls: Mapping[str, str] = field(repr=False)
    rest: RestSettings
    advertised_scheme: str | None
    advertised_host: str | None
    advertised_port: int | None
    converters: Mapping[str, str]
    graceful_timeout_ms: int
    reach_s: float
    master: str
    spark: Mapping[str, str]
    data_folder: Path
    executor_start_s: float
    offset_file: Path | None = None

    @property
    def workers_group(self) -> str | None:
        """Returns the group in Kafka that the workers join; None for a standalone worker."""
        return self.group_id if self.offset_file is None else None

    @property
    def listener(self) -> Listener:
        """Returns the listener that is advertised."""
        return advertised(self.listeners, self.advertised_scheme)

    def url(self, bound_port: int) -> str:
        """Returns the address that this runtime advertises, once that listener is bound."""
        listener = replace(
            self.listener,
            host=self.advertised_host or self.listener.host,
            scheme=(self.advertised_scheme or self.listener.scheme).lower(),
        )
        return listener.url(self.advertised_port or bound_port)

    @property
    def open_listeners(self) -> tuple[Listener, ...]:
        """Returns the listeners that answer anyone who reaches them: with neither a login nor
        certificates of clients."""
        if self.rest.login:
            return ()
        groups = ((self.listeners, LISTENERS), (self.rest.admin or (), ADMIN_LISTENERS))
        return tuple(
            listener
            for listeners, prefix in groups
            for listener in listeners
            if not (listener.scheme == "https" and asks_for_certificates(self.tls, prefix))
        )

    @property
    def open_hosts(self) -> tuple[str, ...]:
        """Returns the hosts of those that others than this machine reach."""
        hosts = [listener.host for listener in self.open_listeners]
        return tuple(host for host in hosts if not is_loopback(host))

    def with_slots(self, slots: int) -> WorkerConfig:
        """Returns the same settings on this machine, with that many tasks at once."""
        return replace(self, master=f"local[{slots}]")

    @property
    def slots(self) -> int | None:
        """Returns how many tasks can run at once on this machine; None if Spark decides that."""
        match = _LOCAL.fullmatch(self.master)
        return None if match is None else int(match[1])


def from_properties(
    properties: Mapping[str, str],
    *,
    standalone: bool = False,
    data_folder: Path = Path(".connect"),
) -> tuple[WorkerConfig, list[str]]:
    """Returns settings from Apache's worker properties, and warnings. Resolves references. Raises
    Invalid.

    A standalone worker has no group, and its topics are not in Kafka: they get names here. Its
    sources deliver at least once.
    """
    raw = {key: value.strip() for key, value in properties.items()}
    warnings = _warnings(raw, standalone=standalone)
    if standalone:
        raw = _standalone(raw)
    else:
        raw.pop(OFFSET_FILE, None)  # by which a JVM knows a standalone worker
    resolved = _resolved(raw)
    topics = ClusterTopics.of(resolved.config.get("group.id", ""))
    config = _config(resolved, topics, data_folder, warnings, standalone=standalone)
    return config, warnings


def from_project(
    project: Project, bootstrap: str | None, *, resolve: bool = True
) -> tuple[WorkerConfig, list[str]]:
    """Returns settings from connect.yaml, and warnings. `bootstrap` is the embedded broker's
    address, for a project that names no Kafka. Raises Invalid.

    `resolve` False: for a process that is not the worker. Values that hold references are then not
    checked, and replaced by defaults.
    """
    kafka = dict(project.kafka or {})
    if bootstrap is not None:
        kafka["bootstrap.servers"] = bootstrap
    if not kafka.get("bootstrap.servers"):
        text = "this project names no Kafka to run on"
        hint = "write kafka: embedded, or a map with bootstrap.servers, under 'cluster'"
        raise Invalid(Diagnostic("worker.no-kafka", text, str(project.file), hint=hint))
    base = _project_defaults(project) | {key: value.strip() for key, value in kafka.items()}
    for key, value in kafka.items():
        # in connect.yaml one map applies to every client
        if key != "bootstrap.servers":
            base |= {f"{client}.{key}": value for client in ("admin", "consumer", "producer")}
    worker = {key: value.strip() for key, value in project.worker.items()}
    path = plugin_path(project)
    if path:
        worker[PLUGIN_PATH] = path
    warnings = _warnings(dict(project.worker), standalone=False, of_project=True)
    if resolve:
        resolved = _resolved(base | worker)
    else:
        plain = {key: value for key, value in worker.items() if not holds_reference(value)}
        resolved = Resolved(base | worker, base | plain, {})
    return _config(resolved, project.topics, project.data, warnings), warnings


def plugin_path(project: Project) -> str:
    """Returns the `plugin.path` of a project's runtime: the worker's, and the folder of plugins
    that were installed; empty if there are none."""
    paths = [project.worker.get(PLUGIN_PATH, "").strip()]
    if project.plugins.is_dir():
        paths.append(str(project.plugins))
    return ",".join(filter(None, paths))


def project_tls(project: Project) -> Mapping[str, str]:
    """Returns the properties of the https listeners of a project's runtime, with references
    resolved in this process. Raises Invalid."""
    properties = {**(project.kafka or {}), **project.worker}
    raw = {k: v.strip() for k, v in properties.items() if k.startswith((*_TLS, "config.providers"))}
    return {key: text for key, text in _resolved(raw).config.items() if key.startswith(_TLS)}


def _resolved(raw: dict[str, str]) -> Resolved:
    """Returns the config with references resolved in this process. Raises Invalid."""
    providers = ConfigProviders(raw)
    try:
        problems = providers.problems() or tuple(
            Diagnostic("worker.unresolved", problem.text, problem.key)
            for problem in providers.worker.problems
        )
        if problems:
            raise Invalid(*problems)
        return providers.worker
    finally:
        providers.close()


def _project_defaults(project: Project) -> dict[str, str]:
    defaults = {
        "group.id": project.group_id,
        "config.storage.topic": project.topics.config,
        "offset.storage.topic": project.topics.offsets,
        "status.storage.topic": project.topics.status,
    }
    for kind in _KINDS:
        # Apache's 3 fails on a cluster of one broker, such as the embedded one
        defaults[f"{kind}.storage.replication.factor"] = "-1"
    for side in ("key", "value"):
        defaults[f"{side}.converter"] = JSON_CONVERTER
        if f"{side}.converter" not in project.worker:
            defaults[f"{side}.converter.schemas.enable"] = "false"
    return defaults


def _standalone(raw: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties with those of a cluster of one in place of their own."""
    topics = ClusterTopics.of(STANDALONE_GROUP)
    return {key: value for key, value in raw.items() if not _is_of_clusters(key)} | {
        "group.id": STANDALONE_GROUP,
        "config.storage.topic": topics.config,
        "offset.storage.topic": topics.offsets,
        "status.storage.topic": topics.status,
        "exactly.once.source.support": "disabled",
    }


def _is_of_clusters(key: str) -> bool:
    """Returns True if a key has a meaning for distributed workers alone."""
    return key in ("group.id", "exactly.once.source.support") or (
        key.startswith(TOPIC_PREFIXES) and key != OFFSET_FILE
    )


def _standalone_problems(properties: Mapping[str, str]) -> list[Diagnostic]:
    problems = []
    if not properties.get(OFFSET_FILE):
        text = f'Missing required configuration "{OFFSET_FILE}" which has no default value.'
        problems.append(Diagnostic("worker.invalid", text, OFFSET_FILE))
    master = properties.get("spark.master", "local")
    if not master.startswith("local"):
        text = f"Invalid value {master} for configuration spark.master: must be local[N]"
        reason = "tasks of a standalone worker run on its machine, where its offset file is"
        problems.append(Diagnostic("worker.invalid", text, "spark.master", reason))
    return problems


def _values(resolved: Resolved, *, standalone: bool) -> dict[str, Any]:
    """Returns the parsed values of supported properties. Raises Invalid with all errors."""
    properties = resolved.config
    values = SUPPORTED.validate(properties)
    # a value that cannot be read is null, which is an error of its own
    errors = [(value.name, value.errors[0]) for value in values if value.errors]
    problems = [Diagnostic("worker.invalid", text, key) for key, text in errors]
    if standalone:
        problems += _standalone_problems(properties)
    parsed = {value.name: value.value for value in values}
    conflict = None if problems else listener_problem(parsed)
    if conflict is not None:
        problems.append(Diagnostic("worker.invalid", conflict[1], conflict[0]))
    if problems:
        redactor = Redactor(resolved.provided.values())
        raise Invalid(*(replace(error, what=redactor.redact(error.what)) for error in problems))
    return parsed


def _config(
    resolved: Resolved,
    topics: ClusterTopics,
    data_folder: Path,
    warnings: list[str],
    *,
    standalone: bool = False,
) -> WorkerConfig:
    properties = resolved.config
    values = _values(resolved, standalone=standalone)
    if not standalone and str(values["exactly.once.source.support"]).lower() == "disabled":
        warnings.append(
            "exactly.once.source.support is disabled: a source task that is killed sends again "
            "what it sent since its last commit"
        )
    own = own_clients({**properties, "bootstrap.servers": ",".join(values["bootstrap.servers"])})
    return WorkerConfig(
        group_id=values["group.id"],
        topics=replace(
            topics,
            config=values["config.storage.topic"],
            offsets=values["offset.storage.topic"],
            status=values["status.storage.topic"],
        ),
        client={key: value for key, value in own.items() if is_client_key(key)},
        properties=_task_properties(resolved.raw, values),
        resolved_properties=_task_properties(properties, values),
        config_topic=_topic("config", 1, values, properties),
        offset_topic=_topic("offset", values["offset.storage.partitions"], values, properties),
        status_topic=_topic("status", values["status.storage.partitions"], values, properties),
        listeners=parse_listeners("listeners", values["listeners"]),
        tls={key: value for key, value in properties.items() if key.startswith(_TLS)},
        rest=rest_settings(values),
        advertised_scheme=values["rest.advertised.listener"],
        advertised_host=values["rest.advertised.host.name"] or None,
        advertised_port=values["rest.advertised.port"],
        converters={key: values[key] for key in CONVERTER_KINDS},
        graceful_timeout_ms=values["task.shutdown.graceful.timeout.ms"],
        reach_s=values[REACH] / 1000,
        master=values["spark.master"] or f"local[{default_slots(memory_limit())}]",
        spark={
            key: value
            for key, value in properties.items()
            if key.startswith("spark.") and key != "spark.master"
        },
        data_folder=data_folder,
        executor_start_s=values[EXECUTOR_START] / 1000,
        offset_file=Path(properties[OFFSET_FILE]) if standalone else None,
    )


def _task_properties(properties: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, str]:
    """Returns the worker properties but those of listeners; those that tasks read have defaults
    where omitted."""
    defaults = {
        "bootstrap.servers": ",".join(values["bootstrap.servers"]),
        "header.converter": values["header.converter"],
        "offset.flush.interval.ms": str(values["offset.flush.interval.ms"]),
        "task.shutdown.graceful.timeout.ms": str(values["task.shutdown.graceful.timeout.ms"]),
    }
    # as validated: the leader and its tasks must not read these differently
    decided = {key: str(values[key]) for key in ("exactly.once.source.support", PAUSED_RELEASE)}
    own = {key: text for key, text in properties.items() if not key.startswith(_LISTENERS_TLS)}
    if PLUGIN_PATH in own and not holds_reference(own[PLUGIN_PATH]):
        # the same on nodes that have another working directory
        own[PLUGIN_PATH] = ",".join(map(str, entries(own)))
    return defaults | own | decided


def _topic(
    kind: str, partitions: int, values: Mapping[str, Any], properties: Mapping[str, str]
) -> TopicSettings:
    prefix = f"{kind}.storage."
    config = {**SMALL_SEGMENTS, **storage_config(properties, prefix)}
    return TopicSettings(partitions, values[f"{prefix}replication.factor"], config)


def _warnings(raw: Mapping[str, str], *, standalone: bool, of_project: bool = False) -> list[str]:
    warnings: list[str] = []
    if "listeners" not in raw and not of_project:
        warnings.append(
            f"listeners is not set: REST is at {DEFAULT_LISTENER} only, where Apache's workers "
            "listen on every interface"
        )
    effective = raw
    if standalone:
        of_clusters = [key for key in sorted(raw) if _is_of_clusters(key)]
        warnings += [f"{key} has no effect in standalone mode" for key in of_clusters]
        effective = {k: v for k, v in raw.items() if k not in (OFFSET_FILE, *of_clusters)}
    warnings += [sentence for _, sentence in without_effect(effective)]
    deprecated = deprecated_policy(effective)
    return [*warnings, deprecated] if deprecated else warnings
