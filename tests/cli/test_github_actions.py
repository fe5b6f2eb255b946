"""The actions' scripts, on a real `connect` and Kafka, and a GitHub of the test's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import warm
from support.command import Command
from support.github import BOT, REPOSITORY, TOKEN, FakeGitHub

ACTIONS = Path(__file__).parents[2] / ".github" / "actions"
SPEC = """\
name: lines
state: stopped
config: {connector.class: FileStreamSource, file: /dev/null, topic: lines}
"""
MARKER = "<!-- connect-comment connect-plan -->"
KEYS = {"exit-code", "changes", "name", "comment-file", "plan-file"}
HEAD, MERGE = "a" * 40, "b" * 40


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
        "PATH": warm.path(),
        "RUNNER_TEMP": str(temp),
        "GITHUB_OUTPUT": str(temp / "output"),
        "GITHUB_STEP_SUMMARY": str(temp / "summary"),
        "GITHUB_API_URL": github.url,
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_TOKEN": TOKEN,
        "ARTIFACT": "connect-plan",
        "FOLDER": ".",
        "CONNECT_COMMIT": "0123456789abcdef",
        "CONNECT_RUN_URL": "https://github.test/run/1",
    }


@pytest.fixture
def project(on_kafka: Command) -> Command:
    on_kafka.write("connectors/lines.yaml", SPEC)
    return on_kafka


def step(
    job: dict[str, str], folder: Path, script: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    file = ACTIONS / script
    how = [sys.executable, str(file)] if file.suffix == ".py" else [str(file)]
    return subprocess.run(
        [*how, *arguments],
        cwd=folder,
        env=job,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
    )


def outputs(job: dict[str, str]) -> dict[str, str]:
    lines = Path(job["GITHUB_OUTPUT"]).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def comment(job: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    file = outputs(job)["comment-file"]
    return step(job, folder, "comment.py", "7", outputs(job)["name"], BOT, file)


@pytest.mark.parametrize(
    ("code", "told", "said"),
    [
        (3, "error[kafka.unreachable]: k:1: gone", "**Nothing was applied:** the cluster"),
        (3, "Apply failed: 1 done, 2 skipped, in 3.0 s", "**Not all was applied:**"),
        (2, "error[policy.deny]: p", "**Nothing was applied:** the specs"),
        (1, "Apply failed: 1 done, 1 unhealthy, in 3.0 s", "**Not all was applied:**"),
    ],
)
def test_what_an_apply_that_failed_left_is_said(
    job: dict[str, str], tmp_path: Path, code: int, told: str, said: str
) -> None:
    """The trap: a cluster that is lost after the first change counts as never reached."""
    connect = tmp_path / "bin" / "connect"
    connect.parent.mkdir()
    connect.write_text(f"#!/bin/sh\necho '{told}'\nexit {code}\n")
    connect.chmod(0o755)
    path = f"{connect.parent}:{os.environ['PATH']}"
    done = step(job | {"PLAN_FILE": "p", "PATH": path}, tmp_path, "connect-apply/apply.sh")
    assert done.returncode == code
    assert Path(job["GITHUB_STEP_SUMMARY"]).read_text().startswith(said)


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
    told = str(Path(job["RUNNER_TEMP"]) / "connect-apply.md")
    for _ in range(2):
        step(job, folder, "comment.py", "7", "connect-plan applied", BOT, told)
    _, outcome = github.comments
    assert "**The plan is stale: nothing was touched.**" in outcome["body"]
    assert "\n    error[stale." in outcome["body"]

    # a plan that the specs on main do not give
    project.write("connectors/more.yaml", SPEC.replace("lines", "less"))
    step(job, folder, "connect-plan/plan.sh")
    project.write("connectors/more.yaml", SPEC.replace("lines", "more"))
    other = step(job | {"PLAN_FILE": outputs(job)["plan-file"]}, folder, "connect-apply/apply.sh")
    assert other.returncode == 5
    assert "error[stale.specs]: less" in other.stdout

    looked = step(job, folder, "connect-drift/drift.sh")
    assert looked.returncode == 0, looked.stderr
    assert outputs(job)["drift"] == "false"
    project("resume", "lines")
    looked = step(job, folder, "connect-drift/drift.sh")
    assert looked.returncode == 0, looked.stderr
    assert outputs(job)["drift"] == "true"
    report = Path(outputs(job)["report"]).read_text()
    assert "lines" in report and "https://github.test/run/1" in report


def test_an_emptied_folder_needs_an_argument_of_both_actions(
    project: Command, job: dict[str, str]
) -> None:
    folder = project.folder
    assert project("apply", "--yes").returncode == 0
    (folder / "connectors" / "lines.yaml").unlink()
    refused = step(job, folder, "connect-plan/plan.sh")
    assert refused.returncode == 0, refused.stderr
    assert outputs(job)["exit-code"] == "2"
    assert "specs.empty" in Path(outputs(job)["comment-file"]).read_text()
    allowed = job | {"CONNECT_ARGUMENTS": "--allow-empty --max-deletes 1"}
    step(allowed, folder, "connect-plan/plan.sh")
    assert outputs(job)["exit-code"] == "4"
    file = {"PLAN_FILE": outputs(job)["plan-file"]}
    assert step(job | file, folder, "connect-apply/apply.sh").returncode == 2
    assert step(allowed | file, folder, "connect-apply/apply.sh").returncode == 0


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
    other = github.comment(BOT, "<!-- connect-comment connect-plan-other -->\nother")
    file = tmp_path / "plan.md"
    file.write_text("the plan")
    arguments = ("comment.py", "7", "connect-plan", BOT, str(file))
    for _ in range(2):
        done = step(job, tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
    assert len(github.comments) == 153
    assert github.comments[-1]["body"] == f"{MARKER}\nthe plan"
    assert imitation["body"].endswith("not ours") and other["body"].endswith("other")


def test_what_github_refuses_ends_the_step(tmp_path: Path, job: dict[str, str]) -> None:
    file = tmp_path / "plan.md"
    file.write_text("the plan")
    arguments = ("comment.py", "7", "key", BOT, str(file))
    done = step(job | {"GITHUB_TOKEN": "wrong"}, tmp_path, *arguments)
    assert done.returncode == 1
    assert "401" in done.stderr and "wrong" not in done.stderr


def find(job: dict[str, str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return step(job | {"MERGED": MERGE} | variables, folder, "connect-apply/find_plan.sh")


def test_the_newest_plan_of_the_reviewed_commit_is_found(
    tmp_path: Path, job: dict[str, str], github: FakeGitHub
) -> None:
    """Of the pull request that was merged as this commit, and of its last commit."""
    github.merged(5, "c" * 40, "d" * 40, commits=[MERGE])  # opened from main afterwards
    github.merged(6, HEAD, MERGE, merged_at=None)
    github.merged(7, HEAD, MERGE)
    name = f"connect-plan-{HEAD}"
    github.artifact(name, 1, HEAD)
    github.artifact(name, 3, HEAD)  # run again
    github.artifact(name, 2, HEAD)
    github.artifact(name, 4, HEAD, expired=True)
    github.artifact(f"connect-plan-{'c' * 40}", 5, "c" * 40)  # before a force-push
    # whoever can run anything can upload something of that name
    github.artifact(name, 6, "e" * 40)
    github.artifact(name, 7, HEAD, workflow_run={"head_repository_id": 2})
    github.artifact(name, 8, HEAD, workflow_run={"repository_id": None, "head_repository_id": None})
    found = find(job, tmp_path)
    assert found.returncode == 0, found.stderr
    assert outputs(job) == {
        "name": "connect-plan",
        "number": "7",
        "artifact": name,
        "run-id": "3",
    }


def test_a_plan_that_was_made_by_hand_is_found_by_its_commit(
    tmp_path: Path, job: dict[str, str], github: FakeGitHub
) -> None:
    github.artifact(f"connect-plan-{MERGE}", 1, MERGE)
    found = find(job, tmp_path, REVIEWED=MERGE)
    assert found.returncode == 0, found.stderr
    assert outputs(job)["run-id"] == "1" and "number" not in outputs(job)


@pytest.mark.parametrize(
    ("merged", "plans", "said"),
    [
        (False, [], "no pull request was merged as bbbbbbbbbbbb"),
        (True, [], "no plan was uploaded for aaaaaaaaaaaa"),
        (True, [{"expired": True}], "the plan for aaaaaaaaaaaa is no longer kept"),
        (True, [{"workflow_run": {"head_repository_id": 2}}], "no plan was uploaded"),
    ],
    ids=["pushed to main", "never planned", "retention ended", "of a fork"],
)
def test_without_the_plan_nothing_is_applied(
    merged: bool,
    plans: list[dict[str, Any]],
    said: str,
    tmp_path: Path,
    job: dict[str, str],
    github: FakeGitHub,
) -> None:
    if merged:
        github.merged(7, HEAD, MERGE)
    for plan in plans:
        github.artifact(f"connect-plan-{HEAD}", 1, HEAD, **plan)
    found = find(job, tmp_path)
    assert found.returncode == 1
    assert said in found.stderr
    assert "artifact" not in outputs(job) and ("number" in outputs(job)) == merged
    told = Path(job["RUNNER_TEMP"], "connect-apply.md").read_text()
    assert told.startswith("**Nothing was applied:**") and said in told
    assert said in Path(job["GITHUB_STEP_SUMMARY"]).read_text()


@pytest.mark.parametrize(
    ("folder", "env", "name"),
    [
        (".", "", "connect-plan"),
        (".", "prod", "connect-plan-prod"),
        ("teams/orders", "", "connect-plan-teams-orders"),
        ("teams/orders", "prod", "connect-plan-teams-orders-prod"),
        ("a\nname=evil", "", "connect-plan-a-name-evil"),
    ],
)
def test_each_project_and_environment_has_a_comment_and_a_plan_of_its_own(
    folder: str, env: str, name: str, tmp_path: Path, job: dict[str, str], github: FakeGitHub
) -> None:
    variables = {"FOLDER": folder, "CONNECT_ENV": env}
    planned = step(job | variables, tmp_path, "connect-plan/plan.sh")
    assert planned.returncode == 0, planned.stderr
    assert outputs(job)["name"] == name
    assert outputs(job).keys() == KEYS - {"plan-file"}  # no project is here
    other = github.comment(BOT, "<!-- connect-comment connect-plan-else -->\nother")
    comment(job, tmp_path)
    comment(job, tmp_path)
    assert len(github.comments) == 2 and other["body"].endswith("other")
    assert github.comments[-1]["body"].startswith(f"<!-- connect-comment {name} -->\n")

    Path(job["GITHUB_OUTPUT"]).unlink()
    github.artifact(f"{name}-{MERGE}", 1, MERGE)
    found = find(job | variables, tmp_path, REVIEWED=MERGE)
    assert found.returncode == 0, found.stderr
    assert outputs(job)["name"] == name


def test_a_token_that_may_not_comment_is_no_failure(
    tmp_path: Path, job: dict[str, str], github: FakeGitHub
) -> None:
    """As in pull requests of forks: the job's summary holds the plan."""
    github.may_write = False
    file = tmp_path / "plan.md"
    file.write_text("the plan")
    done = step(job, tmp_path, "comment.py", "7", "key", BOT, str(file))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("::warning::No comment, as the token may write none: ")
    assert done.stdout.count("\n") == 1
    assert github.comments == []


def test_a_comment_is_never_longer_than_github_takes(
    tmp_path: Path, job: dict[str, str], github: FakeGitHub
) -> None:
    file = tmp_path / "plan.md"
    for text in ("x" * 70_000, "\N{GRINNING FACE}" * 70_000):
        file.write_text(text)
        done = step(job, tmp_path, "comment.py", "7", "key", BOT, str(file))
        assert done.returncode == 0, done.stderr
    (made,) = github.comments
    assert len(made["body"]) == 65_536
    assert made["body"].endswith("the summary of the job has all of it._\n")


def pretend(job: dict[str, str], script: str) -> dict[str, str]:
    """A job whose `connect` is a script, for what a real one cannot be made to tell."""
    folder = Path(job["RUNNER_TEMP"]) / "bin"
    folder.mkdir()
    (folder / "connect").write_text(f"#!/bin/bash\n{script}\n")
    (folder / "connect").chmod(0o755)
    return job | {"PATH": f"{folder}:{job['PATH']}"}


def test_what_connect_tells_is_neither_markdown_nor_a_command_to_the_runner(
    tmp_path: Path, job: dict[str, str]
) -> None:
    """Errors quote what stands in specs, and those are the pull request's author's."""
    evil = r"x\n::add-mask::y\r@team <img src=z>\n```\n\xff\xc2\x85# big\u2028- [a](b)\nexit-code=0"
    job = pretend(job, f"printf '{evil}' >&2; exit 2")
    planned = step(job, tmp_path, "connect-plan/plan.sh")
    assert planned.returncode == 0
    assert outputs(job) == {
        "exit-code": "2",
        "changes": "false",
        "name": "connect-plan",
        "comment-file": outputs(job)["comment-file"],
    }
    told = Path(outputs(job)["comment-file"]).read_bytes().decode()
    assert "\r" not in told
    head, _, quotation = told.partition("\n\n")
    assert head == "**There is no plan:** `connect plan` ended with exit code 2."
    lines = quotation.splitlines()
    assert lines[-1].startswith("_Planned for 0123456789ab in [this run](https://github.test/")
    assert all(line.startswith("    ") for line in lines[:-2])
    assert "    @team <img src=z>" in lines and "    # big" in lines
    first, *_, last = planned.stdout.split()
    assert first.startswith("::stop-commands::") and len(first) == len("::stop-commands::") + 32
    assert last == f"::{first.removeprefix('::stop-commands::')}::"
    assert first not in planned.stdout.replace(first, "", 1)


def test_an_apply_waits_for_the_one_before(tmp_path: Path, job: dict[str, str]) -> None:
    """Merges that follow each other quickly: none is dropped, and none refused for being early."""
    first = tmp_path / "first"
    job = pretend(
        job,
        f"""if mkdir {first} 2>/dev/null; then
    echo 'error[apply.leased]: another apply is running' >&2; exit 3
fi
echo done""",
    )
    job |= {"PLAN_FILE": "plan.json", "WAIT_STEP_S": "0.1"}
    applied = step(job, tmp_path, "connect-apply/apply.sh")
    assert applied.returncode == 0, applied.stdout
    assert "waiting for the other apply" in applied.stdout
    told = Path(job["RUNNER_TEMP"], "connect-apply.md").read_text()
    assert told.startswith("**Applied.**") and "is running" not in told
    first.rmdir()
    refused = step(job | {"WAIT_S": "0"}, tmp_path, "connect-apply/apply.sh")
    assert refused.returncode == 3


def test_who_cannot_look_says_so_and_touches_no_issue(
    tmp_path: Path, job: dict[str, str], github: FakeGitHub
) -> None:
    looked = step(job, tmp_path, "connect-drift/drift.sh")
    assert looked.returncode == 2  # no project is here
    told = outputs(job)
    assert (told["exit-code"], told["drift"]) == ("2", "false")
    summary = Path(job["GITHUB_STEP_SUMMARY"]).read_text()
    assert summary.startswith("**Nobody knows whether there is drift:**")
    assert "    error[" in summary


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
    assert issue["body"].startswith("**Resolved: ") and issue["body"].endswith("second")
    tell("4", "third")
    assert [each["state"] for each in github.issues] == ["open", "closed", "open"]


def test_examples_have_the_least_permissions_and_apply_one_after_the_other() -> None:
    """One group, and a queue in which no merge's apply is cancelled."""
    flows = {
        file.stem: yaml.safe_load(file.read_text())
        for file in (ACTIONS.parents[1] / "examples/github/.github/workflows").glob("*.yml")
    }
    write = {"pull-requests": "write"}
    assert {name: flow["permissions"] for name, flow in flows.items()} == {
        "connect-plan": {"contents": "read"} | write,
        "connect-apply": {"contents": "read", "actions": "read"} | write,
        "connect-drift": {"contents": "read", "issues": "write"},
    }
    apply = flows["connect-apply"]
    assert apply["concurrency"] == {"group": "connect-apply", "queue": "max"}
    # YAML 1.1 reads `on` as true; what may write is what main says, not the pull request
    assert apply[True].keys() == {"push", "workflow_dispatch"}
    for flow in flows.values():
        (job,) = flow["jobs"].values()
        uses = next(each for each in job["steps"] if "connect-reconciler" in each["uses"])
        action = yaml.safe_load(
            (ACTIONS / uses["uses"].split("/")[-1].split("@")[0] / "action.yml").read_text()
        )
        assert uses.get("with", {}).keys() <= action["inputs"].keys()


def test_whatever_jobs_with_credentials_use_is_pinned() -> None:
    """Actions of others by their commits, ours by a release, which installs itself."""
    root = ACTIONS.parents[1]
    used = [
        step["uses"]
        for file in root.glob("examples/github/.github/workflows/*.yml")
        for job in yaml.safe_load(file.read_text())["jobs"].values()
        for step in job["steps"]
    ]
    for file in ACTIONS.glob("*/action.yml"):
        action = yaml.safe_load(file.read_text())
        used += [step["uses"] for step in action["runs"]["steps"] if "uses" in step]
        assert action["inputs"]["install"]["default"] == ""
        install = action["runs"]["steps"][0]
        assert "$GITHUB_ACTION_PATH/../install.sh" in install["run"]
        assert install["env"] == {"INSTALL": "${{ inputs.install }}"}
    for each in used:
        name, _, version = each.partition("@")
        release = r"v\d+\.\d+\.\d+|[0-9a-f]{40}"
        ours = name.startswith("connect-reconciler/")
        assert re.fullmatch(release if ours else "[0-9a-f]{40}", version), each
    assert "pip install" not in (root / "examples/gitlab/.gitlab-ci.yml").read_text()


def test_an_action_installs_its_own_checkout_with_locked_dependencies(
    tmp_path: Path, job: dict[str, str]
) -> None:
    """What pip is asked for, told by a Python that only writes it down."""
    asked = tmp_path / "asked"
    shim = tmp_path / "bin" / "python3"
    shim.parent.mkdir()
    shim.write_text(
        f"""#!/bin/bash
echo "$@" >>{asked}
if [[ $3 == venv ]]; then mkdir -p "$4/bin" && cp "$0" "$4/bin/python"; fi
"""
    )
    shim.chmod(0o755)
    job |= {"PATH": f"{shim.parent}:{job['PATH']}"}
    done = step(job, tmp_path, "install.sh", str(tmp_path / "venv"))
    assert done.returncode == 0, done.stderr
    root = ACTIONS.parents[1]
    pip = "-I -m pip --quiet --disable-pip-version-check install"
    assert asked.read_text().splitlines() == [
        f"-I -m venv {tmp_path}/venv",
        f"{pip} --require-hashes -r {root}/requirements/build.lock",
        f"{pip} --require-hashes --only-binary :all: -r {root}/requirements/cli.lock",
        f"{pip} --no-deps --no-build-isolation {root}",
    ]
    asked.unlink()
    done = step(job | {"INSTALL": "other==1"}, tmp_path, "install.sh", str(tmp_path / "venv"))
    assert done.returncode == 0, done.stderr
    assert asked.read_text().splitlines()[1:] == [f"{pip} other==1"]


@pytest.mark.long
def test_to_install_runs_nothing_that_the_repository_holds(
    tmp_path: Path, job: dict[str, str]
) -> None:
    """Python would import from the folder that it is started in: that of a pull request."""
    for name in ("venv", "pip", "logging", "subprocess"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\n")
    done = step(job | {"INSTALL": "./no/such"}, tmp_path, "install.sh", str(tmp_path / "made"))
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "made" / "bin" / "python").exists(), done.stderr


def test_arguments_may_stand_on_several_lines(
    project: Command, job: dict[str, str], github: FakeGitHub
) -> None:
    """As YAML's `|` gives them: an option that is dropped could be the one that protects."""
    job |= {"CONNECT_ARGUMENTS": "--exclude lines\n  --exclude more\n"}
    project.write("connectors/more.yaml", SPEC.replace("lines", "more"))
    step(job, project.folder, "connect-plan/plan.sh")
    assert outputs(job)["exit-code"] == "0", Path(outputs(job)["comment-file"]).read_text()


def test_the_lock_of_the_command_holds_its_dependencies_as_they_are_tested() -> None:
    root = ACTIONS.parents[1]

    def locked(name: str) -> dict[str, str]:
        lines = (root / "requirements" / name).read_text().splitlines()
        return dict(line.split(" ")[0].split("==") for line in lines if "==" in line)

    command, tested = locked("cli.lock"), locked("dev.lock")
    assert command.items() <= tested.items()
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert {re.split("[><=]", each)[0] for each in project["dependencies"]} <= command.keys()


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
