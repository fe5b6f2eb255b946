"""What `connect plan` says about configs, beside the diff and at their lines."""

import json

import pytest

from support.broker import BrokerAddress
from support.command import Command

SPEC = """\
name: lines
config:
  connector.class: FileStreamSource
  topic: lines
  tasks.max: hunter2
  fil: /dev/null
  batch.size: ${env:SIZE}
sensitive: [tasks.*]
"""


@pytest.fixture
def project(connect: Command, broker: BrokerAddress, unique: str) -> Command:
    """A project on the session's Kafka, with no runtime up."""
    kafka = f"{{bootstrap.servers: '{broker.bootstrap_servers}'}}"
    connect.write("connect.yaml", f"project: p\ncluster: {{group.id: {unique}, kafka: {kafka}}}\n")
    connect.write("connectors/lines.yaml", SPEC)
    return connect


def test_the_diff_is_shown_with_what_is_wrong_and_nothing_is_applied(project: Command) -> None:
    """The trap: no diff is shown where validation fails."""
    planned = project("plan", "--out", "saved.plan")
    assert planned.returncode == 2
    assert planned.stdout.startswith("Plan: 1 to create; 1 error")
    assert "+ topic: lines" in planned.stdout
    assert "tasks.max: (sensitive)" in planned.stdout
    assert "config.refused]: connectors/lines.yaml:5:3: lines: Invalid value (hidden)" in (
        planned.stdout
    )
    assert "config.unknown-key]: connectors/lines.yaml:6:3: " in planned.stdout
    assert "hint: did you mean file?" in planned.stdout
    assert planned.stdout.count("config.not-checkable]") == 1
    assert not (project.folder / "saved.plan").exists()

    applied = project("apply", "--yes", "--json")
    assert applied.returncode == 2
    document = json.loads(applied.stdout)
    assert document["plan"]["summary"]["create"] == 1
    assert document["report"] is None
    assert "hunter2" not in planned.stdout + planned.stderr + applied.stdout + applied.stderr

    checked = project("validate")
    assert checked.returncode == 2
    assert "error[config.refused]: connectors/lines.yaml:5:3: lines: Invalid value (hidden)" in (
        checked.stderr
    )
    assert "hunter2" not in checked.stderr
