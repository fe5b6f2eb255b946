"""Policies as a pipeline meets them: at validate, at plan, and when a saved plan is applied."""

import pytest

from connect_runtime.kafka.groups import alter_group_offsets, list_group_offsets
from support.broker import BrokerAddress, create_topic, produce
from support.command import Command

SPEC = """\
name: lines
state: stopped
config: {connector.class: FileStreamSource, file: /dev/null, topic: lines}
"""
RULE = """\
name: no-new-ones
{verdict}: '"create" in change.does'
says: nothing new this week
"""


@pytest.fixture
def project(connect: Command, broker: BrokerAddress, unique: str) -> Command:
    cluster = f"cluster: {broker.cluster(unique)}"
    connect.write("connect.yaml", f"project: p\n{cluster}\npolicies: [policies/]\n")
    connect.write("connectors/lines.yaml", SPEC)
    return connect


def test_a_denied_plan_is_shown_and_not_applied(project: Command) -> None:
    """A policy denies or warns; a saved plan is judged again."""
    project.write("policies/rule.yaml", RULE.format(verdict="warn"))
    warned = project("plan", "--out", "saved.plan")
    assert warned.returncode == 0, warned.stderr
    assert "warning[policy.warn]" in warned.stdout

    project.write("policies/rule.yaml", RULE.format(verdict="deny"))
    denied = project("plan")
    assert denied.returncode == 2
    assert "lines" in denied.stdout and "create" in denied.stdout
    assert "error[policy.deny]: policies/rule.yaml:1:7: lines: nothing new this week" in (
        denied.stdout
    )
    for refused in (project("apply", "--yes"), project("apply", "saved.plan", "--yes")):
        assert refused.returncode == 2
        assert "policy.deny" in refused.stdout
    assert project("plan", "--detailed-exitcode").returncode == 2

    project.write("policies/rule.yaml", RULE.format(verdict="warn"))
    applied = project("apply", "saved.plan", "--yes")
    assert applied.returncode == 0, applied.stderr


def test_validate_finds_what_is_wrong_with_a_policy(project: Command) -> None:
    project.write("policies/rule.yaml", "name: a\ndeny: change.again >\n")
    refused = project("validate")
    assert refused.returncode == 2
    assert "error[policy.syntax]" in refused.stderr
    assert "policies/rule.yaml:2:7" in refused.stderr


def test_a_plan_without_changes_finds_a_misnamed_field(project: Command) -> None:
    """A rule that nothing asks yet is wrong today, not on the day of the first change."""
    project.write("connectors/lines.yaml", "# none\n")
    project.write("policies/rule.yaml", "name: a\ndeny: change.agian > 5\n")
    for verb in (["validate"], ["plan"], ["apply"]):
        refused = project(*verb)
        assert refused.returncode == 2
        assert "error[policy.unknown-field]: policies/rule.yaml:2:7: change has no field" in (
            refused.stderr
        )
        assert "hint: did you mean 'again'?" in refused.stderr


def test_offsets_that_are_known_only_once_a_sink_is_stopped_are_judged_before_they_move(
    project: Command, broker: BrokerAddress, unique: str
) -> None:
    """The estimate passes a rule that the exact numbers violate: nothing is moved, and the sink
    runs as before."""
    servers, spec = broker.bootstrap_servers, "connectors/lines.yaml"
    create_topic(servers, unique)
    produce(servers, unique, [(None, str(n).encode()) for n in range(10)])
    ends, group = {"bootstrap.servers": servers}, f"connect-lines-{unique}"
    config = (
        f"{{connector.class: FileStreamSink, topics: {unique}, file: /dev/null,"
        f" consumer.override.group.id: {group}}}"
    )
    project.write(spec, f"name: lines\nconfig: {config}\n")
    rule = "name: few\ndeny: change.exact && change.again > 5\nsays: too much again\n"
    project.write("policies/rule.yaml", rule)
    assert project("apply", "--yes").returncode == 0
    alter_group_offsets(ends, group, {(unique, 0): 7})
    project.write(spec, f"name: lines\nconfig: {config}\noffsets: {{pin: p, to: earliest}}\n")
    planned = project("plan", "--out", "saved.plan")
    assert planned.returncode == 0, planned.stderr
    assert f"{unique}-0 7 → 0 by now: redelivers about 7 offsets" in planned.stdout
    for words in (("apply", "--yes"), ("apply", "saved.plan", "--yes")):
        refused = project(*words)
        assert refused.returncode == 1
        told = refused.stdout + refused.stderr
        assert "once it was stopped, pin p redelivers 7 offsets and jumps over 0: " in told
        assert "too much again" in told
        assert list_group_offsets(ends, group) == {(unique, 0): 7}
        assert "running" in project("status").stdout
    project.write("policies/rule.yaml", rule.replace("> 5", "> 7"))
    assert project("apply", "saved.plan", "--yes").returncode == 0
    assert list_group_offsets(ends, group) == {(unique, 0): 0}
