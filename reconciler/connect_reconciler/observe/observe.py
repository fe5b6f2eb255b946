"""What does the cluster hold now? One frozen value, read once; nothing is created or changed.

Config, status, offsets and ledger topics are read to their ends side by side, then the consumer
groups and logs that they and the specs name. Nothing else on the way to a plan reads a clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType

from connect_reconciler.cluster.answers import NotConnect
from connect_reconciler.cluster.choose import rest_client
from connect_reconciler.cluster.rest_client import RestClient
from connect_reconciler.ledger.config_entry import offsets_mark, still_held, with_configs
from connect_reconciler.ledger.topic import LedgerSnapshot, with_fingerprint_key
from connect_reconciler.ledger.topic import reduce_all as reduce_ledger
from connect_reconciler.observe.classes import kinds_of, live_kind, password_keys
from connect_reconciler.observe.homes import Homes, OpenView, open_view, worker_properties
from connect_reconciler.observe.kafka_view import KafkaView, View, fingerprint_key_given
from connect_reconciler.observe.known_plugins import known_plugins
from connect_reconciler.observe.logs import with_logs_elsewhere
from connect_reconciler.observe.offsets import (
    Found,
    Scope,
    offsets_now,
    offsets_to_be,
    topics_of_sinks,
)
from connect_reconciler.observe.rest import observe_rest
from connect_reconciler.observe.same_cluster import (
    connectors_of,
    ensure_same_cluster,
    not_compared,
)
from connect_reconciler.plan.live import (
    Live,
    LiveConnector,
)
from connect_runtime.storage import config_topic, offsets_topic, status_topic
from connect_runtime.storage.snapshots import (
    ConfigSnapshot,
    OffsetSnapshot,
    StatusSnapshot,
)
from connect_specs.desired import Desired, Project
from connect_specs.diagnostics import ConnectError, Diagnostic, Invalid
from connect_specs.names import ClusterTopics
from connect_specs.plugin_definitions import Definitions
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class _Topics:
    """The four topics, read to their ends."""

    config: ConfigSnapshot
    status: StatusSnapshot
    offsets: OffsetSnapshot
    ledger: LedgerSnapshot


def observe(project: Project, desired: Desired, client: Mapping[str, str]) -> Live:
    """The cluster as it is now. `client` holds Kafka client properties under Java's names.

    Raises Unreachable within 10 s, LogBlocked where an open transaction hides records.
    """
    key = fingerprint_key_given()
    with known_plugins(project, client) as plugins:
        if project.target is None or client:
            live = observe_view(
                project,
                desired,
                KafkaView(client),
                now_ms=_now_ms,
                fingerprint_key=key,
                plugins=plugins,
                client=client,
            )
            return compared(project, desired, client, live)
        with RestClient(project.target) as rest:
            return observe_rest(desired, rest, now_ms=_now_ms, fingerprint_key=key, plugins=plugins)


def compared(project: Project, desired: Desired, client: Mapping[str, str], live: Live) -> Live:
    """What topics told, with what a worker says of itself. Where none answers topics are enough
    for a plan, and a warning says that nothing was compared.

    Raises Invalid where the workers are those of another Connect cluster.
    """
    rest = None if project.target is None else rest_client(project, {})
    if rest is None:
        return replace(live, ours=True)
    with rest:
        try:
            told = ensure_same_cluster(
                project, client, rest, connectors_of(desired, live.ledger.connectors)
            )
        except (Invalid, NotConnect):
            raise
        except ConnectError as error:
            return replace(live, warnings=(*live.warnings, not_compared(error)))
    return replace(live, version=told.version)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


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
    """The same over any view. `fingerprint_key` wins over the ledger's; `open_view` leads to other
    Kafka clusters."""
    cluster_id = view.cluster_id()
    found = _read_topics(project.topics, view)
    configs = {name: state.config for name, state in found.config.connectors.items()}
    ledger = with_configs(with_fingerprint_key(found.ledger, fingerprint_key).state, configs)
    # What another project left half done is for its own next apply
    early = tuple(each for each in ledger.unfinished if each.project == project.name)
    ledger = replace(ledger, unfinished=early)
    kinds = kinds_of(found.config.connectors.values(), desired, plugins)
    live_kinds = {
        name: live_kind(state, kinds, found.offsets)
        for name, state in found.config.connectors.items()
    }
    homes = Homes(project, worker_properties(project, client), view, open_view)
    scope = Scope(desired, found.config, live_kinds, kinds, ledger, homes)
    held, wanted = scope.held(), scope.wanted()
    homes.reach((*held.values(), *wanted.values()))
    here = {name for name, each in held.items() if each.kind == "sink" and not each.own_login}
    view.ensure_visible(topics_of_sinks(here, desired, found.config))
    now = offsets_now(held, live_kinds, found.offsets, homes)
    to_be = offsets_to_be(wanted, held, found.offsets, homes)
    offsets = now.offsets

    def went_on(name: str, mark: str) -> bool:
        stopped = found.config.connectors[name].target is TargetState.STOPPED
        return not stopped or offsets_mark(offsets.get(name, ())) != mark

    ledger = still_held(ledger, went_on)
    task_states = _task_states(found.status)
    live = Live(
        connectors={
            name: LiveConnector(
                name=name,
                kind=live_kinds[name],
                config=state.config,
                target=state.target,
                offsets=offsets.get(name, ()),
                state=_state(found.status, name),
                task_states=task_states.get(name, ()),
            )
            for name, state in sorted(found.config.connectors.items())
        },
        ledger=ledger,
        orphan_offsets={
            name: entries
            for name, entries in sorted(offsets.items())
            if name not in found.config.connectors and entries
        },
        new_offsets=to_be.offsets,
        now_ms=now_ms(),
        cluster_id=cluster_id,
        kinds=kinds,
        password_keys=password_keys(found.config.connectors, desired, plugins, ledger.connectors),
        unknown={**to_be.unknown, **now.unknown},
        warnings=_unknown(now, to_be),
    )
    return with_logs_elsewhere(live, desired, {**held, **wanted}, homes)


def _unknown(now: Found, to_be: Found) -> tuple[Diagnostic, ...]:
    return tuple(
        Diagnostic("plan.offsets-unknown", f"the offsets of {name} could not be read", name, why)
        for name, why in sorted({**to_be.unknown, **now.unknown}.items())
    )


def _read_topics(topics: ClusterTopics, view: View) -> _Topics:
    names = (topics.config, topics.status, topics.offsets, topics.ledger)
    with ThreadPoolExecutor(len(names), thread_name_prefix="observe") as pool:
        config, status, offsets, ledger = pool.map(view.records, names)
    return _Topics(
        config=config_topic.reduce_all(ConfigSnapshot(), config),
        status=status_topic.reduce_all(StatusSnapshot(), status),
        offsets=offsets_topic.reduce_all(OffsetSnapshot(), offsets),
        ledger=reduce_ledger(LedgerSnapshot(), ledger),
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
