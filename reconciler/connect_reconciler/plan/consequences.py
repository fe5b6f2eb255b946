"""What does changing a config key mean for the data? A table of rules, one a key pattern.

To teach it a key, add a rule. A rule only explains: nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

from connect_reconciler.plan.amounts import records
from connect_reconciler.plan.diff import Changes
from connect_reconciler.plan.live import Kind, Live
from connect_specs.names import sink_group
from connect_specs.states import TargetState


@dataclass(frozen=True, slots=True)
class Setting:
    """What rules look at: one connector's configs before and after, and the cluster around it.

    Secrets are not in it: nothing that a rule says can tell one.
    """

    name: str
    kind: Kind
    old_kind: Kind
    old: Mapping[str, str]
    new: Mapping[str, str]
    live: Live
    worker: Mapping[str, str]

    @classmethod
    def of(cls, changes: Changes, live: Live, worker: Mapping[str, str]) -> Setting:
        """The setting of one connector's changes."""
        old = changes.cover.shown(changes.live.config if changes.live else {})
        old_kind = changes.live.kind if changes.live else "unknown"
        new = changes.cover.shown(changes.written or {})
        return cls(changes.name, changes.kind, old_kind, old, new, live, worker)


Explain: TypeAlias = Callable[[Setting], str]


@dataclass(frozen=True, slots=True)
class Rule:
    """Says something when a key that matches `pattern` changes, for connectors of `kind`."""

    pattern: str
    explain: Explain
    kind: Kind | None = None


def consequences(changes: Changes, live: Live, worker: Mapping[str, str]) -> tuple[str, ...]:
    """What the change of the config does, most general first, each statement once."""
    setting = Setting.of(changes, live, worker)
    found = [_tasks(changes)]
    for rule in RULES:
        if rule.kind not in (None, changes.kind):
            continue
        if any(fnmatchcase(change.key, rule.pattern) for change in changes.config):
            found.append(rule.explain(setting))
    return tuple(dict.fromkeys(line for line in found if line))


def sink_start(config: Mapping[str, str], worker: Mapping[str, str]) -> str:
    """Where a sink begins in a partition without an offset. Connect's default is the beginning."""
    return (
        config.get("consumer.override.auto.offset.reset")
        or worker.get("consumer.auto.offset.reset")
        or "earliest"
    )


def first_start(setting: Setting) -> str:
    """Where a sink begins whose group has no offsets yet."""
    start = sink_start(setting.new, setting.worker)
    if start == "latest":
        return "starts at the end of its topics: what is in them now is not delivered"
    if start != "earliest":
        return f"starts where auto.offset.reset={start} says"
    count = _records_in(_topics(setting.new), setting.live)
    amount = "" if count is None else f", {records(count)} to deliver"
    return f"starts at the beginning of its topics{amount}"


def _tasks(changes: Changes) -> str:
    if changes.live is None or changes.live.target is TargetState.STOPPED:
        return "counts when it resumes: no tasks run now"
    if changes.pin is not None or changes.goal is TargetState.STOPPED:
        return ""
    return "tasks restart"


def _class(setting: Setting) -> str:
    if setting.old_kind == setting.kind or "unknown" in (setting.old_kind, setting.kind):
        return "another class reads this config: whether it knows the offsets, only it can tell"
    if setting.kind == "sink":
        group = sink_group(setting.name, setting.new, setting.worker)
        return (
            f"the source becomes a sink: its offsets stay unused; group {group} {_unless(setting)}"
        )
    return "the sink becomes a source: its consumer group stays unused; reads from its start"


def _group(setting: Setting) -> str:
    old = sink_group(setting.name, setting.old, setting.worker)
    new = sink_group(setting.name, setting.new, setting.worker)
    if old == new:
        return ""
    return f"new consumer group {new}: {_unless(setting)}; group {old} keeps its offsets"


def _unless(setting: Setting) -> str:
    return f"{first_start(setting)}, unless the group has offsets already"


def _topics_change(setting: Setting) -> str:
    old, new = _topics(setting.old), _topics(setting.new)
    if "topics.regex" in (setting.old.keys() | setting.new.keys()):
        return "reads other topics: those no longer matched keep their offsets in the group"
    lines = []
    added, removed = sorted(new - old), sorted(old - new)
    if added:
        where = sink_start(setting.new, setting.worker)
        count = _records_in(frozenset(added), setting.live) if where == "earliest" else None
        amount = "" if count is None else f", {records(count)} to deliver"
        lines.append(f"also reads {', '.join(added)}, from {where}{amount}")
    if removed:
        rest = ", ".join(removed)
        lines.append(f"no longer reads {rest}: the group keeps its offsets there")
    return "\n".join(lines)


def _offsets_topic(setting: Setting) -> str:
    new = setting.new.get("offsets.storage.topic")
    where = f"topic {new}" if new else "the cluster's offsets topic"
    return f"looks for its offsets in {where}: what is not there is read from its start"


def _file(setting: Setting) -> str:
    if not _is_file(setting):
        return ""
    new = setting.new.get("file")
    return f"reads {new or 'standard input'} from its start, unless it has an offset already"


def _is_file(setting: Setting) -> bool:
    return "FileStreamSource" in setting.new.get("connector.class", "")


def _tasks_max(setting: Setting) -> str:
    old = setting.old.get("tasks.max", "1")
    new = setting.new.get("tasks.max", "1")
    return f"work is split anew: at most {new} tasks, before {old}"


def _tolerance(setting: Setting) -> str:
    if setting.new.get("errors.tolerance", "none").lower() == "all":
        return "records that fail are passed over from now on, and lost where no queue takes them"
    return "a record that fails stops its task from now on"


def _says(text: str) -> Explain:
    return lambda _setting: text


_SHAPE = "records from now on are converted otherwise; those written before stay as they are"
_ELSEWHERE = "writes to other topics from now on; records written before stay where they are"

RULES: tuple[Rule, ...] = (
    Rule("connector.class", _class),
    Rule("consumer.override.group.id", _group, "sink"),
    Rule("consumer.override.bootstrap.servers", _says("reads another Kafka cluster"), "sink"),
    Rule("topics", _topics_change, "sink"),
    Rule("topics.regex", _topics_change, "sink"),
    Rule(
        "consumer.override.auto.offset.reset",
        _says("counts only in partitions without an offset"),
        "sink",
    ),
    Rule("offsets.storage.topic", _offsets_topic, "source"),
    Rule("producer.override.bootstrap.servers", _says("writes to another Kafka cluster"), "source"),
    Rule("file", _file, "source"),
    Rule("topic", _says(_ELSEWHERE), "source"),
    Rule(
        "topic.prefix",
        _says(f"{_ELSEWHERE}\nsome connectors name their offsets by it, and then read anew"),
        "source",
    ),
    Rule("snapshot.mode", _says("may take a snapshot again: records can repeat"), "source"),
    Rule("tasks.max", _tasks_max),
    Rule("key.converter*", _says(_SHAPE)),
    Rule("value.converter*", _says(_SHAPE)),
    Rule("header.converter*", _says(_SHAPE)),
    Rule("transforms*", _says(_SHAPE)),
    Rule("predicates*", _says(_SHAPE)),
    Rule("errors.tolerance", _tolerance),
    Rule(
        "errors.deadletterqueue.topic.name",
        _says("failed records go elsewhere from now on; those in the old queue stay"),
        "sink",
    ),
)


def _topics(config: Mapping[str, str]) -> frozenset[str]:
    return frozenset(topic.strip() for topic in config.get("topics", "").split(",")) - {""}


def _records_in(topics: frozenset[str], live: Live) -> int | None:
    """How many records the logs hold, or None unless every topic was observed."""
    if not topics or topics - {topic for topic, _ in live.logs}:
        return None
    return sum(
        log.latest - log.earliest for (topic, _), log in live.logs.items() if topic in topics
    )
