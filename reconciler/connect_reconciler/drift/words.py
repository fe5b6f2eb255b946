"""A finding in a reader's words, the same for every way of showing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import assert_never

from connect_reconciler.drift.model import Drift, Finding, Kind, Whose
from connect_reconciler.plan.actions import FieldChange
from connect_reconciler.plan.values import Plain
from connect_reconciler.render.style import Role
from connect_reconciler.render.texts import change_text, value_text
from connect_specs.printable import one_line


@dataclass(frozen=True, slots=True)
class Section:
    """Findings that belong under one title."""

    title: str
    role: Role
    holds: Callable[[Finding], bool]


_KEYS_NAMED = 5

SECTIONS = (
    Section("Changed by hand", "remove", lambda each: each.whose is Whose.THEIRS),
    Section("Changed by hand and in the specs", "risk", lambda each: each.whose is Whose.BOTH),
    Section(
        "By hand or not applied yet: nothing tells which",
        "risk",
        lambda each: each.whose is Whose.UNKNOWN,
    ),
    Section("Not applied yet", "change", lambda each: each.whose is Whose.OURS),
    Section("Failed", "error", lambda each: each.kind is Kind.FAILED),
    Section("Of no spec and no project", "note", lambda each: each.kind is Kind.UNMANAGED),
    Section(
        "Offsets of connectors that are gone", "note", lambda each: each.kind is Kind.LEFT_OFFSETS
    ),
)


def headline(drift: Drift) -> str:
    """`Drift: 2 by hand, 1 by hand and in the specs`, or that there is none, and the rest."""
    counts = drift.counts()
    parts = [f"{counts['theirs']} by hand"] if counts["theirs"] else []
    if counts["both"]:
        parts.append(f"{counts['both']} by hand and in the specs")
    if counts["unknown"]:
        parts.append(f"{counts['unknown']} by hand or not applied yet")
    head = f"Drift: {', '.join(parts)}" if parts else "No drift"
    beside = {
        "not applied yet": counts["ours"],
        "failed": counts["failed"],
        "unmanaged": counts["unmanaged"],
    }
    rest = ", ".join(f"{count} {what}" for what, count in beside.items() if count)
    return f"{head}; {rest}" if rest else head


def counted(drift: Drift) -> list[str]:
    """How many connectors are as they should be, and which keys drift in more than one."""
    found = drift.connectors()
    words = {"in sync": "in_sync", "drifted": "drifted", "not applied yet": "pending"}
    parts = [f"{found[key]} {word}" for word, key in words.items() if found[key]]
    lines = [f"Connectors: {', '.join(parts)}"] if parts else []
    keys = {key: count for key, count in drift.keys().items() if count > 1}
    named = [f"{one_line(key)} ({count})" for key, count in list(keys.items())[:_KEYS_NAMED]]
    return [*lines, f"Keys that drift most: {', '.join(named)}"] if named else lines


def shown(drift: Drift, *, whole: bool) -> tuple[Finding, ...]:
    """The findings that a person wants to see one by one."""
    if whole:
        return drift.findings
    return tuple(each for each in drift.findings if each.kind is not Kind.LEFT_OFFSETS)


def footnotes(drift: Drift, *, whole: bool = False) -> list[str]:
    """What a reader should know about the report itself."""
    notes = []
    left = drift.counts()["left_offsets"]
    if left and not whole:
        who, them = ("connector", "it") if left == 1 else ("connectors", "them")
        notes.append(f"{left} deleted {who} left offsets (--all lists {them})")
    if drift.others:
        named = (f"{one_line(name)} {count}" for name, count in drift.others.items())
        notes.append(f"Connectors of other projects: {', '.join(named)}")
    if drift.groups_hidden:
        notes.append("Kafka does not let us see the offsets of sinks: not compared")
    if drift.unfinished:
        ids = ", ".join(map(one_line, drift.unfinished))
        notes.append(f"An apply is under way or ended early: {ids}")
    return notes


def sentence(finding: Finding) -> str:
    """What differs, on one line, without the connector's name. Holds no secret."""
    match finding.kind:
        case Kind.CONNECTOR:
            return _existence(finding)
        case Kind.CONFIG:
            return _config(finding)
        case Kind.STATE:
            return _state(finding)
        case Kind.OFFSETS:
            return _offsets(finding)
        case Kind.UNMANAGED:
            return "belongs to no spec and no project"
        case Kind.LEFT_OFFSETS:
            live = finding.live
            shown = "" if live is None else f": {value_text(live)}"
            return one_line(finding.detail) + shown
        case Kind.FAILED:
            return finding.detail
        case _:
            assert_never(finding.kind)


def origin(finding: Finding) -> str:
    """The spec's place; since when, told by which record, and whether an apply did it. Empty where
    nothing tells."""
    place = "" if finding.where is None else one_line(str(finding.where))
    return "; ".join(filter(None, (place, _since(finding))))


def _since(finding: Finding) -> str:
    mark, run = finding.since, finding.run
    if mark is None:
        return ""
    where = f"{mark.topic}-{mark.partition}, offset {mark.offset}"
    who = "by no apply on record"
    if run is not None:
        who = f"by apply {one_line(run.id)} of {one_line(run.project)} by {one_line(run.by)}"
    return f"since {moment(mark.timestamp_ms)} ({where}), {who}"


def moment(timestamp_ms: int) -> str:
    """UTC, to the second."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _existence(finding: Finding) -> str:
    if finding.detail:
        return one_line(finding.detail)
    if finding.whose is Whose.UNKNOWN:
        return "is not there"
    if finding.desired is None:
        done = "deletes it" if finding.live else "forgets what was deleted already"
        return f"its spec is gone: apply {done}"
    if finding.applied is not None:
        return "deleted by hand"
    return "apply creates it" if finding.live is None else "apply adopts it"


def _config(finding: Finding) -> str:
    ours = finding.whose is Whose.OURS
    new = finding.desired if ours else finding.live
    if finding.whose is Whose.UNKNOWN:
        return change_text(FieldChange(finding.key, finding.live, finding.desired))
    text = change_text(FieldChange(finding.key, finding.applied, new))
    if finding.whose is not Whose.BOTH:
        return text
    if finding.desired is None:
        return f"{text}; the spec drops it"
    return f"{text}; the spec wants {value_text(finding.desired)}"


def _state(finding: Finding) -> str:
    applied, desired, live = map(_word, (finding.applied, finding.desired, finding.live))
    if finding.detail:
        return f"state: {live}: {finding.detail}"
    match finding.whose:
        case Whose.OURS:
            return f"state: {live} → {desired}"
        case Whose.BOTH:
            return f"state: {applied} → {live}; the spec wants {desired}"
        case Whose.UNKNOWN:
            return f"state: {live}; the spec wants {desired}"
        case _:
            return f"state: {applied} → {live}"


def _offsets(finding: Finding) -> str:
    pin = one_line(finding.key)
    if finding.whose is Whose.OURS or finding.applied is None or finding.live is None:
        return f"offsets: apply sets pin {pin}"
    text = f"offsets of pin {pin}: {value_text(finding.applied)} → {value_text(finding.live)}"
    if finding.desired is not None and finding.whose is Whose.BOTH:
        return f"{text}; the spec wants {value_text(finding.desired)}"
    return text


def _word(value: object) -> str:
    return value.text if isinstance(value, Plain) else "not managed"
