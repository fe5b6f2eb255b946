"""Keys that Connect itself defines, for every connector."""

from __future__ import annotations

from collections.abc import Mapping

from connect_reconciler.plan.consequences.rule import Rule, set_to
from connect_reconciler.plan.consequences.setting import (
    Setting,
    first_start,
    sink_start,
    to_deliver,
)
from connect_reconciler.plan.offsets.positions import sink_topics
from connect_specs.desired import OffsetEntry
from connect_specs.names import sink_group

_GROUP = "consumer.override.group.id"


def _becomes_sink(setting: Setting) -> str | None:
    if (setting.old_kind, setting.kind) != ("source", "sink"):
        return None
    start = f"{_group_name(setting)} {_unless(setting)}"
    return f"the source becomes a sink: its offsets stay unused; {start}"


def _becomes_source(setting: Setting) -> str | None:
    if (setting.old_kind, setting.kind) != ("sink", "source"):
        return None
    if setting.live.new_offsets.get(setting.name):
        return None
    return "the sink becomes a source: its consumer group stays unused; reads from its start"


def _source_again(setting: Setting) -> str | None:
    if (setting.old_kind, setting.kind) != ("sink", "source"):
        return None
    goes_on = "goes on from the offsets that it left as a source before"
    return f"the sink becomes a source: its consumer group stays unused; {goes_on}"


def _same_group(setting: Setting) -> str | None:
    old = sink_group(setting.old_name, setting.old, setting.worker)
    new = sink_group(setting.name, setting.new, setting.worker)
    return f"stays in consumer group {new}" if old == new else None


def _carried_group(setting: Setting) -> str | None:
    if not setting.renamed:
        return None
    return f"reads with {_group_name(setting)}, which gets the offsets of {setting.old_name}"


def _carried_offsets(setting: Setting) -> str | None:
    if not setting.renamed:
        return None
    return f"keeps its offsets elsewhere, and gets those of {setting.old_name} there"


def _group(setting: Setting) -> str:
    old = sink_group(setting.old_name, setting.old, setting.worker)
    new = sink_group(setting.name, setting.new, setting.worker)
    return f"new consumer group {new}: {_unless(setting)}; group {old} keeps its offsets"


def _unless(setting: Setting) -> str:
    """Where it goes on, or starts; what is in a group is not known of every cluster."""
    offsets = setting.live.new_offsets.get(setting.name)
    if offsets:
        places = [_place(each) for each in offsets[:_SHOWN]]
        more = f" and {len(offsets) - _SHOWN} more" if len(offsets) > _SHOWN else ""
        return f"goes on from the offsets that the group has, {', '.join(places)}{more}"
    unless = ", unless the group has offsets already" if offsets is None else ""
    return f"{first_start(setting)}{unless}"


def _place(entry: OffsetEntry) -> str:
    topic, number = entry.partition["kafka_topic"], entry.partition["kafka_partition"]
    return f"{topic}-{number} at {(entry.offset or {}).get('kafka_offset')}"


_SHOWN = 3


def _other_cluster(setting: Setting) -> str:
    return f"reads another Kafka cluster, from where {_group_name(setting)} is there"


def _group_name(setting: Setting) -> str:
    if _GROUP in setting.hidden:
        return "its group"
    return f"group {sink_group(setting.name, setting.new, setting.worker)}"


def _topics(setting: Setting) -> str | None:
    if "topics.regex" in (setting.old.keys() | setting.new.keys()):
        return "reads other topics: those no longer matched keep their offsets in the group"
    old, new = (set(sink_topics(config, ())) for config in (setting.old, setting.new))
    lines = []
    added, removed = sorted(new - old), sorted(old - new)
    known = [topic for topic in added if topic in _committed(setting)]
    fresh = [topic for topic in added if topic not in known]
    if fresh:
        where = sink_start(setting.new, setting.worker)
        amount = to_deliver(fresh, setting.live) if where == "earliest" else ""
        lines.append(f"also reads {', '.join(fresh)}, from {where}{amount}")
    if known:
        lines.append(f"also reads {', '.join(known)}, from the offsets that its group has there")
    if removed:
        rest = ", ".join(removed)
        lines.append(f"no longer reads {rest}: the group keeps its offsets there")
    return "\n".join(lines) or None


def _no_idempotence(setting: Setting) -> str | None:
    value = setting.new.get("producer.override.enable.idempotence", "true")
    if value.strip().lower() != "false":
        return None
    return "a record whose write is tried again can be in its topic twice"


def _committed(setting: Setting) -> set[str]:
    """The topics in which the sink's group has offsets."""
    connector = setting.live.connectors.get(setting.old_name)
    offsets = connector.offsets if connector is not None and connector.kind == "sink" else ()
    entries = setting.live.new_offsets.get(setting.name, offsets)
    return {str(each.partition.get("kafka_topic")) for each in entries}


_BELOW = "what is not there is looked for in the cluster's offsets topic"


def _producing_elsewhere(setting: Setting) -> str:
    if setting.live.ours:
        return f"writes to another Kafka cluster, and keeps its offsets there; {_BELOW}"
    there = "with exactly-once its offsets are there too, and what is not there is read from its"
    return f"writes to another Kafka cluster; {there} start"


def _offsets_topic(setting: Setting) -> str:
    new = setting.new.get("offsets.storage.topic")
    where = f"topic {new}" if new else "the cluster's offsets topic"
    if setting.live.ours and new:
        return f"keeps its offsets in {where}; {_BELOW}"
    if setting.live.ours:
        return f"keeps its offsets in {where}, from the copies there: the newest may be missing"
    return f"looks for its offsets in {where}: what is not there is read from its start"


def _tasks_max(setting: Setting) -> str | None:
    old, new = (_shown(config, "tasks.max", "1") for config in (setting.old, setting.new))
    tasks = "1 task" if new == "1" else f"{new} tasks"
    return None if old == new else f"work is split anew: at most {tasks}, before {old}"


def _shown(config: Mapping[str, str], key: str, default: str) -> str:
    return config.get(key, default).strip() or default


_OTHER_CLASS = "another class reads this config: whether it knows the offsets, only it can tell"
_WRITTEN = "records from now on are converted otherwise; those written before stay as they are"
_READ = "records are read otherwise from now on: those that were written for the old way may fail"
_CHANGED = "records from now on are changed otherwise; those from before stay as they are"
_PASSED_OVER = "records that fail are passed over from now on, and lost where no queue takes them"

CONNECT_RULES: tuple[Rule, ...] = (
    Rule("connector.class", "new-group", _becomes_sink),
    Rule("connector.class", "reread", _becomes_source),
    Rule("connector.class", "restart", _source_again),
    Rule("connector.class", "restart", _OTHER_CLASS),
    Rule("connector.plugin.version", "restart", "another version of the connector's class runs"),
    Rule("tasks.max", "restart", _tasks_max),
    Rule(
        "tasks.max.enforce",
        "restart",
        set_to(
            "tasks.max.enforce",
            {
                "true": "more tasks than tasks.max fail the connector from now on",
                "false": "more tasks than tasks.max are allowed from now on",
            },
            "true",
        ),
    ),
    Rule("key.converter* value.converter* header.converter*", "restart", _READ, "sink"),
    Rule("key.converter* value.converter* header.converter*", "restart", _WRITTEN),
    Rule("transforms transforms.* predicates predicates.*", "restart", _CHANGED),
    Rule(
        "errors.tolerance",
        "restart",
        set_to(
            "errors.tolerance",
            {"all": _PASSED_OVER, "none": "a record that fails stops its task from now on"},
            "none",
        ),
    ),
    Rule(
        "errors.deadletterqueue.topic.name",
        "restart",
        "failed records go elsewhere from now on; those in the old queue stay",
        "sink",
    ),
    Rule("errors.deadletterqueue.*", "restart", "counts for records that fail from now on", "sink"),
    Rule("errors.retry.*", "restart", "counts for what fails from now on"),
    Rule(
        "errors.log.include.messages",
        "restart",
        set_to(
            "errors.log.include.messages",
            {
                "true": "the log holds the contents of failed records from now on",
                "false": "the log no longer holds the contents of failed records",
            },
            "false",
        ),
    ),
    Rule("errors.log.*", "restart", "only what the log tells of failed records changes"),
    Rule(
        "config.action.reload",
        "restart",
        set_to(
            "config.action.reload",
            {
                "restart": "restarts from now on when a value from a config provider expires",
                "none": "keeps values from config providers after they expire",
            },
            "restart",
        ),
    ),
    # sinks
    Rule("topics topics.regex", "restart", _topics, "sink"),
    Rule(_GROUP, "restart", _same_group, "sink"),
    Rule(_GROUP, "restart", _carried_group, "sink"),
    Rule(_GROUP, "new-group", _group, "sink"),
    Rule(_GROUP, "new-group", "reads in another consumer group, from where that is", "sink"),
    Rule("consumer.override.bootstrap.servers", "new-group", _other_cluster, "sink"),
    Rule(
        "consumer.override.auto.offset.reset",
        "restart",
        "counts only in partitions without an offset",
        "sink",
    ),
    Rule(
        "consumer.override.isolation.level",
        "restart",
        set_to(
            "consumer.override.isolation.level",
            {
                "read_committed": "records of aborted transactions are no longer delivered",
                "read_uncommitted": "records of aborted transactions are delivered too",
            },
            "read_uncommitted",
        ),
        "sink",
    ),
    # sources
    Rule("offsets.storage.topic", "restart", _carried_offsets, "source"),
    Rule("offsets.storage.topic", "new-offsets-topic", _offsets_topic, "source"),
    Rule(
        "producer.override.bootstrap.servers",
        "new-offsets-topic",
        _producing_elsewhere,
        "source",
    ),
    Rule(
        "producer.override.enable.idempotence",
        "redelivery",
        _no_idempotence,
        "source",
    ),
    Rule(
        "exactly.once.support",
        "restart",
        set_to(
            "exactly.once.support",
            {
                "required": "refused unless the connector says that it delivers exactly once",
                "requested": "no longer refused where the connector may not deliver exactly once",
            },
            "requested",
        ),
        "source",
    ),
    Rule(
        "transaction.boundary transaction.boundary.*",
        "restart",
        "transactions end elsewhere: when records can be read changes, not which",
        "source",
    ),
    Rule(
        "topic.creation.*",
        "restart",
        "counts for topics that it creates from now on; those that are there stay as they are",
        "source",
    ),
    Rule("admin.override.*", "restart", "counts where it creates topics"),
)
