"""A cluster that adds keys to configs: those that come when a config is written are its own."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect_reconciler.backend.followed_topics import ConfigTopic
from connect_reconciler.doctor.checks import keys_of_cluster
from connect_reconciler.drift.compare import compare
from connect_reconciler.drift.model import LiveWithHistory
from connect_specs.desired import Desired, Pin, TargetState
from support.applying import Applying, desired_of, names
from support.fake_cluster import TOPICS, FakeCluster
from support.rollbacks import RUNNING, SINK, apply, at, back, spec

KEY = "vendor.revision"


class Adding(FakeCluster):
    """Each config that is written gets a key with a new value; `same`: with the same one."""

    revision = 0
    same = False

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        super().create(name, self._with_key(config), state)

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        super().update_config(name, self._with_key(config))

    def _with_key(self, config: Mapping[str, str]) -> dict[str, str]:
        Adding.revision += not self.same
        return {**config, KEY: str(Adding.revision)}


def done(world: Applying, desired: Desired, *, same: bool = False) -> None:
    cluster = Adding(world.kafka)
    cluster.same = same
    report = world.apply(desired, cluster=cluster)
    assert report.exit_code == 0, report


def stored(world: Applying, name: str) -> Mapping[str, str]:
    found = ConfigTopic(world.kafka.logs.reader(TOPICS.config))(name)
    assert found is not None
    return found.config


def test_a_key_that_comes_when_a_config_is_written_is_never_planned(world: Applying) -> None:
    first = desired_of(spec("a", SINK, RUNNING, Pin("p", (at(3),))), spec("b"))
    done(world, first)
    assert KEY in stored(world, "a")
    assert world.plan(first).actions == ()
    live = world.observe(first)
    assert compare(first, LiveWithHistory(live)).findings == ()
    # A change of something else is that change alone, with all that follows from it
    second = desired_of(spec("a", {**SINK, "file": "x"}, RUNNING, Pin("q", (at(4),))), spec("b"))
    plan = world.plan(second)
    assert names(plan) == ["Stop a", "UpdateConfig a", "AlterOffsets a", "Resume a"]
    assert [each.key for action in plan.actions for each in getattr(action, "changes", ())] == [
        "file"
    ]
    done(world, second)
    assert world.plan(second).actions == ()
    (found,) = keys_of_cluster({n: stored(world, n) for n in "ab"}, world.ledger())
    assert found.what == f"the cluster adds the key {KEY} to configs: a, b"


def test_a_connector_that_has_it_already_is_written_once(world: Applying) -> None:
    """Nothing tells before the first write who wrote it."""
    Adding(world.kafka).create("a", {**SINK, "name": "a"}, RUNNING)
    desired = desired_of(spec("a"))
    assert names(world.plan(desired)) == ["Adopt a", "UpdateConfig a"]
    done(world, desired, same=True)
    assert world.plan(desired).actions == ()


def test_a_spec_that_names_the_key_manages_it(world: Applying) -> None:
    done(world, desired_of(spec("a")))
    named = desired_of(spec("a", {**SINK, KEY: "mine"}))
    assert names(world.plan(named)) == ["UpdateConfig a"]


def test_a_key_that_is_removed_is_not_the_clusters(world: Applying) -> None:
    apply(world, desired_of(spec("a", {**SINK, "file": "x"})))
    apply(world, desired_of(spec("a")))
    assert world.ledger().connectors["a"].added == frozenset()
    by_hand = {**stored(world, "a"), KEY: "by hand"}
    FakeCluster(world.kafka).update_config("a", by_hand)
    assert names(world.plan(desired_of(spec("a")))) == ["UpdateConfig a"]


class Late(FakeCluster):
    """What is written arrives in the config topic only later."""

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        """Answers at once."""


class Overwritten(FakeCluster):
    """Somebody writes another config right after each one."""

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        super().update_config(name, config)
        super().update_config(name, {**config, "topics": "u", "transforms": "x"})


@pytest.mark.parametrize("cluster", [Late, Overwritten])
def test_what_is_read_back_of_another_write_says_nothing(
    world: Applying, cluster: type[FakeCluster]
) -> None:
    apply(world, desired_of(spec("a", {**SINK, "file": "x"})))
    world.apply(desired_of(spec("a")), cluster=cluster(world.kafka))
    assert world.ledger().connectors["a"].added == frozenset()


def test_a_rollback_does_not_write_it(world: Applying) -> None:
    done(world, desired_of(spec("a")))
    changed = desired_of(spec("a", {**SINK, "file": "x"}))
    world.time.at += 10
    report = world.apply(changed, cluster=Adding(world.kafka))
    way, plan = back(world, report.apply_id, changed)
    assert KEY not in way.desired.connectors["a"].config
    assert names(plan) == ["UpdateConfig a"]
