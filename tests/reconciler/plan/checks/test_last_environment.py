"""Which environment a project was applied with last, as its records say it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from connect_reconciler.model.ledger import LedgerState, Owned
from connect_reconciler.model.ledger_records import owned_from_json, owned_to_json


def test_the_environment_that_counts_is_the_last_one_that_is_known() -> None:
    def owned(env: str | None, applied_ms: int, **more: Any) -> Owned:
        return Owned("p", {}, None, env=env, applied_ms=applied_ms, **more)

    found = {
        "a": owned("stage", 1),
        "b": owned("prod", 2),
        # Written by a version that did not say
        "c": owned(None, 3, env_known=False),
        "d": replace(owned("other", 4), project="q"),
    }
    last = LedgerState(found).last_applied("p")
    assert last is not None and last.env == "prod"
    assert LedgerState({"c": found["c"]}).last_applied("p") is None


def test_older_records_do_not_say_which_environment() -> None:
    written = owned_to_json(Owned("p", {}, None))
    assert owned_from_json(written).env_known
    del written["env"]
    read = owned_from_json(written)
    assert not read.env_known
    assert owned_to_json(read) == written
