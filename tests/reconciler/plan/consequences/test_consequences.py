"""What each changed key does, key family by key family, and the rules that a project adds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from connect_reconciler.actions import UpdateConfig
from connect_reconciler.plan.consequences.explain import RULES
from connect_reconciler.plan.planner import make_plan
from connect_specs.desired import Consequence, ConsequenceRule, Desired
from support.plans import desired_of, live_of

SINK = {"connector.class": "FileStreamSink", "topics": "orders"}
TOLERANT = SINK | {"errors.tolerance": "all"}
SOURCE = {"connector.class": "FileStreamSource", "topic": "lines", "file": "/data/in"}
POSTGRES = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector"}
JDBC = {"connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector"}
JDBC_SINK = {"connector.class": "io.aiven.connect.jdbc.JdbcSinkConnector", "topics": "orders"}
S3 = {"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "orders"}
SEARCH = {
    "connector.class": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
    "topics": "orders",
}
MIRROR = {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}
OTHER = {"connector.class": "com.acme.QueueSource", "topic": "t"}
LOGS = {"orders-0": [100, 600], "refunds-0": [0, 7], "refunds-1": [3, 3]}


def changed(
    folder: Path,
    base: dict[str, str],
    key: str,
    old: str | None,
    new: str | None,
    rules: tuple[ConsequenceRule, ...] = (),
    *,
    ours: bool = False,
    **live: Any,
) -> dict[str, tuple[str, str]]:
    """By key: the consequence and words of changing `key` of a connector with config `base`."""
    before = {k: v for k, v in {**base, key: old}.items() if v is not None}
    after = {k: v for k, v in {**base, key: new}.items() if v is not None}
    lines = "\n".join(f"  {name}: '{text}'" for name, text in after.items())
    desired = desired_of(f"name: c\nconfig:\n{lines}\n", folder)
    source = "Sink" not in before["connector.class"]
    world = {
        "connectors": {"c": {"kind": "source" if source else "sink", "config": before, **live}},
        "kinds": {POSTGRES["connector.class"]: "source"},
        "ledger": {"connectors": {"c": {}}},
        "logs": LOGS,
    }
    desired = Desired("orders", desired.connectors, rules)
    observed = replace(live_of(world, desired), ours=ours)
    plan = make_plan(desired, observed, group_id="connect")
    (update,) = (action for action in plan.actions if isinstance(action, UpdateConfig))
    said = {effect for each in update.changes for effect in each.effects}
    assert said <= set(update.effects)
    assert len(set(update.effects)) == len(update.effects)
    return {each.key: (each.consequence, "\n".join(each.effects)) for each in update.changes}


@pytest.mark.parametrize(
    ("base", "key", "old", "new", "consequence", "words"),
    [
        # Connect's own
        (SINK, "connector.plugin.version", None, "2.0", "restart", "another version"),
        (SINK, "tasks.max", "1", "4", "restart", "at most 4 tasks, before 1"),
        (SINK, "tasks.max", "2", "1", "restart", "at most 1 task, before 2"),
        (SINK, "tasks.max", "1", None, "restart", ""),
        (SINK, "tasks.max.enforce", None, "false", "restart", "are allowed"),
        (SINK, "tasks.max.enforce", "false", None, "restart", "fail the connector"),
        (SINK, "value.converter", None, "x.Json", "restart", "for the old way may fail"),
        (SOURCE, "value.converter", None, "x.Json", "restart", "written before stay"),
        (SOURCE, "key.converter.schemas.enable", None, "true", "restart", "written before stay"),
        (SOURCE, "header.converter", None, "x.Simple", "restart", "written before stay"),
        (SINK, "transforms", None, "a", "restart", "transformed differently"),
        (SINK, "transforms.a.type", None, "x.Drop", "restart", "transformed differently"),
        (SINK, "predicates.p.pattern", None, "x", "restart", "transformed differently"),
        (SINK, "errors.tolerance", None, "all", "restart", "are skipped"),
        (SINK, "errors.tolerance", "all", None, "restart", "stops its task"),
        (SINK, "errors.deadletterqueue.topic.name", None, "q", "restart", "go to this queue"),
        (SINK, "errors.deadletterqueue.topic.name", "p", "q", "restart", "go elsewhere"),
        (SINK, "errors.deadletterqueue.topic.name", "q", None, "restart", "stops its task"),
        (TOLERANT, "errors.deadletterqueue.topic.name", "q", None, "restart", "lost from now on"),
        (TOLERANT, "errors.deadletterqueue.topic.name", "q", "", "restart", "lost from now on"),
        (SINK, "errors.deadletterqueue.context.headers.enable", None, "true", "restart", "fail"),
        (SINK, "errors.retry.timeout", None, "9", "restart", "what fails from now on"),
        (SINK, "errors.log.enable", None, "true", "restart", "only what the log tells"),
        (SINK, "errors.log.include.messages", None, "true", "restart", "holds the contents"),
        (SINK, "config.action.reload", None, "none", "restart", "after they expire"),
        (SINK, "anything.else", None, "1", "restart", ""),
        # sinks
        (
            SINK,
            "topics",
            "orders",
            "orders,refunds",
            "restart",
            "refunds, from earliest, 7 offsets",
        ),
        (SINK, "topics", "orders,a", "orders", "restart", "no longer reads a"),
        (SINK, "topics", "orders", "unseen,orders", "restart", "also reads unseen, from earliest"),
        (
            SINK,
            "consumer.override.group.id",
            None,
            "g",
            "new-group",
            "new consumer group g: starts at the beginning of its topics, 500 offsets to deliver",
        ),
        (SINK, "consumer.override.group.id", None, "connect-c", "restart", "stays in consumer"),
        (
            SINK,
            "consumer.override.bootstrap.servers",
            None,
            "b:1",
            "new-group",
            "from where group connect-c is there",
        ),
        (SINK, "consumer.override.auto.offset.reset", None, "latest", "restart", "without an off"),
        (
            SINK,
            "consumer.override.isolation.level",
            None,
            "read_committed",
            "restart",
            "no longer delivered",
        ),
        (SINK, "consumer.override.max.poll.records", None, "5", "restart", ""),
        # sources
        (SOURCE, "offsets.storage.topic", None, "o", "new-offsets-topic", "in topic o: what"),
        (SOURCE, "offsets.storage.topic", "o", None, "new-offsets-topic", "the cluster's offsets"),
        (
            SOURCE,
            "producer.override.bootstrap.servers",
            None,
            "b:1",
            "new-offsets-topic",
            "another Kafka cluster",
        ),
        (SOURCE, "producer.override.linger.ms", None, "5", "restart", ""),
        (SOURCE, "producer.override.enable.idempotence", None, "false", "redelivery", "twice"),
        (SOURCE, "producer.override.enable.idempotence", "false", "true", "restart", ""),
        (SOURCE, "admin.override.retries", None, "5", "restart", "creates topics"),
        (SOURCE, "exactly.once.support", None, "required", "restart", "refused unless"),
        (SOURCE, "transaction.boundary", None, "interval", "restart", "when records can be read"),
        (SOURCE, "transaction.boundary.interval.ms", None, "9", "restart", "not which"),
        (SOURCE, "topic.creation.default.partitions", None, "3", "restart", "from now on"),
        (SOURCE, "file", "/data/in", "/data/b", "reread", "reads /data/b from its start"),
        (SOURCE, "topic", "lines", "rows", "restart", "writes to other topics"),
        (OTHER, "topic", "t", "u", "restart", "writes to other topics"),
        (OTHER, "topic.prefix", None, "u", "restart", "some connectors name their offsets"),
        # Debezium
        (POSTGRES, "topic.prefix", "a", "b", "reread", "begins as if it were new"),
        (POSTGRES, "snapshot.mode", None, "always", "reread", "at every start"),
        (POSTGRES, "snapshot.mode", "always", None, "restart", "only where it has no offset"),
        (POSTGRES, "snapshot.mode", None, "no_data", "restart", "changes alone"),
        (POSTGRES, "snapshot.mode", None, "custom", "restart", "may take a snapshot"),
        (POSTGRES, "snapshot.fetch.size", None, "9", "restart", "next snapshot"),
        (POSTGRES, "slot.name", "a", "b", "restart", "can be lost"),
        (POSTGRES, "publication.name", "a", "b", "restart", "published"),
        (POSTGRES, "table.include.list", "a", "a,b", "restart", "only with a snapshot"),
        (POSTGRES, "signal.data.collection", None, "s", "restart", "signals"),
        (POSTGRES, "decimal.handling.mode", None, "string", "restart", "other types"),
        (POSTGRES, "schema.history.internal.kafka.topic", "a", "b", "restart", "history"),
        (POSTGRES, "database.hostname", "a", "b", "restart", "the same data"),
        # JDBC
        (JDBC, "mode", "incrementing", "bulk", "reread", "at every poll"),
        (JDBC, "mode", "incrementing", "timestamp", "reread", "counts as not read"),
        (JDBC, "incrementing.column.name", "a", "b", "reread", "another column"),
        (JDBC, "query", "a", "b", "reread", "counts for the new one"),
        (JDBC, "query", None, "b", "reread", "reads from the start"),
        (JDBC, "table.whitelist", "a", "b", "restart", "read from their start"),
        (JDBC, "topic.prefix", "a", "b", "restart", "writes to other topics"),
        (JDBC, "connection.url", "a", "b", "restart", "the same data"),
        # MirrorMaker
        (MIRROR, "source.cluster.alias", "a", "b", "reread", "from their start"),
        (MIRROR, "replication.policy.separator", ".", "_", "restart", "other topics"),
        (MIRROR, "topics", "a", "b", "restart", "copied from their start"),
        # sinks that are well known
        (SINK, "file", None, "/data/out", "restart", "writes to /data/out"),
        (S3, "format.class", "a", "b", "restart", "another format"),
        (S3, "flush.size", "1", "9", "restart", "cut elsewhere"),
        (S3, "rotate.schedule.interval.ms", None, "60000", "redelivery", "can be in two of them"),
        (S3, "rotate.schedule.interval.ms", "60000", None, "restart", "cut elsewhere"),
        (S3, "path.format", "a", "b", "restart", "other names"),
        (S3, "s3.bucket.name", "a", "b", "restart", "go elsewhere"),
        (SEARCH, "key.ignore", None, "true", "restart", "other ids"),
        (SEARCH, "write.method", None, "upsert", "restart", "not the document"),
        (SEARCH, "connection.url", "a", "b", "restart", "go elsewhere"),
        (JDBC_SINK, "insert.mode", "upsert", None, "restart", "not merged"),
        (JDBC_SINK, "pk.mode", "none", "record_key", "restart", "another key"),
        (JDBC_SINK, "table.name.format", "a", "b", "restart", "go elsewhere"),
        (JDBC_SINK, "delete.enabled", None, "true", "restart", "deletes its row"),
        (JDBC_SINK, "auto.create", None, "true", "restart", "by itself"),
    ],
)
def test_a_key(
    tmp_path: Path,
    base: dict[str, str],
    key: str,
    old: str | None,
    new: str | None,
    consequence: str,
    words: str,
) -> None:
    """What the change of a key does: a restart, a new group, re-delivery, re-reading."""
    told, said = changed(tmp_path, base, key, old, new)[key]
    assert told == consequence
    assert words in said
    assert bool(words) == bool(said)


def test_what_a_new_group_delivers_again_is_counted(tmp_path: Path) -> None:
    key = "consumer.override.group.id"
    both = {**SINK, "topics": "orders,refunds"}
    offsets = {"orders-0": 450, "refunds-0": 3, "elsewhere-0": 9}
    _, said = changed(tmp_path, both, key, None, "g", offsets=offsets)[key]
    # of orders 100 to 600 and refunds 0 to 7
    assert "507 offsets to deliver, at least 353 of them redelivered, unless" in said


def test_another_class(tmp_path: Path) -> None:
    of_class = "connector.class"
    becomes = changed(
        tmp_path, {**SOURCE, "topics": "orders"}, of_class, "FileStreamSource", "FileStreamSink"
    )
    assert becomes[of_class][0] == "new-group"
    assert "group connect-c starts at the beginning" in becomes[of_class][1]
    becomes = changed(tmp_path, SINK, of_class, "FileStreamSink", "FileStreamSource")
    assert becomes[of_class][0] == "reread"
    becomes = changed(tmp_path, OTHER, of_class, "com.acme.QueueSource", "com.acme.NewSource")
    assert becomes[of_class] == (
        "restart",
        "another class reads this config: whether it knows the offsets, only it can tell",
    )


@pytest.mark.parametrize("target", ["stopped", "paused"])
def test_where_no_task_runs_none_restarts(tmp_path: Path, target: str) -> None:
    said = changed(tmp_path, SINK, "tasks.max", "1", "4", target=target)
    assert said["tasks.max"] == ("none", "work is split anew: at most 4 tasks, before 1")
    said = changed(tmp_path, SINK, "consumer.override.group.id", None, "g", target=target)
    assert said["consumer.override.group.id"][0] == "new-group"


def test_a_topic_of_which_a_partition_was_not_observed_is_not_counted(tmp_path: Path) -> None:
    desired = desired_of(
        "name: c\nconfig: {connector.class: FileStreamSink, topics: orders}\n", tmp_path
    )
    live = live_of({"logs": LOGS, "topics": {"orders": 2}}, desired)
    (create,) = make_plan(desired, live, group_id="connect").actions
    assert create.effects == ("starts at the beginning of its topics",)


# --- rules ---


def test_rules_are_whole() -> None:
    for rule in RULES:
        assert rule.consequence in get_args(Consequence)
        assert rule.keys.split() and rule.classes.split()
        assert callable(rule.effect) or rule.effect


def test_a_project_says_it_in_lines(tmp_path: Path) -> None:
    rule = ConsequenceRule("tasks.max", "restart", "one\n\ntwo\n")
    found = changed(tmp_path, SINK, "tasks.max", SINK.get("tasks.max"), "7", (rule,))
    assert found["tasks.max"] == ("restart", "one\ntwo")


@pytest.mark.parametrize("key", ["tasks.max", "topics", "consumer.override.group.id", "acme.depth"])
@pytest.mark.parametrize("consequence", get_args(Consequence))
def test_a_project_knows_better(tmp_path: Path, key: str, consequence: Consequence) -> None:
    first = ConsequenceRule(key, consequence, "as we know")
    later = ConsequenceRule("*", "reread", "too late")
    old = SINK.get(key)
    assert changed(tmp_path, SINK, key, old, "7", (first, later))[key] == (
        consequence,
        "as we know",
    )
    others = tuple(
        replace(first, **fields)
        for fields in (
            {"key": "acme"},
            {"connector_class": "com.acme.*"},
            {"kind": "source"},
        )
    )
    built_in = changed(tmp_path, SINK, key, old, "7")
    assert changed(tmp_path, SINK, key, old, "7", others) == built_in
    fits = replace(first, key=f"{key[:2]}*", connector_class="*Sink", kind="sink")
    assert changed(tmp_path, SINK, key, old, "7", (*others, fits))[key][1] == "as we know"
