"""Compares the last apply, the specs and the cluster. No I/O, no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from connect_reconciler.drift.model import (
    ChangedIn,
    Drift,
    Finding,
    FindingKind,
    History,
    LiveWithHistory,
    Mark,
)
from connect_reconciler.model.config_values import Plain, Secret, Value, without_reserved
from connect_reconciler.model.ledger import Owned
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.model.secrets import is_fingerprint, is_mask
from connect_reconciler.plan.checks.hidden_values import requests
from connect_reconciler.plan.checks.ownership import no_owned_is_named
from connect_reconciler.plan.diff import (
    ConnectorDiff,
    diff,
    managed_state,
    with_recorded_renames,
    without_spec,
)
from connect_reconciler.plan.offsets.moves import label_of, place_of
from connect_specs.desired import Desired, DesiredConnector, OffsetEntry, TargetState, partition_key
from connect_specs.plain_text import counted
from connect_specs.secrets import is_sensitive

_EXISTS = Plain("there")
_FAILED = "FAILED"
_REQUEST_MS = 60_000


def compare(desired: Desired, observed: LiveWithHistory) -> Drift:
    """Returns all findings, by connector."""
    live, history = observed.live, observed.history
    ledger = live.ledger.connectors
    diffs = {item.name: item for item in diff(with_recorded_renames(desired, live), live)}
    renames = _renames(diffs.values())
    refusal = no_owned_is_named(desired, live.ledger)
    findings: list[Finding] = []
    for name in sorted({*desired.connectors, *live.connectors, *ledger}):
        if name not in ledger or ledger[name].project == desired.project:
            connector_diff = diffs.get(name) or without_spec(name, live)
            existence = _existence(connector_diff, observed, renames.get(name), refusal)
            findings += [] if existence is None else [existence]
            findings += _differences(connector_diff, observed)
    findings += _left_offsets(desired, observed)
    hidden = [finding.connector for finding in findings if _is_hidden(finding, live)]
    owners = Counter(owned.project for owned in ledger.values() if owned.project != desired.project)
    return Drift(
        project=desired.project,
        now_ms=live.now_ms,
        findings=tuple(
            _placed(finding, desired.connectors.get(finding.connector), history)
            for finding in findings
        ),
        managed=live.ledger.owned_by(desired.project) | desired.connectors.keys(),
        other_projects=dict(sorted(owners.items())),
        unfinished=tuple(apply.id for apply in live.ledger.unfinished),
        groups_hidden=observed.groups_hidden,
        ledger_policy=live.ledger_policy,
        values_hidden=len(hidden),
        unanswered=requests(live, hidden),
    )


def _is_hidden(finding: Finding, live: Live) -> bool:
    """Returns whether the finding would show a value if the type of its key were known."""
    values = (finding.applied, finding.desired, finding.live)
    secret = any(isinstance(value, Secret) for value in values)
    return secret and finding.key in live.untyped_keys.get(finding.connector, {})


def _placed(finding: Finding, spec: DesiredConnector | None, history: History) -> Finding:
    """Returns the finding with its place in the spec, as near as it is known, and with the apply
    that made it. No record is that of a change in the specs."""
    since = None if finding.changed_in is ChangedIn.SPECS else finding.since
    location = None
    if spec is not None:
        location = spec.key_locations.get(finding.key, spec.where) if finding.key else spec.where
    run = history.run_of(finding.connector, since)
    return replace(finding, since=since, run=run, location=location)


def _renames(diffs: Iterable[ConnectorDiff]) -> dict[str, str]:
    """Returns the effect of an apply on both connectors of each unfinished rename."""
    effects: dict[str, str] = {}
    for connector in diffs:
        if connector.rename is not None and connector.rename.stage != "unrelated":
            effects[connector.rename.old] = f"apply renames it to {connector.name}"
            effects[connector.name] = f"apply renames {connector.rename.old} to it"
    return effects


def _existence(
    connector: ConnectorDiff, observed: LiveWithHistory, rename: str | None, refusal: str | None
) -> Finding | None:
    """Returns the finding that the connector was created or deleted, in the cluster or in the
    specs. `refusal` is the code with which an apply refuses to delete all connectors."""
    owned, spec, live = connector.owned, connector.spec, connector.live
    rest_alone = observed.live.rest_alone
    kind = FindingKind.CONNECTOR
    changed_in: ChangedIn | None = ChangedIn.SPECS
    if rename is not None:
        detail = rename
    elif owned is None and spec is None:
        detail = "has no spec, and no project owns it"
        if rest_alone:
            detail = "has no spec; owners cannot be seen without cluster.kafka"
        changed_in, kind = None, FindingKind.UNMANAGED
    elif owned is not None and spec is not None:
        if live is not None:
            return None
        changed_in, detail = ChangedIn.CLUSTER, "deleted outside connect"
    elif spec is None:
        detail = "its spec is gone: apply forgets it, as it was deleted already"
        if refusal is not None:
            detail = f"its spec is gone; apply refuses to delete everything ({refusal})"
        elif live is not None:
            detail = "its spec is gone: apply deletes it"
    elif live is not None:
        detail = "adopted with its next config change" if rest_alone else "apply adopts it"
    elif rest_alone:
        # The ledger lies in the config of a connector, and goes with it
        changed_in, detail = ChangedIn.UNKNOWN, "does not exist"
    else:
        detail = "apply creates it"
    return Finding(
        kind,
        connector.name,
        changed_in,
        applied=None if owned is None else _EXISTS,
        desired=None if spec is None else _EXISTS,
        live=None if live is None else _EXISTS,
        detail=detail,
        since=observed.history.connectors.get(connector.name),
    )


def _differences(connector: ConnectorDiff, observed: LiveWithHistory) -> Iterator[Finding]:
    """Yields the findings on a connector that exists and is managed."""
    owned, spec, live = connector.owned, connector.spec, connector.live
    if live is None or (owned is None and spec is None):
        return
    if owned is not None or observed.live.rest_alone:
        yield from _config(connector, live, observed)
    if owned is not None:
        yield from _state(connector, owned, live, observed)
        yield from _held_offsets(live, spec, observed)
    if connector.pin is not None and not connector.pin.drifted:
        pin = connector.pin.pin
        desired = Plain(f"pin {pin}")
        yield Finding(
            FindingKind.OFFSETS, connector.name, ChangedIn.SPECS, key=pin, desired=desired
        )
    yield from _failed(live)


# --- config ---


def _config(
    connector: ConnectorDiff, live: LiveConnector, observed: LiveWithHistory
) -> Iterator[Finding]:
    spec, redactor = connector.spec, connector.redactor
    config = without_reserved(live.config)
    recorded = {} if connector.owned is None else connector.owned.config
    keys = {change.key for change in connector.config}
    if spec is None:
        keys = recorded.keys() | config.keys()
    for key in sorted(keys - {"name"}):
        applied, value = recorded.get(key), config.get(key)
        desired = applied if spec is None else (connector.written or {}).get(key)
        changed_in = _key_changed_in(key, connector, applied, desired, value, observed.live)
        if changed_in is None:
            continue
        secret = _is_secret(key, (value, desired), redactor.named)
        recorded_secret = applied is not None and is_fingerprint(applied)
        yield Finding(
            FindingKind.CONFIG,
            connector.name,
            changed_in,
            key=key,
            applied=_shown(
                applied,
                secret=secret or recorded_secret or _is_secret(key, (applied,), redactor.named),
            ),
            desired=None if spec is None else _shown(desired, secret=secret),
            live=_shown(value, secret=secret),
            since=observed.history.keys.get((connector.name, key)),
        )


def _key_changed_in(
    key: str,
    connector: ConnectorDiff,
    applied: str | None,
    desired: str | None,
    value: str | None,
    live: Live,
) -> ChangedIn | None:
    # A config that is written whole over REST may hold masks, which hide values
    masked = live.rest_alone and value is not None and is_mask(value)
    if connector.owned is None:
        # Its config holds no ledger: it was never applied, or someone wrote all of its config
        return None if masked else ChangedIn.UNKNOWN
    if connector.spec is not None and applied == desired == "":
        # Not a secret that was recorded without a fingerprint
        in_cluster = value != ""
    else:
        in_cluster = not connector.redactor.is_recorded(key, value, applied)
    in_specs = not connector.redactor.is_recorded(key, desired, applied)
    return _changed_in(
        in_cluster=in_cluster and not masked, in_specs=in_specs and connector.spec is not None
    )


def _changed_in(*, in_cluster: bool, in_specs: bool) -> ChangedIn | None:
    if in_cluster:
        return ChangedIn.BOTH if in_specs else ChangedIn.CLUSTER
    return ChangedIn.SPECS if in_specs else None


def _is_secret(key: str, texts: Iterable[str | None], sensitive: frozenset[str]) -> bool:
    return any(text is not None and is_sensitive(key, text, sensitive) for text in texts)


def _shown(text: str | None, *, secret: bool) -> Value | None:
    if text is None:
        return None
    return Secret("") if secret else Plain(text)


# --- states ---


def _state(
    connector: ConnectorDiff, owned: Owned, live: LiveConnector, observed: LiveWithHistory
) -> Iterator[Finding]:
    desired = None if connector.spec is None else managed_state(connector.spec)
    changed_in, detail = _state_changed_in(connector, owned, live, observed)
    if changed_in is not None:
        yield Finding(
            FindingKind.STATE,
            connector.name,
            changed_in,
            applied=None if owned.state is None else Plain(owned.state.value),
            desired=None if desired is None else Plain(desired.value),
            live=Plain(live.target.value),
            detail=detail,
            since=observed.history.targets.get(connector.name),
        )


def _state_changed_in(
    connector: ConnectorDiff, owned: Owned, live: LiveConnector, observed: LiveWithHistory
) -> tuple[ChangedIn | None, str]:
    if owned.restore_to is not None and live.target is TargetState.STOPPED:
        if owned.resuming is None:
            stopped = f"an unfinished apply stopped it; the next makes it {owned.restore_to}"
            return ChangedIn.SPECS, stopped
        unclear = f"an apply ended as it made it {owned.restore_to}, or someone stopped it since"
        return ChangedIn.UNKNOWN, unclear
    if connector.spec is None:
        # Left alone if the spec had none
        changed = owned.state is not None and owned.state is not live.target
        return ChangedIn.CLUSTER if changed else None, ""
    desired = managed_state(connector.spec)
    if desired is None or desired is live.target:
        return None, ""
    if observed.live.rest_alone:
        return ChangedIn.UNKNOWN, _ambiguous_status(live)
    if owned.state is None and _requested_since(connector.name, owned, observed):
        return ChangedIn.BOTH, ""
    in_cluster = owned.state not in (None, live.target)
    return _changed_in(in_cluster=in_cluster, in_specs=owned.state is not desired), ""


def _requested_since(name: str, owned: Owned, observed: LiveWithHistory) -> bool:
    """Returns whether the target state was set outside connect after the last apply. The ledger
    does not hold a state that the connector had before the spec began to manage it."""
    history = observed.history
    mark, applied = history.targets.get(name), Mark(owned.applied_ms, "", 0, 0)
    # Of an apply whose journal is gone, its last request may have taken a while
    slack_ms = 0 if history.run_of(name, applied) else _REQUEST_MS
    if mark is None or mark.timestamp_ms <= owned.applied_ms + slack_ms:
        return False
    return history.run_of(name, mark) is None


def _ambiguous_status(live: LiveConnector) -> str:
    """Explains a status from which the target state does not follow: over REST there is no other
    source of it."""
    clear = {state.value.upper() for state in TargetState}
    if live.state is None or live.state in clear:
        return ""
    return f"its status is {live.state}, which does not tell what was asked of it"


# --- offsets ---


def _held_offsets(
    connector: LiveConnector, spec: DesiredConnector | None, observed: LiveWithHistory
) -> Iterator[Finding]:
    """Yields offsets of a stopped connector that are no longer those of its pin. A running
    connector's offsets never drift: they are its progress."""
    name, live = connector.name, observed.live
    pins = [(pin, applied) for pin, applied in live.ledger.pins_of(name).items() if applied.held]
    unseen = observed.groups_hidden and connector.kind != "source"
    if not pins or unseen or connector.target is not TargetState.STOPPED:
        return
    pin, applied = max(pins, key=lambda item: (item[1].applied_ms, item[0]))
    if name in live.unread_offsets:
        yield Finding(
            FindingKind.OFFSETS,
            name,
            ChangedIn.UNKNOWN,
            key=pin,
            applied=Plain(_texts(applied.resolved or ())),
            detail=f"they could not be read: {live.unread_offsets[name]}",
        )
        return
    entries = applied.moved(connector.offsets)
    if not entries:
        return
    desired = None if spec is None or spec.pin is None else spec.pin.id
    marks = observed.history.offsets
    keys = [(name, partition_key(entry.partition)) for entry in entries]
    current = [replace(entry, offset=connector.offsets.at(entry.partition)) for entry in entries]
    yield Finding(
        FindingKind.OFFSETS,
        name,
        ChangedIn.BOTH if desired not in (None, pin) else ChangedIn.CLUSTER,
        key=pin,
        applied=Plain(_texts(entries)),
        desired=None if desired is None else Plain(f"pin {desired}"),
        live=Plain(_texts(current)),
        since=_newest(marks[key] for key in keys if key in marks),
    )


def _left_offsets(desired: Desired, observed: LiveWithHistory) -> Iterator[Finding]:
    """Yields offsets of deleted connectors that have no spec, and that no project owns."""
    live, marks = observed.live, observed.history.offsets
    names = {*desired.connectors, *live.connectors, *live.ledger.connectors}
    names |= {spec.renamed_from or "" for spec in desired.connectors.values()}
    for name, entries in sorted(live.orphan_offsets.items()):
        if name not in names:
            yield Finding(
                FindingKind.LEFT_OFFSETS,
                name,
                live=Plain(_texts(entries)),
                detail=f"source offsets of {counted(len(entries), 'partition')}",
                since=_newest(mark for (owner, _), mark in marks.items() if owner == name),
            )
    for name, count in sorted(observed.left_groups.items()):
        if name not in names and name not in live.orphan_offsets:
            detail = f"the consumer group connect-{name} holds {counted(count, 'partition')}"
            yield Finding(FindingKind.LEFT_OFFSETS, name, detail=detail)


def _newest(marks: Iterable[Mark]) -> Mark | None:
    return max(marks, key=lambda mark: mark.timestamp_ms, default=None)


def _texts(entries: Iterable[OffsetEntry]) -> str:
    """Returns `orders-0 at 98000`, or the fields of a source's partition and offset, for each."""
    return ", ".join(
        f"{label_of(entry.partition)} at {'none' if entry.offset is None else place_of(entry)}"
        for entry in entries
    )


# --- failures ---


def _failed(connector: LiveConnector) -> Iterator[Finding]:
    tasks = [str(at) for at, state in enumerate(connector.task_states) if state == _FAILED]
    failed = ["the connector"] if connector.state == _FAILED else []
    if tasks:
        failed.append(f"task{'' if len(tasks) == 1 else 's'} {', '.join(tasks)}")
    if failed:
        yield Finding(
            FindingKind.FAILED,
            connector.name,
            detail=f"{' and '.join(failed)} failed",
            reason=connector.failure,
        )
