"""The actions' scripts, on a real `connect` and Kafka, and a GitHub of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from support.broker import BrokerAddress
from support.command import Command
from support.github import BOT, REPOSITORY, TOKEN, FakeGitHub

ACTIONS = Path(__file__).parents[2] / ".github" / "actions"
SPEC = """\
name: lines
state: stopped
config: {connector.class: FileStreamSource, file: /dev/null, topic: lines}
"""
MARKER = "<!-- connect-plan-comment . connect-plan -->"


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    made = FakeGitHub()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def job(connect: Command, github: FakeGitHub, tmp_path: Path) -> dict[str, str]:
    """The environment of a job's step."""
    temp = tmp_path / "runner"
    temp.mkdir()
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(temp),
        "GITHUB_OUTPUT": str(temp / "output"),
        "GITHUB_STEP_SUMMARY": str(temp / "summary"),
        "GITHUB_API_URL": github.url,
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_TOKEN": TOKEN,
        "CONNECT_COMMIT": "0123456789abcdef",
        "CONNECT_RUN_URL": "https://github.test/run/1",
    }


@pytest.fixture
def project(connect: Command, broker: BrokerAddress, unique: str) -> Command:
    kafka = f"{{bootstrap.servers: '{broker.bootstrap_servers}'}}"
    connect.write("connect.yaml", f"project: p\ncluster: {{group.id: {unique}, kafka: {kafka}}}\n")
    connect.write("connectors/lines.yaml", SPEC)
    return connect


def step(
    job: dict[str, str], folder: Path, script: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    file = ACTIONS / script
    how = [sys.executable, str(file)] if file.suffix == ".py" else [str(file)]
    return subprocess.run(
        [*how, *arguments], cwd=folder, env=job, capture_output=True, text=True, timeout=120
    )


def outputs(job: dict[str, str]) -> dict[str, str]:
    lines = Path(job["GITHUB_OUTPUT"]).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def comment(job: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    file = outputs(job)["comment-file"]
    key = ". connect-plan"
    return step(job, folder, "connect-plan/comment.py", "7", key, BOT, file)


def test_a_pull_request_is_planned_commented_applied_and_looked_after(
    project: Command, job: dict[str, str], github: FakeGitHub
) -> None:
    """One comment on a pull request, updated in its place; then apply, then drift."""
    folder = project.folder
    planned = step(job, folder, "connect-plan/plan.sh")
    assert planned.returncode == 0, planned.stderr
    told = outputs(job)
    assert (told["exit-code"], told["changes"]) == ("4", "true")
    assert Path(told["plan-file"]).exists()
    made = comment(job, folder)
    assert made.returncode == 0, made.stderr
    (first,) = github.comments
    assert first["body"].startswith(MARKER)
    assert "1 to create" in first["body"] and "0123456789ab" in first["body"]

    # a push with another change: the stale comment is replaced
    project.write("connectors/more.yaml", SPEC.replace("lines", "more"))
    step(job, folder, "connect-plan/plan.sh")
    comment(job, folder)
    (second,) = github.comments
    assert second["id"] == first["id"]
    assert "2 to create" in second["body"] and "1 to create" not in second["body"]

    applied = step(job | {"PLAN_FILE": outputs(job)["plan-file"]}, folder, "connect-apply/apply.sh")
    assert applied.returncode == 0, applied.stderr
    assert outputs(job)["exit-code"] == "0"
    stale = step(job | {"PLAN_FILE": outputs(job)["plan-file"]}, folder, "connect-apply/apply.sh")
    assert stale.returncode == 5
    assert "The plan is stale" in Path(job["GITHUB_STEP_SUMMARY"]).read_text()

    looked = step(job, folder, "connect-drift/drift.sh")
    assert looked.returncode == 0, looked.stderr
    assert outputs(job)["drift"] == "false"
    project("resume", "lines")
    looked = step(job, folder, "connect-drift/drift.sh")
    assert looked.returncode == 0, looked.stderr
    assert outputs(job)["drift"] == "true"
    report = Path(outputs(job)["report"]).read_text()
    assert "lines" in report and "https://github.test/run/1" in report


def test_without_a_plan_the_comment_says_why(project: Command, job: dict[str, str]) -> None:
    project.write("connectors/lines.yaml", SPEC + "stat: stopped\n")
    planned = step(job, project.folder, "connect-plan/plan.sh")
    assert planned.returncode == 0
    told = outputs(job)
    assert told["exit-code"] == "2" and "plan-file" not in told
    text = Path(told["comment-file"]).read_text()
    assert text.startswith("**There is no plan:**")
    assert "    error[spec.unknown-field]: connectors/lines.yaml:4:1" in text


def test_comments_of_others_are_left_alone(
    tmp_path: Path, job: dict[str, str], github: FakeGitHub
) -> None:
    for number in range(150):
        github.comment("someone", f"comment {number}")
    imitation = github.comment("someone", f"{MARKER}\nnot ours")
    other = github.comment(BOT, "<!-- connect-plan-comment other connect-plan -->\nother")
    file = tmp_path / "plan.md"
    file.write_text("the plan")
    arguments = ("connect-plan/comment.py", "7", ". connect-plan", BOT, str(file))
    for _ in range(2):
        done = step(job, tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
    assert len(github.comments) == 153
    assert github.comments[-1]["body"] == f"{MARKER}\nthe plan"
    assert imitation["body"].endswith("not ours") and other["body"].endswith("other")


def test_what_github_refuses_ends_the_step(tmp_path: Path, job: dict[str, str]) -> None:
    file = tmp_path / "plan.md"
    file.write_text("the plan")
    arguments = ("connect-plan/comment.py", "7", "key", BOT, str(file))
    done = step(job | {"GITHUB_TOKEN": "wrong"}, tmp_path, *arguments)
    assert done.returncode == 1
    assert "401" in done.stderr and "wrong" not in done.stderr


def test_the_newest_plan_of_the_reviewed_commit_is_found(
    tmp_path: Path, job: dict[str, str], github: FakeGitHub
) -> None:
    def artifact(run: int, day: int, *, expired: bool = False) -> None:
        github.artifacts.append(
            {
                "name": "connect-plan-abc",
                "created_at": f"2026-11-{day:02}T10:00:00Z",
                "expired": expired,
                "workflow_run": {"id": run},
            }
        )

    missing = step(job, tmp_path, "connect-apply/find_plan.py", "connect-plan-abc")
    assert missing.returncode == 1 and "plan again" in missing.stderr
    artifact(1, 19)
    artifact(2, 20)
    artifact(3, 21, expired=True)
    found = step(job, tmp_path, "connect-apply/find_plan.py", "connect-plan-abc")
    assert found.stdout == "run-id=2\n"


def test_one_issue_says_that_there_is_drift(
    tmp_path: Path, job: dict[str, str], github: FakeGitHub
) -> None:
    """Drift is looked for on a schedule; one issue is opened, updated and closed."""
    github.issue(labels=["connect-drift"], title="a pull request", pull_request={})
    report = tmp_path / "drift.md"

    def tell(code: str, text: str) -> None:
        report.write_text(text)
        done = step(
            job, tmp_path, "connect-drift/issue.py", code, "connect-drift", "Drift", str(report)
        )
        assert done.returncode == 0, done.stderr

    tell("0", "nothing")
    assert len(github.issues) == 1
    tell("4", "first")
    tell("4", "second")
    tell("3", "nobody knows")
    _, issue = github.issues
    assert (issue["title"], issue["body"], issue["state"]) == ("Drift", "second", "open")
    tell("0", "nothing")
    assert issue["state"] == "closed"
    tell("4", "third")
    assert [each["state"] for each in github.issues] == ["open", "closed", "open"]


@pytest.mark.parametrize("name", ["connect-plan", "connect-apply", "connect-drift"])
def test_what_an_action_runs_is_there_and_its_inputs_are_its_own(name: str) -> None:
    text = (ACTIONS / name / "action.yml").read_text()
    action = yaml.safe_load(text)
    for each in action["runs"]["steps"]:
        run = each.get("run", "")
        for part in run.replace('"', " ").split():
            if part.startswith("$GITHUB_ACTION_PATH/"):
                file = ACTIONS / name / part.removeprefix("$GITHUB_ACTION_PATH/")
                assert file.exists()
                assert os.access(file, os.X_OK) or file.suffix == ".py"
        # what a pull request's author writes may never become part of a script
        assert "${{" not in run
    used = {part.split("}}")[0].split()[0] for part in text.split("${{ ")[1:]}
    inputs = {each.removeprefix("inputs.") for each in used if each.startswith("inputs.")}
    assert inputs <= action["inputs"].keys()
    assert set(action["inputs"]) - inputs <= {"comment"}
