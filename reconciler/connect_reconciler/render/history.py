"""Applies as people read them: a list, newest first, or one in detail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from connect_reconciler.actions import verb_of
from connect_reconciler.ledger.journal import Ending, Journal, Step
from connect_reconciler.model.ledger import ConnectorSnapshot
from connect_reconciler.model.offsets import Offsets, same_offset
from connect_reconciler.plan.offsets.moves import label_of, place_of
from connect_specs.desired import Offset, OffsetEntry, Partition
from connect_specs.printable import lines_of

_SHOWN = 20


def ending(journal: Journal) -> str:
    """`done`, `failed (exit 3)`, `not finished`."""
    if journal.ending is None:
        return "not finished"
    if not journal.exit_code:
        return journal.ending.value
    return f"{journal.ending.value} (exit {journal.exit_code})"


def counts_of(journal: Journal, steps: Sequence[Step]) -> dict[str, int]:
    """How many actions had which end, where one is known; those that never began were skipped."""
    found: Counter[str] = Counter(step.end or "half done" for step in steps)
    found["skipped"] = max(0, journal.actions - len(steps))
    return {end: count for end, count in found.items() if count}


def counts_text(counts: dict[str, int]) -> str:
    """`3 done, 1 failed`."""
    return ", ".join(f"{count} {end}" for end, count in counts.items()) or "nothing to do"


def notes(journals: Sequence[Journal]) -> dict[str, str]:
    """`rollback of ID`, `rolled back by ID`: by apply, what it has to do with others. One that did
    not end, or was of some connectors only, is no rollback of the whole apply."""
    found: dict[str, list[str]] = {}
    for journal in journals:
        if journal.rolls_back is not None:
            found.setdefault(journal.id, []).append(f"rollback of {journal.rolls_back}")
            whole = journal.ending is Ending.DONE and not journal.partial
            how = "rolled back" if whole else "partly rolled back"
            found.setdefault(journal.rolls_back, []).append(f"{how} by {journal.id}")
    return {apply_id: ", ".join(sorted(each)) for apply_id, each in found.items()}


def when(ms: int) -> str:
    """In UTC, to the second."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def journal_json(journal: Journal, steps: Sequence[Step]) -> dict[str, Any]:
    """One apply for programs, without its steps."""
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
        "counts": counts_of(journal, steps),
    }


def detail_json(
    journal: Journal, steps: Sequence[Step], before: Mapping[str, ConnectorSnapshot]
) -> dict[str, Any]:
    """One apply for programs, with its steps, and the offsets that it moved."""
    return journal_json(journal, steps) | {
        "offsets": {
            name: [
                {"partition": dict(partition), "before": then, "after": now}
                for partition, then, now in _moved(each)
            ]
            for name, each in before.items()
            if each.offsets is not None and each.offsets_after is not None
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


def detail_head(journal: Journal, steps: Sequence[Step]) -> str:
    """The lines above an apply's steps."""
    lines = [
        f"Apply {journal.id}",
        f"  by: {journal.by}",
        f"  began: {when(journal.since_ms)}",
        f"  ended: {f'{when(journal.ended_ms)}, ' if journal.ended_ms else ''}{ending(journal)}",
        f"  actions: {counts_text(counts_of(journal, steps))}",
    ]
    if journal.rolls_back:
        lines.append(f"  rollback of: apply {journal.rolls_back}")
    return lines_of("\n".join(lines)) + "\n"


def offsets_text(before: Mapping[str, ConnectorSnapshot]) -> str:
    """The offsets that an apply moved, from where and to where, a line for each partition."""
    lines: list[str] = []
    for name, each in before.items():
        moves = list(_moved(each))
        if each.offsets is None or not moves:
            continue
        lines.append(f"offsets of {name}:")
        for partition, then, now in moves[:_SHOWN]:
            after = _offset(partition, now) if each.offsets_after is not None else "not recorded"
            lines.append(f"  {label_of(partition)} {_offset(partition, then)} → {after}")
        if len(moves) > _SHOWN:
            lines.append(f"  and {len(moves) - _SHOWN} more (--json lists them)")
    return lines_of("\n".join(lines)) + "\n" if lines else ""


def _moved(before: ConnectorSnapshot) -> Iterator[tuple[Partition, Offset | None, Offset | None]]:
    """Each partition whose offset is another one since, or was before if that is not recorded."""
    then, now = before.offsets or Offsets(), before.offsets_after
    partitions = [each.partition for each in then]
    if now is not None:
        partitions += [each.partition for each in now if each.partition not in then]
    for partition in partitions:
        offset = None if now is None else now.at(partition)
        if now is None or not same_offset(then.at(partition), offset):
            yield partition, then.at(partition), offset


def _offset(partition: Partition, offset: Offset | None) -> str:
    return "none" if offset is None else place_of(OffsetEntry(partition, offset))


def step_row(step: Step) -> tuple[str, str, str, str, str]:
    """Number, connector, action, end and time of one step."""
    took = f"{(step.ended_ms - step.started_ms) / 1000:.1f} s" if step.ended_ms else ""
    end = (step.end or "began, end not known") + (f": {step.detail}" if step.detail else "")
    return str(step.number), step.connector, verb_of(step.action), took, end
