"""Renders drift: on a terminal, as Markdown for an issue, and for programs as one JSON object a
line, a summary last. docs/drift.md has the fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, assert_never

from connect_reconciler.actions import FieldChange
from connect_reconciler.drift.model import ChangedIn, Drift, Finding, FindingKind, changes
from connect_reconciler.model.config_values import Plain, Secret, Value
from connect_reconciler.render.markdown import code_span, lines_within
from connect_reconciler.render.texts import PLAIN, Role, Style, change_text, value_text
from connect_specs.plain_text import counted, one_line, time_text

# GitHub takes 65,536 characters.
MARKDOWN_MAX = 60_000

_KEYS_NAMED = 5


@dataclass(frozen=True, slots=True)
class FindingSection:
    """Findings of one category under a title. `counted` is their name in the headline."""

    category: ChangedIn | FindingKind
    title: str
    role: Role
    counted: str = ""


SECTIONS = (
    FindingSection(ChangedIn.CLUSTER, "Changed in the cluster", "remove", "changed in the cluster"),
    FindingSection(
        ChangedIn.BOTH,
        "Changed in the cluster and in the specs",
        "risk",
        "changed in the cluster and in the specs",
    ),
    FindingSection(
        ChangedIn.UNKNOWN,
        "Changed in the cluster or not applied yet: no ledger says which",
        "risk",
        "changed in the cluster or not applied yet",
    ),
    FindingSection(
        ChangedIn.SPECS, "Changed in the specs, not applied yet", "change", "not applied yet"
    ),
    FindingSection(FindingKind.FAILED, "Failed", "error", "failed"),
    FindingSection(
        FindingKind.UNMANAGED,
        "Unmanaged: no spec, and no project owns them",
        "note",
        "unmanaged",
    ),
    FindingSection(FindingKind.LEFT_OFFSETS, "Offsets of deleted connectors", "note"),
)


def drift_text(drift: Drift, style: Style = PLAIN, *, left_offsets: bool = False) -> str:
    """Returns the report as text that ends with a line break."""
    blocks = [[style.paint("strong", headline(drift)), *connector_counts(drift)]]
    for section, findings in _sections(drift, left_offsets=left_offsets):
        lines = [line for finding in findings for line in finding_lines(finding, style)]
        blocks.append([style.paint(section.role, section.title), *lines])
    notes = [style.paint("note", note) for note in footnotes(drift, left_offsets=left_offsets)]
    blocks += [notes] if notes else []
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def finding_lines(finding: Finding, style: Style) -> Iterator[str]:
    """Yields one finding as text, its origin below it."""
    yield f"  {one_line(finding.connector)}: {sentence(finding)}"
    since = origin(finding)
    if since:
        yield style.paint("note", f"      {since}")


def drift_markdown(drift: Drift, *, left_offsets: bool = False) -> str:
    """Returns the report for an issue, never longer than one may be."""
    lines = [f"**{headline(drift)}**"]
    if counts := connector_counts(drift):
        lines += ["", "<br>".join(map(code_span, counts))]
    for section, findings in _sections(drift, left_offsets=left_offsets):
        lines += ["", f"### {section.title}", "", *map(_bullet, findings)]
    notes = footnotes(drift, left_offsets=left_offsets)
    if notes:
        lines += ["", *(f"- {code_span(note)}" for note in notes)]
    fitting = lines_within(lines, MARKDOWN_MAX)
    if missing := len(lines) - len(fitting):
        fitting += ["", f"… and {missing} lines more: `connect drift` shows them all."]
    return "\n".join(fitting) + "\n"


def _bullet(finding: Finding) -> str:
    text = f"- {code_span(one_line(finding.connector))} {code_span(sentence(finding))}"
    since = origin(finding)
    return f"{text}<br>{code_span(since)}" if since else text


def _sections(
    drift: Drift, *, left_offsets: bool
) -> Iterator[tuple[FindingSection, list[Finding]]]:
    """Yields the sections that have findings; offsets of deleted connectors only on request."""
    for section in SECTIONS:
        category = section.category
        findings = [finding for finding in drift.findings if finding.counts_as(category)]
        if findings and (left_offsets or category is not FindingKind.LEFT_OFFSETS):
            yield section, findings


def headline(drift: Drift) -> str:
    """Returns `Drift: 2 changed in the cluster; 1 failed`, or `No drift`, and the other counts."""
    drifted, pending = _counts(drift, SECTIONS[:3]), _counts(drift, SECTIONS[3:])
    head = f"Drift: {drifted}" if drifted else "No drift"
    return f"{head}; {pending}" if pending else head


def _counts(drift: Drift, sections: tuple[FindingSection, ...]) -> str:
    counts = {section.counted: drift.count(section.category) for section in sections}
    return ", ".join(f"{count} {text}" for text, count in counts.items() if count and text)


def connector_counts(drift: Drift) -> list[str]:
    """Returns the numbers of connectors, and the keys that drift in more than one."""
    counts = drift.connectors()
    words = {"in sync": "in_sync", "drifted": "drifted", "not applied yet": "pending"}
    numbers = [f"{counts[key]} {word}" for word, key in words.items() if counts[key]]
    lines = [f"Connectors: {', '.join(numbers)}"] if numbers else []
    keys = {key: count for key, count in drift.keys().items() if count > 1}
    most = [f"{one_line(key)} ({count})" for key, count in list(keys.items())[:_KEYS_NAMED]]
    return [*lines, f"Keys that drift most: {', '.join(most)}"] if most else lines


def footnotes(drift: Drift, *, left_offsets: bool) -> list[str]:
    """Returns notes about the report itself."""
    notes = []
    count = drift.count(FindingKind.LEFT_OFFSETS)
    if count and not left_offsets:
        noun, them = ("connector", "it") if count == 1 else ("connectors", "them")
        notes.append(f"{count} deleted {noun} left offsets (--all lists {them})")
    if drift.other_projects:
        owners = (f"{one_line(name)} {number}" for name, number in drift.other_projects.items())
        notes.append(f"Connectors of other projects: {', '.join(owners)}")
    if drift.ledger_policy not in ("", "compact"):
        notes.append(
            f"The topic of the ledger has cleanup.policy={drift.ledger_policy}: Kafka deletes what"
            " it holds, and then changes made outside cannot be told from others"
        )
    if drift.groups_hidden:
        notes.append("Kafka does not show the offsets of sinks: not compared")
    if drift.values_hidden:
        values = counted(drift.values_hidden, "value")
        notes.append(f"{values} hidden, their types could not be asked for: {drift.unanswered}")
    if drift.unfinished:
        ids = ", ".join(map(one_line, drift.unfinished))
        notes.append(f"An apply is in progress or unfinished: {ids}")
    return notes


def sentence(finding: Finding) -> str:
    """Returns the difference on one line, without the connector's name. Holds no secret."""
    detail = one_line(finding.detail)
    match finding.kind:
        case FindingKind.CONNECTOR | FindingKind.UNMANAGED:
            return detail
        case FindingKind.CONFIG:
            return _config(finding)
        case FindingKind.STATE:
            return _state(finding, detail)
        case FindingKind.OFFSETS:
            return _offsets(finding, detail)
        case FindingKind.LEFT_OFFSETS:
            return detail if finding.live is None else f"{detail}: {value_text(finding.live)}"
        case FindingKind.FAILED:
            return one_line(": ".join(filter(None, (detail, finding.reason))))
        case _:
            assert_never(finding.kind)


def origin(finding: Finding) -> str:
    """Returns the spec's place, the time and record of the change, and its apply, if known."""
    place = "" if finding.location is None else one_line(str(finding.location))
    return "; ".join(filter(None, (place, _since(finding))))


def _since(finding: Finding) -> str:
    mark, run = finding.since, finding.run
    if mark is None:
        return ""
    record = f"{mark.topic}-{mark.partition}, offset {mark.offset}"
    author = "by no apply on record"
    if run is not None:
        author = f"by apply {one_line(run.id)} of {one_line(run.project)} by {one_line(run.by)}"
    return f"since {time_text(mark.timestamp_ms)} ({record}), {author}"


def _config(finding: Finding) -> str:
    if finding.changed_in is ChangedIn.UNKNOWN:
        return change_text(FieldChange(finding.key, finding.live, finding.desired))
    value = finding.desired if finding.changed_in is ChangedIn.SPECS else finding.live
    text = change_text(FieldChange(finding.key, finding.applied, value))
    if finding.changed_in is not ChangedIn.BOTH:
        return text
    if finding.desired is None:
        return f"{text}; the spec drops it"
    return f"{text}; the spec wants {value_text(finding.desired)}"


def _state(finding: Finding, detail: str) -> str:
    applied, desired, live = map(_word, (finding.applied, finding.desired, finding.live))
    if detail:
        return f"state: {live}: {detail}"
    match finding.changed_in:
        case ChangedIn.SPECS:
            return f"state: {live} → {desired}"
        case ChangedIn.BOTH if finding.applied is not None:
            return f"state: {applied} → {live}; the spec wants {desired}"
        case ChangedIn.BOTH | ChangedIn.UNKNOWN:
            return f"state: {live}; the spec wants {desired}"
        case _:
            return f"state: {applied} → {live}"


def _offsets(finding: Finding, detail: str) -> str:
    pin = one_line(finding.key)
    if finding.changed_in is ChangedIn.UNKNOWN:
        return f"offsets of pin {pin}: {detail}"
    if finding.changed_in is ChangedIn.SPECS or finding.applied is None or finding.live is None:
        return f"offsets: apply sets pin {pin}"
    text = f"offsets of pin {pin}: {value_text(finding.applied)} → {value_text(finding.live)}"
    if finding.desired is not None and finding.changed_in is ChangedIn.BOTH:
        return f"{text}; the spec wants {value_text(finding.desired)}"
    return text


def _word(value: object) -> str:
    return value.text if isinstance(value, Plain) else "not managed"


def difference_text(previous: Drift, drift: Drift, style: Style) -> str:
    """Returns the findings that appeared and disappeared between two looks; empty for none."""
    appeared, gone = changes(previous, drift)
    lines = [f"{time_text(drift.now_ms)} {headline(drift)}"]
    for title, findings in (("New", appeared), ("Gone", gone)):
        if findings:
            lines.append(title)
            lines += [line for finding in findings for line in finding_lines(finding, style)]
    return "\n".join(lines) if appeared or gone else ""


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
    """Returns one finding as a line of JSON."""
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
            "file": None if finding.location is None else finding.location.file,
            "line": None if finding.location is None else finding.location.line,
            "since": None
            if since is None
            else {
                "at": time_text(since.timestamp_ms),
                "ms": since.timestamp_ms,
                "topic": since.topic,
                "partition": since.partition,
                "offset": since.offset,
            },
            "apply": None if run is None else {"id": run.id, "project": run.project, "by": run.by},
        }
    )


def drift_json(drift: Drift) -> str:
    """Returns all findings, and the summary, in lines."""
    return "\n".join([*map(finding_json, drift.findings), summary_json(drift)]) + "\n"


def difference_json(previous: Drift, drift: Drift) -> str:
    """Returns the findings that disappeared and appeared, and the summary; empty for none."""
    appeared, gone = changes(previous, drift)
    lines = [finding_json(finding, "gone") for finding in gone]
    lines += map(finding_json, appeared)
    return "\n".join([*lines, summary_json(drift)]) if lines else ""


def summary_json(drift: Drift) -> str:
    """Returns the last line: the numbers of connectors and findings."""
    return _line(
        {
            "v": VERSION,
            "type": "summary",
            "project": drift.project,
            "at": time_text(drift.now_ms),
            "ms": drift.now_ms,
            "drift": drift.drifted,
            "counts": {name: drift.count(category) for name, category in _COUNTS.items()},
            "connectors": drift.connectors(),
            "keys": drift.keys(),
            "other_projects": dict(drift.other_projects),
            "unfinished_applies": list(drift.unfinished),
            "groups_hidden": drift.groups_hidden,
            "ledger_policy": drift.ledger_policy or None,
            "values_hidden": drift.values_hidden,
        }
    )


def _value(value: Value | None) -> dict[str, Any] | None:
    """Returns the value, or only that it is secret."""
    if value is None:
        return None
    return {"sensitive": True} if isinstance(value, Secret) else {"text": value.text}


def _line(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
