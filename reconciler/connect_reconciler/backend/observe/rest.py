"""Reads live from Connect's REST API alone, where Kafka cannot be asked.

Logs, and what deleted connectors left, stay unknown; the ledger lies in the connectors' configs.
Offsets take a request for each connector, so only those that the plan needs are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fnmatch import fnmatchcase

from connect_reconciler.backend.observe.plugin_facts import (
    Statuses,
    classes_of,
    kinds_of,
    redactor_in,
    with_secret_keys,
    with_statuses,
)
from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.client import RestClient, connector_path
from connect_reconciler.backend.rest.shapes import (
    FOLLOWS_S,
    ReportedConnector,
    is_passing,
    target_of,
)
from connect_reconciler.ledger.config_entry import load_ledger, offsets_mark, still_held
from connect_reconciler.model.config_values import LEDGER_KEY, without_reserved
from connect_reconciler.model.ledger import LedgerState, Owned
from connect_reconciler.model.live import Kind, Live, LiveConnector
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.secrets import see_through_masks
from connect_reconciler.plan.diff import managed_state, written_config
from connect_runtime.herder.verbs import ConnectorStatus, RequestError
from connect_runtime.storage.snapshots import ConnectorState
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, RestTarget, TargetState
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.plugin_definitions import Definitions

_AT_ONCE = 8
_KINDS: Mapping[str, Kind] = {"source": "source", "sink": "sink"}
# After a change of one of these it matters which offsets there are
_RELEVANT = (
    "connector.class",
    "topics",
    "topics.regex",
    "consumer.override.*",
    "producer.override.bootstrap.servers",
    "offsets.storage.topic",
)


def observe_rest(
    desired: Desired,
    client: RestClient,
    *,
    now_ms: Callable[[], int],
    fingerprint_key: bytes | None,
    plugins: Definitions,
) -> Live:
    """Returns the cluster as its REST API reports it. Raises Unreachable, RequestError."""
    about = client.about()
    reported = connectors_over_rest(client)
    configs = {name: connector.info.config for name, connector in reported.items()}
    ledger, unreadable = load_ledger(configs)
    names = desired.connectors.keys() | ledger.owned_by(desired.project)
    concerned = [name for name in reported if name in names]
    reported |= _settled({name: reported[name] for name in concerned}, client)
    ledger = still_held(ledger, _went_on(reported, client))
    to_read = sorted(offsets_needed(desired, reported, ledger))
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="observe") as pool:
        offsets = dict(zip(to_read, pool.map(lambda n: _offsets(client, n), to_read), strict=True))
    targets = {
        name: _target(connector, ledger.connectors.get(name))
        for name, connector in reported.items()
    }
    untold = [
        _untold(name, reported[name], targets[name])
        for name in concerned
        if is_passing(reported[name].status)
    ]
    live = Live(
        connectors={
            name: _live(name, connector, targets[name], offsets.get(name, ()))
            for name, connector in sorted(reported.items())
        },
        ledger=replace(ledger, fingerprint_key=fingerprint_key),
        kinds=kinds_of(configs.values(), desired, plugins),
        classes=classes_of(configs.values(), desired, plugins),
        # Other connectors are not touched
        errors=tuple(
            problem
            for name, error in unreadable.items()
            if name in desired.connectors
            for problem in error.diagnostics
        ),
        now_ms=now_ms(),
        cluster_id=about.kafka_cluster_id,
        rest_alone=True,
        version=about.version,
    )
    live = with_secret_keys(live, configs, desired, plugins)
    unread = [
        replace(
            problem,
            why=redactor_in(live, name, desired, plugins).redact(problem.why, configs[name]),
        )
        for name, problem in offsets.items()
        if isinstance(problem, Diagnostic)
    ]
    live = see_through_masks(replace(live, warnings=(*unread, *untold)), desired)
    statuses: dict[str, Statuses] = {
        name: (status.connector, [task for _, task in sorted(status.tasks.items())])
        for name, connector in reported.items()
        if (status := connector.status) is not None
    }
    return with_statuses(live, statuses, desired, plugins)


def ledger_over_rest(
    client: RestClient, fingerprint_key: bytes | None
) -> tuple[LedgerState, Mapping[str, str]]:
    """Reads the owners and pins in the configs, parsed and as text. Unreadable entries are left
    out: the plan has reported them."""
    reported = connectors_over_rest(client)
    configs = {name: connector.info.config for name, connector in reported.items()}
    ledger, _ = load_ledger(configs)
    ledger = still_held(ledger, _went_on(reported, client))
    entries = {name: configs[name][LEDGER_KEY] for name in ledger.connectors}
    return replace(ledger, fingerprint_key=fingerprint_key), entries


def connectors_over_rest(client: RestClient) -> dict[str, ReportedConnector]:
    """Reads all connectors, by name. Raises Unreachable where something else than Connect
    answers."""
    with ThreadPoolExecutor(1, thread_name_prefix="names") as pool:
        names = pool.submit(client.must, "/connectors", shapes.names)
        reported = client.must("/connectors?expand=info&expand=status", shapes.expanded)
        # Connect leaves out of that list what has no status yet
        missing = set(names.result()) - reported.keys()
    if missing:
        infos = client.must("/connectors?expand=info", shapes.expanded_infos)
        reported |= {
            name: ReportedConnector(infos[name], None) for name in sorted(missing & infos.keys())
        }
    return reported


def _settled(
    reported: Mapping[str, ReportedConnector], client: RestClient
) -> dict[str, ReportedConnector]:
    """Waits for statuses that do not show target states yet. Returns the connectors with them."""
    passing = {
        name: connector for name, connector in reported.items() if is_passing(connector.status)
    }

    def look() -> bool:
        statuses = client.must("/connectors?expand=status", shapes.expanded_statuses)
        for name, connector in passing.items():
            if is_passing(connector.status):
                passing[name] = replace(connector, status=statuses.get(name))
        return not any(is_passing(connector.status) for connector in passing.values())

    if passing:
        client.wait_for(look, FOLLOWS_S)
    return passing


def _went_on(
    reported: Mapping[str, ReportedConnector], client: RestClient
) -> Callable[[str, str], bool]:
    """Returns a check whether a connector was resumed. Of a stopped connector only offsets prove
    it: it was stopped again if they have moved."""

    def went_on(name: str, mark: str) -> bool:
        status = reported[name].status
        if not is_passing(status) and target_of(status) is not TargetState.STOPPED:
            return True
        current = _offsets(client, name)
        return not isinstance(current, Diagnostic) and offsets_mark(current) != mark

    return went_on


def _offsets(client: RestClient, name: str) -> tuple[OffsetEntry, ...] | Diagnostic:
    try:
        return client.read(connector_path(name, "offsets"), shapes.offsets) or ()
    except RequestError as error:
        problem = f"the offsets of {name} cannot be read, so effects on them are not told"
        return warning("observe.no-offsets", problem, name, error.message)


def _target(connector: ReportedConnector, owned: Owned | None) -> TargetState:
    """Returns the target state, or the likely one where the status does not show it."""
    target = target_of(connector.status)
    if target is not None:
        return target
    is_held = owned is not None and owned.restore_to is not None
    # A stopped connector has no tasks
    return TargetState.STOPPED if is_held and not connector.info.tasks else TargetState.RUNNING


def _untold(name: str, connector: ReportedConnector, target: TargetState) -> Diagnostic:
    state = "none" if connector.status is None else connector.status.connector.state.value
    problem = f"the status of {name} is {state}: whether it is stopped or paused is not told"
    return warning(
        "observe.state-untold",
        f"{problem}, and it is taken for {target.value}",
        name,
        hint="wait until a worker has it, then plan again",
    )


def _live(
    name: str,
    connector: ReportedConnector,
    target: TargetState,
    offsets: tuple[OffsetEntry, ...] | Diagnostic,
) -> LiveConnector:
    kind = _KINDS.get(connector.info.type, "unknown")
    stored = Offsets(() if isinstance(offsets, Diagnostic) else offsets)
    return LiveConnector(name, kind, connector.info.config, target, stored)


def statuses_over_rest(
    target: RestTarget,
) -> tuple[dict[str, ConnectorState], dict[str, ConnectorStatus]]:
    """Reads all connectors, and the statuses of those that have one. Raises Unreachable,
    RequestError."""
    with RestClient(target) as client:
        client.about()
        reported = connectors_over_rest(client)
    connectors = {
        name: ConnectorState(
            name,
            connector.info.config,
            target_of(connector.status) or TargetState.RUNNING,
            task_configs=tuple({} for _ in connector.info.tasks),
            task_count=len(connector.info.tasks),
        )
        for name, connector in reported.items()
    }
    statuses = {
        name: connector.status
        for name, connector in reported.items()
        if connector.status is not None
    }
    return connectors, statuses


def offsets_needed(
    desired: Desired, reported: Mapping[str, ReportedConnector], ledger: LedgerState
) -> frozenset[str]:
    """Returns the connectors whose offsets the plan needs."""
    renaming = {name for pair in ledger.renames for name in pair if name in reported}
    return (
        _renamed(desired, reported)
        | renaming
        | {
            name
            for name, connector in reported.items()
            if _is_held(name, ledger, desired.project)
            or _is_moved(desired.connectors.get(name), connector, ledger)
        }
    )


def _renamed(desired: Desired, reported: Mapping[str, ReportedConnector]) -> frozenset[str]:
    """Returns both names of each rename whose old name is still there."""
    return frozenset(
        name
        for spec in desired.connectors.values()
        if spec.renamed_from in reported
        for name in (spec.name, spec.renamed_from)
        if name is not None and name in reported
    )


def _is_held(name: str, ledger: LedgerState, project: str) -> bool:
    """Returns True if a pin holds its offsets in place; drift compares them without a spec, too."""
    if ledger.owner(name) != project:
        return False
    return any(applied.held for applied in ledger.pins_of(name).values())


def _is_moved(
    spec: DesiredConnector | None, connector: ReportedConnector, ledger: LedgerState
) -> bool:
    if spec is None:
        return False
    if spec.pin is not None:
        applied = ledger.pins.get((spec.name, spec.pin.id))
        stopped = managed_state(spec) is TargetState.STOPPED
        if applied is None or (applied.held and stopped):
            return True
    return any(fnmatchcase(key, glob) for key in _changed(spec, connector) for glob in _RELEVANT)


def _changed(spec: DesiredConnector, connector: ReportedConnector) -> Iterator[str]:
    stored = {**without_reserved(connector.info.config), "name": spec.name}
    config = written_config(spec, stored)
    for key in stored.keys() | config.keys():
        if stored.get(key) != config.get(key):
            yield key
