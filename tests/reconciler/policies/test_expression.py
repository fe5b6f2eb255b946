"""Fields and words that a policy misnames, found before there is a plan."""

from __future__ import annotations

import pytest

from connect_reconciler.policies.expression import bound_names, slips
from connect_specs.diagnostics import Location

PLACE = Location("policies/rules.yaml", 1, 1)


@pytest.mark.parametrize(
    ("expression", "what", "hint"),
    [
        ("change.agian > 5", "change has no field 'agian'", "did you mean 'again'?"),
        ("true || change . agian > 5", "change has no field 'agian'", "did you mean 'again'?"),
        ('change["agian"] > 5', "change has no field 'agian'", "did you mean 'again'?"),
        ("has(change.agian)", "change has no field 'agian'", "did you mean 'again'?"),
        ("plan.enviroment == 'prod'", "plan has no field 'enviroment'", "known here: "),
        ("now.week_day == 'friday'", "now has no field 'week_day'", "did you mean 'weekday'?"),
        ("change.keys.exists(k, k.kye == 'a')", "k has no field 'kye'", "did you mean 'key'?"),
        ("change.keys[0].kye == 'a'", "change.keys[0] has no field 'kye'", "did you mean 'key'?"),
        (
            "plan.changes.all(c, c.offsets.exists(o, o.direktion == 'back'))",
            "o has no field 'direktion'",
            "did you mean 'direction'?",
        ),
        (
            "change.keys.key == 'a'",
            "change.keys is a list and has no field 'key'",
            "ask each of them: change.keys.exists(x, …)",
        ),
        ("now.weekday == 'Friday'", "now.weekday is never 'Friday'", "did you mean 'friday'?"),
        ("'Friday' != now.weekday", "now.weekday is never 'Friday'", "did you mean 'friday'?"),
        ("now.weekday in ['sunday', 'saterday']", "now.weekday is never 'saterday'", "did you"),
        ('"delte" in change.does', "change.does is never 'delte'", "did you mean 'delete'?"),
        ("change.does.exists(d, d == 'delte')", "d is never 'delte'", "did you mean 'delete'?"),
        ('"delte" in plan.does', "plan.does is never 'delte'", "did you mean 'delete'?"),
        ("plan.does.delte > 1", "plan.does has no field 'delte'", "did you mean 'delete'?"),
    ],
)
def test_a_slip_is_told_with_what_is_meant(expression: str, what: str, hint: str) -> None:
    (slip,) = slips(expression, PLACE)
    assert (slip.what, slip.where) == (what, PLACE)
    assert slip.hint.startswith(hint)


@pytest.mark.parametrize(
    "expression",
    [
        'change.again > 1000000 && plan.env == "prod"',
        "!change.amount_known || change.exact && change.skipped == 0",
        '"delete" in change.does && now.weekday in ["friday", "saturday"]',
        'change.config["tasks.max"] == "2" && has(change.config.topic)',
        'change.keys.exists(k, k.key == "tasks.max" && k.new != null && k.new.matches("^[0-9]$"))',
        'change.offsets.exists(o, o.unit == "byte" && o.after.position < 5 && o.partition.x == 1)',
        'plan.changes.filter(c, "delete" in c.does).size() > 3',
        'plan.does["delete"] > 1 || plan.does.rewind > 1 || plan.changes.size() > 20',
        "change.connector == 'a.weekday' || change.connector == \"change.agian\" // change.agian",
        "change.does == ['delete'] && size(change.keys) == 0",
        "change.keys.map(k, k.key) == ['a'] && now.hour >= 17 && now.date > '2026-12-24'",
        'change.connector.startsWith("orders") ? change.again > 1 : false',
        "change.keys.all(k, !(k.consequence in ['reread', 'redelivery']))",
    ],
)
def test_what_is_right_is_let_through(expression: str) -> None:
    assert list(slips(expression, PLACE)) == []


def test_names_that_macros_give() -> None:
    expression = "change.keys.exists(k, k.key == 'exists(x,') && plan.changes.all(c, c.again > 1)"
    assert bound_names(expression) == {"k", "c"}
