"""Applies as text and JSON: a list, newest first, or one in detail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from connect_reconciler.actions import verb_of
from connect_reconciler.ledger.journal import Ending, Journal, JournalEntry
from connect_reconciler.model.ledger import ConnectorSnapshot
from connect_reconciler.model.offsets import Offsets, same_offset
from connect_reconciler.plan.offsets.moves import label_of, place_of
from connect_specs.desired import Offset, OffsetEntry, Partition
from connect_specs.plain_text import lines_of, table, time_text

_SHOWN = 20


Apply: TypeAlias = tuple[Journal, Sequence[JournalEntry]]


def list_text(applies: Sequence[Apply]) -> str:
    """Returns a table with one row for each apply."""
    notes = _notes([journal for journal, _ in applies])
    rows = [
        (
            journal.id,
            _when(journal.since_ms),
            _ending(journal),
            _counts_text(_counts_of(journal, steps)),
            journal.by.partition(" since ")[0],
            notes.get(journal.id, ""),
        )
        for journal, steps in applies
    ]
    return table(("APPLY", "BEGAN", "ENDED", "ACTIONS", "BY", ""), rows)


def detail_text(
    journal: Journal, steps: Sequence[JournalEntry], snapshots: Mapping[str, ConnectorSnapshot]
) -> str:
    """Returns one apply with its steps, and the offsets that it moved."""
    paragraphs = [_head(journal, steps), offsets_text(snapshots)]
    if steps:
        rows = [_step_row(step) for step in steps]
        paragraphs.insert(1, table(("#", "CONNECTOR", "ACTION", "TOOK", "END"), rows))
    return "\n".join(filter(None, paragraphs))


def _ending(journal: Journal) -> str:
    """Returns `done`, `failed (exit 3)` or `not finished`."""
    if journal.ending is None:
        return "not finished"
    if not journal.exit_code:
        return journal.ending.value
    return f"{journal.ending.value} (exit {journal.exit_code})"


def _counts_of(journal: Journal, steps: Sequence[JournalEntry]) -> dict[str, int]:
    """Returns the numbers of actions by their end; those that never began were skipped."""
    counts: Counter[str] = Counter(step.end or "half done" for step in steps)
    counts["skipped"] = max(0, journal.actions - len(steps))
    return {end: count for end, count in counts.items() if count}


def _counts_text(counts: dict[str, int]) -> str:
    """Returns `3 done, 1 failed`."""
    return ", ".join(f"{count} {end}" for end, count in counts.items()) or "nothing to do"


def _notes(journals: Sequence[Journal]) -> dict[str, str]:
    """Returns `rollback of ID` and `rolled back by ID` by apply. A rollback is partial if it is not
    finished, or was targeted."""
    relations: dict[str, list[str]] = {}
    for journal in journals:
        if journal.rolls_back is not None:
            relations.setdefault(journal.id, []).append(f"rollback of {journal.rolls_back}")
            complete = journal.ending is Ending.DONE and not journal.partial
            undone = "rolled back" if complete else "partly rolled back"
            relations.setdefault(journal.rolls_back, []).append(f"{undone} by {journal.id}")
    return {apply_id: ", ".join(sorted(texts)) for apply_id, texts in relations.items()}


def _when(ms: int) -> str:
    """Returns the time in UTC, to the second."""
    return time_text(ms).replace("T", " ")


def journal_json(journal: Journal, steps: Sequence[JournalEntry]) -> dict[str, Any]:
    """Returns one apply for programs, without its steps."""
    return {
        "apply_id": journal.id,
        "project": journal.project,
        "by": journal.by,
        "since_ms": journal.since_ms,
        "ended_ms": journal.ended_ms or None,
        "ending": None if journal.ending is None else journal.ending.value,
        "exit_code": journal.exit_code,
        "rolls_back": journal.rolls_back,
        "partial": journal.partial,
        "actions": journal.actions,
        "counts": _counts_of(journal, steps),
    }


def detail_json(
    journal: Journal, steps: Sequence[JournalEntry], snapshots: Mapping[str, ConnectorSnapshot]
) -> dict[str, Any]:
    """Returns one apply for programs, with its steps, and the offsets that it moved."""
    return journal_json(journal, steps) | {
        "offsets": {
            name: [
                {"partition": dict(partition), "before": previous, "after": offset}
                for partition, previous, offset in _moves(snapshot)
            ]
            for name, snapshot in snapshots.items()
            if snapshot.offsets is not None and snapshot.offsets_after is not None
        },
        "steps": [
            {
                "number": step.number,
                "connector": step.connector,
                "action": verb_of(step.action),
                "started_ms": step.started_ms,
                "ended_ms": step.ended_ms or None,
                "end": step.end,
                "detail": step.detail,
            }
            for step in steps
        ],
    }


def _head(journal: Journal, steps: Sequence[JournalEntry]) -> str:
    """Returns the lines above an apply's steps."""
    lines = [
        f"Apply {journal.id}",
        f"  by: {journal.by}",
        f"  began: {_when(journal.since_ms)}",
        f"  ended: {f'{_when(journal.ended_ms)}, ' if journal.ended_ms else ''}{_ending(journal)}",
        f"  actions: {_counts_text(_counts_of(journal, steps))}",
    ]
    if journal.rolls_back:
        lines.append(f"  rollback of: apply {journal.rolls_back}")
    return lines_of("\n".join(lines)) + "\n"


def offsets_text(snapshots: Mapping[str, ConnectorSnapshot]) -> str:
    """Returns the offsets that an apply moved: from and to, a line for each partition."""
    lines: list[str] = []
    for name, snapshot in snapshots.items():
        moves = list(_moves(snapshot))
        if snapshot.offsets is None or not moves:
            continue
        lines.append(f"offsets of {name}:")
        for partition, previous, offset in moves[:_SHOWN]:
            recorded = snapshot.offsets_after is not None
            target = _offset(partition, offset) if recorded else "not recorded"
            lines.append(f"  {label_of(partition)} {_offset(partition, previous)} → {target}")
        if len(moves) > _SHOWN:
            lines.append(f"  and {len(moves) - _SHOWN} more (--json lists them)")
    return lines_of("\n".join(lines)) + "\n" if lines else ""


def _moves(snapshot: ConnectorSnapshot) -> Iterator[tuple[Partition, Offset | None, Offset | None]]:
    """Yields each partition whose offset changed, all of them if the later ones are not
    recorded."""
    previous, offsets = snapshot.offsets or Offsets(), snapshot.offsets_after
    partitions = [entry.partition for entry in previous]
    if offsets is not None:
        partitions += [entry.partition for entry in offsets if entry.partition not in previous]
    for partition in partitions:
        offset = None if offsets is None else offsets.at(partition)
        if offsets is None or not same_offset(previous.at(partition), offset):
            yield partition, previous.at(partition), offset


def _offset(partition: Partition, offset: Offset | None) -> str:
    return "none" if offset is None else place_of(OffsetEntry(partition, offset))


def _step_row(step: JournalEntry) -> tuple[str, str, str, str, str]:
    """Returns number, connector, action, duration and end of one step."""
    took = f"{(step.ended_ms - step.started_ms) / 1000:.1f} s" if step.ended_ms else ""
    end = (step.end or "began, end not known") + (f": {step.detail}" if step.detail else "")
    return str(step.number), step.connector, verb_of(step.action), took, end
