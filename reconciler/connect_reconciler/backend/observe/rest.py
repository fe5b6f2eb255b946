"""Reads live from Connect's REST API alone, where Kafka cannot be asked.

Logs, and what deleted connectors left, stay unknown; the ledger lies in the connectors' configs.
Offsets take a request for each connector, so only those that the plan needs are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fnmatch import fnmatchcase

from connect_reconciler.backend.observe.plugin_facts import (
    SpecSecrets,
    failed_traces,
    kinds_of,
    redactor_of,
    secret_keys,
    with_failures,
)
from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.client import RestClient, connector_path
from connect_reconciler.backend.rest.shapes import FOLLOWS_S, Listed, is_passing, target_of
from connect_reconciler.ledger.config_entry import load_ledger, offsets_mark, still_held
from connect_reconciler.ledger.topic import LedgerUnreadable
from connect_reconciler.model.config_values import LEDGER_KEY, without_reserved
from connect_reconciler.model.ledger import LedgerState, Owned
from connect_reconciler.model.live import Kind, Live, LiveConnector
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.secrets import see_through_masks
from connect_reconciler.plan.diff import managed_state, written_config
from connect_runtime.herder.verbs import ConnectorStatus, RequestError
from connect_runtime.storage.snapshots import ConnectorState, State
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, RestTarget
from connect_specs.diagnostics import Diagnostic, warning
from connect_specs.plugin_definitions import Definitions
from connect_specs.states import TargetState

_AT_ONCE = 8
_STATUSES_AT_ONCE = 4
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
    """The cluster as its REST API reports it. Raises Unreachable, RequestError."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="observe") as pool:
        about = client.about()
        found = connectors_over_rest(client, pool)
        problems: list[Diagnostic] = []
        ledger = _ledger(found, desired, problems)
        known = desired.connectors.keys() | ledger.owned_by(desired.project)
        wanted = [name for name in found if name in known]
        found |= _settled({name: found[name] for name in wanted}, client)
        ledger = still_held(ledger, _went_on(found, lambda name: _offsets(client, name)))
        asked = sorted(offsets_needed(desired, found, ledger))
        offsets = dict(zip(asked, pool.map(lambda n: _offsets(client, n), asked), strict=True))
    states = {name: ConnectorState(name, each.info.config) for name, each in found.items()}
    unread = [
        _covered(each, name, found[name].info.config, plugins, desired, ledger)
        for name, each in offsets.items()
        if isinstance(each, Diagnostic)
    ]
    targets = {name: _target(each, ledger.connectors.get(name)) for name, each in found.items()}
    untold = [
        _untold(name, found[name], targets[name])
        for name in wanted
        if is_passing(found[name].status)
    ]
    ledger = replace(ledger, fingerprint_key=fingerprint_key)
    secrets = secret_keys(states, desired, plugins, ledger)
    live = Live(
        connectors={
            name: _live(name, each, targets[name], offsets.get(name, ()))
            for name, each in sorted(found.items())
        },
        ledger=ledger,
        kinds=kinds_of(states.values(), desired, plugins),
        password_keys=secrets.keys,
        untyped_keys=secrets.untyped,
        errors=tuple(problems),
        warnings=(*unread, *untold),
        now_ms=now_ms(),
        cluster_id=about.kafka_cluster_id,
        rest_alone=True,
        version=about.version,
    )
    failed, running = _traces(found, State.FAILED), _traces(found, State.RUNNING)
    live = see_through_masks(live, desired)
    return with_failures(live, failed, desired, plugins, running=running)


def ledger_over_rest(
    client: RestClient, fingerprint_key: bytes | None
) -> tuple[LedgerState, Mapping[str, str]]:
    """The owners and pins in the configs, parsed and as text. Unreadable entries are left out: the
    plan has reported them."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="observe") as pool:
        found = connectors_over_rest(client, pool)
    configs = {name: each.info.config for name, each in found.items()}
    ledger = load_ledger(configs, lambda error, name: None)
    ledger = still_held(ledger, _went_on(found, lambda name: _offsets(client, name)))
    kept = {name: configs[name][LEDGER_KEY] for name in ledger.connectors}
    return replace(ledger, fingerprint_key=fingerprint_key), kept


def connectors_over_rest(client: RestClient, pool: ThreadPoolExecutor) -> dict[str, Listed]:
    """All connectors, by name. Raises Unreachable where something else than Connect answers."""
    listed = pool.submit(client.must, "/connectors", shapes.names)
    found = client.must("/connectors?expand=info&expand=status", shapes.expanded)
    # Connect leaves out of that list what has no status yet
    missing = set(listed.result()) - found.keys()
    if missing:
        infos = client.must("/connectors?expand=info", shapes.expanded_infos)
        found |= {name: Listed(infos[name], None) for name in sorted(missing & infos.keys())}
    return found


def _settled(found: Mapping[str, Listed], client: RestClient) -> dict[str, Listed]:
    """Those whose statuses say nothing of their target states yet, as soon as they do."""
    passing = {name: each for name, each in found.items() if is_passing(each.status)}

    def look() -> bool:
        now = client.must("/connectors?expand=status", shapes.expanded_statuses)
        for name, each in passing.items():
            if is_passing(each.status):
                passing[name] = replace(each, status=now.get(name))
        return not any(is_passing(each.status) for each in passing.values())

    if passing:
        client.wait_for(look, FOLLOWS_S)
    return passing


def _ledger(
    found: Mapping[str, Listed], desired: Desired, problems: list[Diagnostic]
) -> LedgerState:
    def refused(error: LedgerUnreadable, name: str) -> None:
        # Of other connectors nothing is done, whoever owns them
        if name in desired.connectors:
            problems.extend(error.diagnostics)

    return load_ledger({name: each.info.config for name, each in found.items()}, refused)


def _went_on(
    found: Mapping[str, Listed], offsets: Callable[[str], Sequence[OffsetEntry] | Diagnostic]
) -> Callable[[str, str], bool]:
    """Of a stopped connector only offsets show it: it was stopped again if they have moved."""

    def went_on(name: str, mark: str) -> bool:
        status = found[name].status
        if not is_passing(status) and target_of(status) is not TargetState.STOPPED:
            return True
        now = offsets(name)
        return not isinstance(now, Diagnostic) and offsets_mark(now) != mark

    return went_on


def _offsets(client: RestClient, name: str) -> tuple[OffsetEntry, ...] | Diagnostic:
    try:
        return client.read(connector_path(name, "offsets"), shapes.offsets) or ()
    except RequestError as error:
        what = f"the offsets of {name} cannot be read, so effects on them are not told"
        return warning("observe.no-offsets", what, name, error.message)


def _covered(
    said: Diagnostic,
    name: str,
    config: Mapping[str, str],
    plugins: Definitions,
    desired: Desired,
    ledger: LedgerState,
) -> Diagnostic:
    spec = desired.connectors.get(name)
    sensitive = () if spec is None else spec.sensitive
    secrets = SpecSecrets(lambda name: sensitive, desired.secrets).with_ledger(ledger.connectors)
    redactor = redactor_of(name, [config], plugins, secrets)
    return replace(said, why=redactor.redact(said.why, config))


def _target(found: Listed, owned: Owned | None) -> TargetState:
    """The target state, or the likely one where the status does not show it."""
    told = target_of(found.status)
    if told is not None:
        return told
    held = owned is not None and owned.restore_to is not None
    # Whatever is stopped has no tasks
    return TargetState.STOPPED if held and not found.info.tasks else TargetState.RUNNING


def _untold(name: str, found: Listed, target: TargetState) -> Diagnostic:
    state = "none" if found.status is None else found.status.connector.state.value
    what = f"the status of {name} is {state}: whether it is stopped or paused is not told"
    return warning(
        "observe.state-untold",
        f"{what}, and it is taken for {target.value}",
        name,
        hint="wait until a worker has it, then plan again",
    )


def _live(
    name: str, found: Listed, target: TargetState, offsets: tuple[OffsetEntry, ...] | Diagnostic
) -> LiveConnector:
    status = found.status
    return LiveConnector(
        name=name,
        kind=_kind(found.info.type),
        config=found.info.config,
        target=target,
        offsets=Offsets(() if isinstance(offsets, Diagnostic) else offsets),
        state=None if status is None else status.connector.state.value,
        task_states=()
        if status is None
        else tuple(status.tasks[number].state.value for number in sorted(status.tasks)),
    )


def _traces(found: Mapping[str, Listed], state: State) -> dict[str, list[str]]:
    parts = (
        (name, part)
        for name, each in found.items()
        if each.status is not None
        for part in (each.status.connector, *each.status.tasks.values())
    )
    return failed_traces(parts, state)


def _kind(told: str) -> Kind:
    match told:
        case "source" | "sink":
            return told
        case _:
            return "unknown"


def statuses_over_rest(
    target: RestTarget,
) -> tuple[dict[str, ConnectorState], dict[str, ConnectorStatus]]:
    """All connectors, and the statuses of those that have one. Raises Unreachable, RequestError."""
    with (
        RestClient(target) as client,
        ThreadPoolExecutor(_STATUSES_AT_ONCE, thread_name_prefix="status") as pool,
    ):
        client.about()
        found = connectors_over_rest(client, pool)
    connectors = {
        name: ConnectorState(
            name,
            each.info.config,
            target_of(each.status) or TargetState.RUNNING,
            task_configs=tuple({} for _ in each.info.tasks),
            task_count=len(each.info.tasks),
        )
        for name, each in found.items()
    }
    told = {name: each.status for name, each in found.items() if each.status is not None}
    return connectors, told


def offsets_needed(
    desired: Desired, found: Mapping[str, Listed], ledger: LedgerState
) -> frozenset[str]:
    """The connectors of `found` whose offsets the plan needs."""
    begun = {name for pair in ledger.renames for name in pair if name in found}
    return (
        _renamed(desired, found)
        | begun
        | {
            name
            for name, told in found.items()
            if _is_held(name, ledger, desired.project)
            or _is_moved(desired.connectors.get(name), told, ledger)
        }
    )


def _renamed(desired: Desired, found: Mapping[str, Listed]) -> frozenset[str]:
    """Both names of each rename whose old name is still there."""
    return frozenset(
        name
        for spec in desired.connectors.values()
        if spec.renamed_from in found
        for name in (spec.name, spec.renamed_from)
        if name is not None and name in found
    )


def _is_held(name: str, ledger: LedgerState, project: str) -> bool:
    """Whether a pin holds its offsets in place; drift compares them without a spec, too."""
    if ledger.owner(name) != project:
        return False
    return any(applied.held for applied in ledger.pins_of(name).values())


def _is_moved(spec: DesiredConnector | None, told: Listed, ledger: LedgerState) -> bool:
    if spec is None:
        return False
    if spec.pin is not None:
        applied = ledger.pins.get((spec.name, spec.pin.id))
        stopped = managed_state(spec) is TargetState.STOPPED
        if applied is None or (applied.held and stopped):
            return True
    return any(fnmatchcase(key, glob) for key in _changed(spec, told) for glob in _RELEVANT)


def _changed(spec: DesiredConnector, told: Listed) -> Iterator[str]:
    stored = {**without_reserved(told.info.config), "name": spec.name}
    written = written_config(spec, stored)
    for key in stored.keys() | written.keys():
        if stored.get(key) != written.get(key):
            yield key
