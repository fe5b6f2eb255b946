"""Renders drift: on a terminal, as Markdown for an issue, and for programs as one JSON object a
line, a summary last. docs/drift.md has the fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, assert_never

from connect_reconciler.actions import FieldChange
from connect_reconciler.drift.model import (
    ChangedIn,
    Detail,
    DetailCode,
    Drift,
    Finding,
    FindingKind,
)
from connect_reconciler.model.config_values import Plain, Secret, Value
from connect_reconciler.render.texts import PLAIN, Role, Style, change_text, value_text
from connect_specs.counting import counted
from connect_specs.printable import one_line

# GitHub takes 65,536 characters.
MARKDOWN_MAX = 60_000

_BACKTICKS = re.compile("`+")
_KEYS_NAMED = 5


@dataclass(frozen=True, slots=True)
class Section:
    """Findings under one title."""

    what: ChangedIn | FindingKind
    title: str
    role: Role


SECTIONS = (
    Section(ChangedIn.CLUSTER, "Changed in the cluster", "remove"),
    Section(ChangedIn.BOTH, "Changed in the cluster and in the specs", "risk"),
    Section(
        ChangedIn.UNKNOWN,
        "Changed in the cluster or not applied yet: no ledger says which",
        "risk",
    ),
    Section(ChangedIn.SPECS, "Changed in the specs, not applied yet", "change"),
    Section(FindingKind.FAILED, "Failed", "error"),
    Section(FindingKind.UNMANAGED, "Unmanaged: no spec, and no project owns them", "note"),
    Section(FindingKind.LEFT_OFFSETS, "Offsets of deleted connectors", "note"),
)


def drift_text(drift: Drift, style: Style = PLAIN, *, whole: bool = False) -> str:
    """The report as text that ends with a line break; `whole` lists all left offsets."""
    blocks = [[style.paint("strong", headline(drift)), *connector_counts(drift)]]
    for section in SECTIONS:
        found = [each for each in shown(drift, whole=whole) if each.counts_as(section.what)]
        if found:
            lines = [line for each in found for line in finding_lines(each, style)]
            blocks.append([style.paint(section.role, section.title), *lines])
    notes = [style.paint("note", note) for note in footnotes(drift, whole=whole)]
    blocks += [notes] if notes else []
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def finding_lines(finding: Finding, style: Style) -> Iterator[str]:
    """One finding as text, its origin below it."""
    yield f"  {one_line(finding.connector)}: {sentence(finding)}"
    since = origin(finding)
    if since:
        yield style.paint("note", f"      {since}")


def drift_markdown(drift: Drift, *, whole: bool = False) -> str:
    """The report for an issue, never longer than one may be."""
    lines = [f"**{headline(drift)}**"]
    if rest := connector_counts(drift):
        lines += ["", "<br>".join(map(_code, rest))]
    for section in SECTIONS:
        found = [each for each in shown(drift, whole=whole) if each.counts_as(section.what)]
        if found:
            lines += ["", f"### {section.title}", "", *map(_bullet, found)]
    notes = footnotes(drift, whole=whole)
    if notes:
        lines += ["", *(f"- {_code(note)}" for note in notes)]
    return _cut(lines)


def _bullet(finding: Finding) -> str:
    text = f"- {_code(one_line(finding.connector))} {_code(sentence(finding))}"
    since = origin(finding)
    return f"{text}<br>{_code(since)}" if since else text


def _code(text: str) -> str:
    """A code span: nothing inside can become a link, a mention or a tag."""
    longest = max((len(found) for found in _BACKTICKS.findall(text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"


def _cut(lines: list[str]) -> str:
    kept, size = [], 0
    for number, line in enumerate(lines):
        size += len(line) + 1
        if size > MARKDOWN_MAX:
            kept += ["", f"… and {len(lines) - number} lines more: `connect drift` shows them all."]
            break
        kept.append(line)
    return "\n".join(kept) + "\n"


def headline(drift: Drift) -> str:
    """`Drift: 2 changed in the cluster; 1 failed`, or `No drift`, and what else was found."""
    drifted, rest = _counted(drift, _DRIFTED), _counted(drift, _BESIDE)
    head = f"Drift: {drifted}" if drifted else "No drift"
    return f"{head}; {rest}" if rest else head


_DRIFTED: Mapping[ChangedIn | FindingKind, str] = {
    ChangedIn.CLUSTER: "changed in the cluster",
    ChangedIn.BOTH: "changed in the cluster and in the specs",
    ChangedIn.UNKNOWN: "changed in the cluster or not applied yet",
}
_BESIDE: Mapping[ChangedIn | FindingKind, str] = {
    ChangedIn.SPECS: "not applied yet",
    FindingKind.FAILED: "failed",
    FindingKind.UNMANAGED: "unmanaged",
}


def _counted(drift: Drift, words: Mapping[ChangedIn | FindingKind, str]) -> str:
    counts = {text: drift.count(what) for what, text in words.items()}
    return ", ".join(f"{count} {text}" for text, count in counts.items() if count)


def connector_counts(drift: Drift) -> list[str]:
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
    return tuple(each for each in drift.findings if each.kind is not FindingKind.LEFT_OFFSETS)


def footnotes(drift: Drift, *, whole: bool) -> list[str]:
    """What a reader should know about the report itself."""
    notes = []
    left = drift.count(FindingKind.LEFT_OFFSETS)
    if left and not whole:
        who, them = ("connector", "it") if left == 1 else ("connectors", "them")
        notes.append(f"{left} deleted {who} left offsets (--all lists {them})")
    if drift.others:
        named = (f"{one_line(name)} {count}" for name, count in drift.others.items())
        notes.append(f"Connectors of other projects: {', '.join(named)}")
    if drift.ledger_policy not in ("", "compact"):
        notes.append(
            f"The topic of the ledger has cleanup.policy={drift.ledger_policy}: Kafka deletes what"
            " it holds, and then changes made outside cannot be told from others"
        )
    if drift.groups_hidden:
        notes.append("Kafka does not show the offsets of sinks: not compared")
    if drift.values_hidden:
        what = counted(drift.values_hidden, "value")
        notes.append(f"{what} hidden, their types could not be asked for: {drift.unanswered}")
    if drift.unfinished:
        ids = ", ".join(map(one_line, drift.unfinished))
        notes.append(f"An apply is in progress or unfinished: {ids}")
    return notes


_DETAILS: Mapping[DetailCode, str] = {
    "renamed-to": "apply renames it to {about}",
    "renamed-from": "apply renames {about} to it",
    "adopted-with-next-change": "adopted with its next config change",
    "delete-refused": "its spec is gone; apply refuses to delete everything ({about})",
    "stopped-by-apply": "an unfinished apply stopped it; the next makes it {about}",
    "perhaps-stopped-since": "an apply ended as it made it {about}, or someone stopped it since",
    "ambiguous-status": "its status is {about}, which does not tell what was asked of it",
    "offsets-unread": "they could not be read: {about}",
    "source-offsets": "source offsets of {count}",
    "group-offsets": "the consumer group {about} holds {count}",
    "failed": "{about} failed",
    "owners-unseen": "has no spec; owners cannot be seen without cluster.kafka",
}


def _detail(detail: Detail | None) -> str:
    """The detail in words, on one line."""
    if detail is None:
        return ""
    about, numbers = detail.about, detail.numbers
    if detail.code == "failed":
        tasks = f"task{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
        about = " and ".join(filter(None, (about, tasks if numbers else "")))
    count = ", ".join(counted(number, "partition") for number in numbers)
    return one_line(_DETAILS[detail.code].format(about=about, count=count))


def sentence(finding: Finding) -> str:
    """What differs, on one line, without the connector's name. Holds no secret."""
    match finding.kind:
        case FindingKind.CONNECTOR:
            return _existence(finding)
        case FindingKind.CONFIG:
            return _config(finding)
        case FindingKind.STATE:
            return _state(finding)
        case FindingKind.OFFSETS:
            return _offsets(finding)
        case FindingKind.UNMANAGED:
            return _detail(finding.detail) or "has no spec, and no project owns it"
        case FindingKind.LEFT_OFFSETS:
            live = finding.live
            shown = "" if live is None else f": {value_text(live)}"
            return _detail(finding.detail) + shown
        case FindingKind.FAILED:
            return one_line(": ".join(filter(None, (_detail(finding.detail), finding.reason))))
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
        return _detail(finding.detail)
    if finding.changed_in is ChangedIn.UNKNOWN:
        return "does not exist"
    if finding.desired is None:
        done = "deletes it" if finding.live else "forgets it, as it was deleted already"
        return f"its spec is gone: apply {done}"
    if finding.applied is not None:
        return "deleted outside connect"
    return "apply creates it" if finding.live is None else "apply adopts it"


def _config(finding: Finding) -> str:
    new = finding.desired if finding.changed_in is ChangedIn.SPECS else finding.live
    if finding.changed_in is ChangedIn.UNKNOWN:
        return change_text(FieldChange(finding.key, finding.live, finding.desired))
    text = change_text(FieldChange(finding.key, finding.applied, new))
    if finding.changed_in is not ChangedIn.BOTH:
        return text
    if finding.desired is None:
        return f"{text}; the spec drops it"
    return f"{text}; the spec wants {value_text(finding.desired)}"


def _state(finding: Finding) -> str:
    applied, desired, live = map(_word, (finding.applied, finding.desired, finding.live))
    if finding.detail:
        return f"state: {live}: {_detail(finding.detail)}"
    match finding.changed_in:
        case ChangedIn.SPECS:
            return f"state: {live} → {desired}"
        case ChangedIn.BOTH if finding.applied is not None:
            return f"state: {applied} → {live}; the spec wants {desired}"
        case ChangedIn.BOTH | ChangedIn.UNKNOWN:
            return f"state: {live}; the spec wants {desired}"
        case _:
            return f"state: {applied} → {live}"


def _offsets(finding: Finding) -> str:
    pin = one_line(finding.key)
    if finding.changed_in is ChangedIn.UNKNOWN:
        return f"offsets of pin {pin}: {_detail(finding.detail)}"
    if finding.changed_in is ChangedIn.SPECS or finding.applied is None or finding.live is None:
        return f"offsets: apply sets pin {pin}"
    text = f"offsets of pin {pin}: {value_text(finding.applied)} → {value_text(finding.live)}"
    if finding.desired is not None and finding.changed_in is ChangedIn.BOTH:
        return f"{text}; the spec wants {value_text(finding.desired)}"
    return text


def _word(value: object) -> str:
    return value.text if isinstance(value, Plain) else "not managed"


# --- for programs ---

VERSION = 1

Event: TypeAlias = Literal["found", "gone"]

_WHOSE: Mapping[ChangedIn, str] = {
    ChangedIn.CLUSTER: "theirs",
    ChangedIn.BOTH: "both",
    ChangedIn.UNKNOWN: "unknown",
    ChangedIn.SPECS: "ours",
}
_COUNTS: Mapping[str, ChangedIn | FindingKind] = {
    **{name: changed_in for changed_in, name in _WHOSE.items()},
    "unmanaged": FindingKind.UNMANAGED,
    "left_offsets": FindingKind.LEFT_OFFSETS,
    "failed": FindingKind.FAILED,
}


def finding_json(finding: Finding, event: Event = "found") -> str:
    """One finding."""
    since, run = finding.since, finding.run
    return _line(
        {
            "v": VERSION,
            "type": "finding",
            "event": event,
            "kind": finding.kind.value,
            "connector": finding.connector,
            "key": finding.key or None,
            "whose": None if finding.changed_in is None else _WHOSE[finding.changed_in],
            "drift": finding.drifted,
            "applied": _value(finding.applied),
            "desired": _value(finding.desired),
            "live": _value(finding.live),
            "what": sentence(finding),
            "file": None if finding.where is None else finding.where.file,
            "line": None if finding.where is None else finding.where.line,
            "since": None
            if since is None
            else {
                "at": moment(since.timestamp_ms),
                "ms": since.timestamp_ms,
                "topic": since.topic,
                "partition": since.partition,
                "offset": since.offset,
            },
            "apply": None if run is None else {"id": run.id, "project": run.project, "by": run.by},
        }
    )


def summary_json(drift: Drift) -> str:
    """The last line: how much was compared, and how much differs."""
    return _line(
        {
            "v": VERSION,
            "type": "summary",
            "project": drift.project,
            "at": moment(drift.now_ms),
            "ms": drift.now_ms,
            "drift": drift.drifted,
            "counts": {name: drift.count(what) for name, what in _COUNTS.items()},
            "connectors": drift.connectors(),
            "keys": drift.keys(),
            "other_projects": dict(drift.others),
            "unfinished_applies": list(drift.unfinished),
            "groups_hidden": drift.groups_hidden,
            "ledger_policy": drift.ledger_policy or None,
            "values_hidden": drift.values_hidden,
        }
    )


def _value(value: Value | None) -> dict[str, Any] | None:
    """A value, or only that it is secret."""
    if value is None:
        return None
    return {"sensitive": True} if isinstance(value, Secret) else {"text": value.text}


def _line(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
