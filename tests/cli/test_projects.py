"""Two projects on one cluster, guards that take two applies to lift, and plans about a part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.broker import BrokerAddress
from support.command import Command

SPEC = """\
name: {name}
state: stopped
config: {{connector.class: FileStreamSource, file: /dev/null, topic: lines, tasks.max: "{tasks}"}}
"""
GUARD = "lifecycle: {{prevent_delete: {value}}}\n"


def spec(name: str, *, tasks: int = 1, guard: str | None = None) -> str:
    text = SPEC.format(name=name, tasks=tasks)
    return text if guard is None else text + GUARD.format(value=guard)


class Projects:
    """Projects in folders of their own, with one group.id."""

    def __init__(self, folder: Path, broker: BrokerAddress, group_id: str) -> None:
        self._folder = folder
        self._cluster = f"cluster: {broker.cluster(group_id)}\n"

    def __call__(self, name: str) -> Command:
        folder = self._folder / name
        folder.mkdir()
        (folder / "connectors").mkdir()
        command = Command(folder)
        command.write("connect.yaml", f"project: {name}\n{self._cluster}")
        return command


NOTHING = ": no changes, the cluster matches the specs\n"


@pytest.fixture
def projects(tmp_path: Path, broker: BrokerAddress, unique: str) -> Projects:
    return Projects(tmp_path, broker, unique)


def applied(project: Command) -> None:
    done = project("apply", "--yes")
    assert done.returncode == 0, done.stderr


def names(project: Command) -> list[str]:
    shown = json.loads(project("status", "--json").stdout)["connectors"]
    return [each["name"] for each in shown if each["state"] != "MISSING"]


def remove(project: Command, name: str) -> None:
    (project.folder / "connectors" / name).unlink()


def test_two_projects_do_not_touch_each_others_connectors(projects: Projects) -> None:
    orders, billing = projects("orders"), projects("billing")
    orders.write("connectors/a.yaml", spec("orders-lines"))
    billing.write("connectors/a.yaml", spec("billing-lines"))
    applied(orders)
    planned = billing("plan")
    assert "orders-lines" not in planned.stdout
    assert planned.stdout.splitlines()[0].endswith(": 1 to create")
    applied(billing)
    assert (names(orders), names(billing)) == (["orders-lines"], ["billing-lines"])
    assert "not shown: 1 of other projects or unmanaged" in orders("status").stderr
    all_of_them = json.loads(orders("status", "--all", "--json").stdout)["connectors"]
    assert [(each["name"], each["project"]) for each in all_of_them] == [
        ("billing-lines", "billing"),
        ("orders-lines", "orders"),
    ]
    for project in (orders, billing):
        assert project("plan").stdout.endswith(NOTHING)

    # A spec of what the other project owns is an error, and changes nothing
    billing.write("connectors/b.yaml", spec("orders-lines", tasks=2))
    taken = billing("apply", "--yes")
    assert taken.returncode == 2
    assert "error[plan.owned-by-other]" in taken.stdout
    remove(billing, "b.yaml")
    # So is its name in a rename
    billing.write("connectors/b.yaml", "renamed_from: orders-lines\n" + spec("stolen"))
    assert "error[plan.owned-by-other]" in billing("plan").stdout
    remove(billing, "b.yaml")

    # No spec left: what goes is its own
    remove(billing, "a.yaml")
    last = billing("apply", "--yes", "--allow-empty")
    assert last.returncode == 0, last.stderr
    assert names(orders) == ["orders-lines"]
    assert orders("plan").stdout.endswith(NOTHING)


def test_a_guard_takes_two_applies_to_lift(projects: Projects) -> None:
    """Protection against deletion: lifted first, then the file goes."""
    project = projects("orders")
    project.write("connectors/a.yaml", spec("lines", guard="true"))
    applied(project)

    # The guard is in the ledger: without the file it still holds, against a plan and a rename
    remove(project, "a.yaml")
    refused = project("apply", "--yes")
    assert refused.returncode == 2
    assert "error[plan.protected]" in refused.stdout
    project.write("connectors/a.yaml", "renamed_from: lines\n" + spec("new"))
    assert "error[plan.protected]" in project("plan").stdout
    assert names(project) == ["lines"]

    # A file that was edited and removed before it was applied has lifted nothing
    project.write("connectors/a.yaml", spec("lines", guard="false"))
    assert project("plan").stdout.splitlines()[0].endswith(": 1 to unprotect")
    remove(project, "a.yaml")
    assert project("plan").returncode == 2

    project.write("connectors/a.yaml", spec("lines"))
    applied(project)
    remove(project, "a.yaml")
    assert project("plan", "--allow-empty").stdout.splitlines()[0].endswith(": 1 to delete")
    assert project("apply", "--yes", "--allow-empty").returncode == 0
    assert names(project) == []


def test_a_saved_plan_about_a_part_stays_one(projects: Projects) -> None:
    project = projects("orders")
    for name in ("orders-in", "orders-out", "billing"):
        project.write(f"connectors/{name}.yaml", spec(name))
    saved = project("plan", "--target", "orders-*", "--exclude", "*-out", "--out", "part.json")
    assert ": 1 to create; targeted: 1 of 3 connectors, by --target" in saved.stdout.splitlines()[0]
    again = project("apply", "part.json", "--yes", "--target", "*")
    assert again.returncode == 2
    assert "error[apply.scope-of-a-file]" in again.stderr
    assert project("apply", "part.json", "--yes").returncode == 0
    assert names(project) == ["orders-in"]

    unknown = project("plan", "--target", "order-in")
    assert unknown.returncode == 2
    assert "there are: orders-in" in unknown.stderr

    # What has no spec any more is not deleted by a plan that leaves it out
    remove(project, "orders-in.yaml")
    left = project("apply", "--yes", "--exclude", "orders-in")
    assert left.returncode == 0, left.stderr
    assert names(project) == ["billing", "orders-in", "orders-out"]
    assert project("plan").stdout.splitlines()[0].endswith(": 1 to delete")
