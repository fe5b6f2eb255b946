"""Clusters that mask their secrets: what counts as changed, and what is never written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connect_reconciler.model.actions import UpdateConfig
from connect_reconciler.model.live import LedgerState, Live, LiveConnector, Owned
from connect_reconciler.model.secrets.masked import same_config, see_through_masks
from connect_reconciler.model.secrets.sensitive import fingerprint
from connect_reconciler.model.values import Secret
from connect_reconciler.plan.planner import make_plan
from connect_specs.desired import Desired, DesiredConnector
from connect_specs.diagnostics import Location
from connect_specs.states import TargetState

KEY = b"k"
CLASS = "org.example.DbSource"
SPEC = DesiredConnector(
    "a",
    {"name": "a", "connector.class": CLASS, "db.pin": "1234", "topic": "t"},
    Location("a.yaml"),
)
MASKS = ["****", "********", "[hidden]", "••••", "<redacted>"]


def live_of(mask: str, applied: str | None, key: bytes | None = KEY, **more: str) -> Live:
    """The connector with its pin masked; `applied` is what the ledger has the fingerprint of."""
    config = {**SPEC.config, "db.pin": mask, **more}
    recorded = dict(SPEC.config)
    recorded["db.pin"] = "" if applied is None else fingerprint(KEY, "a", "db.pin", applied)
    return Live(
        connectors={"a": LiveConnector("a", "source", config, TargetState.RUNNING)},
        ledger=LedgerState({"a": Owned("orders", recorded, None)}, fingerprint_key=key),
        rest_alone=True,
    )


def plan_of(live: Live, spec: DesiredConnector = SPEC):  # type: ignore[no-untyped-def]
    desired = Desired("orders", {"a": spec})
    return make_plan(desired, see_through_masks(live, desired), group_id="g")


@pytest.mark.parametrize("mask", MASKS)
def test_a_secret_that_was_applied_before_is_unchanged(mask: str) -> None:
    plan = plan_of(live_of(mask, applied="1234"))
    assert plan.empty
    assert [each.code for each in plan.warnings] == ["plan.rest-alone"]


@pytest.mark.parametrize("mask", MASKS)
def test_another_secret_than_the_one_applied_is_a_change(mask: str) -> None:
    (action,) = plan_of(live_of(mask, applied="0000")).actions
    assert isinstance(action, UpdateConfig)
    assert [change.key for change in action.changes] == ["db.pin"]
    assert action.config["db.pin"] == Secret(fingerprint(KEY, "a", "db.pin", "1234"))


def test_without_a_fingerprint_it_counts_as_unchanged_and_that_is_said() -> None:
    plan = plan_of(live_of("****", applied=None))
    assert plan.empty
    assert [each.code for each in plan.warnings] == ["plan.secret-unknown", "plan.rest-alone"]


def test_a_masked_key_is_a_secret_whatever_its_name() -> None:
    (action,) = plan_of(live_of("****", applied="0000")).actions
    assert "1234" not in repr(action)


def test_a_change_of_another_key_writes_the_true_secret() -> None:
    (action,) = plan_of(live_of("****", applied="1234", topic="u")).actions
    assert isinstance(action, UpdateConfig)
    assert [change.key for change in action.changes] == ["topic"]
    assert action.config["db.pin"] == Secret(fingerprint(KEY, "a", "db.pin", "1234"))


def test_a_mask_that_would_be_kept_is_refused_once_the_config_is_written() -> None:
    config = {key: text for key, text in SPEC.config.items() if key != "db.pin"}
    spec = replace(SPEC, config=config, ignore=("config.db.*",))
    live = live_of("****", applied=None)
    assert plan_of(live, spec).empty
    changed = replace(spec, config={**config, "topic": "u"})
    (error,) = plan_of(live, changed).errors
    assert (error.code, "stop ignoring db.pin" in error.hint) == ("plan.masked-value", True)


def test_a_spec_that_holds_a_mask_is_refused() -> None:
    spec = replace(SPEC, config={**SPEC.config, "db.pin": "****"})
    (error,) = plan_of(Live(rest_alone=True), spec).errors
    assert error.code == "plan.masked-value"


def test_configs_are_the_same_as_far_as_they_can_be_seen() -> None:
    assert same_config({"a": "****", "b": "1"}, {"a": "x", "b": "1"})
    assert not same_config({"a": "****", "b": "1"}, {"a": "x", "b": "2"})
    assert not same_config({"b": "1"}, {"a": "x", "b": "1"})
