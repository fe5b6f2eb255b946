"""Policies: what they can see, what they say, and what is wrong with their files."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import cel
import pytest

from connect_reconciler.actions import (
    Action,
    AlterOffsets,
    Counts,
    Create,
    Delete,
    FieldChange,
    OffsetMove,
    ResetOffsets,
    UpdateConfig,
)
from connect_reconciler.actions.plan import Plan
from connect_reconciler.model.config_values import Plain, Secret
from connect_reconciler.policies.facts import SAMPLE, SHAPES, Shape, now_facts, plan_facts
from connect_reconciler.policies.policy import Policy, judge, load_policies
from connect_specs.desired import OffsetEntry, TargetState
from connect_specs.diagnostics import Invalid, Location
from connect_specs.project import load_project

FRIDAY_23_UTC = int(datetime(2026, 11, 20, 23, 30, tzinfo=UTC).timestamp() * 1000)
WHERE = Location("policies/rules.yaml", 1, 7)


def at(offset: int) -> OffsetEntry:
    return OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": offset})


REWIND = AlterOffsets(
    connector="orders",
    reason="pin",
    pin="p",
    pin_hash="h",
    moves=(OffsetMove(at(5), at(2_000_005), None, "back", Counts(2_000_000, exact=False)),),
)
RESET = ResetOffsets(
    connector="source",
    reason="pin",
    pin="p",
    pin_hash="h",
    moves=(OffsetMove(OffsetEntry({"file": "a"}, None), None, None, "unclear"),),
)
DELETE = Delete(connector="old", reason="its spec is gone")
CHANGE = UpdateConfig(
    connector="orders",
    reason="differs",
    config={"tasks.max": Plain("2"), "password": Secret("abc")},
    changes=(
        FieldChange("tasks.max", Plain("1"), Plain("2"), "restart"),
        FieldChange("password", Secret("x"), Secret("abc"), "restart"),
    ),
)
CREATE = Create(
    connector="new",
    reason="not there",
    config={"connector.class": Plain("FileStreamSink")},
    initial_state=TargetState.RUNNING,
)


def plan(*actions: object, env: str | None = "prod") -> Plan:
    return Plan("shop", "shop-cluster", "id", 0, actions=actions, env=env)  # type: ignore[arg-type]


def policy(expression: str, verdict: str = "deny", **more: str) -> Policy:
    return Policy("rule", verdict, cel.compile(expression), WHERE, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "broken_by"),
    [
        (
            'plan.env == "prod" && (!change.amount_known || change.again > 1000000)',
            ["orders", "source"],
        ),
        ('plan.env == "test" && change.again > 1000000', []),
        ("!change.amount_known", ["source"]),
        ("change.amount_known && !change.exact", ["orders"]),
        (
            'change.offsets.exists(o, has(o.unit) && o.unit == "offset" && o.again == 2000000)',
            ["orders"],
        ),
        ("change.offsets.exists(o, !has(o.again))", ["source"]),
        ('"delete" in change.does', ["old"]),
        ('change.keys.exists(k, k.key == "tasks.max" && k.new == "2")', ["orders"]),
        ('change.keys.exists(k, k.consequence == "restart")', ["orders"]),
        (
            'change.offsets.exists(o, o.direction == "back" && o.after.kafka_offset < 10)',
            ["orders"],
        ),
        ('change.connector.matches("^o.*")', ["old", "orders"]),
        ('change.config["connector.class"] == "FileStreamSink"', ["new"]),
        ('plan.changes.size() == 4 && "delete" in plan.does && plan.does["delete"] == 1', [""]),
        ('plan.project == "shop" && plan.cluster == "shop-cluster"', [""]),
        ('plan.env == "test"', []),
        ("change.amount_known && change.skipped > 0", []),
    ],
)
def test_what_a_policy_sees(expression: str, broken_by: list[str]) -> None:
    """A policy is code over the changes of a plan."""
    if "change.config[" in expression:
        expression = f'has(change.config) && "connector.class" in change.config && {expression}'
    judged = judge(plan(DELETE, REWIND, CHANGE, RESET, CREATE), [policy(expression)], 0)
    assert [each.code for each in judged.errors] == ["policy.deny"] * len(broken_by)
    found = [each.what.partition(":")[0] if ":" in each.what else "" for each in judged.errors]
    assert found == broken_by
    assert judged.warnings == ()


@pytest.mark.parametrize(
    ("zone", "weekday", "hour"), [("UTC", "friday", 23), ("Europe/Berlin", "saturday", 0)]
)
def test_days_and_hours_are_those_of_the_policys_zone(zone: str, weekday: str, hour: int) -> None:
    rule = policy(f'now.weekday == "{weekday}" && now.hour == {hour} && now.minute == 30')
    judged = judge(plan(DELETE), [Policy(**(_fields(rule) | {"timezone": zone}))], FRIDAY_23_UTC)
    assert len(judged.errors) == 1


def _fields(rule: Policy) -> dict[str, object]:
    return {name: getattr(rule, name) for name in Policy.__slots__}


def test_a_warning_stops_nothing_and_says_who_says_it() -> None:
    rule = policy("true", "warn", says="ask the data team", hint="in #data")
    (found,) = judge(plan(DELETE), [rule], 0).warnings
    assert (found.code, found.what) == ("policy.warn", "ask the data team")
    assert (found.where, found.why, found.hint) == (WHERE, "policy rule", "in #data")


def test_a_secret_is_no_fact() -> None:
    rule = policy('change.keys.exists(k, k.old == "(sensitive)" && k.new == "(sensitive)")')
    assert len(judge(plan(CHANGE), [rule], 0).errors) == 1
    (told,) = judge(plan(CHANGE), [policy('change.config["password"].size()')], 0).errors
    assert "abc" not in str(told)


@pytest.mark.parametrize(
    "expression", ["change.nothing > 1", "change.again", 'change.again > "many"', "nope(change)"]
)
def test_what_cannot_be_judged_is_not_let_through(expression: str) -> None:
    (denied,) = judge(plan(DELETE), [policy(expression)], 0).errors
    (warned,) = judge(plan(DELETE), [policy(expression, "warn")], 0).warnings
    assert denied.code == warned.code == "policy.failed"


def test_a_policy_sees_keys_that_no_plugin_defines() -> None:
    rule = policy('change.unknown_keys.exists(k, k.startsWith("iceberg."))')
    unknown = {"new": ("iceberg.catalogue", "x"), "gone": ("iceberg.y",)}
    (denied,) = judge(plan(DELETE, CREATE), [rule], 0, unknown).errors
    assert denied.what.startswith("new: ")
    assert not judge(plan(DELETE, CREATE), [rule], 0).errors


def test_the_hint_for_a_missing_key_is_an_expression_that_compiles() -> None:
    (failed,) = judge(plan(CREATE), [policy('change.config["tasks.max"] == "2"')], 0).errors
    assert failed.why == "there is no field tasks.max"
    asked = '"tasks.max" in change.config'
    assert f"`{asked}`" in failed.hint
    better = policy(f'{asked} && change.config["tasks.max"] == "2"')
    assert not judge(plan(CREATE), [better], 0).errors


BYTES = replace(RESET, moves=(replace(RESET.moves[0], counts=Counts(7, unit="byte")),))
STAYS = replace(RESET, moves=(replace(RESET.moves[0], counts=Counts()),))
REGROUPED = replace(CHANGE, changes=(FieldChange("g", None, Plain("h"), "new-group"),))


@pytest.mark.parametrize("action", [RESET, BYTES, REGROUPED])
def test_an_amount_that_nobody_knows_is_not_let_through(action: Action) -> None:
    """A rule that counts what is delivered again judges what cannot be counted by saying so."""
    (denied,) = judge(plan(action), [policy("change.again > 1000000")], 0).errors
    assert (denied.code, denied.why) == (
        "policy.failed",
        "how much is delivered again or skipped is not known in offsets",
    )
    assert "change.amount_known" in denied.hint
    assert judge(plan(action), [policy("change.amount_known && change.again > 5")], 0).errors == ()
    known = policy("change.again > 1000000 || change.skipped > 0")
    assert judge(plan(STAYS, CHANGE, CREATE, DELETE), [known], 0).errors == ()


def test_an_empty_plan_breaks_no_policy_and_a_saved_one_is_judged_anew() -> None:
    assert judge(plan(), [policy("true")], 0) == plan()
    once = judge(plan(DELETE), [policy("true", "warn")], 0)
    assert judge(once, [policy("true", "warn")], 0) == once
    assert judge(once, [], 0) == plan(DELETE)


# --- files ---


def project(folder: Path, text: str) -> Path:
    (folder / "connect.yaml").write_text(
        "project: shop\ncluster: {group.id: shop, kafka: embedded}\npolicies: [policies/]\n"
    )
    (folder / "policies").mkdir()
    (folder / "policies" / "rules.yaml").write_text(text)
    return folder / "connect.yaml"


def test_policies_are_read_from_files(tmp_path: Path) -> None:
    file = project(
        tmp_path,
        "name: no-deletes-on-fridays\n"
        'deny: \'"delete" in change.does && now.weekday == "friday"\'\n'
        "says: nobody deletes on a Friday\n"
        "timezone: Europe/Berlin\n"
        "---\n"
        "name: big\n"
        "warn: plan.changes.size() > 20\n",
    )
    first, second = load_policies(load_project(file))
    assert (first.name, first.verdict, first.timezone) == (
        "no-deletes-on-fridays",
        "deny",
        "Europe/Berlin",
    )
    assert first.where == Location("policies/rules.yaml", 1, 7)
    assert (second.name, second.verdict) == ("big", "warn")
    friday_in_berlin = FRIDAY_23_UTC - 3_600_000
    assert len(judge(plan(DELETE), [first], friday_in_berlin).errors) == 1
    assert judge(plan(DELETE), [first], FRIDAY_23_UTC).errors == ()


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("name: a\ndeny: change.\n", "policy.syntax", (2, 7)),
        ("name: a\ndeny: chnage.again > 1\n", "policy.unknown-name", (2, 7)),
        ("name: a\ndeny: 'true'\nwarn: 'true'\n", "policy.verdict", (1, 1)),
        ("name: a\n", "policy.verdict", (1, 1)),
        ("deny: 'true'\n", "policy.missing-field", (1, 1)),
        ("name: a\ndeny: change.agian > 5\n", "policy.unknown-field", (2, 7)),
        ("name: a\ndeny: change.again\n", "policy.type", (2, 7)),
        ("name: a\ndeny: change.again > '5'\n", "policy.type", (2, 7)),
        ("name: a\ndeny: change.connector.startWith('a')\n", "policy.type", (2, 7)),
        ("name: a\ndeny: 'true'\nsay: hello\n", "policy.unknown-field", (3, 1)),
        ("name: a\ndeny: 'true'\ntimezone: Mars/Dune\n", "policy.timezone", (1, 1)),
        ("# nothing yet\n", "policy.empty-file", (1, 1)),
        ("- a\n", "policy.not-a-map", (1, 1)),
        ("name: a\ndeny: 'true'\n---\nname: a\nwarn: 'true'\n", "policy.duplicate-name", (4, 7)),
        ("name: [\n", "file.syntax", (2, 1)),
    ],
)
def test_what_is_wrong_with_a_file(
    tmp_path: Path, text: str, code: str, place: tuple[int, int]
) -> None:
    with pytest.raises(Invalid) as raised:
        load_policies(load_project(project(tmp_path, text)))
    found = raised.value.diagnostics[0]
    assert found.code == code
    assert isinstance(found.where, Location)
    assert (found.where.line, found.where.column) == place


def test_facts_have_the_shape_that_expressions_are_checked_with() -> None:
    def fits(value: object, shape: Shape) -> bool:
        if isinstance(shape, dict):
            assert isinstance(value, dict)
            return value.keys() <= shape.keys() and all(fits(value[k], shape[k]) for k in value)
        if isinstance(shape, list):
            assert isinstance(value, list)
            return all(fits(each, shape[0]) for each in value)
        return shape is None or value in shape

    made = plan(DELETE, REWIND, CHANGE, RESET, CREATE)
    assert fits(plan_facts(made, {}), SHAPES["plan"])
    assert now_facts(FRIDAY_23_UTC, "UTC").keys() == SAMPLE["now"].keys()
    everything = set[str]().union(*(change.keys() for change in plan_facts(made, {})["changes"]))
    assert everything == SAMPLE["change"].keys()


def test_all_examples_of_the_docs_are_right(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
    blocks = [block.partition("```")[0] for block in text.split("```yaml\n")[1:]]
    rules = [block for block in blocks if "name: " in block]
    assert len(rules) > 1
    assert load_policies(load_project(project(tmp_path, "\n---\n".join(rules))))
