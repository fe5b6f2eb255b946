"""Why an action is done, and what it does to the data: codes from closed lists, with what their
sentences name.

The sentences are in `render.words` and `render.effects`. Nothing is decided by a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from connect_specs.desired import Position
from connect_specs.states import TargetState

# In plan files: a code never changes its meaning
# fmt: off
ReasonCode: TypeAlias = Literal[
    "new", "deleted-outside", "only-recorded", "renamed", "unowned", "owner-unseen", "keys-differ",
    "state",
    "state-before", "state-of-old-name", "held-by-an-apply", "held-and-now-stopped",
    "for-offsets", "pin-new", "pin-drifted", "failed", "spec-gone", "spec-and-connector-gone",
    "prevent-delete", "continues", "carried",
    # of a rollback
    "was-there", "was-not-there", "was-only-begun", "had-this-name", "keys-were-different",
    "was-protected", "offsets-were-others",
]
# fmt: on


@dataclass(frozen=True, slots=True)
class Reason:
    """One of the codes, with what only some of them need.

    `state` is the connector's target state before, and `old` the name that it had then. `to` is
    where a pin leads. `text` is the sentence of an action that was read from a plan file; files of
    earlier programs have no codes.
    """

    code: ReasonCode | None
    state: TargetState | None = None
    old: str = ""
    to: Position | None = None
    text: str = ""


def as_reason(text: str) -> Reason:
    """The reason of an action in a plan file that has no codes."""
    return Reason(None, text=text)


# Of an action that only serves a prediction or a comparison
NO_REASON = as_reason("")


# --- effects ---

# What an action, or the change of a config key, does to the data
# fmt: off
EffectCode: TypeAlias = Literal[
    # As a project's consequences.yaml or a plan file says it
    "text",
    # Actions of one connector
    "created-for-its-offsets", "created-in-state", "adopted", "tasks-end", "stays-stopped",
    "tasks-idle", "no-tasks", "goes-on", "tasks-start", "failed-tasks-start",
    "group-keeps-offsets", "offsets-stay", "pins-forgotten", "only-the-ledger", "protected",
    "not-protected", "no-offsets-to-forget", "unread-offsets-forgotten",
    # Where a connector begins
    "goes-on-from-earlier", "may-go-on-from-earlier", "earlier-offsets-unused",
    "earlier-offsets-unknown", "unless-earlier", "source-start", "start-at-beginning",
    "start-at-end", "start-by-reset", "start-unless-offsets", "start-from-group", "offset-at",
    "and-more", "to-deliver", "of-them-again",
    # Moved offsets
    "moved", "stays", "from-unknown", "no-offset", "none", "starts-there", "totals",
    "uncounted", "gone",
    # Moved offsets of sinks
    "delivers-again", "delivers-at-least-again", "delivers-about-again", "reads-until-stopped",
    "and-until-stopped", "skips", "skips-at-most", "skips-about", "position-now", "lasted",
    "below-start-gone", "unread-log", "topic-not-read", "was-beyond-end", "is-below-start",
    "starts-at-end", "starts-at-start", "starts-there-counted", "read-uncommitted",
    "not-delivered-before",
    # Moved offsets of sources
    "only-the-connector-knows", "source-begins-anew", "source-reads-from-start",
    "source-reads-again", "source-goes-back", "source-goes-back-in-slot",
    "source-goes-back-in-binlog", "source-skips", "from-place", "up-to-place", "field-goes",
    "goes-back", "goes-ahead", "by", "to-place", "amount", "less-than-a-second", "at-least",
    "at-most", "rows-of", "of-wal", "of-file",
    # Renames
    "old-stays-stopped", "old-adopted", "created-for-old", "config-of-old", "nothing-to-carry",
    "carried-in-group", "carried-exactly", "goes-on-at", "or-later", "goes-on-beyond-end",
    "left-by-earlier", "old-already-gone", "old-group-deleted", "old-offsets-forgotten",
    "old-group-stays", "old-pins-count",
    # What was changed outside connect
    "outside-reverted", "outside-overwritten",
    # Changed configs as a whole
    "tasks-restart", "counts-later-stopped", "counts-later-paused",
    # Keys that Connect defines
    "becomes-sink", "becomes-source", "becomes-source-again", "other-class",
    "other-class-version", "other-tasks-max", "one-task", "several-tasks", "group-named",
    "its-group", "topic-named", "worker-offsets-topic", "tasks-max-enforced",
    "tasks-max-not-enforced", "converted-otherwise", "read-otherwise", "transformed-otherwise",
    "failed-records-skipped", "failed-record-stops-its-task", "other-dead-letter-queue",
    "failed-records-in-queue",
    "failed-records-lost", "failed-records-in-no-queue",
    "for-failed-records", "for-failures", "failed-records-in-log", "failed-records-not-in-log",
    "log-of-failed-records", "restarts-on-expiry", "keeps-expired-values", "reads-more-topics",
    "reads-known-topics", "reads-fewer-topics", "other-topic-pattern", "same-group",
    "carried-group", "new-group", "hidden-group", "reads-other-kafka", "without-an-offset",
    "committed-records-only", "aborted-records-too", "carried-offsets", "keeps-offsets-in",
    "keeps-copied-offsets-in", "looks-for-offsets-in", "writes-other-kafka",
    "writes-other-kafka-by-rest", "no-idempotence", "exactly-once-required",
    "exactly-once-requested", "other-transaction-boundary", "topics-created-later",
    "where-it-creates-topics", "without-effect",
    # Keys of known sinks
    "standard-output", "writes-to-file", "delivers-elsewhere", "other-file-format",
    "files-cut-elsewhere", "files-cut-by-the-clock", "other-file-names", "other-document-ids",
    "documents-upserted", "documents-replaced", "rows-inserted", "rows-upserted",
    "rows-updated", "other-row-keys", "rows-deleted", "rows-not-deleted", "table-evolution",
    # Keys of known sources
    "standard-input", "reads-file", "writes-to-other-topics", "writes-to-other-topics-then",
    "may-name-its-offsets", "other-types", "reads-from-elsewhere", "debezium-begins-anew",
    "snapshot-always", "snapshot-initial", "snapshot-only", "snapshot-without-rows",
    "snapshot-never", "snapshot-when-needed", "snapshot-recovery", "snapshot-again",
    "in-the-next-snapshot", "new-slot", "other-publication", "captures-other-tables",
    "other-columns", "signals-from-elsewhere", "other-schema-history",
    "other-operations-skipped", "jdbc-bulk", "other-jdbc-mode", "other-jdbc-column",
    "same-offset-for-other-query", "offsets-kept-otherwise", "new-tables-from-their-start",
    "for-tables-without-an-offset", "mirror-begins-anew", "new-topics-from-their-start",
]
# fmt: on


@dataclass(frozen=True, slots=True)
class Effect:
    """One statement: its code, and by name what its sentence contains.

    An effect can be part of another one. None: that part of the sentence is empty.
    """

    code: EffectCode
    about: tuple[tuple[str, About], ...] = ()


Effects: TypeAlias = tuple[Effect, ...]
About: TypeAlias = str | int | Effect | Effects | None


def effect(code: EffectCode, **about: About) -> Effect:
    """The effect of that code, about these things."""
    return Effect(code, tuple(about.items()))


def as_effects(text: str) -> Effects:
    """Effects that come as text, one a line. `lines_of_effects` gives exactly that text again: a
    plan file keeps its hash, whatever characters a name in it has."""
    return tuple(effect("text", text=line) for line in text.split("\n")) if text else ()
