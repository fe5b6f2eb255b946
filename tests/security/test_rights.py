"""The least rights of docs/security.md, on a Kafka with an authorizer: enough, and each one needed.

The rights come from the page's table, so that the page cannot say anything else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect_reconciler.cli import entry
from connect_runtime.kafka import groups
from connect_runtime.kafka.clients import admin
from connect_runtime.kafka.log import KafkaLogs
from connect_runtime.kafka.topics import log_ranges, topic_sizes
from connect_runtime.storage import config_topic
from connect_runtime.storage.snapshots import State, StatusSnapshot
from connect_runtime.storage.status_topic import reduce_all
from connect_specs.desired import TargetState
from connect_specs.project import load_project
from support.broker import FEW_PARTITIONS, create_topic, produce
from support.guarded_broker import GuardedBroker
from support.leading import leading
from support.rights import Right, commanded, listed
from support.thread_cluster import thread_cluster
from support.wait import wait_until

# Each login has the rights of those before it too.
LOGINS = ("planner", "applier", "leader")
SOURCE = "name: {group}-in\nstate: stopped\n{offsets}config:\n  connector.class: FileStreamSource\n"
SINK = "name: {group}-out\nstate: stopped\n{offsets}config:\n  connector.class: FileStreamSink\n"

Ends = Mapping[tuple[str, int], tuple[int, int]]


def source(group: str, offset: int) -> str:
    partition = f"{{filename: /dev/null}}, offset: {{position: {offset}}}"
    pin = f"offsets: {{pin: at-{offset}, set: [{{partition: {partition}}}]}}\n"
    text = SOURCE.format(group=group, offsets=pin if offset else "")
    return f"{text}  topic: {group}.lines\n  file: /dev/null\n"


def sink(group: str, offset: int | str) -> str:
    partition = f"{{kafka_topic: {group}.lines, kafka_partition: 0}}"
    pin = f"set: [{{partition: {partition}, offset: {{kafka_offset: {offset}}}}}]"
    if offset == "reset":
        pin = "reset: true"
    pin = f"offsets: {{pin: at-{offset}, {pin}}}\n" if offset else ""
    text = SINK.format(group=group, offsets=pin)
    return f"{text}  topics: {group}.lines\n  file: /dev/null\n"


@dataclass
class Site:
    """A Connect cluster of its own on the guarded Kafka, with a source and a sink that moved."""

    kafka: GuardedBroker
    group: str
    folder: Path
    capture: pytest.CaptureFixture[str]

    def project(self, user: str | None, **cluster: object) -> Path:
        """A folder whose connect.yaml has this user's login; None: somebody who may do all."""
        client = self.kafka.open if user is None else self.kafka.client(user)
        folder = self.folder / str(user)
        (folder / "connectors").mkdir(parents=True, exist_ok=True)
        described = {"group.id": self.group, "kafka": client, "worker": FEW_PARTITIONS, **cluster}
        text = json.dumps({"project": "p", "cluster": described})
        (folder / "connect.yaml").write_text(text)
        return folder

    def want(self, user: str | None, offset: int | str) -> None:
        """Specs that pin both connectors at an offset; 0: at none."""
        folder = self.project(user) / "connectors"
        (folder / "in.yaml").write_text(source(self.group, 0 if offset == "reset" else int(offset)))
        (folder / "out.yaml").write_text(sink(self.group, offset))

    def run(self, user: str | None, *words: str) -> tuple[int, str, str]:
        """The exit code and both outputs."""
        self.capture.readouterr()
        code = entry.run(["-C", str(self.folder / str(user)), *words])
        shown = self.capture.readouterr()
        assert "of-a-test" not in shown.out + shown.err
        return code, shown.out, shown.err

    def rights(self, *logins: str) -> list[Right]:
        at = [right.at(self.group, f"{self.group}.lines") for right in listed()]
        return [right for right in at if right.login in logins]

    @contextmanager
    def allowed(self, user: str, rights: Sequence[Right]) -> Iterator[None]:
        bindings = [right.of(user) for right in rights]
        self.kafka.set_rights(bindings)
        try:
            yield
        finally:
            self.kafka.take_rights(bindings)

    def state(self, *, but: Sequence[str] = ()) -> tuple[set[str], Ends, set[str]]:
        """All that a verb could have written: topics, the ends of logs, groups."""
        sizes = topic_sizes(self.kafka.open)
        mine = [(name, 0) for name in sizes if name.startswith(self.group) and name not in but]
        client = admin(self.kafka.open)
        found = client.list_consumer_groups(request_timeout=10).result(timeout=15)
        names = {group.group_id for group in found.valid if self.group in group.group_id}
        return set(sizes), log_ranges(self.kafka.open, mine), names


@pytest.fixture
def site(
    guarded: GuardedBroker, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Site:
    # short, and no other test's sinks begin so
    group = f"r{unique[-8:]}"
    here = Site(guarded, group, tmp_path, capsys)
    servers = guarded.open["bootstrap.servers"]
    create_topic(servers, f"{group}.lines")
    produce(servers, f"{group}.lines", [(None, b"line")] * 5)
    here.want(None, 0)
    code, _, errors = here.run(None, "apply", "--yes")
    assert code == 0, errors
    groups.alter_group_offsets(guarded.open, f"connect-{group}-out", {(f"{group}.lines", 0): 4})
    return here


def test_a_planner_saves_the_first_plan_of_all_and_touches_nothing(
    guarded: GuardedBroker, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a secret, on a cluster where nobody has made the key of fingerprints yet."""
    group = f"r{unique[-8:]}"
    new = Site(guarded, group, tmp_path, capsys)
    create_topic(guarded.open["bootstrap.servers"], f"{group}.lines")
    new.want("planner", 0)
    with (new.project("planner") / "connectors" / "in.yaml").open("a") as spec:
        spec.write("  some.password: hunter2\n")
    topics, *rest = new.state()
    with new.allowed("planner", new.rights("planner")):
        code, shown, errors = new.run("planner", "plan", "--out", "first.plan")
        assert code == 0, errors
    assert "plan-file.key-to-come" in shown
    assert "hunter2" not in (tmp_path / "planner" / "first.plan").read_text() + shown + errors
    now, *rest_now = new.state()
    # Kafka makes its own topic when it is asked where a group is
    assert (now - {"__consumer_offsets"}, rest_now) == (topics - {"__consumer_offsets"}, rest)


def test_the_lines_for_kafka_acls_are_the_table() -> None:
    table = [right.at("orders", "payments") for right in listed()]
    assert {right.login for right in table} == {*LOGINS, "first apply"}
    assert sorted(map(str, commanded())) == sorted(map(str, table))


def test_a_planner_plans_and_drifts_and_touches_nothing(site: Site) -> None:
    site.want("planner", 1)
    before = site.state()
    with site.allowed("planner", site.rights("planner")):
        code, out, errors = site.run("planner", "plan", "--detailed-exitcode")
        assert code == 4, errors
        assert f"{site.group}.lines-0 4 → 1: redelivers 3 offsets" in out
        assert site.run("planner", "drift")[0] == 0
        for verb in (["status"], ["history"], ["export", f"{site.group}-out"]):
            assert site.run("planner", *verb)[0] == 0
        code, _, errors = site.run("planner", "apply", "--yes")
        assert code == 3
        assert f"{site.group}-ledger: this login lacks Write on this topic" in errors
        assert "docs/security.md" in errors
    assert site.state() == before


def test_a_planner_needs_each_right(site: Site) -> None:
    site.want("planner", 1)
    new = sink(site.group, 0).replace("-out", "-new")
    (site.folder / "planner" / "connectors" / "new.yaml").write_text(new)
    *topics, who_leads, of_sinks, logs = rights = site.rights("planner")
    before = site.state()
    for missing in rights:
        with site.allowed("planner", [right for right in rights if right != missing]):
            code, out, errors = site.run("planner", "plan")
            if missing == who_leads:
                assert (code, "not validated by the cluster" in out) == (0, True)
            else:
                assert (code, out) == (3, ""), str(missing)
                assert f"error[kafka.not-allowed]: {missing.name.removesuffix('*')}" in errors
            code, out, _ = site.run("planner", "drift")
            assert code == (3 if missing in topics else 0), str(missing)
            assert ("not compared" in out) == (missing in (of_sinks, logs))
    assert site.state() == before


def test_an_applier_applies_through_a_runtime_and_needs_each_right(site: Site) -> None:
    project = load_project(site.project(None) / "connect.yaml")
    who_leads, *own = [
        *(right for right in site.rights("planner") if right.name == site.group),
        *site.rights("applier"),
    ]
    # whoever leads says so at once, and what does not run
    leads = (f"{site.group}-status", f"{site.group}-assignments")
    with leading(project, site.kafka.open) as url:
        for missing in (who_leads, *own):
            site.want("applier", 1)
            rest = [right for right in site.rights("planner", "applier") if right != missing]
            before = site.state(but=leads)
            with site.allowed("applier", rest):
                code, _, errors = site.run("applier", "apply", "--yes")
            assert code == 3, (str(missing), errors)
            assert f"error[kafka.not-allowed]: {missing.name}" in errors
            assert site.state(but=leads) == before, str(missing)
        with site.allowed("applier", site.rights("planner", "applier")):
            code, out, errors = site.run("applier", "apply", "--yes")
            assert code == 0, out + errors
        # who is told where the REST API is need not ask Kafka
        site.want("applier", 2)
        site.project("applier", target={"rest": url})
        told = [right for right in site.rights("planner", "applier") if right != who_leads]
        with site.allowed("applier", told):
            code, out, errors = site.run("applier", "apply", "--yes")
            assert code == 0, out + errors


def test_a_leader_applies_by_itself_and_needs_each_right(site: Site) -> None:
    kept = site.rights(*LOGINS)
    site.want("leader", 1)
    # whoever leads says so at once, and what does not run
    leads = (f"{site.group}-status", f"{site.group}-assignments")
    before = site.state(but=leads)
    for missing in site.rights("leader"):
        if missing.operation == "Delete" or missing.name == f"{site.group}-*":
            continue
        with site.allowed("leader", [right for right in kept if right != missing]):
            code, _, errors = site.run("leader", "apply", "--yes")
        assert code == 3, (str(missing), errors)
        assert f"error[kafka.not-allowed]: {missing.name.removesuffix('*')}" in errors
        assert site.state(but=leads) == before, str(missing)
    with site.allowed("leader", kept):
        code, out, errors = site.run("leader", "apply", "--yes")
        assert code == 0, out + errors


def test_a_leader_moves_a_source_whose_tasks_it_may_fence(site: Site) -> None:
    kept = site.rights(*LOGINS)
    (missing,) = [right for right in kept if right.name == f"{site.group}-*"]
    topic, name = f"{site.group}-configs", f"{site.group}-in"
    ran = [
        config_topic.fencing_record(topic, name, 1),
        config_topic.commit_record(topic, name, 0),
    ]
    logs = KafkaLogs(site.kafka.open)
    logs.writer("as-a-leader").write(ran)
    logs.close()
    site.want("leader", 1)
    with site.allowed("leader", [right for right in kept if right != missing]):
        code, _, errors = site.run("leader", "apply", "--yes")
    # of transactional ids Kafka does not tell beforehand: this connector fails, others go on
    assert code == 1
    assert f"{site.group}-out: set offsets done" in errors
    assert f"{name}: set offsets failed" in errors
    assert f"{site.group}-{name}-0: Earlier writers cannot be fenced" in errors
    assert "Transactional Id authorization failed" in errors
    with site.allowed("leader", kept):
        code, out, errors = site.run("leader", "apply", "--yes")
        assert code == 0, out + errors


def test_a_leader_resets_a_sink_with_the_right_to_delete_its_group(site: Site) -> None:
    kept = site.rights(*LOGINS)
    (missing,) = [right for right in kept if right.operation == "Delete"]
    site.want("leader", "reset")
    leads = (f"{site.group}-status", f"{site.group}-assignments")
    before = site.state(but=leads)
    with site.allowed("leader", [right for right in kept if right != missing]):
        code, _, errors = site.run("leader", "apply", "--yes")
    assert code == 3
    assert f"connect-{site.group}-out: this login lacks Delete on this group" in errors
    assert site.state(but=leads) == before
    with site.allowed("leader", kept):
        code, out, errors = site.run("leader", "apply", "--yes")
        assert code == 0, out + errors


def test_a_runtime_runs_tasks_with_write_on_the_topics_of_sources(site: Site) -> None:
    group, lines = f"t{site.group}", f"{site.group}.lines"
    rights = [right.at(group, lines) for right in listed()]
    file, written = site.folder / "in.txt", site.folder / "out.txt"
    file.write_text("last\n")
    client = site.kafka.client("leader")
    for prefix in ("producer", "consumer", "admin"):
        client |= {f"{prefix}.{key}": value for key, value in site.kafka.client("leader").items()}
    reads = {"name": "in", "connector.class": "FileStreamSource", "topic": lines, "file": str(file)}
    writes = {"name": f"{site.group}-out", "connector.class": "FileStreamSink", "topics": lines}
    writes["file"] = str(written)
    with (
        site.allowed("leader", rights),
        thread_cluster(client["bootstrap.servers"], group, client) as runtime,
    ):
        runtime.verbs.create("in", reads, TargetState.RUNNING)
        runtime.wait_for("in", State.RUNNING, State.FAILED)
        status = runtime.verbs.status("in").tasks[0]
        assert "Topic authorization failed" in (status.trace or "")
        with site.allowed("leader", [Right("leader", "topic", lines, "Write")]):
            runtime.verbs.restart("in", include_tasks=True, only_failed=True)
            runtime.verbs.create(writes["name"], writes, TargetState.RUNNING)
            wait_until(
                lambda: written.exists() and written.read_text().endswith("last\n"),
                what="the sink to write what the source read",
            )


def test_a_first_apply_needs_to_create_topics(site: Site) -> None:
    site.group = f"f{site.group}"
    lines = f"{site.group}.lines"
    create_topic(site.kafka.open["bootstrap.servers"], lines)
    site.want("leader", 0)
    before = site.state()
    with site.allowed("leader", site.rights(*LOGINS)):
        code, _, errors = site.run("leader", "apply", "--yes")
        assert code == 3
        assert f"error[kafka.not-allowed]: {site.group}-configs: The topic cannot be" in errors
        assert site.state()[0] == before[0]
        with site.allowed("leader", site.rights("first apply")):
            code, out, errors = site.run("leader", "apply", "--yes")
            assert code == 0, out + errors


def test_a_leader_that_may_not_write_statuses_any_more_goes_on_and_says_so(site: Site) -> None:
    group, lines = f"s{site.group}", f"{site.group}.lines"
    rights = [right.at(group, lines) for right in listed()]
    (statuses,) = (r for r in rights if (r.name, r.operation) == (f"{group}-status", "Write"))
    client = site.kafka.client("leader")
    for prefix in ("producer", "consumer", "admin"):
        client |= {f"{prefix}.{key}": value for key, value in site.kafka.client("leader").items()}
    reads = {"connector.class": "FileStreamSource", "topic": lines, "file": "/dev/null"}
    with ExitStack() as stack:
        stack.enter_context(site.allowed("leader", [r for r in rights if r != statuses]))
        with ExitStack() as first:
            first.enter_context(site.allowed("leader", [statuses]))
            runtime = stack.enter_context(
                thread_cluster(client["bootstrap.servers"], group, client)
            )
            runtime.verbs.create("a", {"name": "a", **reads}, None)
            runtime.wait_for("a", State.RUNNING, State.RUNNING)
        # the right is gone
        runtime.verbs.stop("a")
        wait_until(lambda: not runtime.launcher.running, what="the task to end")
        runtime.verbs.create("b", {"name": "b", **reads}, None)
        wait_until(lambda: runtime.launcher.running, what="another task")
        said = wait_until(runtime.verbs.degraded, what="the problem")
        assert f"this login may not write to topic {group}-status" in said
        assert runtime.verbs.runtime().problem == said
        with site.allowed("leader", [statuses]):
            wait_until(lambda: runtime.verbs.degraded() is None, what="no problem", timeout_s=30)
            found = runtime.logs.reader(f"{group}-status").read_to_end(20)
            connectors = reduce_all(StatusSnapshot(), found).connectors
            states = {name: each.state for name, each in connectors.items()}
            assert states == {"a": State.STOPPED, "b": State.RUNNING}
