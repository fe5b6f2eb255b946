"""Effects of changed keys that depend on more than the next value. `rules.yaml` names each of these
functions; None: the rule does not fit."""

from __future__ import annotations

from collections.abc import Mapping

from connect_reconciler.model.offsets import Offsets
from connect_reconciler.plan.consequences.beginning import (
    first_start,
    mirror_start,
    places_of,
    to_deliver,
)
from connect_reconciler.plan.consequences.rule import RuleContext
from connect_reconciler.plan.offsets.sink_positions import sink_start, sink_topics
from connect_specs.names import GROUP_KEY, sink_group
from connect_specs.plugin_definitions import CLASS_KEY


def becomes_sink(context: RuleContext) -> str | None:
    if (context.previous_kind, context.kind) != ("source", "sink"):
        return None
    start = f"{_group_name(context)} {_group_start(context)}"
    return f"the source becomes a sink: its offsets stay unused; {start}"


def becomes_source(context: RuleContext) -> str | None:
    if context.live.offsets_after_change.get(context.name):
        return None
    start = "reads from its start"
    return f"{_SOURCE}; {start}" if _sink_to_source(context) else None


def source_again(context: RuleContext) -> str | None:
    start = "goes on from the offsets that it left as a source before"
    return f"{_SOURCE}; {start}" if _sink_to_source(context) else None


def other_class(context: RuleContext) -> str | None:
    if context.previous.get(CLASS_KEY) == context.config.get(CLASS_KEY):
        return "the same class, by another of its names"
    return "another class reads this config: whether it knows the offsets, only it can tell"


_SOURCE = "the sink becomes a source: its consumer group stays unused"


def _sink_to_source(context: RuleContext) -> bool:
    return (context.previous_kind, context.kind) == ("sink", "source")


def _groups(context: RuleContext) -> tuple[str, str]:
    """Returns the consumer group before the change, and after it."""
    previous = sink_group(context.previous_name, context.previous, context.worker)
    return previous, sink_group(context.name, context.config, context.worker)


def same_offsets(context: RuleContext) -> str | None:
    previous, group = _groups(context)
    if previous == group:
        return f"stays in consumer group {group}"
    if not context.renamed:
        return None
    return f"reads with {_group_name(context)}, which gets the offsets of {context.previous_name}"


def carried_offsets(context: RuleContext) -> str | None:
    if not context.renamed:
        return None
    return f"keeps its offsets elsewhere, and gets those of {context.previous_name} there"


def new_group(context: RuleContext) -> str:
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


def other_cluster(context: RuleContext) -> str:
    return f"reads another Kafka cluster, from where {_group_name(context)} is there"


def topics(context: RuleContext) -> tuple[str, ...] | None:
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


def no_idempotence(context: RuleContext) -> str | None:
    value = context.config.get("producer.override.enable.idempotence", "true")
    twice = "a record whose write is tried again can be in its topic twice"
    return twice if value.strip().lower() == "false" else None


def other_offsets_cluster(context: RuleContext) -> str:
    if context.live.ours:
        return (
            "writes to another Kafka cluster, and keeps its offsets there; what is not there is "
            "looked for in the cluster's offsets topic"
        )
    return (
        "writes to another Kafka cluster; with exactly-once its offsets are there too, and what "
        "is not there is read from its start"
    )


def offsets_topic(context: RuleContext) -> str:
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


def dead_letters(context: RuleContext) -> str:
    if _value(context.config, _DEAD_LETTERS, ""):
        if _value(context.previous, _DEAD_LETTERS, ""):
            return "failed records go elsewhere from now on; those in the old queue stay"
        return "failed records go to this queue from now on"
    if _value(context.config, "errors.tolerance", "none").lower() == "all":
        return (
            "failed records are lost from now on: errors.tolerance is all, and no queue takes them"
        )
    return "no queue takes failed records any more; the first one stops its task"


def tasks_max(context: RuleContext) -> str | None:
    previous, tasks = (
        _value(config, "tasks.max", "1") for config in (context.previous, context.config)
    )
    most = "1 task" if tasks == "1" else f"{tasks} tasks"
    return None if previous == tasks else f"work is split anew: at most {most}, before {previous}"


def _value(config: Mapping[str, str], key: str, default: str) -> str:
    return config.get(key, default).strip() or default


# --- well-known connectors ---


def source_file(context: RuleContext) -> str:
    file = context.config.get("file") or "standard input"
    return f"reads {file} from its start, unless it has an offset already"


def sink_file(context: RuleContext) -> str:
    file = context.config.get("file") or "standard output"
    return f"writes to {file} from now on; what was written before stays"


def other_slot(context: RuleContext) -> tuple[str, ...]:
    """Returns the effects of another slot of PostgreSQL, which may begin after the offset."""
    if _value(context.config, _MISMATCH, "").lower() in _TRUST_SLOT:
        start = "changes since its offset are lost if this slot is not there yet, or was made later"
    else:
        start = (
            f"{_without_slot(context)} if this slot is not there yet, or was made after its offset"
        )
    return (
        start,
        "goes on with a slot that was made before its offset, or with the former one",
        "the former slot keeps its WAL until someone drops it",
    )


def dropped_slot(context: RuleContext) -> str:
    if _value(context.config, "slot.drop.on.stop", "false").lower() != "true":
        return "the slot stays when it stops, and keeps the WAL until it reads on"
    stops = "its slot is dropped whenever it stops, also for a change of its config or a rename"
    return f"{stops}: at its next start {_without_slot(context)}"


def lost_slot(context: RuleContext) -> tuple[str, ...]:
    """Returns the effect of a stop on a connector whose config drops its slot then."""
    drops = context.previous.get("slot.drop.on.stop", "false").strip().lower() == "true"
    if not drops or not context.previous.get(CLASS_KEY, "").startswith(_POSTGRES):
        return ()
    return (f"its slot is dropped when it stops: at its next start {_without_slot(context)}",)


_POSTGRES = "io.debezium.connector.postgresql."
_MISMATCH = "offset.mismatch.strategy"
_TRUST_SLOT = ("trust_slot", "trust_greater_lsn")


def _without_slot(context: RuleContext) -> str:
    needed = _value(context.config, "snapshot.mode", "initial").lower() == "when_needed"
    return "it takes a snapshot" if needed else "the task fails"


def other_alias(context: RuleContext) -> str:
    """Returns the effect of another alias, by which MirrorMaker's offsets and most policies name
    what they write."""
    policy = _value(context.config, "replication.policy.class", "Default")
    copies = f"its offsets are named by it: copies its topics {mirror_start(context)}"
    if policy.endswith("IdentityReplicationPolicy"):
        return f"{copies}, again into the same topics, behind the copies that are there"
    return f"{copies}, into topics of other names"


def other_topics(context: RuleContext) -> str:
    start = mirror_start(context)
    return f"topics that are new to it are copied {start}; others keep their offsets"


def query(context: RuleContext) -> str:
    if "query" in context.previous and "query" in context.config:
        return "the offset of the old query counts for the new one: rows before it are not read"
    return "its offsets are kept otherwise: reads from the start"


def by_the_clock(context: RuleContext) -> str | None:
    interval = context.config.get("rotate.schedule.interval.ms", "-1").strip()
    if interval.startswith("-"):
        return None
    return (
        "files from now on are cut elsewhere; those written before stay as they are; they end by"
        " the clock: after a restart a record can be in two of them"
    )
