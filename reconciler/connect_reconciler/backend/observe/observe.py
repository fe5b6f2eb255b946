"""What does the cluster hold now? One frozen value, read once; nothing is created or changed.

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
    Found,
    Scope,
    offsets_now,
    offsets_to_be,
    topics_of_sinks,
)
from connect_reconciler.backend.observe.kafka_view import View
from connect_reconciler.backend.observe.plugin_facts import (
    failed_traces,
    kinds_of,
    live_kind,
    secret_keys,
    with_failures,
)
from connect_reconciler.backend.observe.sink_logs import with_logs_elsewhere
from connect_reconciler.backend.observe.strangers import strangers_of_sinks
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
    view: View,
    *,
    now_ms: Callable[[], int],
    fingerprint_key: bytes | None,
    plugins: Definitions,
    client: Mapping[str, str] = MappingProxyType({}),
    open_view: OpenView = open_view,
) -> Live:
    """The cluster as it is now, as `view` shows it. `client` holds Kafka client properties under
    Java's names, `fingerprint_key` wins over the ledger's, `open_view` leads to other clusters.

    Raises Unreachable within 10 s, LogBlocked where an open transaction hides records.
    """
    cluster_id = view.cluster_id()
    found = read_topics(project.topics, view)
    ledger = _ledger(project, found, fingerprint_key)
    kinds = kinds_of(found.config.connectors.values(), desired, plugins)
    live_kinds = {
        name: live_kind(state, kinds, found.offsets)
        for name, state in found.config.connectors.items()
    }
    clusters = ConnectorClusters(project, worker_properties(project, client), view, open_view)
    scope = Scope(desired, found.config, live_kinds, kinds, ledger, clusters)
    held, wanted = scope.held(), scope.wanted()
    clusters.reach((*held.values(), *wanted.values()))
    here = {name for name, each in held.items() if each.kind == "sink" and not each.own_login}
    view.ensure_visible(topics_of_sinks(here, desired, found.config))
    now = offsets_now(held, live_kinds, found.offsets, clusters)
    to_be = offsets_to_be(wanted, held, found.offsets, clusters)
    ledger = _without_resumed(ledger, found, now.offsets)
    secrets = secret_keys(found.config.connectors, desired, plugins, ledger)
    live = Live(
        connectors=_connectors(found, live_kinds, now.offsets, ledger, desired),
        ledger=ledger,
        orphan_offsets={
            name: entries
            for name, entries in sorted(now.offsets.items())
            if name not in found.config.connectors and entries
        },
        offsets_after_change=to_be.offsets,
        now_ms=now_ms(),
        cluster_id=cluster_id,
        kinds=kinds,
        password_keys=secrets.keys,
        untyped_keys=secrets.untyped,
        unread_offsets={**to_be.unknown, **now.unknown},
        warnings=(*_unknown(now, to_be), *statuses_unread(project.topics, view)),
        strangers=strangers_of_sinks(
            {name: each for name, each in held.items() if each.kind == "sink"},
            found.config,
            clusters,
        ),
    )
    stored = found.config.connectors
    live = _with_times(live, found.config_records, project.name)
    live = with_failures(
        live,
        _traces(found, State.FAILED),
        desired,
        plugins,
        lambda name: stored[name].task_configs,
        _traces(found, State.RUNNING),
    )
    return with_logs_elsewhere(live, desired, {**held, **wanted}, clusters)


def _ledger(project: Project, found: Topics, fingerprint_key: bytes | None) -> LedgerState:
    configs = {name: state.config for name, state in found.config.connectors.items()}
    ledger = with_configs(with_fingerprint_key(found.ledger, fingerprint_key).state, configs)
    # What another project left half done is for its own next apply
    early = tuple(each for each in ledger.unfinished if each.project == project.name)
    unproven = found.ledger.unproven(project.name)
    return replace(ledger, unfinished=early, unproven=unproven)


def _without_resumed(
    ledger: LedgerState, found: Topics, offsets: Mapping[str, Offsets]
) -> LedgerState:
    """Connectors that were resumed since an apply stopped them have no state to be restored."""

    def went_on(name: str, mark: str) -> bool:
        stopped = found.config.connectors[name].target is TargetState.STOPPED
        return not stopped or offsets_mark(offsets.get(name, Offsets())) != mark

    return still_held(ledger, went_on)


def _connectors(
    found: Topics,
    kinds: Mapping[str, Kind],
    offsets: Mapping[str, Offsets],
    ledger: LedgerState,
    desired: Desired,
) -> dict[str, LiveConnector]:
    task_states = _task_states(found.status)
    named = {name: spec.config.keys() for name, spec in desired.connectors.items()}
    return {
        name: LiveConnector(
            name=name,
            kind=kinds[name],
            config=ledger.without_added(name, state.config, named.get(name, ())),
            target=state.target,
            offsets=offsets.get(name, Offsets()),
            state=_state(found.status, name),
            task_states=task_states.get(name, ()),
        )
        for name, state in sorted(found.config.connectors.items())
    }


def _with_times(live: Live, records: Iterable[LogRecord], project: str) -> Live:
    """The live state with the times of what differs from what the project applied last."""
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
    since = {each: history.keys[each].timestamp_ms for each in keys if each in history.keys}
    asked = {
        each: history.targets[each].timestamp_ms for each in targets if each in history.targets
    }
    return replace(live, keys_since=since, targets_since=asked)


def _unknown(now: Found, to_be: Found) -> tuple[Diagnostic, ...]:
    return tuple(
        warning(
            "plan.offsets-unknown",
            f"the offsets of {name} could not be read",
            name,
            why,
        )
        for name, why in sorted({**to_be.unknown, **now.unknown}.items())
    )


def statuses_unread(topics: ClusterTopics, view: View) -> tuple[Diagnostic, ...]:
    """What is said of statuses that `view` could not read."""
    why = view.unread.get(topics.status)
    if why is None:
        return ()
    what = "the statuses of some connectors could not be read"
    return (warning("cluster.statuses-unread", what, topics.status, why),)


def read_topics(topics: ClusterTopics, view: View, *, ledger: bool = True) -> Topics:
    """The topics, of the statuses what can be read; `ledger`: that one, too. Raises Unreachable,
    LogBlocked, LedgerUnreadable."""
    names = (topics.config, topics.status, topics.offsets, topics.ledger)
    found = view.read(names if ledger else names[:3], (topics.status,))
    return Topics(
        config=config_topic.reduce_all(ConfigSnapshot(), found[topics.config]),
        status=status_topic.reduce_all(StatusSnapshot(), found[topics.status]),
        offsets=offsets_topic.reduce_all(OffsetSnapshot(), found[topics.offsets]),
        ledger=reduce_ledger(LedgerSnapshot(), found.get(topics.ledger, ())),
        config_records=tuple(found[topics.config]),
    )


# --- statuses, for display ---


def _state(status: StatusSnapshot, name: str) -> str | None:
    found = status.connectors.get(name)
    return None if found is None else found.state.value


def _task_states(status: StatusSnapshot) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for task in sorted(status.tasks):
        found[task.connector] = (*found.get(task.connector, ()), status.tasks[task].state.value)
    return found


def _traces(found: Topics, state: State) -> dict[str, list[str]]:
    tasks = ((task.connector, found.status.tasks[task]) for task in sorted(found.status.tasks))
    traces = failed_traces(chain(found.status.connectors.items(), tasks), state)
    return {name: trace for name, trace in traces.items() if name in found.config.connectors}
