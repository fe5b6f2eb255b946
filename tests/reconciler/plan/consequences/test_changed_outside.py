"""Manual changes that a plan reverts are marked in each form of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from connect_reconciler.actions.plan import Plan
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.render.plan_file import dump_plan, load_plan, render_plan_json
from connect_reconciler.render.plan_html import render_html
from connect_reconciler.render.plan_markdown import render_markdown
from connect_reconciler.render.plan_text import render_plan
from connect_runtime.storage import config_topic
from connect_specs.desired import Desired, DesiredConnector, TargetState
from connect_specs.diagnostics import Location
from support.applying import Applying, desired_of
from support.fake_cluster import GROUP_ID, TOPICS

CONFIG = {"connector.class": "FileStreamSink", "topics": "t", "errors.tolerance": "none"}
REVERTED = "changed outside since 2023-11-14T22:13:20Z, reverted by this plan"
OVERWRITTEN = (
    "changed outside since 2023-11-14T22:13:20Z, and in the specs: overwritten by this plan"
)


def spec(state: TargetState | None = None, **changed: str) -> Desired:
    config = {**CONFIG, **changed, "name": "a"}
    return desired_of(DesiredConnector("a", config, Location("a.yaml", 1, 1), state))


@pytest.fixture
def world() -> Applying:
    """A cluster to which the spec was applied, by a clock that then says 2023."""
    world = Applying(key=b"key")
    world.kafka.create_topics()
    world.apply(spec(TargetState.RUNNING))
    world.kafka.logs._now_s = lambda: 1_700_000_000.0
    return world


def by_hand(world: Applying, state: TargetState | None = None, **changed: str) -> None:
    writer = world.kafka.logs.writer("by hand")
    config = {**CONFIG, **changed, "name": "a"}
    writer.write([config_topic.connector_record(TOPICS.config, "a", config)])
    if state is not None:
        writer.write([config_topic.target_state_record(TOPICS.config, "a", state)])


def forms(plan: Plan) -> dict[str, str]:
    saved = dump_plan(plan)
    assert dump_plan(load_plan(saved, "saved")) == saved
    return {
        "human": render_plan(plan),
        "markdown": render_markdown(plan),
        "html": render_html(plan),
        "json": json.dumps(render_plan_json(plan)),
        "file": saved,
    }


def test_a_key_that_was_changed_outside_is_marked_in_each_form(world: Applying) -> None:
    by_hand(world, **{"errors.tolerance": "all"})
    for form, text in forms(world.plan(spec(TargetState.RUNNING))).items():
        assert REVERTED in text, form
        # Data has it at the key and among what the action does
        assert text.count("changed outside") == (2 if form in ("json", "file") else 1), form


def test_a_change_of_the_specs_is_not(world: Applying) -> None:
    plan = world.plan(spec(TargetState.RUNNING, **{"errors.tolerance": "all"}))
    assert not plan.empty
    assert "changed outside" not in render_plan(plan)


def test_what_both_changed_is_overwritten(world: Applying) -> None:
    by_hand(world, topics="u", **{"errors.tolerance": "all"})
    text = render_plan(world.plan(spec(TargetState.RUNNING, topics="v")))
    assert text.count(OVERWRITTEN) == text.count(REVERTED) == 1


def test_keys_that_were_added_and_removed_outside_are_marked(world: Applying) -> None:
    config = {key: text for key, text in CONFIG.items() if key != "errors.tolerance"}
    record = config_topic.connector_record(TOPICS.config, "a", {**config, "name": "a", "b": "1"})
    world.kafka.logs.writer("by hand").write([record])
    assert render_plan(world.plan(spec(TargetState.RUNNING))).count(REVERTED) == 2


def test_a_secret_is_compared_by_its_fingerprint(world: Applying) -> None:
    world.apply(spec(TargetState.RUNNING, **{"db.password": "hunter2"}))
    changed = spec(TargetState.RUNNING, **{"db.password": "hunter3"})
    assert "changed outside" not in render_plan(world.plan(changed))
    by_hand(world, **{"db.password": "hunter4"})
    text = render_plan(world.plan(spec(TargetState.RUNNING, **{"db.password": "hunter2"})))
    assert REVERTED in text
    assert "hunter" not in text


def test_a_state_that_was_changed_outside_is_marked(world: Applying) -> None:
    by_hand(world, TargetState.PAUSED)
    for form, text in forms(world.plan(spec(TargetState.RUNNING))).items():
        assert REVERTED in text, form
    text = render_plan(world.plan(spec(TargetState.STOPPED)))
    assert OVERWRITTEN in text


def test_a_connector_of_another_project_is_not_marked(world: Applying) -> None:
    by_hand(world, **{"errors.tolerance": "all"})
    desired = spec(TargetState.RUNNING)
    live = replace(world.observe(desired), keys_since={})
    plan = make_plan(replace(desired, project="others"), live, group_id=GROUP_ID)
    assert "changed outside" not in render_plan(plan)
    # Where nothing tells since when, it is marked all the same
    assert "changed outside, reverted" in render_plan(make_plan(desired, live, group_id=GROUP_ID))
