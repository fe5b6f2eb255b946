"""Observes the cluster: one frozen value, read once; nothing is created or changed.

Config, status, offsets and ledger topics are read to their ends by one consumer, then the consumer
groups and logs that they and the specs name. Nothing else on the way to a plan reads a clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from connect_reconciler.backend.observe.connector_offsets import (
    ConnectorClusters,
    OffsetsByConnector,
    OpenView,
    current_clients,
    offsets_now,
    offsets_to_be,
    open_view,
    planned_clients,
    strangers_of_sinks,
    topics_of_sinks,
    worker_properties,
)
from connect_reconciler.backend.observe.kafka_view import KafkaPort
from connect_reconciler.backend.observe.plugin_facts import (
    Statuses,
    classes_of,
    kinds_of,
    live_kind,
    with_secret_keys,
    with_statuses,
)
from connect_reconciler.backend.observe.sink_logs import with_logs_elsewhere
from connect_reconciler.drift.model import history_of
from connect_reconciler.ledger.config_entry import offsets_mark, still_held, with_configs
from connect_reconciler.ledger.topic import LedgerSnapshot, with_fingerprint_key
from connect_reconciler.ledger.topic import reduce_all as reduce_ledger
from connect_reconciler.model.config_values import without_reserved
from connect_reconciler.model.ledger import LedgerState
from connect_reconciler.model.live import Kind, Live, LiveConnector
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.secrets import live_redactor
from connect_reconciler.plan.consequences.explain import changed_outside
from connect_runtime.storage import config_topic, offsets_topic, status_topic
from connect_runtime.storage.log import LogRecord
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    OffsetSnapshot,
    Status,
    StatusSnapshot,
)
from connect_specs.desired import Desired, Project, TargetState
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.names import ClusterTopics
from connect_specs.plugin_definitions import Definitions


@dataclass(frozen=True, slots=True)
class Topics:
    """The cluster's topics, read to their ends. `records` are without topics that do not exist;
    `unread` is why some statuses could not be read."""

    cluster_id: str
    config: ConfigSnapshot
    status: StatusSnapshot
    offsets: OffsetSnapshot
    ledger: LedgerSnapshot
    records: Mapping[str, Sequence[LogRecord]]
    unread: str | None = None


def observe_topics(
    project: Project,
    desired: Desired,
    topics: Topics,
    view: KafkaPort,
    *,
    now_ms: Callable[[], int],
    fingerprint_key: bytes | None,
    plugins: Definitions,
    client: Mapping[str, str] = MappingProxyType({}),
    open_view: OpenView = open_view,
) -> Live:
    """Observes the cluster of `topics` through `view`. `client` holds Kafka client properties under
    Java's names, `fingerprint_key` wins over the ledger's, `open_view` opens other clusters. Raises
    Unreachable."""
    ledger = _ledger(project, topics, fingerprint_key)
    stored = topics.config.connectors
    configs = {name: state.config for name, state in stored.items()}
    kinds = kinds_of(configs.values(), desired, plugins)
    live_kinds = {name: live_kind(state, kinds, topics.offsets) for name, state in stored.items()}
    clusters = ConnectorClusters(project, worker_properties(project, client), view, open_view)
    current = current_clients(desired, topics.config, live_kinds, kinds, ledger, clusters)
    planned = planned_clients(desired, topics.config, kinds, clusters)
    clusters.reach((*current.values(), *planned.values()))
    sinks = {
        name
        for name, clients in current.items()
        if clients.kind == "sink" and not clients.own_login
    }
    view.ensure_visible(topics_of_sinks(sinks, desired, topics.config))
    offsets = offsets_now(current, live_kinds, topics.offsets, clusters)
    to_be = offsets_to_be(planned, current, topics.offsets, clusters)
    ledger = _without_resumed(ledger, topics, offsets.offsets)
    live = Live(
        connectors=_connectors(topics, live_kinds, offsets.offsets, ledger, desired),
        ledger=ledger,
        orphan_offsets={
            name: entries
            for name, entries in sorted(offsets.offsets.items())
            if name not in topics.config.connectors and entries
        },
        offsets_after_change=to_be.offsets,
        now_ms=now_ms(),
        cluster_id=topics.cluster_id,
        kinds=kinds,
        classes=classes_of(configs.values(), desired, plugins),
        unread_offsets={**to_be.unknown, **offsets.unknown},
        warnings=(*_unknown(offsets, to_be), *statuses_unread(project.topics, topics)),
        strangers=strangers_of_sinks(
            {name: clients for name, clients in current.items() if clients.kind == "sink"},
            topics.config,
            clusters,
        ),
    )
    live = with_secret_keys(live, configs, desired, plugins)
    live = _with_times(live, topics.records.get(project.topics.config, ()), project.name)
    live = with_statuses(
        live, _statuses(topics), desired, plugins, lambda name: stored[name].task_configs
    )
    return with_logs_elsewhere(live, desired, {**current, **planned}, clusters)


def _ledger(project: Project, topics: Topics, fingerprint_key: bytes | None) -> LedgerState:
    configs = {name: state.config for name, state in topics.config.connectors.items()}
    ledger = with_configs(with_fingerprint_key(topics.ledger, fingerprint_key).state, configs)
    # Another project's unfinished changes are for its own next apply
    early = tuple(
        unfinished for unfinished in ledger.unfinished if unfinished.project == project.name
    )
    unproven = topics.ledger.unproven(project.name)
    return replace(ledger, unfinished=early, unproven=unproven)


def _without_resumed(
    ledger: LedgerState, topics: Topics, offsets: Mapping[str, Offsets]
) -> LedgerState:
    """Connectors that were resumed since an apply stopped them have no state to be restored."""

    def went_on(name: str, mark: str) -> bool:
        stopped = topics.config.connectors[name].target is TargetState.STOPPED
        return not stopped or offsets_mark(offsets.get(name, Offsets())) != mark

    return still_held(ledger, went_on)


def _connectors(
    topics: Topics,
    kinds: Mapping[str, Kind],
    offsets: Mapping[str, Offsets],
    ledger: LedgerState,
    desired: Desired,
) -> dict[str, LiveConnector]:
    keys = {name: spec.config.keys() for name, spec in desired.connectors.items()}
    return {
        name: LiveConnector(
            name=name,
            kind=kinds[name],
            config=ledger.without_added(name, state.config, keys.get(name, ())),
            target=state.target,
            offsets=offsets.get(name, Offsets()),
        )
        for name, state in sorted(topics.config.connectors.items())
    }


def _statuses(topics: Topics) -> dict[str, Statuses]:
    """Returns the statuses of the connectors that exist."""
    tasks: dict[str, list[Status]] = defaultdict(list)
    for task, status in sorted(topics.status.tasks.items()):
        tasks[task.connector].append(status)
    own = topics.status.connectors
    return {name: (own.get(name), tasks[name]) for name in topics.config.connectors}


def _with_times(live: Live, records: Iterable[LogRecord], project: str) -> Live:
    """Returns the live state with the times of what differs from what the project applied last."""
    keys: list[tuple[str, str]] = []
    targets: list[str] = []
    for name in live.ledger.owned_by(project) & live.connectors.keys():
        owned, connector = live.ledger.connectors[name], live.connectors[name]
        redactor, config = live_redactor(name, live), without_reserved(connector.config)
        for key in (config.keys() | owned.config.keys()) - {"name"}:
            if changed_outside(key, owned, config, redactor):
                keys.append((name, key))
        if owned.state not in (None, connector.target):
            targets.append(name)
    if not keys and not targets:
        return live
    history = history_of(records, (), ())
    since = {change: history.keys[change].timestamp_ms for change in keys if change in history.keys}
    targets_since = {
        change: history.targets[change].timestamp_ms
        for change in targets
        if change in history.targets
    }
    return replace(live, keys_since=since, targets_since=targets_since)


def _unknown(current: OffsetsByConnector, to_be: OffsetsByConnector) -> tuple[Diagnostic, ...]:
    return tuple(
        warning(
            "plan.offsets-unknown",
            f"the offsets of {name} could not be read",
            name,
            reason,
        )
        for name, reason in sorted({**to_be.unknown, **current.unknown}.items())
    )


def statuses_unread(names: ClusterTopics, topics: Topics) -> tuple[Diagnostic, ...]:
    """Returns a warning if some statuses could not be read."""
    if topics.unread is None:
        return ()
    problem = "the statuses of some connectors could not be read"
    return (warning("cluster.statuses-unread", problem, names.status, topics.unread),)


def read_topics(names: ClusterTopics, view: KafkaPort, subset: Sequence[str] = ()) -> Topics:
    """Reads the four topics, or a `subset` of them, and the statuses as far as they can be read.

    Raises Unreachable within 10 s, LogBlocked where an open transaction hides records,
    LedgerUnreadable.
    """
    cluster_id = view.cluster_id()
    topics = subset or (names.config, names.status, names.offsets, names.ledger)
    records, unread = view.read(topics, (names.status,))
    return Topics(
        cluster_id,
        config_topic.reduce_all(ConfigSnapshot(), records.get(names.config, ())),
        status_topic.reduce_all(StatusSnapshot(), records.get(names.status, ())),
        offsets_topic.reduce_all(OffsetSnapshot(), records.get(names.offsets, ())),
        reduce_ledger(LedgerSnapshot(), records.get(names.ledger, ())),
        records,
        unread.get(names.status),
    )
