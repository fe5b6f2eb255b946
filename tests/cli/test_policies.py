"""Policies as a pipeline meets them: at validate, at plan, and when a saved plan is applied."""

from connect_runtime.kafka.groups import alter_group_offsets, list_group_offsets
from support.broker import BrokerAddress, create_topic, produce
from support.command import Command


def test_offsets_that_are_known_only_once_a_sink_is_stopped_are_judged_before_they_move(
    on_kafka: Command, broker: BrokerAddress, unique: str
) -> None:
    """The estimate passes a rule that the exact numbers violate: nothing is moved, and the sink
    runs as before."""
    project, file = on_kafka, on_kafka.folder / "connect.yaml"
    file.write_text(file.read_text() + "policies: [policies/]\n")
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
