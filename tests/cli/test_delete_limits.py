"""How much a plan may delete: `--allow-empty`, `--max-deletes` and connect.yaml's `max_deletes`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.broker import BrokerAddress
from support.command import Command

NAMES = ("one", "two", "three")
SPEC = """\
name: {name}
state: stopped
config: {{connector.class: FileStreamSource, file: /dev/null, topic: lines}}
"""


@pytest.fixture
def project(on_kafka: Command) -> Command:
    """Three connectors, applied."""
    for name in NAMES:
        on_kafka.write(f"connectors/{name}.yaml", SPEC.format(name=name))
    assert on_kafka("apply", "--yes").returncode == 0
    return on_kafka


def remove(project: Command, *names: str) -> None:
    for name in names:
        (project.folder / "connectors" / f"{name}.yaml").unlink()


def statuses(project: Command) -> str:
    return project("status").stdout


def test_an_empty_folder_deletes_nothing(project: Command) -> None:
    """As after a generator that failed, or with a submodule that is missing."""
    remove(project, *NAMES)
    for words in (["plan", "--out", "p.json"], ["apply", "--yes"], ["apply", "--yes", "--json"]):
        refused = project(*words)
        assert refused.returncode == 2, refused.stderr
        assert "specs.empty" in refused.stdout
        assert "delete" in refused.stdout, "the plan is shown"
    assert not (project.folder / "p.json").exists()
    assert all(name in statuses(project) for name in NAMES)
    assert project("drift").returncode in (0, 4)
    assert project("import", "--all", "--out", "connectors").returncode == 0


def test_allow_empty_is_said_again_when_a_saved_plan_is_applied(project: Command) -> None:
    remove(project, *NAMES)
    planned = project("plan", "--allow-empty", "--out", "p.json")
    assert planned.returncode == 0, planned.stderr
    assert "warning[specs.empty]" in planned.stdout
    assert "saved: `connect apply p.json --allow-empty` applies exactly this plan" in planned.stderr
    refused = project("apply", "p.json", "--yes")
    assert refused.returncode == 2
    assert "error[specs.empty]" in refused.stdout
    applied = project("apply", "p.json", "--yes", "--allow-empty")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert not any(name in statuses(project) for name in NAMES)


def test_specs_of_another_project_delete_nothing(project: Command) -> None:
    remove(project, *NAMES)
    project.write("connectors/other.yaml", SPEC.format(name="other"))
    refused = project("apply", "--yes")
    assert refused.returncode == 2
    assert "error[specs.disjoint]" in refused.stdout and "3 to delete" in refused.stdout
    renamed = SPEC.format(name="other") + "renamed_from: one\n"
    project.write("connectors/other.yaml", renamed)
    assert project("apply", "--yes").returncode == 0


def test_more_deletes_than_allowed(project: Command) -> None:
    remove(project, "two", "three")
    text = (project.folder / "connect.yaml").read_text()
    project.write("connect.yaml", text + "max_deletes: 1\n")
    refused = project("apply", "--yes")
    assert refused.returncode == 2
    assert "error[plan.max-deletes]: connect.yaml:3:14" in refused.stdout
    assert "2 to delete" in refused.stdout
    assert project("plan", "--target", "two").returncode == 0, "a part with one delete"
    planned = project("plan", "--max-deletes", "2", "--out", "p.json")
    assert planned.returncode == 0, planned.stdout
    assert project("apply", "p.json", "--yes").returncode == 2, "nothing in a file is believed"
    assert project("apply", "p.json", "--yes", "--max-deletes", "2").returncode == 0


def test_a_rollback_deletes_what_its_apply_created(
    connect: Command, broker: BrokerAddress, unique: str
) -> None:
    text = f"project: p\ncluster: {broker.cluster(unique)}\nmax_deletes: 0\n"
    connect.write("connect.yaml", text)
    connect.write("connectors/one.yaml", SPEC.format(name="one"))
    applied = connect("apply", "--yes", "--json")
    assert applied.returncode == 0, applied.stdout
    apply_id = json.loads(applied.stdout)["report"]["apply_id"]
    remove(connect, "one")
    undone = connect("rollback", apply_id, "--yes")
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert "one" not in statuses(connect)


def test_help_names_the_options(tmp_path: Path) -> None:
    for verb in ("plan", "apply"):
        told = Command(tmp_path)(verb, "--help").stdout
        assert "--allow-empty" in told and "--max-deletes" in told
