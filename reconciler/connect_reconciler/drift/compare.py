"""Compares what was applied last, the specs and the cluster. No I/O, no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from connect_reconciler.drift.model import ChangedIn, Detail, Drift, Finding, FindingKind, Seen
from connect_reconciler.drift.offset_findings import held_offsets, left_offsets, pending_offsets
from connect_reconciler.drift.topic_history import History, Mark
from connect_reconciler.model.config_values import Plain, Secret, Value, without_reserved
from connect_reconciler.model.ledger import Owned
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.model.secrets import (
    ConfigRedactor,
    is_fingerprint,
    is_mask,
    live_redactor,
    same_as_recorded,
)
from connect_reconciler.plan.checks.hidden_values import requests
from connect_reconciler.plan.checks.ownership import no_owned_is_named
from connect_reconciler.plan.diff import (
    managed_state,
    rename_of,
    with_recorded_renames,
    written_config,
)
from connect_specs.desired import Desired, DesiredConnector
from connect_specs.diagnostics import Location
from connect_specs.secret_values import is_sensitive
from connect_specs.states import TargetState

_THERE = Plain("there")
_FAILED = "FAILED"
_REQUEST_MS = 60_000


def compare(desired: Desired, seen: Seen) -> Drift:
    """All findings, by connector."""
    live, history = seen.live, seen.history
    ledger = live.ledger.connectors
    renames = _renames(desired, live)
    refused = no_owned_is_named(desired, live.ledger)
    found: list[Finding] = []
    for name in sorted({*desired.connectors, *live.connectors, *ledger}):
        owned = ledger.get(name)
        if owned is None or owned.project == desired.project:
            found += _findings(_compared(name, desired, seen, renames.get(name), refused))
    found += left_offsets(desired, seen)
    hidden = [each.connector for each in found if _is_hidden(each, live)]
    others = Counter(owned.project for owned in ledger.values() if owned.project != desired.project)
    return Drift(
        project=desired.project,
        now_ms=live.now_ms,
        findings=tuple(
            replace(
                each,
                run=history.run_of(each.connector, each.since),
                where=_where(each, desired.connectors.get(each.connector)),
            )
            for each in found
        ),
        managed=live.ledger.owned_by(desired.project) | desired.connectors.keys(),
        others=dict(sorted(others.items())),
        unfinished=tuple(each.id for each in live.ledger.unfinished),
        groups_hidden=seen.groups_hidden,
        ledger_policy=live.ledger_policy,
        values_hidden=len(hidden),
        unanswered=requests(live, hidden),
    )


def _is_hidden(found: Finding, live: Live) -> bool:
    """Whether it would show a value, were the type of its key known."""
    values = (found.applied, found.desired, found.live)
    secret = any(isinstance(each, Secret) for each in values)
    return secret and found.key in live.untyped_keys.get(found.connector, {})


def _where(found: Finding, spec: DesiredConnector | None) -> Location | None:
    """The place in the spec that a finding is about, as near as it is known."""
    if spec is None:
        return None
    return spec.key_locations.get(found.key, spec.where) if found.key else spec.where


def _renames(desired: Desired, live: Live) -> dict[str, Detail]:
    """What an apply does to the two connectors of each unfinished rename."""
    found: dict[str, Detail] = {}
    for spec in with_recorded_renames(desired, live).connectors.values():
        rename = rename_of(spec, live)
        if rename is not None and rename.stage != "unrelated":
            found[rename.old] = Detail("renamed-to", spec.name)
            found[spec.name] = Detail("renamed-from", rename.old)
    return found


@dataclass(frozen=True, slots=True)
class _Compared:
    """One connector: as it was applied, as its spec wants it, and as it is.

    `rename` says what an apply does to it for a rename. `refused` is the code with which an apply
    refuses because no spec names any connector of the project.
    """

    name: str
    owned: Owned | None
    spec: DesiredConnector | None
    live: LiveConnector | None
    redactor: ConfigRedactor
    seen: Seen
    rename: Detail | None
    refused: str | None

    @property
    def rest_alone(self) -> bool:
        """Whether the ledger lies in its config: it goes if someone deletes the connector or writes
        all of its config, and it holds no target state."""
        return self.seen.live.rest_alone

    @property
    def history(self) -> History:
        return self.seen.history


def _compared(
    name: str, desired: Desired, seen: Seen, rename: Detail | None, refused: str | None
) -> _Compared:
    live, spec = seen.live, desired.connectors.get(name)
    redactor = live_redactor(name, live, spec)
    owned, connector = live.ledger.connectors.get(name), live.connectors.get(name)
    return _Compared(name, owned, spec, connector, redactor, seen, rename, refused)


def _findings(compared: _Compared) -> Iterator[Finding]:
    owned, spec, connector = compared.owned, compared.spec, compared.live
    existence = _existence(compared)
    if existence is not None:
        yield existence
    if connector is None or (owned is None and spec is None):
        return
    if owned is None and spec is not None and compared.rest_alone:
        yield from _unrecorded(compared, spec, connector)
    if owned is not None:
        yield from _config(compared, owned, connector)
        yield from _state(compared, owned, connector)
        yield from held_offsets(connector, spec, compared.seen)
    if spec is not None:
        yield from pending_offsets(spec, compared.seen.live)
    yield from _failed(connector)


def _existence(compared: _Compared) -> Finding | None:
    """Whether the connector was created or deleted, in the cluster or in the specs."""
    applied = None if compared.owned is None else _THERE
    desired = None if compared.spec is None else _THERE
    live = None if compared.live is None else _THERE
    since = compared.history.connectors.get(compared.name)
    detail = compared.rename
    match applied, desired, live:
        case _ if detail is not None:
            changed_in, since = ChangedIn.SPECS, None
        case None, None, _:
            unseen = Detail("owners-unseen") if compared.rest_alone else None
            return Finding(
                FindingKind.UNMANAGED, compared.name, live=live, detail=unseen, since=since
            )
        case Plain(), Plain(), None:
            changed_in = ChangedIn.CLUSTER
        case None, Plain(), None if compared.rest_alone:
            changed_in = ChangedIn.UNKNOWN
        case (None, Plain(), _) | (Plain(), None, _):
            changed_in, since = ChangedIn.SPECS, None
            if compared.rest_alone and desired and live:
                detail = Detail("adopted-with-next-change")
            elif desired is None and compared.refused:
                detail = Detail("delete-refused", compared.refused)
        case _:
            return None
    return Finding(
        FindingKind.CONNECTOR,
        compared.name,
        changed_in,
        applied=applied,
        desired=desired,
        live=live,
        detail=detail,
        since=since,
    )


# --- config ---


def _config(compared: _Compared, owned: Owned, connector: LiveConnector) -> Iterator[Finding]:
    spec = compared.spec
    live = without_reserved(connector.config)
    wanted = None if spec is None else written_config(spec, live)
    for key in sorted((owned.config.keys() | live.keys() | (wanted or {}).keys()) - {"name"}):
        applied, now = owned.config.get(key), live.get(key)
        then = applied if wanted is None else wanted.get(key)
        masked = compared.rest_alone and now is not None and is_mask(now)
        in_cluster = not masked and not same_as_recorded(applied, now, key, compared.redactor)
        if wanted is not None and applied == then == "":
            # Not a secret that was recorded without a fingerprint
            in_cluster = not masked and now != ""
        changed_in = _changed_in(
            in_cluster=in_cluster,
            in_specs=wanted is not None
            and not same_as_recorded(applied, then, key, compared.redactor),
        )
        if changed_in is None or (wanted is not None and then == now):
            continue
        secret = _is_secret(key, (now, then), compared.redactor)
        yield Finding(
            FindingKind.CONFIG,
            compared.name,
            changed_in,
            key=key,
            applied=_shown(
                applied, secret=secret or _looks_secret(key, applied, compared.redactor)
            ),
            desired=None if spec is None else _shown(then, secret=secret),
            live=_shown(now, secret=secret),
            since=None
            if changed_in is ChangedIn.SPECS
            else compared.history.keys.get((compared.name, key)),
        )


def _unrecorded(
    compared: _Compared, spec: DesiredConnector, connector: LiveConnector
) -> Iterator[Finding]:
    """Its config holds no ledger: it was never applied, or someone wrote all of its config."""
    live = without_reserved(connector.config)
    wanted = written_config(spec, live)
    for key in sorted((live.keys() | wanted.keys()) - {"name"}):
        then, now = wanted.get(key), live.get(key)
        if then == now or (now is not None and is_mask(now)):
            continue
        secret = _is_secret(key, (now, then), compared.redactor)
        desired, shown = _shown(then, secret=secret), _shown(now, secret=secret)
        yield Finding(
            FindingKind.CONFIG,
            compared.name,
            ChangedIn.UNKNOWN,
            key=key,
            desired=desired,
            live=shown,
        )


def _changed_in(*, in_cluster: bool, in_specs: bool) -> ChangedIn | None:
    """Where something is not as it was applied."""
    if in_cluster:
        return ChangedIn.BOTH if in_specs else ChangedIn.CLUSTER
    return ChangedIn.SPECS if in_specs else None


def _is_secret(key: str, texts: tuple[str | None, ...], redactor: ConfigRedactor) -> bool:
    return any(text is not None and is_sensitive(key, text, redactor.named) for text in texts)


def _looks_secret(key: str, applied: str | None, redactor: ConfigRedactor) -> bool:
    found = _is_secret(key, (applied,), redactor)
    return found or (applied is not None and is_fingerprint(applied))


def _shown(text: str | None, *, secret: bool) -> Value | None:
    if text is None:
        return None
    return Secret("") if secret else Plain(text)


# --- states ---


def _state(compared: _Compared, owned: Owned, connector: LiveConnector) -> Iterator[Finding]:
    spec = compared.spec
    if owned.restore_to is not None and connector.target is TargetState.STOPPED:
        known = ChangedIn.SPECS
        detail = Detail("stopped-by-apply", owned.restore_to)
        if owned.resuming is not None:
            known = ChangedIn.UNKNOWN
            detail = Detail("perhaps-stopped-since", owned.restore_to)
        yield _state_finding(compared, owned, connector, known, detail)
        return
    if spec is None:
        # Left alone if the spec had none
        if owned.state is not None and owned.state is not connector.target:
            yield _state_finding(compared, owned, connector, ChangedIn.CLUSTER)
        return
    wanted = managed_state(spec)
    if wanted is None or wanted is connector.target:
        return
    if compared.rest_alone:
        yield _state_finding(
            compared, owned, connector, ChangedIn.UNKNOWN, _ambiguous_status(connector)
        )
        return
    applied = owned.state
    changed_in = _changed_in(
        in_cluster=applied not in (None, connector.target), in_specs=applied is not wanted
    )
    if applied is None and _asked_since(compared, owned):
        changed_in = ChangedIn.BOTH
    if changed_in is not None:
        yield _state_finding(compared, owned, connector, changed_in)


def _asked_since(compared: _Compared, owned: Owned) -> bool:
    """Whether the target state was set outside connect after the last apply. The ledger does not
    tell where the spec began to manage a state that the connector had already."""
    history, name = compared.history, compared.name
    mark, applied = history.targets.get(name), Mark(owned.applied_ms, "", 0, 0)
    # Of an apply whose journal is gone, its last request may have taken a while
    slack_ms = 0 if history.run_of(name, applied) else _REQUEST_MS
    if mark is None or mark.timestamp_ms <= owned.applied_ms + slack_ms:
        return False
    return history.run_of(name, mark) is None


def _ambiguous_status(connector: LiveConnector) -> Detail | None:
    """Over REST alone, the status is all that tells the target state; some statuses do not."""
    clear = {state.value.upper() for state in TargetState}
    if connector.state is None or connector.state in clear:
        return None
    return Detail("ambiguous-status", connector.state)


def _state_finding(
    compared: _Compared,
    owned: Owned,
    connector: LiveConnector,
    changed_in: ChangedIn,
    detail: Detail | None = None,
) -> Finding:
    wanted = None if compared.spec is None else managed_state(compared.spec)
    return Finding(
        FindingKind.STATE,
        compared.name,
        changed_in,
        applied=None if owned.state is None else Plain(owned.state.value),
        desired=None if wanted is None else Plain(wanted.value),
        live=Plain(connector.target.value),
        detail=detail,
        since=None
        if changed_in is ChangedIn.SPECS
        else compared.history.targets.get(compared.name),
    )


# --- what failed ---


def _failed(connector: LiveConnector) -> Iterator[Finding]:
    tasks = tuple(at for at, state in enumerate(connector.task_states) if state == _FAILED)
    if tasks or connector.state == _FAILED:
        what = "the connector" if connector.state == _FAILED else ""
        detail = Detail("failed", what, tasks)
        yield Finding(FindingKind.FAILED, connector.name, detail=detail, reason=connector.failure)
