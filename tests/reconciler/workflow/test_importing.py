"""Whatever is live: its spec is written, read and planned, and only who owns it would change."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connect_reconciler.actions import Adopt
from connect_reconciler.backend.backend import Backend
from connect_reconciler.backend.lease import LeaseRefused
from connect_reconciler.cli.terminal import Terminal
from connect_reconciler.model.ledger import LedgerState, Owned
from connect_reconciler.model.live import Live, LiveConnector
from connect_reconciler.plan.planner import make_plan
from connect_reconciler.workflow.importing import adopt, choose, importable, refused, spec_of
from connect_specs.desired import Desired, DesiredConnector, TargetState
from connect_specs.diagnostics import Diagnostic, Invalid, Location
from connect_specs.secrets import is_sensitive
from connect_specs.writing import spec_text
from support.applying import PROJECT
from support.spec_files import load_connectors

SECRET = "hunter2-hunter2"
KEYS = ("db.password", "a*[b]?.secret", "on", "#", "k", "k: v", "{{ k }}", "connection.url", "pin")
VALUES = (
    SECRET, f"jdbc:x://u:{SECRET}@h/d", f"a; password={SECRET}", "****", "[hidden]", "${file:/a:b}",
    "on", "010", "1_000", "é", "  x ", "# a", "a: b", "", "a\nb\n", "{{ a }}", "\x00",
)  # fmt: skip
configs = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("imported")


@given(configs, st.sampled_from(TargetState))
@example(dict.fromkeys(KEYS, SECRET), TargetState.STOPPED)
def test_the_next_plan_only_adopts(
    folder: Path, config: dict[str, str], target: TargetState
) -> None:
    config = {"name": "a", "connector.class": "X"} | config
    live = Live(
        {"a": LiveConnector("a", "source", config | {"connect.ledger": "ours"}, target)},
        LedgerState(fingerprint_key=b"key"),
        password_keys={"a": frozenset({"pin"})},
    )
    imported = spec_of(live.connectors["a"], live)
    file = folder / "a.yaml"
    file.write_text(spec_text(imported.spec, imported.notes), newline="")
    taken_for_none = {
        key
        for key, text in config.items()
        if SECRET in text and not is_sensitive(key, text, {"pin"})
    }
    assert (SECRET in file.read_text()) == bool(taken_for_none)
    desired = Desired("orders", load_connectors([file], folder))
    plan = make_plan(desired, live, group_id="g")
    assert not plan.errors
    assert [type(action) for action in plan.actions] == [Adopt]
    assert spec_of(live.connectors["a"], live, with_secrets=True).spec.config == config


def test_what_may_be_imported() -> None:
    def there(name: str) -> LiveConnector:
        return LiveConnector(name, "source", {"name": name}, TargetState.RUNNING)

    live = Live(
        {name: there(name) for name in ("ours", "theirs", "specified", "free")},
        LedgerState({"ours": Owned("orders", {}, None), "theirs": Owned("others", {}, None)}),
    )
    spec = DesiredConnector("specified", {}, Location("s.yaml", 1, 1))
    desired = Desired("orders", {"specified": spec})
    assert importable(live, desired) == ("free",)
    assert [each.name for each in choose(["free", "ours"], live, desired, overwrite=False)] == [
        "free",
        "ours",
    ]
    with pytest.raises(Invalid) as refused:
        choose(["theirs", "specified", "nobody"], live, desired, overwrite=False)
    assert [(each.code, str(each.where)) for each in refused.value.diagnostics] == [
        ("import.missing", "nobody"),
        ("import.has-spec", "s.yaml:1:1"),
        ("import.other-project", "theirs"),
    ]
    assert choose(["specified"], live, desired, overwrite=True)


def test_connectors_that_a_plan_would_refuse_are_named_one_by_one() -> None:
    """A name with a slash is beyond Apache's REST API, and says nothing of other connectors."""
    config = {"connector.class": "FileStreamSource", "topic": "lines"}
    live = Live(
        {
            name: LiveConnector(name, "source", {"name": name} | config, TargetState.RUNNING)
            for name in ("a", "b/c", "..")
        },
        LedgerState(fingerprint_key=b"key"),
        version="4.1.0",
        ours=False,
    )
    imported = {name: spec_of(each, live) for name, each in live.connectors.items()}
    problems = refused(PROJECT, live, imported)
    assert {name: [each.code for each in found] for name, found in problems.items()} == {
        "b/c": ["plan.name-not-addressable"],
        "..": ["spec.bad-name"],
    }


class Leased:
    """The cluster of a project while another apply runs."""

    project = PROJECT

    def connection(self, *args: Any, **options: Any) -> Any:
        raise LeaseRefused(Diagnostic("apply.leased", "another apply is running: alex@ci"))


def test_what_is_written_and_cannot_be_adopted_is_told() -> None:
    """The trap: the error of an apply that changed nothing, and files that it leaves."""
    plan = make_plan(Desired("orders", {}), Live(), group_id="g")
    user = Terminal(yes=True, as_json=False)
    with pytest.raises(LeaseRefused) as refused:
        adopt(plan, cast(Backend, Leased()), Desired("orders", {}), user)
    first, second = refused.value.diagnostics
    assert (first.code, second.code) == ("apply.leased", "import.not-adopted")
    assert "the specs are written" in second.what
