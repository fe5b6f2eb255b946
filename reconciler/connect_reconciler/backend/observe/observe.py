"""Observes the cluster: one frozen value, read once; nothing is created or changed.

Config, status, offsets and ledger topics are read to their ends by one consumer, then the consumer
groups and logs that they and the specs name. Nothing else on the way to a plan reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType

from connect_reconciler.backend.observe.connector_clusters import (
    ConnectorClusters,
    OpenView,
    open_view,
    worker_properties,
)
from connect_reconciler.backend.observe.connector_offsets import (
    OffsetsByConnector,
    PlanClients,
    offsets_now,
    offsets_to_be,
    strangers_of_sinks,
    topics_of_sinks,
)
from connect_reconciler.backend.observe.kafka_view import KafkaPort
from connect_reconciler.backend.observe.plugin_facts import (
    failed_traces,
    kinds_of,
    live_kind,
    secret_keys,
    with_failures,
)
from connect_reconciler.backend.observe.sink_logs import with_logs_elsewhere
from connect_reconciler.drift.topic_history import history_of
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
    State,
    StatusSnapshot,
)
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.names import ClusterTopics
from connect_specs.plugin_definitions import Definitions
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class Topics:
    """The four topics, read to their ends."""

    config: ConfigSnapshot
    status: StatusSnapshot
    offsets: OffsetSnapshot
    ledger: LedgerSnapshot
    config_records: tuple[LogRecord, ...] = ()


def observe_view(
    project: Project,
    desired: Desired,
    view: KafkaPort,
    *,
    now_ms: Callable[[], int],
    fingerprint_key: bytes | None,
    plugins: Definitions,
    client: Mapping[str, str] = MappingProxyType({}),
    open_view: OpenView = open_view,
) -> Live:
    """Observes the cluster through `view`. `client` holds Kafka client properties under Java's
    names, `fingerprint_key` wins over the ledger's, `open_view` opens other clusters.

    Raises Unreachable within 10 s, LogBlocked where an open transaction hides records.
    """
    cluster_id = view.cluster_id()
    topics = read_topics(project.topics, view)
    ledger = _ledger(project, topics, fingerprint_key)
    kinds = kinds_of(topics.config.connectors.values(), desired, plugins)
    live_kinds = {
        name: live_kind(state, kinds, topics.offsets)
        for name, state in topics.config.connectors.items()
    }
    clusters = ConnectorClusters(project, worker_properties(project, client), view, open_view)
    clients_of = PlanClients(desired, topics.config, live_kinds, kinds, ledger, clusters)
    current, planned = clients_of.current(), clients_of.planned()
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
    secrets = secret_keys(topics.config.connectors, desired, plugins, ledger)
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
        cluster_id=cluster_id,
        kinds=kinds,
        password_keys=secrets.keys,
        untyped_keys=secrets.untyped,
        unread_offsets={**to_be.unknown, **offsets.unknown},
        warnings=(*_unknown(offsets, to_be), *statuses_unread(project.topics, view)),
        strangers=strangers_of_sinks(
            {name: clients for name, clients in current.items() if clients.kind == "sink"},
            topics.config,
            clusters,
        ),
    )
    stored = topics.config.connectors
    live = _with_times(live, topics.config_records, project.name)
    live = with_failures(
        live,
        _traces(topics, State.FAILED),
        desired,
        plugins,
        lambda name: stored[name].task_configs,
        _traces(topics, State.RUNNING),
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
    task_states = _task_states(topics.status)
    keys = {name: spec.config.keys() for name, spec in desired.connectors.items()}
    return {
        name: LiveConnector(
            name=name,
            kind=kinds[name],
            config=ledger.without_added(name, state.config, keys.get(name, ())),
            target=state.target,
            offsets=offsets.get(name, Offsets()),
            state=_state(topics.status, name),
            task_states=task_states.get(name, ()),
        )
        for name, state in sorted(topics.config.connectors.items())
    }


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


def statuses_unread(topics: ClusterTopics, view: KafkaPort) -> tuple[Diagnostic, ...]:
    """Returns a warning if `view` could not read some statuses."""
    reason = view.unread.get(topics.status)
    if reason is None:
        return ()
    problem = "the statuses of some connectors could not be read"
    return (warning("cluster.statuses-unread", problem, topics.status, reason),)


def read_topics(topics: ClusterTopics, view: KafkaPort, *, ledger: bool = True) -> Topics:
    """Reads the topics, and the statuses as far as they can be read. Without `ledger`, its topic is
    left out. Raises Unreachable, LogBlocked, LedgerUnreadable."""
    names = (topics.config, topics.status, topics.offsets, topics.ledger)
    records = view.read(names if ledger else names[:3], (topics.status,))
    return Topics(
        config=config_topic.reduce_all(ConfigSnapshot(), records[topics.config]),
        status=status_topic.reduce_all(StatusSnapshot(), records[topics.status]),
        offsets=offsets_topic.reduce_all(OffsetSnapshot(), records[topics.offsets]),
        ledger=reduce_ledger(LedgerSnapshot(), records.get(topics.ledger, ())),
        config_records=tuple(records[topics.config]),
    )


# --- statuses, for display ---


def _state(status: StatusSnapshot, name: str) -> str | None:
    connector = status.connectors.get(name)
    return None if connector is None else connector.state.value


def _task_states(status: StatusSnapshot) -> dict[str, tuple[str, ...]]:
    states: dict[str, tuple[str, ...]] = {}
    for task in sorted(status.tasks):
        states[task.connector] = (*states.get(task.connector, ()), status.tasks[task].state.value)
    return states


def _traces(topics: Topics, state: State) -> dict[str, list[str]]:
    tasks = ((task.connector, topics.status.tasks[task]) for task in sorted(topics.status.tasks))
    traces = failed_traces(chain(topics.status.connectors.items(), tasks), state)
    return {name: trace for name, trace in traces.items() if name in topics.config.connectors}
