"""What each changed key does, key family by key family, and the rules that a project adds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from connect_reconciler.actions import UpdateConfig
from connect_reconciler.plan.consequences.explain import RULES
from connect_reconciler.plan.planner import make_plan
from connect_specs.desired import Consequence, ConsequenceRule, Desired
from support.plans import desired_of, live_of

SINK = {"connector.class": "FileStreamSink", "topics": "orders"}
TOLERANT = SINK | {"errors.tolerance": "all"}
SOURCE = {"connector.class": "FileStreamSource", "topic": "lines", "file": "/data/in"}
POSTGRES = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector"}
WHEN_NEEDED = POSTGRES | {"snapshot.mode": "when_needed"}
TRUSTS_SLOT = POSTGRES | {"offset.mismatch.strategy": "trust_slot"}
JDBC = {"connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector"}
JDBC_SINK = {"connector.class": "io.aiven.connect.jdbc.JdbcSinkConnector", "topics": "orders"}
S3 = {"connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "orders"}
SEARCH = {
    "connector.class": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
    "topics": "orders",
}
MIRROR = {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}
IDENTITY = MIRROR | {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
}
LATEST = MIRROR | {"source.consumer.auto.offset.reset": "latest"}
SQLSERVER = {"connector.class": "io.debezium.connector.sqlserver.SqlServerConnector"}
CHECKPOINTS = {"connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"}
DEBEZIUM_SINK = {"connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector", "topics": "t"}
ICEBERG = {"connector.class": "org.apache.iceberg.connect.IcebergSinkConnector", "topics": "t"}
OTHER = {"connector.class": "com.acme.QueueSource", "topic": "t"}
LOGS = {"orders-0": [100, 600], "refunds-0": [0, 7], "refunds-1": [3, 3]}


BASES = {
    "SINK": SINK,
    "TOLERANT": TOLERANT,
    "SOURCE": SOURCE,
    "POSTGRES": POSTGRES,
    "WHEN_NEEDED": WHEN_NEEDED,
    "TRUSTS_SLOT": TRUSTS_SLOT,
    "JDBC": JDBC,
    "JDBC_SINK": JDBC_SINK,
    "S3": S3,
    "SEARCH": SEARCH,
    "MIRROR": MIRROR,
    "IDENTITY": IDENTITY,
    "LATEST": LATEST,
    "SQLSERVER": SQLSERVER,
    "CHECKPOINTS": CHECKPOINTS,
    "DEBEZIUM_SINK": DEBEZIUM_SINK,
    "ICEBERG": ICEBERG,
    "OTHER": OTHER,
}
KEYS = yaml.safe_load(Path(__file__).with_name("keys.yaml").read_text())


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
        "kinds": {base["connector.class"]: "source" for base in (POSTGRES, SQLSERVER)},
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


@pytest.mark.parametrize(("base", "key", "old", "new", "consequence", "words"), KEYS)
def test_a_key(
    tmp_path: Path,
    base: str,
    key: str,
    old: str | None,
    new: str | None,
    consequence: str,
    words: str,
) -> None:
    """What the change of a key does: a restart, a new group, re-delivery, re-reading."""
    told, said = changed(tmp_path, BASES[base], key, old, new)[key]
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
