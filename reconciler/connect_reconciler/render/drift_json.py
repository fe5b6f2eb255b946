"""Drift for programs: one JSON object a line, a summary last. docs/drift.md has the fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from connect_reconciler.drift.model import ChangedIn, Drift, Finding, FindingKind
from connect_reconciler.model.config_values import Secret, Value
from connect_reconciler.render.drift import moment, sentence

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


def finding_line(finding: Finding, event: Event = "found") -> str:
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


def summary_line(drift: Drift) -> str:
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
        }
    )


def _value(value: Value | None) -> dict[str, Any] | None:
    """A value, or only that it is secret."""
    if value is None:
        return None
    return {"sensitive": True} if isinstance(value, Secret) else {"text": value.text}


def _line(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
