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
