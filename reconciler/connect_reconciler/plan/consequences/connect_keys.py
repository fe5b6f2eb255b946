"""Keys that Connect itself defines, for every connector."""

from __future__ import annotations

from collections.abc import Mapping

from connect_reconciler.actions.connector_state import SINK_SERVERS
from connect_reconciler.model.offsets import Offsets
from connect_reconciler.plan.consequences.beginning import first_start, places_of, to_deliver
from connect_reconciler.plan.consequences.rule import Rule, RuleContext
from connect_reconciler.plan.offsets.sink_positions import sink_start, sink_topics
from connect_specs.names import GROUP_KEY, sink_group


def _becomes_sink(context: RuleContext) -> str | None:
    if (context.previous_kind, context.kind) != ("source", "sink"):
        return None
    start = f"{_group_name(context)} {_group_start(context)}"
    return f"the source becomes a sink: its offsets stay unused; {start}"


def _becomes_source(context: RuleContext) -> str | None:
    if context.live.offsets_after_change.get(context.name):
        return None
    start = "reads from its start"
    return f"{_SOURCE}; {start}" if _sink_to_source(context) else None


def _source_again(context: RuleContext) -> str | None:
    start = "goes on from the offsets that it left as a source before"
    return f"{_SOURCE}; {start}" if _sink_to_source(context) else None


_SOURCE = "the sink becomes a source: its consumer group stays unused"


def _sink_to_source(context: RuleContext) -> bool:
    return (context.previous_kind, context.kind) == ("sink", "source")


def _groups(context: RuleContext) -> tuple[str, str]:
    """Returns the consumer group before the change, and after it."""
    previous = sink_group(context.previous_name, context.previous, context.worker)
    return previous, sink_group(context.name, context.config, context.worker)


def _same_offsets(context: RuleContext) -> str | None:
    previous, group = _groups(context)
    if previous == group:
        return f"stays in consumer group {group}"
    if not context.renamed:
        return None
    return f"reads with {_group_name(context)}, which gets the offsets of {context.previous_name}"


def _carried_offsets(context: RuleContext) -> str | None:
    if not context.renamed:
        return None
    return f"keeps its offsets elsewhere, and gets those of {context.previous_name} there"


def _new_group(context: RuleContext) -> str:
    previous, group = _groups(context)
    start = _group_start(context)
    return f"new consumer group {group}: {start}; group {previous} keeps its offsets"


def _group_start(context: RuleContext) -> str:
    """Returns the position in the new group; not every cluster lets connect read it."""
    offsets = context.live.offsets_after_change.get(context.name)
    if offsets:
        return f"goes on from the offsets that the group has, {places_of(tuple(offsets))}"
    start = first_start(context)
    return start if offsets is not None else f"{start}, unless the group has offsets already"


def _group_name(context: RuleContext) -> str:
    return "its group" if GROUP_KEY in context.hidden else f"group {_groups(context)[1]}"


def _other_cluster(context: RuleContext) -> str:
    return f"reads another Kafka cluster, from where {_group_name(context)} is there"


def _topics(context: RuleContext) -> tuple[str, ...] | None:
    if "topics.regex" in (context.previous.keys() | context.config.keys()):
        return ("reads other topics: those no longer matched keep their offsets in the group",)
    previous = set(sink_topics(context.previous, ()))
    topics = set(sink_topics(context.config, ()))
    added, removed = sorted(topics - previous), ", ".join(sorted(previous - topics))
    committed = _committed(context)
    fresh = [topic for topic in added if topic not in committed]
    effects = []
    if fresh:
        start = sink_start(context.config, context.worker)
        amount = to_deliver(fresh, context.logs) if start == "earliest" else ""
        effects.append(f"also reads {', '.join(fresh)}, from {start}{amount}")
    if resumed := ", ".join(topic for topic in added if topic in committed):
        effects.append(f"also reads {resumed}, from the offsets that its group has there")
    if removed:
        effects.append(f"no longer reads {removed}: the group keeps its offsets there")
    return tuple(effects) or None


def _committed(context: RuleContext) -> set[str]:
    """Returns the topics in which the sink's group has offsets."""
    connector = context.live.connectors.get(context.previous_name)
    is_sink = connector is not None and connector.kind == "sink"
    offsets = context.live.offsets_of(context.previous_name) if is_sink else Offsets()
    entries = context.live.offsets_after_change.get(context.name, offsets)
    return {str(entry.partition.get("kafka_topic")) for entry in entries}


def _no_idempotence(context: RuleContext) -> str | None:
    value = context.config.get("producer.override.enable.idempotence", "true")
    twice = "a record whose write is tried again can be in its topic twice"
    return twice if value.strip().lower() == "false" else None


def _other_offsets_cluster(context: RuleContext) -> str:
    if context.live.ours:
        return (
            "writes to another Kafka cluster, and keeps its offsets there; what is not there is "
            "looked for in the cluster's offsets topic"
        )
    return (
        "writes to another Kafka cluster; with exactly-once its offsets are there too, and what "
        "is not there is read from its start"
    )


def _offsets_topic(context: RuleContext) -> str:
    own = context.config.get("offsets.storage.topic")
    topic = f"topic {own}" if own else "the cluster's offsets topic"
    if not context.live.ours:
        return f"looks for its offsets in {topic}: what is not there is read from its start"
    if not own:
        return f"keeps its offsets in {topic}, from the copies there: the newest may be missing"
    return (
        f"keeps its offsets in {topic}; what is not there is looked for in the cluster's offsets "
        "topic"
    )


_DEAD_LETTERS = "errors.deadletterqueue.topic.name"


def _dead_letters(context: RuleContext) -> str:
    if _value(context.config, _DEAD_LETTERS, ""):
        if _value(context.previous, _DEAD_LETTERS, ""):
            return "failed records go elsewhere from now on; those in the old queue stay"
        return "failed records go to this queue from now on"
    if _value(context.config, "errors.tolerance", "none").lower() == "all":
        return (
            "failed records are lost from now on: errors.tolerance is all, and no queue takes them"
        )
    return "no queue takes failed records any more; the first one stops its task"


def _tasks_max(context: RuleContext) -> str | None:
    previous, tasks = (
        _value(config, "tasks.max", "1") for config in (context.previous, context.config)
    )
    most = "1 task" if tasks == "1" else f"{tasks} tasks"
    return None if previous == tasks else f"work is split anew: at most {most}, before {previous}"


def _value(config: Mapping[str, str], key: str, default: str) -> str:
    return config.get(key, default).strip() or default


_CONVERTERS = "key.converter* value.converter* header.converter*"

CONNECT_RULES: tuple[Rule, ...] = (
    Rule("connector.class", _becomes_sink, "new-group"),
    Rule("connector.class", _becomes_source, "reread"),
    Rule("connector.class", _source_again),
    Rule(
        "connector.class",
        "another class reads this config: whether it knows the offsets, only it can tell",
    ),
    Rule("connector.plugin.version", "another version of the connector's class runs"),
    Rule("tasks.max", _tasks_max),
    Rule(
        "tasks.max.enforce",
        {
            "true": "more tasks than tasks.max fail the connector from now on",
            "false": "more tasks than tasks.max are allowed from now on",
        },
        default="true",
    ),
    Rule(
        _CONVERTERS,
        "records are read differently from now on: those that were written for the old way may"
        " fail",
        kind="sink",
    ),
    Rule(
        _CONVERTERS, "new records are converted differently; those written before stay as they are"
    ),
    Rule(
        "transforms transforms.* predicates predicates.*",
        "new records are transformed differently; earlier ones stay as they are",
    ),
    Rule(
        "errors.tolerance",
        {
            "all": (
                "records that fail are skipped from now on, and lost if there is no dead letter "
                "queue"
            ),
            "none": "a record that fails stops its task from now on",
        },
        default="none",
    ),
    Rule(_DEAD_LETTERS, _dead_letters, kind="sink"),
    Rule("errors.deadletterqueue.*", "counts for records that fail from now on", kind="sink"),
    Rule("errors.retry.*", "counts for what fails from now on"),
    Rule(
        "errors.log.include.messages",
        {
            "true": "the log holds the contents of failed records from now on",
            "false": "the log no longer holds the contents of failed records",
        },
        default="false",
    ),
    Rule("errors.log.*", "only what the log tells of failed records changes"),
    Rule(
        "config.action.reload",
        {
            "restart": "restarts from now on when a value from a config provider expires",
            "none": "keeps values from config providers after they expire",
        },
        default="restart",
    ),
    # sinks
    Rule("topics topics.regex", _topics, kind="sink"),
    Rule(GROUP_KEY, _same_offsets, kind="sink"),
    Rule(GROUP_KEY, _new_group, "new-group", kind="sink"),
    Rule(
        GROUP_KEY, "reads in another consumer group, from where that is", "new-group", kind="sink"
    ),
    Rule(SINK_SERVERS, _other_cluster, "new-group", kind="sink"),
    Rule(
        "consumer.override.auto.offset.reset",
        "counts only in partitions without an offset",
        kind="sink",
    ),
    Rule(
        "consumer.override.isolation.level",
        {
            "read_committed": "records of aborted transactions are no longer delivered",
            "read_uncommitted": "records of aborted transactions are delivered too",
        },
        kind="sink",
        default="read_uncommitted",
    ),
    # sources
    Rule("offsets.storage.topic", _carried_offsets, kind="source"),
    Rule("offsets.storage.topic", _offsets_topic, "new-offsets-topic", kind="source"),
    Rule(
        "producer.override.bootstrap.servers",
        _other_offsets_cluster,
        "new-offsets-topic",
        kind="source",
    ),
    Rule("producer.override.enable.idempotence", _no_idempotence, "redelivery", kind="source"),
    Rule(
        "exactly.once.support",
        {
            "required": "refused unless the connector says that it delivers exactly once",
            "requested": "no longer refused where the connector may not deliver exactly once",
        },
        kind="source",
        default="requested",
    ),
    Rule(
        "transaction.boundary transaction.boundary.*",
        "transactions end elsewhere: when records can be read changes, not which",
        kind="source",
    ),
    Rule(
        "topic.creation.*",
        "counts for topics that it creates from now on; those that are there stay as they are",
        kind="source",
    ),
    Rule("admin.override.*", "counts where it creates topics"),
)
