"""The first line names the cluster that is meant, and never a login."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connect_reconciler.actions import Create, Delete
from connect_reconciler.actions.plan import Plan, Target, target_of
from connect_reconciler.render.blocks import question, target_text
from connect_reconciler.render.plan_text import render_plan
from connect_specs.desired import Project, RestTarget, TargetState
from support.projects import project_of

REST = "https://connect.prod:8083"
PLAN = Plan(
    "orders",
    "orders-group",
    "c",
    0,
    (
        Create(
            connector="a",
            reason="new",
            reason_code="new",
            config={},
            initial_state=TargetState.RUNNING,
        ),
        Delete(connector="b", reason="its spec is gone"),
    ),
    env="prod",
    target=Target(REST, None),
)


def project(kafka: dict[str, str] | None, rest: RestTarget | None) -> Project:
    return project_of("orders", kafka=kafka, target=rest)


@pytest.mark.parametrize(
    ("kafka", "rest", "text"),
    [
        (None, RestTarget(REST), f"{REST}, group g"),
        (None, RestTarget("https://kim:hunter2@connect.prod/c"), "https://connect.prod/c, group g"),
        (None, RestTarget("http://k:h@u:n@[::1]:8083"), "http://[::1]:8083, group g"),
        ({"bootstrap.servers": "k:9092"}, RestTarget(REST), f"{REST}, Kafka k:9092, group g"),
        ({"bootstrap.servers": " a:1, b:2 "}, None, "Kafka a:1,b:2, group g"),
        ({"bootstrap.servers": "a:1,b:2,c:3,d:4"}, None, "Kafka a:1,b:2 and 2 more, group g"),
        (None, None, "embedded Kafka, group g"),
    ],
)
def test_the_target_by_its_addresses(
    kafka: dict[str, str] | None, rest: RestTarget | None, text: str
) -> None:
    assert target_text(target_of(project(kafka, rest)), "g") == text


def test_the_first_line_names_project_environment_and_target() -> None:
    head = f"orders [prod] → {REST}, group orders-group: "
    assert render_plan(PLAN).splitlines()[0] == f"{head}1 to delete, 1 to create"
    nothing = render_plan(replace(PLAN, actions=()))
    assert nothing == f"{head}no changes, the cluster matches the specs\n"
    back = render_plan(replace(PLAN, rolls_back="a1")).splitlines()[0]
    assert back == f"{head}rollback of apply a1: 1 to delete, 1 to create"


def test_the_question_repeats_whom_it_concerns() -> None:
    assert question(PLAN) == "Apply to orders [prod]: 1 to delete, 1 to create?"
    back = replace(PLAN, env=None, rolls_back="a1")
    assert question(back) == "Roll back apply a1 of orders: 1 to delete, 1 to create?"


def test_no_name_steers_the_terminal() -> None:
    plan = replace(PLAN, project="a\x1b[2J", group_id="g\n", target=Target("http://\x1b", "\x07"))
    assert "\x1b" not in render_plan(plan) and "\x07" not in render_plan(plan)
