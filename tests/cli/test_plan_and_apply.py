"""plan and apply as a pipeline sees them: outputs, exit codes, and who is asked."""

import json
import os
import pty
import subprocess

import pytest

from support.command import CONNECT, Command

SPEC = """\
name: lines
state: stopped
config:
  connector.class: FileStreamSource
  file: /dev/null
  topic: lines
  some.password: hunter2
"""


@pytest.fixture
def project(on_kafka: Command) -> Command:
    """A project on the session's Kafka, with one spec and no runtime."""
    on_kafka.write("connectors/lines.yaml", SPEC)
    return on_kafka


def test_plan_apply_plan_is_empty(project: Command) -> None:
    planned = project("plan", "--detailed-exitcode")
    assert planned.returncode == 4
    assert planned.stdout.splitlines()[0].endswith(": 1 to create")
    assert "\x1b" not in planned.stdout

    applied = project("apply", "--yes")
    assert applied.returncode == 0, applied.stderr
    assert applied.stdout.splitlines()[0].endswith(": 1 to create")
    assert "Applied: 1 done" in applied.stdout
    assert "lines: create done" in applied.stderr

    again = project("plan", "--detailed-exitcode")
    assert again.returncode == 0
    assert again.stdout.endswith(": no changes, the cluster matches the specs\n")
    without_anybody = project("apply")
    assert (without_anybody.returncode, without_anybody.stdout) == (0, again.stdout)

    shown = json.loads(project("status", "--json").stdout)
    assert [(each["name"], each["target"]) for each in shown["connectors"]] == [
        ("lines", "stopped")
    ]
    assert shown["leader"] is None
    for done in (planned, applied, again):
        assert "hunter2" not in done.stdout + done.stderr


def test_an_apply_with_no_runtime_up_says_so_and_validates_first(project: Command) -> None:
    """The trap: it exits with 0, and nobody notices that nothing runs, or ever could."""
    project.write("connectors/lines.yaml", SPEC.replace("state: stopped\n", ""))
    wrong = SPEC.replace("lines", "more").replace("FileStreamSource", "org.example.NoSource")
    file = project.write("connectors/more.yaml", wrong)
    refused = project("apply", "--yes")
    assert refused.returncode == 2
    what = "more: org.example.NoSource is not installed here, and no runtime is up that has it"
    assert f"error[config.not-installed]: connectors/more.yaml:4:3: {what}" in refused.stderr
    assert '"create": 2' in project("plan", "--json").stdout, "nothing was changed"
    file.unlink()
    applied = project("apply", "--yes", "--require-running", "--json")
    assert applied.returncode == 1, applied.stderr
    report = json.loads(applied.stdout)["report"]
    assert (report["exit_code"], report["runtime_up"]) == (1, False)
    (line,) = report["connectors"]
    assert line["health_detail"] == "not running: no runtime is up"
    other = SPEC.replace("state: stopped\n", "").replace("hunter2", "hunter3")
    project.write("connectors/lines.yaml", other)
    again = project("apply", "--yes")
    assert again.returncode == 0, again.stderr
    last = "not running: no runtime is up (`connect up` starts one)"
    assert again.stdout.splitlines()[-1] == last
    nothing = project("apply", "--yes", "--require-running")
    assert nothing.returncode == 1
    assert "not running: no runtime is up" in nothing.stderr


def test_apply_needs_someone_to_ask_or_yes(project: Command) -> None:
    """The gate before automation: nothing changes without a person's yes, or `--yes`."""
    done = project("apply")
    assert done.returncode == 2
    assert done.stdout.splitlines()[0].endswith(": 1 to create")
    assert "error[apply.nobody-to-ask]" in done.stderr
    assert "--yes" in done.stderr
    assert project("plan", "--detailed-exitcode").returncode == 4


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, 4), ("y", 0, 0)])
def test_apply_asks_on_a_terminal(project: Command, answer: str, code: int, left: int) -> None:
    terminal, its_end = pty.openpty()
    asked = subprocess.Popen(
        [*CONNECT, "apply"],
        cwd=project.folder,
        stdin=its_end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(its_end)
    os.write(terminal, f"{answer}\n".encode())
    shown, told = asked.communicate(timeout=60)
    os.close(terminal)
    assert "Apply to p: 1 to create? [y/N]" in told
    assert shown.splitlines()[0].endswith(": 1 to create")
    assert asked.returncode == code, told
    assert project("plan", "--detailed-exitcode").returncode == left


def test_the_first_plan_of_all_is_saved_without_fingerprints_and_applied(project: Command) -> None:
    """Nobody has made the project's key yet, and a planner may not write."""
    planned = project("plan", "--out", "saved.plan")
    assert planned.returncode == 0, planned.stderr
    assert "plan-file.key-to-come" in planned.stdout
    assert "lines.some.password" in planned.stdout
    text = (project.folder / "saved.plan").read_text()
    assert "hunter2" not in text
    assert json.loads(text)["actions"][0]["config"]["some.password"] == {"secret": ""}
    applied = project("apply", "saved.plan", "--yes")
    assert applied.returncode == 0, applied.stderr
    assert project("plan", "--detailed-exitcode").returncode == 0


def test_once_there_is_a_key_a_plan_without_fingerprints_is_stale(project: Command) -> None:
    """Else a file without them would let through any secret, whoever wrote it."""
    assert project("plan", "--out", "first.plan").returncode == 0
    project.write("connectors/other.yaml", SPEC.replace("name: lines", "name: other"))
    assert project("apply", "--yes", "--target", "other").returncode == 0
    late = project("apply", "first.plan", "--yes")
    assert late.returncode == 5, late.stderr
    assert "error[stale.key]" in late.stderr
    assert project("plan", "--out", "second.plan").returncode == 0
    second = json.loads((project.folder / "second.plan").read_text())
    assert all(each["config"]["some.password"]["secret"] for each in second["actions"])


def test_a_plan_with_secrets_is_saved_only_with_a_key_once_something_was_applied(
    project: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Applied with a key of the user's, which is gone now."""
    assert project("plan", "--out", "first.plan").returncode == 0
    project.write("connectors/other.yaml", SPEC.replace("name: lines", "name: other"))
    with monkeypatch.context() as patch:
        patch.setenv("CONNECT_FINGERPRINT_KEY", "a key of this test")
        assert project("apply", "--yes", "--target", "other").returncode == 0
    for words in (("plan", "--out", "saved.plan"), ("apply", "first.plan", "--yes")):
        refused = project(*words)
        assert refused.returncode == 2, refused.stderr
        assert "error[plan-file.no-key]" in refused.stderr
        assert "CONNECT_FINGERPRINT_KEY" in refused.stderr
    assert not (project.folder / "saved.plan").exists()


def test_a_saved_plan_refuses_a_secret_that_changed(
    project: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_FINGERPRINT_KEY", "a key of this test")
    assert project("plan", "--out", "saved.plan").returncode == 0
    project.write("connectors/lines.yaml", SPEC.replace("hunter2", "hunter3"))
    changed = project("apply", "saved.plan", "--yes")
    assert changed.returncode == 5, changed.stderr
    assert "hunter" not in changed.stdout + changed.stderr


def test_a_saved_plan_is_applied_as_it_is_or_not_at_all(
    project: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was approved is what is applied, also when an edit or the cluster is in between."""
    monkeypatch.setenv("CONNECT_FINGERPRINT_KEY", "a key of this test")
    saved = project("plan", "--out", "saved.plan")
    assert saved.returncode == 0
    file = project.folder / "saved.plan"
    assert file.stat().st_mode & 0o077 == 0
    assert "hunter2" not in file.read_text()
    assert project("apply", "saved.plan", "--yes").returncode == 0
    stale = project("apply", "saved.plan", "--yes", "--json")
    assert stale.returncode == 5, stale.stderr
    assert json.loads(stale.stdout)["error"]["exit_code"] == 5
    file.write_text(file.read_text().replace("lines", "other"))
    changed = project("apply", "saved.plan", "--yes")
    assert changed.returncode == 2
    assert "error[plan-file.changed]" in changed.stderr


def test_a_plan_in_every_form_at_once(project: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_FINGERPRINT_KEY", "a key of this test")
    made = project("plan", "--markdown", "--html", "plan.html", "--out", "saved.plan")
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("<!-- connect-plan:p -->\n\n### p → Kafka ")
    assert project("show", "saved.plan", "--markdown").stdout == made.stdout
    page = (project.folder / "plan.html").read_text()
    for text in (made.stdout, made.stderr, page):
        assert "hunter2" not in text
    assert "(sensitive)" in page


def test_a_plan_is_for_one_environment(project: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_FINGERPRINT_KEY", "a key of this test")
    project.write("values/prod.yaml", "topic: lines\n")
    project.write("values/test.yaml", "topic: lines\n")
    made = project("plan", "--env", "prod", "--markdown", "--out", "saved.plan")
    assert made.stdout.startswith("<!-- connect-plan:p/prod -->\n"), made.stderr
    assert "### p &#91;prod&#93; → " in project("show", "saved.plan", "--markdown").stdout
    refused = project("apply", "saved.plan", "--env", "test", "--yes")
    assert refused.returncode == 5
    assert "the plan is for environment prod" in refused.stderr
    assert "hint: apply it with --env prod\n" in refused.stderr
    assert "saved: `connect --env prod apply saved.plan` applies exactly this plan" in made.stderr
    applied = project("apply", "saved.plan", "--env", "prod", "--yes")
    assert applied.returncode == 0, applied.stderr


def test_json_is_one_document_for_plan_and_apply(project: Command) -> None:
    """One JSON document, and no secret in it."""
    planned = json.loads(project("plan", "--json").stdout)
    assert planned["changes"] is True
    assert planned["summary"]["create"] == 1
    applied = json.loads(project("apply", "--yes", "--json").stdout)
    assert applied["plan"]["summary"]["create"] == 1
    assert applied["report"]["counts"]["done"] == 1
    assert "hunter2" not in json.dumps(applied)


def test_a_kafka_that_is_not_there_is_3_within_10_s(connect: Command) -> None:
    kafka = "{bootstrap.servers: '127.0.0.1:1'}"
    connect.write("connect.yaml", f"project: p\ncluster: {{group.id: g, kafka: {kafka}}}\n")
    connect.write("connectors/lines.yaml", SPEC)
    done = connect("plan", timeout_s=14)
    assert done.returncode == 3
    assert "127.0.0.1:1" in done.stderr


def test_verbs_on_one_connector_without_a_runtime(project: Command) -> None:
    """Offsets are read, altered and reset by hand, also while no runtime is up."""
    project("apply", "--yes")
    offsets = '{"offsets": [{"partition": {"filename": "/dev/null"}, "offset": {"position": 7}}]}'
    altered = project("offsets", "alter", "lines", given=offsets)
    assert altered.returncode == 0, altered.stderr
    assert "success" in altered.stdout or "altered" in altered.stdout
    assert json.loads(project("offsets", "list", "lines", "--json").stdout) == json.loads(offsets)
    assert project("offsets", "reset", "lines").returncode == 0
    assert json.loads(project("offsets", "list", "lines", "--json").stdout)["offsets"] == []
    resumed = project("resume", "lines", "--json")
    assert json.loads(resumed.stdout) == {
        "connector": "lines",
        "asked": "running",
        "runtime_up": False,
    }
    nothing_runs = project("restart", "--failed")
    assert (nothing_runs.returncode, nothing_runs.stdout) == (0, "nothing failed\n")
    assert "no runtime is up" in nothing_runs.stderr
    restarted = project("restart", "lines")
    assert restarted.returncode == 0, restarted.stderr
    assert restarted.stdout == "lines: nothing runs, because no runtime is up\n"
    refused = project("offsets", "reset", "lines")
    assert refused.returncode == 1
    assert "error[connect.400]: lines: its offsets can be changed only while it is stopped" in (
        refused.stderr
    )
    assert "hint: `connect stop lines` first" in refused.stderr and "PUT" not in refused.stderr
    unknown = project("offsets", "list", "none")
    assert unknown.returncode == 1
    assert "error[connect.404]: none: " in unknown.stderr
    assert "hint: `connect status` lists the connectors" in unknown.stderr
    assert project("stop", "nobody").returncode == 1
    assert project("delete", "lines", "--yes").returncode == 0
    (gone,) = json.loads(project("status", "--json").stdout)["connectors"]
    assert gone["state"] == "MISSING"


def test_offsets_that_make_no_sense_are_refused_with_their_place(project: Command) -> None:
    done = project("offsets", "alter", "lines", given='{"offsets": [{"partition": {"a": [1]}}]}')
    assert done.returncode == 2
    assert "stdin:1:" in done.stderr


def test_a_protected_connector_is_not_deleted_by_hand_either(project: Command) -> None:
    project.write("connectors/lines.yaml", SPEC + "lifecycle: {prevent_delete: true}\n")
    assert project("apply", "--yes").returncode == 0
    refused = project("delete", "lines", "--yes")
    assert refused.returncode == 1
    assert "error[delete.protected]: lines: it is protected against deletion" in refused.stderr
    assert len(json.loads(project("status", "--json").stdout)["connectors"]) == 1

    project.write("connectors/lines.yaml", SPEC + "lifecycle: {prevent_delete: false}\n")
    assert project("apply", "--yes").returncode == 0
    assert project("delete", "lines", "--yes").returncode == 0
