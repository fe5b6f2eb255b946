"""What was applied last, what the specs say and what is live, to drift. No I/O, no clock."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from connect_reconciler.drift.history import History
from connect_reconciler.drift.model import Drift, Finding, Kind, Seen, Whose
from connect_reconciler.drift.offsets import held_offsets, left_offsets, pending_offsets
from connect_reconciler.plan.diff import managed_state, written_config
from connect_reconciler.plan.live import Live, LiveConnector, Owned
from connect_reconciler.plan.renames.rename import rename_of
from connect_reconciler.plan.reserved import without_reserved
from connect_reconciler.plan.secrets.sensitive import Veil, fingerprint, is_mask
from connect_reconciler.plan.values import Plain, Secret, Value
from connect_specs.desired import Desired, DesiredConnector
from connect_specs.diagnostics import Location
from connect_specs.secret_values import is_sensitive
from connect_specs.states import TargetState

_THERE = Plain("there")
_FAILED = "FAILED"
_FINGERPRINT = re.compile("[0-9a-f]{64}")


def compare(desired: Desired, seen: Seen) -> Drift:
    """All that differs, by connector."""
    live, history = seen.live, seen.history
    ledger = live.ledger.connectors
    renames = _renames(desired, live)
    found: list[Finding] = []
    for name in sorted({*desired.connectors, *live.connectors, *ledger}):
        found += _of_connector(_Three.of(name, desired, seen, renames.get(name, "")), seen)
    found += left_offsets(desired, seen)
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
        managed=frozenset(desired.connectors)
        | {name for name, owned in ledger.items() if owned.project == desired.project},
        others=dict(sorted(others.items())),
        unfinished=tuple(each.id for each in live.ledger.unfinished),
        groups_hidden=seen.groups_hidden,
    )


def _where(found: Finding, spec: DesiredConnector | None) -> Location | None:
    """The place in the spec that a finding is about, as near as it is known."""
    if spec is None:
        return None
    return spec.key_locations.get(found.key, spec.where) if found.key else spec.where


def _renames(desired: Desired, live: Live) -> dict[str, str]:
    """What an apply does to the two connectors of each rename that is not done."""
    found: dict[str, str] = {}
    for spec in desired.connectors.values():
        rename = rename_of(spec, live)
        if rename is not None and rename.stage != "unrelated":
            found[rename.old] = f"apply renames it to {spec.name}"
            found[spec.name] = f"apply renames {rename.old} to it"
    return found


@dataclass(frozen=True, slots=True)
class _Three:
    """One connector: as applied, as its spec wants it, as it is; `rename` is what apply does.

    `rest_alone`: what was applied lies in its config, and goes when somebody deletes the connector
    or writes all of it; target states are not kept.
    """

    name: str
    project: str
    owned: Owned | None
    spec: DesiredConnector | None
    live: LiveConnector | None
    cover: Veil
    history: History
    rename: str
    rest_alone: bool

    @classmethod
    def of(cls, name: str, desired: Desired, seen: Seen, rename: str) -> _Three:
        live = seen.live
        spec = desired.connectors.get(name)
        named = frozenset() if spec is None else frozenset(spec.sensitive)
        named |= live.password_keys.get(name, frozenset())
        return cls(
            name,
            desired.project,
            live.ledger.connectors.get(name),
            spec,
            live.connectors.get(name),
            Veil(name, live.ledger.fingerprint_key, named),
            seen.history,
            rename,
            live.rest_alone,
        )


def _of_connector(three: _Three, seen: Seen) -> Iterator[Finding]:
    owned, spec, connector = three.owned, three.spec, three.live
    if owned is not None and owned.project != three.project:
        return
    existence = _existence(three)
    if existence is not None:
        yield existence
    if connector is None or (owned is None and spec is None):
        return
    if owned is None and spec is not None and three.rest_alone:
        yield from _unrecorded(three, spec, connector)
    if owned is not None:
        yield from _config(three, owned, connector)
        yield from _state(three, owned, connector)
        yield from held_offsets(connector, spec, seen)
    if spec is not None:
        yield from pending_offsets(spec, seen.live)
    yield from _failed(connector)


def _existence(three: _Three) -> Finding | None:
    """A connector that was deleted or made by hand, or that a spec brings or no longer asks for."""
    applied = None if three.owned is None else _THERE
    desired = None if three.spec is None else _THERE
    live = None if three.live is None else _THERE
    since = three.history.connectors.get(three.name)
    whose: Whose | None
    if three.rename:
        return Finding(
            Kind.CONNECTOR, three.name, Whose.OURS, "", applied, desired, live, three.rename
        )
    detail = ""
    match applied, desired, live:
        case None, None, _:
            return Finding(Kind.UNMANAGED, three.name, live=live, since=since)
        case Plain(), Plain(), None:
            whose = Whose.THEIRS
        case None, Plain(), None if three.rest_alone:
            whose = Whose.UNKNOWN
        case (None, Plain(), _) | (Plain(), None, _):
            whose, since = Whose.OURS, None
            if three.rest_alone and desired and live:
                detail = "adopted with its next config change"
        case _:
            return None
    return Finding(
        Kind.CONNECTOR,
        three.name,
        whose,
        applied=applied,
        desired=desired,
        live=live,
        detail=detail,
        since=since,
    )


# --- config ---


def _config(three: _Three, owned: Owned, connector: LiveConnector) -> Iterator[Finding]:
    spec = three.spec
    live = without_reserved(connector.config)
    wanted = None if spec is None else written_config(spec, live)
    for key in sorted((owned.config.keys() | live.keys() | (wanted or {}).keys()) - {"name"}):
        applied, now = owned.config.get(key), live.get(key)
        then = applied if wanted is None else wanted.get(key)
        whose = _whose(
            moved=not _same(applied, now, key, three.cover),
            asked=wanted is not None and not _same(applied, then, key, three.cover),
        )
        if whose is None or (wanted is not None and then == now):
            continue
        secret = _is_secret(key, (now, then), three.cover)
        yield Finding(
            Kind.CONFIG,
            three.name,
            whose,
            key=key,
            applied=_shown(applied, secret=secret or _looks_secret(key, applied, three.cover)),
            desired=None if spec is None else _shown(then, secret=secret),
            live=_shown(now, secret=secret),
            since=None if whose is Whose.OURS else three.history.keys.get((three.name, key)),
        )


def _unrecorded(
    three: _Three, spec: DesiredConnector, connector: LiveConnector
) -> Iterator[Finding]:
    """Its config holds no ledger: it was never applied, or somebody wrote all of its config."""
    live = without_reserved(connector.config)
    wanted = written_config(spec, live)
    for key in sorted((live.keys() | wanted.keys()) - {"name"}):
        then, now = wanted.get(key), live.get(key)
        if then == now or (now is not None and is_mask(now)):
            continue
        secret = _is_secret(key, (now, then), three.cover)
        desired, shown = _shown(then, secret=secret), _shown(now, secret=secret)
        yield Finding(Kind.CONFIG, three.name, Whose.UNKNOWN, key=key, desired=desired, live=shown)


def _whose(*, moved: bool, asked: bool) -> Whose | None:
    """`moved`: live is not as applied; `asked`: the spec is not as applied."""
    if moved:
        return Whose.BOTH if asked else Whose.THEIRS
    return Whose.OURS if asked else None


def _same(applied: str | None, text: str | None, key: str, cover: Veil) -> bool:
    """Whether what the ledger holds, as text or as a fingerprint, is this value."""
    if applied is None or text is None:
        return applied is text
    if applied == text or applied == fingerprint(cover.key, cover.connector, key, text):
        return True
    if not is_sensitive(key, text, cover.named):
        return False
    # A mask says nothing about what it hides, and without the key nothing can be told apart
    return (
        is_mask(text)
        or not applied
        or (cover.key is None and bool(_FINGERPRINT.fullmatch(applied)))
    )


def _is_secret(key: str, texts: tuple[str | None, ...], cover: Veil) -> bool:
    return any(text is not None and is_sensitive(key, text, cover.named) for text in texts)


def _looks_secret(key: str, applied: str | None, cover: Veil) -> bool:
    found = _is_secret(key, (applied,), cover)
    return found or (applied is not None and bool(_FINGERPRINT.fullmatch(applied)))


def _shown(text: str | None, *, secret: bool) -> Value | None:
    if text is None:
        return None
    return Secret("") if secret else Plain(text)


# --- states ---


def _state(three: _Three, owned: Owned, connector: LiveConnector) -> Iterator[Finding]:
    spec = three.spec
    if owned.held_from is not None and connector.target is TargetState.STOPPED:
        known = Whose.OURS
        detail = f"an apply that did not end has stopped it; the next makes it {owned.held_from}"
        if owned.resuming is not None:
            known = Whose.UNKNOWN
            detail = f"an apply ended as it made it {owned.held_from}, or someone stopped it since"
        yield _state_finding(three, owned, connector, known, detail)
        return
    if spec is None:
        # Left alone if the spec had none
        if owned.state is not None and owned.state is not connector.target:
            yield _state_finding(three, owned, connector, Whose.THEIRS)
        return
    wanted = managed_state(spec)
    if wanted is None or wanted is connector.target:
        return
    if three.rest_alone:
        yield _state_finding(three, owned, connector, Whose.UNKNOWN, _untold(connector))
        return
    applied = owned.state
    whose = _whose(moved=applied not in (None, connector.target), asked=applied is not wanted)
    if whose is not None:
        yield _state_finding(three, owned, connector, whose)


def _untold(connector: LiveConnector) -> str:
    """Over REST alone a target state is only as good as the status that tells it."""
    told = {state.value.upper() for state in TargetState}
    if connector.state is None or connector.state in told:
        return ""
    return f"its status is {connector.state}, which does not tell what was asked of it"


def _state_finding(
    three: _Three, owned: Owned, connector: LiveConnector, whose: Whose, detail: str = ""
) -> Finding:
    wanted = None if three.spec is None else managed_state(three.spec)
    return Finding(
        Kind.STATE,
        three.name,
        whose,
        applied=None if owned.state is None else Plain(owned.state.value),
        desired=None if wanted is None else Plain(wanted.value),
        live=Plain(connector.target.value),
        detail=detail,
        since=None if whose is Whose.OURS else three.history.targets.get(three.name),
    )


# --- what failed ---


def _failed(connector: LiveConnector) -> Iterator[Finding]:
    tasks = [str(at) for at, state in enumerate(connector.task_states) if state == _FAILED]
    parts = ["the connector"] if connector.state == _FAILED else []
    if tasks:
        parts.append(f"task{'' if len(tasks) == 1 else 's'} {', '.join(tasks)}")
    if parts:
        yield Finding(Kind.FAILED, connector.name, detail=f"{' and '.join(parts)} failed")
