"""What an action does to the data, in words: the sentence for each effect."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from connect_reconciler.model.actions import OffsetMove
from connect_reconciler.model.reasons import About, Effect, EffectCode, Effects
from connect_specs.counting import counted


def effect_text(effect: Effect) -> str:
    """The effect as a sentence."""
    return SENTENCES[effect.code].format(**{name: _shown(each) for name, each in effect.about})


def lines_of_effects(effects: Effects) -> str:
    """A sentence a line, as a plan file holds them."""
    return "\n".join(map(effect_text, effects))


def _shown(value: About) -> str | _Count:
    if isinstance(value, Effect):
        return effect_text(value)
    if isinstance(value, tuple):
        return ", ".join(map(effect_text, value))
    return _Count(value) if isinstance(value, int) else value or ""


def move_text(move: OffsetMove) -> str:
    """What moving one partition's offset does."""
    return "" if move.effect is None else effect_text(move.effect)


class _Count(int):
    """A number in a sentence: `{count}` as 22,430, and `{count:offset}` as 22,430 offsets; with
    `span` seconds as 2 h 13 min, and `are` the verb that goes with so many."""

    def __format__(self, unit: str) -> str:
        if unit == "span":
            return span(int(self))
        if unit == "are":
            return "is" if self == 1 else "are"
        return counted(int(self), unit) if unit else f"{int(self):,}"


def span(seconds: int) -> str:
    """The two largest units: `2 h 13 min`."""
    for (unit, size), (smaller, smaller_size) in pairwise(_SPANS):
        if seconds >= size:
            rest = seconds % size // smaller_size
            return f"{seconds // size:,} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{seconds} s"


_SPANS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))

SENTENCES: Mapping[EffectCode, str] = {
    "text": "{text}",
    # Actions of one connector
    "created-for-its-offsets": "created stopped, for its offsets",
    "created-in-state": "created {state}",
    "adopted": "managed by this project from now on: removing its spec will delete it",
    "outside-reverted": "changed outside{since}, reverted by this plan",
    "outside-overwritten": "changed outside{since}, and in the specs: overwritten by this plan",
    "tasks-end": "its tasks end; nothing is read or written",
    "stays-stopped": "it stays stopped",
    "tasks-idle": "its tasks read and write nothing",
    "no-tasks": "no tasks until it resumes",
    "goes-on": "goes on where its offsets are",
    "tasks-start": "its tasks start where its offsets are",
    "failed-tasks-start": "its failed tasks start again where their offsets are",
    "group-keeps-offsets": "its offsets stay in consumer group {group}",
    "offsets-stay": "its offsets stay: a new connector of its name goes on from there",
    "pins-forgotten": "its pins are forgotten: the same pin would be applied again",
    "only-the-ledger": "only the ledger changes",
    "protected": "removing its spec will be refused, and will not delete it",
    "not-protected": "removing its spec will delete it",
    "no-offsets-to-forget": "it has no offsets to forget",
    "unread-offsets-forgotten": "whatever offsets are there are forgotten: they could not be read",
    # Where a connector begins
    "goes-on-from-earlier": (
        "goes on from the offsets that an earlier connector of its name left, {places}"
    ),
    "may-go-on-from-earlier": (
        "goes on from the offsets that an earlier connector of its name left, as far as it reads"
        " the same: {places}"
    ),
    "earlier-offsets-unused": (
        "the offsets that an earlier connector of its name left do not count: {places}"
    ),
    "earlier-offsets-unknown": ("unknown: offsets of an earlier connector of this name may exist"),
    "unless-earlier": (
        "unknown: offsets of an earlier connector of this name may exist; without them it {start}"
    ),
    "source-start": "reads from the start of its source",
    "start-at-beginning": "starts at the beginning of its topics{amount}{again}",
    "start-at-end": "starts at the end of its topics: what is in them now is not delivered",
    "start-by-reset": "starts where auto.offset.reset={start} says",
    "start-unless-offsets": "{start}, unless the group has offsets already",
    "start-from-group": "goes on from the offsets that the group has, {places}",
    "offset-at": "{partition} at {offset}",
    "and-more": "{places} and {count} more",
    "to-deliver": ", {count:offset} to deliver",
    "of-them-again": ", at least {count} of them redelivered",
    # Moved offsets
    "moved": "{partition} {old} → {new}: {what}{gone}{unread}",
    "stays": "{partition} stays at {offset}{until}",
    "from-unknown": "{partition} → {new}: where it is now is not known: {why}",
    "no-offset": "{partition} has no offset: nothing to forget",
    "none": "none",
    "starts-there": "starts there",
    "totals": "{count} partitions in all: {parts}",
    "uncounted": "and what cannot be counted in {count} of them",
    "gone": "{count:offset} {count:are} gone",
    # Moved offsets of sinks
    "delivers-again": "redelivers {count:offset}{lasted}",
    "delivers-at-least-again": "redelivers at least {count:offset}{lasted}",
    "reads-until-stopped": "what it reads until it is stopped is re-read",
    "and-until-stopped": ": what it reads until it is stopped is re-read",
    "delivers-about-again": "redelivers about {count:offset}{lasted}",
    "skips-about": "jumps over about {count:offset}{lasted}",
    "position-now": "{offset} by now",
    "skips": "jumps over {count:offset}{lasted}",
    "skips-at-most": "jumps over at most {count:offset}{lasted}",
    "lasted": " (written over about {seconds:span})",
    "below-start-gone": "; below the log's start: {count:offset} {count:are} gone",
    "unread-log": ", as far as they are still there: the log cannot be read here",
    "topic-not-read": "the sink does not read this topic",
    "was-beyond-end": "{old} lies beyond the log's end, {end}: {count:offset} to deliver",
    "is-below-start": "{new} lies below the log's start, {start}: {then}",
    "starts-at-end": (
        "starts at the log's end, {end} by now: jumps over {count:offset} as of now{lasted}"
    ),
    "starts-at-start": "starts at the log's start, {start}: {again}",
    "starts-there-counted": "starts there, {count:offset} to deliver{more}",
    "read-uncommitted": "; it has committed nothing there, and what it has read is re-read",
    "not-delivered-before": ", {count:offset} before it {count:are} not delivered",
    # Moved offsets of sources
    "only-the-connector-knows": "only the connector knows what that re-reads or jumps over",
    "source-begins-anew": "begins as if it had never read it",
    "source-reads-from-start": "reads from its start",
    "source-reads-again": "re-reads {size}{place}",
    "source-goes-back": "goes back by {size}{place}",
    "source-goes-back-in-slot": (
        "goes back by {size}{place}, which is not re-read: PostgreSQL skips what its slot has"
        " confirmed, or the task fails (no longer available); to read again, reset: true takes a"
        " new snapshot, and an incremental snapshot reads tables"
    ),
    "source-goes-back-in-binlog": (
        "goes back by {size}, re-read if the server still keeps it{place}"
    ),
    "source-skips": "jumps over {size}{place}",
    "from-place": ", from {place}",
    "up-to-place": ", up to {place}",
    "field-goes": "{field} {goes}",
    "goes-back": "goes back{by}{to}",
    "goes-ahead": "goes ahead{by}{to}",
    "by": " by {size}",
    "to-place": " to {place}",
    "amount": "{count:{unit}}",
    "less-than-a-second": "less than 1 s",
    "at-least": "at least {size}",
    "at-most": "at most {size}",
    "rows-of": "the rows of {size}",
    "of-wal": "{size} of WAL",
    "of-file": "{size} of {file}",
    # Renames
    "old-stays-stopped": "it is stopped already, and stays so",
    "old-adopted": "no project owned it: it is this project's from now on",
    "created-for-old": "created stopped, for the offsets of {old}",
    "config-of-old": "its config is that of {old}",
    "nothing-to-carry": "{old} has no offsets: {name} begins as a new connector does",
    "carried-in-group": (
        "{count:partition}: the consumer group is the same, so its offsets are there already"
    ),
    "carried-exactly": "{count:partition}: nothing is redelivered or jumped over",
    "goes-on-at": "{partition} goes on at {offset}{later}{beyond}",
    "or-later": " or later",
    "goes-on-beyond-end": ", beyond the log's end, {end}: reads from {start} there",
    "left-by-earlier": "{partition} {offset} → none: left by an earlier {name}",
    "old-already-gone": "it is gone already: only the ledger changes",
    "old-group-deleted": "consumer group {group} goes too: a later {old} would begin anew",
    "old-offsets-forgotten": "its offsets are forgotten: a later {old} would begin anew",
    "old-group-stays": "consumer group {group} stays: it is not {old}'s alone",
    "old-pins-count": "its pins count for {name}: they are not applied again",
    # Changed configs as a whole
    "tasks-restart": "tasks restart",
    "counts-later-stopped": "counts when it resumes: no tasks run now",
    "counts-later-paused": "counts when it resumes: its tasks are paused",
    # Keys that Connect defines
    "becomes-sink": "the source becomes a sink: its offsets stay unused; {group} {start}",
    "becomes-source": (
        "the sink becomes a source: its consumer group stays unused; reads from its start"
    ),
    "becomes-source-again": (
        "the sink becomes a source: its consumer group stays unused; goes on from the offsets "
        "that it left as a source before"
    ),
    "other-class": (
        "another class reads this config: whether it knows the offsets, only it can tell"
    ),
    "other-class-version": "another version of the connector's class runs",
    "other-tasks-max": "work is split anew: at most {tasks}, before {old}",
    "one-task": "1 task",
    "several-tasks": "{tasks} tasks",
    "group-named": "group {group}",
    "its-group": "its group",
    "topic-named": "topic {topic}",
    "worker-offsets-topic": "the cluster's offsets topic",
    "tasks-max-enforced": "more tasks than tasks.max fail the connector from now on",
    "tasks-max-not-enforced": "more tasks than tasks.max are allowed from now on",
    "converted-otherwise": (
        "new records are converted differently; those written before stay as they are"
    ),
    "read-otherwise": (
        "records are read differently from now on: those that were written for the old way may fail"
    ),
    "transformed-otherwise": (
        "new records are transformed differently; earlier ones stay as they are"
    ),
    "failed-records-skipped": (
        "records that fail are skipped from now on, and lost if there is no dead letter queue"
    ),
    "failed-record-stops-its-task": "a record that fails stops its task from now on",
    "other-dead-letter-queue": (
        "failed records go elsewhere from now on; those in the old queue stay"
    ),
    "failed-records-in-queue": "failed records go to this queue from now on",
    "failed-records-lost": (
        "failed records are lost from now on: errors.tolerance is all, and no queue takes them"
    ),
    "failed-records-in-no-queue": (
        "no queue takes failed records any more; the first one stops its task"
    ),
    "for-failed-records": "counts for records that fail from now on",
    "for-failures": "counts for what fails from now on",
    "failed-records-in-log": "the log holds the contents of failed records from now on",
    "failed-records-not-in-log": "the log no longer holds the contents of failed records",
    "log-of-failed-records": "only what the log tells of failed records changes",
    "restarts-on-expiry": "restarts from now on when a value from a config provider expires",
    "keeps-expired-values": "keeps values from config providers after they expire",
    "reads-more-topics": "also reads {topics}, from {start}{amount}",
    "reads-known-topics": "also reads {topics}, from the offsets that its group has there",
    "reads-fewer-topics": "no longer reads {topics}: the group keeps its offsets there",
    "other-topic-pattern": (
        "reads other topics: those no longer matched keep their offsets in the group"
    ),
    "same-group": "stays in consumer group {group}",
    "carried-group": "reads with {group}, which gets the offsets of {old}",
    "new-group": "new consumer group {group}: {start}; group {old} keeps its offsets",
    "hidden-group": "reads in another consumer group, from where that is",
    "reads-other-kafka": "reads another Kafka cluster, from where {group} is there",
    "without-an-offset": "counts only in partitions without an offset",
    "committed-records-only": "records of aborted transactions are no longer delivered",
    "aborted-records-too": "records of aborted transactions are delivered too",
    "carried-offsets": "keeps its offsets elsewhere, and gets those of {old} there",
    "keeps-offsets-in": (
        "keeps its offsets in {topic}; what is not there is looked for in the cluster's offsets "
        "topic"
    ),
    "keeps-copied-offsets-in": (
        "keeps its offsets in {topic}, from the copies there: the newest may be missing"
    ),
    "looks-for-offsets-in": (
        "looks for its offsets in {topic}: what is not there is read from its start"
    ),
    "writes-other-kafka": (
        "writes to another Kafka cluster, and keeps its offsets there; what is not there is "
        "looked for in the cluster's offsets topic"
    ),
    "writes-other-kafka-by-rest": (
        "writes to another Kafka cluster; with exactly-once its offsets are there too, and what "
        "is not there is read from its start"
    ),
    "no-idempotence": "a record whose write is tried again can be in its topic twice",
    "exactly-once-required": "refused unless the connector says that it delivers exactly once",
    "exactly-once-requested": "no longer refused where the connector may not deliver exactly once",
    "other-transaction-boundary": (
        "transactions end elsewhere: when records can be read changes, not which"
    ),
    "topics-created-later": (
        "counts for topics that it creates from now on; those that are there stay as they are"
    ),
    "where-it-creates-topics": "counts where it creates topics",
    "without-effect": "this runtime does not act on it yet",
    # Keys of known sinks
    "standard-output": "standard output",
    "writes-to-file": "writes to {file} from now on; what was written before stays",
    "delivers-elsewhere": (
        "records from now on go elsewhere; those delivered before stay where they are"
    ),
    "other-file-format": (
        "files from now on have another format; those written before stay as they are"
    ),
    "files-cut-elsewhere": (
        "files from now on are cut elsewhere; those written before stay as they are"
    ),
    "files-cut-by-the-clock": (
        "files from now on are cut elsewhere; those written before stay as they are; they end by "
        "the clock: after a restart a record can be in two of them"
    ),
    "other-file-names": (
        "files from now on get other names; those written before stay where they are"
    ),
    "other-document-ids": (
        "documents from now on get other ids: one that is there already is added again, not "
        "replaced"
    ),
    "documents-upserted": "a record from now on changes the fields that it holds, not the document",
    "documents-replaced": "a record from now on replaces its document",
    "rows-inserted": (
        "records that are delivered again from now on are added or refused, not merged"
    ),
    "rows-upserted": "a record from now on replaces the row of its key",
    "rows-updated": "a record from now on changes a row that is there, and adds none",
    "other-row-keys": (
        "records from now on have another key: rows written before are not found by it"
    ),
    "rows-deleted": "a record without a value deletes its row from now on",
    "rows-not-deleted": "a record without a value no longer deletes its row",
    "table-evolution": "whether it creates and changes tables by itself is decided anew",
    # Keys of known sources
    "standard-input": "standard input",
    "reads-file": "reads {file} from its start, unless it has an offset already",
    "writes-to-other-topics": (
        "writes to other topics from now on; records written before stay where they are"
    ),
    "writes-to-other-topics-then": (
        "writes to other topics; records written before stay where they are"
    ),
    "may-name-its-offsets": "some connectors name their offsets by it, and then read anew",
    "other-types": "records from now on hold other types; those written before stay as they are",
    "reads-from-elsewhere": (
        "reads from elsewhere, and goes on from the offsets that it has: right only where the "
        "same data is there"
    ),
    "debezium-begins-anew": (
        "its offsets are named by it: begins as if it were new, with the snapshot that "
        "snapshot.mode says"
    ),
    "snapshot-always": "takes a snapshot at every start: all rows are written again",
    "snapshot-initial": "takes a snapshot only where it has no offset",
    "snapshot-only": "takes a snapshot only where it has no offset, and then ends",
    "snapshot-without-rows": "reads no rows in a snapshot: changes alone",
    "snapshot-never": "takes no snapshot: changes alone",
    "snapshot-when-needed": (
        "takes a snapshot where it has no offset, or one that the database has no more"
    ),
    "snapshot-recovery": "reads the schemas anew into its history; offsets stay",
    "snapshot-again": "may take a snapshot again: records can repeat",
    "in-the-next-snapshot": "counts in the next snapshot",
    "new-slot": (
        "a new slot begins where the database is when it is made: changes before that can be "
        "lost; the old slot keeps its WAL until someone drops it"
    ),
    "other-publication": "what is published decides which changes it sees from now on",
    "captures-other-tables": (
        "captures changes of other tables from now on; rows that are there already come only with"
        " a snapshot"
    ),
    "other-columns": (
        "records from now on hold other columns; those written before stay as they are"
    ),
    "signals-from-elsewhere": "signals come from elsewhere from now on",
    "other-schema-history": (
        "looks for the history of schemas elsewhere: it fails where there is none for its offsets"
    ),
    "other-operations-skipped": "other kinds of changes are left out from now on",
    "jdbc-bulk": "reads all rows of its tables at every poll",
    "other-jdbc-mode": (
        "what the offsets from before do not hold counts as not read: rows can be read again"
    ),
    "other-jdbc-column": (
        "the offset is compared with another column: rows can be missed or read again"
    ),
    "same-offset-for-other-query": (
        "the offset of the old query counts for the new one: rows before it are not read"
    ),
    "offsets-kept-otherwise": "its offsets are kept otherwise: reads from the start",
    "new-tables-from-their-start": (
        "tables that are new to it are read from their start; others keep their offsets"
    ),
    "for-tables-without-an-offset": "counts only for tables without an offset",
    "mirror-begins-anew": (
        "its offsets are named by it: copies its topics from their start, into topics of other "
        "names"
    ),
    "new-topics-from-their-start": (
        "topics that are new to it are copied from their start; others keep their offsets"
    ),
}
