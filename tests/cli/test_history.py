"""History, rollback, and applies of a file that were killed: as commands, on a real Kafka."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker import BrokerAddress
from support.rig import Rig


@pytest.fixture
def rig(broker: BrokerAddress, tmp_path: Path, unique: str) -> Iterator[Rig]:
    """A project on the tests' Kafka, with no runtime."""
    rig = Rig(tmp_path / "project", f"history-{unique[-8:]}", broker.kafka)
    yield rig
    for left in rig.leftovers():
        raise AssertionError(f"still there: {left}")


def test_what_was_applied_is_listed_and_rolled_back(rig: Rig) -> None:
    rig.source("a", state="stopped")
    assert rig("history").stdout == f"project {rig.name} has no recorded applies\n"
    assert rig("history", "x", expect=2).stderr.startswith("error[history.unknown-apply]")
    first = rig.apply()["report"]["apply_id"]
    rig.source("a", state="stopped", topic="other", offsets="offsets: {pin: p, reset: true}\n")
    rig.source("b", state="paused")
    second = rig.apply()["report"]["apply_id"]

    listed = json.loads(rig("history", "--json").stdout)["applies"]
    assert [each["apply_id"] for each in listed] == [second, first]
    assert [each["counts"] for each in listed] == [{"done": 3}, {"done": 1}]
    assert all(each["ending"] == "done" and each["exit_code"] == 0 for each in listed)
    shown = rig("history").stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["APPLY", second, first]

    one = rig("history", second[:-2]).stdout
    assert f"Apply {second}" in one
    for words in ("change config", "reset offsets", "create"):
        assert words in one
    assert "offsets of" not in one

    assert "2 applies begin with 2" in rig("history", "2", expect=2).stderr
    plan = rig("rollback", second[:-2], "--markdown")
    assert "b" in plan.stdout
    saved = rig("rollback", second, "--out", "back.plan", "--html", "back.html")
    assert f": rollback of apply {second}: 1 to delete" in saved.stdout.splitlines()[0]
    assert "- b: delete (it was not there before)\n" in saved.stdout
    assert second in (rig.folder / "back.html").read_text()
    assert f"rollback {second}" in saved.stderr
    assert "no specs give it" in rig("apply", "back.plan", "--yes", expect=2).stderr
    rig("rollback", first, "back.plan", "--yes", expect=2)
    done = rig("rollback", second, "back.plan", "--yes")
    assert "`connect plan` shows the differences" in done.stderr
    assert [*rig.states()] == ["a"]
    assert ": 1 to create" in rig("plan", "--detailed-exitcode", expect=4).stdout.splitlines()[0]
    # the plan that was saved is of a world that is gone
    rig("rollback", second, "back.plan", "--yes", expect=5)

    newest = json.loads(rig("history", "--json").stdout)["applies"][0]
    assert newest["rolls_back"] == second
    _, third, again, _ = rig("history").stdout.splitlines()
    assert third.endswith(f"rollback of {second}")
    assert again.endswith(f"rolled back by {newest['apply_id']}")
    # a part, by a file, and then the rest, past whoever is at work
    rig("rollback", newest["apply_id"], "--out", "part.plan", "--exclude", "a")
    rig("rollback", newest["apply_id"], "part.plan", "--yes", "--parallelism", "1")
    assert rig.states().keys() == {"a", "b"}
    of_part, in_part, *_ = rig("history").stdout.splitlines()[1:]
    assert of_part.endswith(f"rollback of {newest['apply_id']}")
    assert "partly rolled back by " in in_part
    again = json.loads(rig("rollback", newest["apply_id"], "--yes", "--json", "--takeover").stdout)
    assert again["report"]["exit_code"] == 0
    assert {each["name"] for each in again["report"]["connectors"]} == {"a"}
    assert sorted(rig.states()) == ["a", "b"]
    _, _, whole, *_ = rig("history").stdout.splitlines()[1:]
    assert f", rolled back by {again['report']['apply_id']}" in whole
    # the pin stays used
    rig.assert_nothing_to_do()


def test_where_offsets_were_and_where_they_went_is_shown(rig: Rig) -> None:
    """Also once a later apply has moved them on: the ledger keeps only the newest pin's."""
    pin = "offsets: {{pin: {}, set: [{{partition: {{filename: f}}, offset: {{position: {}}}}}]}}\n"
    applies = []
    for id_, position in (("p", 5), ("q", 9)):
        rig.source("a", state="stopped", offsets=pin.format(id_, position))
        applies.append(rig.apply()["report"]["apply_id"])
    rig.source("a", state="stopped", offsets="offsets: {pin: r, reset: true}\n")
    applies.append(rig.apply()["report"]["apply_id"])
    moves = ("none → position 5", "position 5 → position 9", "position 9 → none")
    for apply_id, move in zip(applies, moves, strict=True):
        assert f"offsets of a:\n  f {move}\n" in rig("history", apply_id).stdout
    (move,) = json.loads(rig("history", applies[1], "--json").stdout)["offsets"]["a"]
    assert move == {
        "partition": {"filename": "f"},
        "before": {"position": 5},
        "after": {"position": 9},
    }


def test_a_rollback_is_of_the_same_environment(rig: Rig) -> None:
    """Its plan is for that environment, and policies are asked about it."""
    rig.source("a", state="stopped")
    for file, text in {
        "values/prod.yaml": "{}\n",
        "policies/prod.yaml": "name: keep\n"
        """deny: "plan.env == 'prod' && change.connector == 'b'"\n""",
    }.items():
        (rig.folder / file).parent.mkdir()
        (rig.folder / file).write_text(text)
    environment = ("--env", "prod")
    rig("apply", "--yes", *environment)
    rig.source("a", state="paused")
    apply_id = json.loads(rig("apply", "--yes", "--json", *environment).stdout)["report"][
        "apply_id"
    ]
    project = rig.folder / "connect.yaml"
    project.write_text(project.read_text() + "policies: [policies/]\n")
    rig("rollback", apply_id, "--yes", *environment)
    assert rig.states()["a"][0] == "STOPPED"
    rig("apply", "--yes", *environment)
    policy = rig.folder / "policies" / "prod.yaml"
    policy.write_text(policy.read_text().replace("'b'", "'a'"))
    denied = rig("rollback", apply_id, "--yes", *environment, expect=2)
    assert "keep" in denied.stderr + denied.stdout


PIN = "offsets: {{pin: {pin}, set: [{{partition: {{filename: f}}, offset: {{position: {at}}}}}]}}\n"


def _killed(rig: Rig, moment: str, *words: str) -> None:
    """An apply of the saved plan that is killed once it is there."""
    apply = rig.start_pausing(moment, "apply", "a.plan", "--yes", *words)
    assert apply.stdout is not None
    assert f"at {moment}\n" in iter(apply.stdout.readline, "")
    apply.kill()
    apply.communicate()


def _offsets(rig: Rig, name: str) -> list[int]:
    listed = json.loads(rig("offsets", "list", name, "--json").stdout)["offsets"]
    return [each["offset"]["position"] for each in listed]


@pytest.mark.long
def test_a_rename_with_a_pin_is_killed_goes_on_and_is_rolled_back(rig: Rig) -> None:
    rig.source("old", state="paused", file="f", topic="t", offsets=PIN.format(pin="p", at=5))
    rig.apply()
    (rig.folder / "connectors" / "old.yaml").unlink()
    moved = PIN.format(pin="q", at=2) + "renamed_from: old\n"
    rig.source("new", state="paused", file="f", topic="t", offsets=moved)
    rig("plan", "--out", "a.plan")

    _killed(rig, "before:done:AlterOffsets")
    second = rig("apply", "a.plan", "--yes", "--takeover")
    assert "did not end this plan: 3 of its 6 actions are left to do" in second.stdout
    assert rig.states().keys() == {"new"}
    assert _offsets(rig, "new") == [2]

    newest, killed, _ = json.loads(rig("history", "--json").stdout)["applies"]
    assert killed["ending"] == "interrupted"
    back = rig("rollback", killed["apply_id"], "--yes")
    assert f"new was changed since by apply {newest['apply_id']}" in back.stdout
    assert rig.states().keys() == {"old"}
    assert _offsets(rig, "old") == [5]


def test_the_first_apply_of_all_is_killed_and_goes_on_with_its_file(rig: Rig) -> None:
    """It made the project's key, which the plan in the file had to do without."""
    for name in ("a", "b"):
        rig.source(name, state="paused", file="f", topic="t", password="hunter2")
    rig("plan", "--out", "a.plan")
    _killed(rig, "before:done:Create", "--parallelism", "1")
    second = rig("apply", "a.plan", "--yes", "--takeover")
    assert "did not end this plan" in second.stdout
    assert rig.states().keys() == {"a", "b"}
    assert ": no changes, " in rig("plan").stdout
