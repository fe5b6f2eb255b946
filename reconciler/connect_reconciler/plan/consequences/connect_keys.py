"""Keys that Connect itself defines, for every connector."""

from __future__ import annotations

from collections.abc import Mapping

from connect_reconciler.model.offsets import Offsets
from connect_reconciler.model.reasons import Effect, Effects, effect
from connect_reconciler.plan.consequences.beginning import places_of
from connect_reconciler.plan.consequences.rule import (
    Rule,
    Setting,
    first_start,
    sink_start,
    to_deliver,
)
from connect_reconciler.plan.offsets.sink_positions import sink_topics
from connect_reconciler.plan.predict import SINK_SERVERS
from connect_specs.names import GROUP_KEY, sink_group


def _becomes_sink(setting: Setting) -> Effect | None:
    if (setting.old_kind, setting.kind) != ("source", "sink"):
        return None
    return effect("becomes-sink", group=_group_name(setting), start=_group_start(setting))


def _becomes_source(setting: Setting) -> Effect | None:
    if (setting.old_kind, setting.kind) != ("sink", "source"):
        return None
    return None if setting.live.offsets_after_change.get(setting.name) else effect("becomes-source")


def _source_again(setting: Setting) -> Effect | None:
    sink_to_source = (setting.old_kind, setting.kind) == ("sink", "source")
    return effect("becomes-source-again") if sink_to_source else None


def _same_group(setting: Setting) -> Effect | None:
    old = sink_group(setting.old_name, setting.old, setting.worker)
    new = sink_group(setting.name, setting.new, setting.worker)
    return effect("same-group", group=new) if old == new else None


def _carried_group(setting: Setting) -> Effect | None:
    if not setting.renamed:
        return None
    return effect("carried-group", group=_group_name(setting), old=setting.old_name)


def _carried_offsets(setting: Setting) -> Effect | None:
    return effect("carried-offsets", old=setting.old_name) if setting.renamed else None


def _group(setting: Setting) -> Effect:
    old = sink_group(setting.old_name, setting.old, setting.worker)
    new = sink_group(setting.name, setting.new, setting.worker)
    return effect("new-group", group=new, start=_group_start(setting), old=old)


def _group_start(setting: Setting) -> Effect:
    """Where it goes on, or starts; what is in a group is not known of every cluster."""
    offsets = setting.live.offsets_after_change.get(setting.name)
    if offsets:
        return effect("start-from-group", places=places_of(tuple(offsets)))
    start = first_start(setting)
    return start if offsets is not None else effect("start-unless-offsets", start=start)


_DEAD_LETTERS = "errors.deadletterqueue.topic.name"


def _other_cluster(setting: Setting) -> Effect:
    return effect("reads-other-kafka", group=_group_name(setting))


def _group_name(setting: Setting) -> Effect:
    if GROUP_KEY in setting.hidden:
        return effect("its-group")
    return effect("group-named", group=sink_group(setting.name, setting.new, setting.worker))


def _topics(setting: Setting) -> Effects | None:
    if "topics.regex" in (setting.old.keys() | setting.new.keys()):
        return (effect("other-topic-pattern"),)
    old, new = (set(sink_topics(config, ())) for config in (setting.old, setting.new))
    found = []
    added, removed = sorted(new - old), sorted(old - new)
    known = [topic for topic in added if topic in _committed(setting)]
    fresh = [topic for topic in added if topic not in known]
    if fresh:
        start = sink_start(setting.new, setting.worker)
        amount = to_deliver(fresh, setting.logs) if start == "earliest" else None
        topics = ", ".join(fresh)
        found.append(effect("reads-more-topics", topics=topics, start=start, amount=amount))
    if known:
        found.append(effect("reads-known-topics", topics=", ".join(known)))
    if removed:
        found.append(effect("reads-fewer-topics", topics=", ".join(removed)))
    return tuple(found) or None


def _no_idempotence(setting: Setting) -> Effect | None:
    value = setting.new.get("producer.override.enable.idempotence", "true")
    return effect("no-idempotence") if value.strip().lower() == "false" else None


def _committed(setting: Setting) -> set[str]:
    """The topics in which the sink's group has offsets."""
    connector = setting.live.connectors.get(setting.old_name)
    is_sink = connector is not None and connector.kind == "sink"
    offsets = setting.live.offsets_of(setting.old_name) if is_sink else Offsets()
    entries = setting.live.offsets_after_change.get(setting.name, offsets)
    return {str(each.partition.get("kafka_topic")) for each in entries}


def _producing_elsewhere(setting: Setting) -> Effect:
    return effect("writes-other-kafka" if setting.live.ours else "writes-other-kafka-by-rest")


def _offsets_topic(setting: Setting) -> Effect:
    new = setting.new.get("offsets.storage.topic")
    topic = effect("topic-named", topic=new) if new else effect("worker-offsets-topic")
    if setting.live.ours:
        return effect("keeps-offsets-in" if new else "keeps-copied-offsets-in", topic=topic)
    return effect("looks-for-offsets-in", topic=topic)


def _dead_letters(setting: Setting) -> Effect:
    if _shown(setting.new, _DEAD_LETTERS, ""):
        had = _shown(setting.old, _DEAD_LETTERS, "")
        return effect("other-dead-letter-queue" if had else "failed-records-in-queue")
    tolerant = _shown(setting.new, "errors.tolerance", "none").lower() == "all"
    return effect("failed-records-lost" if tolerant else "failed-records-in-no-queue")


def _tasks_max(setting: Setting) -> Effect | None:
    old, new = (_shown(config, "tasks.max", "1") for config in (setting.old, setting.new))
    tasks = effect("one-task") if new == "1" else effect("several-tasks", tasks=new)
    return None if old == new else effect("other-tasks-max", tasks=tasks, old=old)


def _shown(config: Mapping[str, str], key: str, default: str) -> str:
    return config.get(key, default).strip() or default


CONNECT_RULES: tuple[Rule, ...] = (
    Rule("connector.class", "new-group", _becomes_sink),
    Rule("connector.class", "reread", _becomes_source),
    Rule("connector.class", "restart", _source_again),
    Rule("connector.class", "restart", "other-class"),
    Rule("connector.plugin.version", "restart", "other-class-version"),
    Rule("tasks.max", "restart", _tasks_max),
    Rule(
        "tasks.max.enforce",
        "restart",
        {"true": "tasks-max-enforced", "false": "tasks-max-not-enforced"},
        default="true",
    ),
    Rule("key.converter* value.converter* header.converter*", "restart", "read-otherwise", "sink"),
    Rule("key.converter* value.converter* header.converter*", "restart", "converted-otherwise"),
    Rule("transforms transforms.* predicates predicates.*", "restart", "transformed-otherwise"),
    Rule(
        "errors.tolerance",
        "restart",
        {"all": "failed-records-skipped", "none": "failed-record-stops-its-task"},
        default="none",
    ),
    Rule(_DEAD_LETTERS, "restart", _dead_letters, "sink"),
    Rule("errors.deadletterqueue.*", "restart", "for-failed-records", "sink"),
    Rule("errors.retry.*", "restart", "for-failures"),
    Rule(
        "errors.log.include.messages",
        "restart",
        {"true": "failed-records-in-log", "false": "failed-records-not-in-log"},
        default="false",
    ),
    Rule("errors.log.*", "restart", "log-of-failed-records"),
    Rule(
        "config.action.reload",
        "restart",
        {"restart": "restarts-on-expiry", "none": "keeps-expired-values"},
        default="restart",
    ),
    # sinks
    Rule("topics topics.regex", "restart", _topics, "sink"),
    Rule(GROUP_KEY, "restart", _same_group, "sink"),
    Rule(GROUP_KEY, "restart", _carried_group, "sink"),
    Rule(GROUP_KEY, "new-group", _group, "sink"),
    Rule(GROUP_KEY, "new-group", "hidden-group", "sink"),
    Rule(SINK_SERVERS, "new-group", _other_cluster, "sink"),
    Rule("consumer.override.auto.offset.reset", "restart", "without-an-offset", "sink"),
    Rule(
        "consumer.override.isolation.level",
        "restart",
        {"read_committed": "committed-records-only", "read_uncommitted": "aborted-records-too"},
        "sink",
        default="read_uncommitted",
    ),
    # sources
    Rule("offsets.storage.topic", "restart", _carried_offsets, "source"),
    Rule("offsets.storage.topic", "new-offsets-topic", _offsets_topic, "source"),
    Rule(
        "producer.override.bootstrap.servers", "new-offsets-topic", _producing_elsewhere, "source"
    ),
    Rule("producer.override.enable.idempotence", "redelivery", _no_idempotence, "source"),
    Rule(
        "exactly.once.support",
        "restart",
        {"required": "exactly-once-required", "requested": "exactly-once-requested"},
        "source",
        default="requested",
    ),
    Rule(
        "transaction.boundary transaction.boundary.*",
        "restart",
        "other-transaction-boundary",
        "source",
    ),
    Rule("topic.creation.*", "restart", "topics-created-later", "source"),
    Rule("admin.override.*", "restart", "where-it-creates-topics"),
)
