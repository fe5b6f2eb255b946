"""The example for GitLab: its jobs as their shell runs them, with a GitLab of the test's own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import warm
from support.gitlab import ME, TOKEN, FakeGitLab

EXAMPLE = Path(__file__).parents[2] / "examples" / "gitlab"
COMMIT = "b" * 40


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    made = FakeGitLab()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def variables(gitlab: FakeGitLab) -> dict[str, str]:
    """What a runner sets."""
    return {
        **os.environ,
        "PATH": warm.path(),
        "CI_API_V4_URL": gitlab.url,
        "CI_PROJECT_ID": "7",
        "CI_MERGE_REQUEST_IID": "3",
        "CI_COMMIT_SHA": COMMIT,
        "GITLAB_TOKEN": TOKEN,
    }


def run(
    variables: dict[str, str], folder: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLE / "merge_request.py"), *arguments],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_one_note_is_kept_up_to_date(
    tmp_path: Path, variables: dict[str, str], gitlab: FakeGitLab
) -> None:
    """One comment on a merge request: a stale one is replaced, those of others stay."""
    for number in range(130):
        gitlab.note(2, f"note {number}")
    imitation = gitlab.note(2, "<!-- connect plan -->\nnot ours")
    other = gitlab.note(ME, "<!-- connect plan-prod -->\nother")
    for text in ("first", "second"):
        (tmp_path / "plan.md").write_text(text)
        done = run(variables, tmp_path, "note", "plan.md", "told.txt")
        assert done.returncode == 0, done.stderr
    assert len(gitlab.notes) == 133
    assert gitlab.notes[-1]["body"] == "<!-- connect plan -->\nsecond"
    assert imitation["body"].endswith("not ours") and other["body"].endswith("other")
    refused = run(variables | {"GITLAB_TOKEN": "wrong"}, tmp_path, "note", "plan.md", "told.txt")
    assert refused.returncode == 1 and "404" in refused.stderr and "wrong" not in refused.stderr


def test_a_plan_that_failed_is_told_and_fails_the_job(
    tmp_path: Path, variables: dict[str, str], gitlab: FakeGitLab
) -> None:
    """The plan job's own lines, as its shell runs them."""
    (tmp_path / "merge_request.py").write_bytes((EXAMPLE / "merge_request.py").read_bytes())
    (tmp_path / "connect.yaml").write_text("project: p\ncluster: {group.id: g, kafka: embedded}\n")
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connectors" / "a.yaml").write_text("name: a\n'@everyone': x\n")
    lines = yaml.safe_load((EXAMPLE / ".gitlab-ci.yml").read_text())["plan"]["script"]
    job = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert job.returncode == 2, job.stderr
    (made,) = gitlab.notes
    assert made["body"].startswith("<!-- connect plan -->\n**There is no plan:**\n\n    error[")
    assert all(line.startswith("    ") for line in made["body"].splitlines()[3:])
    assert "error[spec." in job.stdout


def merged(**fields: Any) -> dict[str, Any]:
    made = {"iid": 3, "state": "merged", "merge_commit_sha": COMMIT, "squash_commit_sha": None}
    return made | {"sha": "a" * 40} | fields


def test_the_plan_of_what_was_merged_is_fetched(
    tmp_path: Path, variables: dict[str, str], gitlab: FakeGitLab
) -> None:
    gitlab.merged = [merged(iid=9, merge_commit_sha="c" * 40), merged(iid=8, state="opened")]
    fetch = ("approved", "plan.json")
    none = run(variables, tmp_path, *fetch)
    assert none.returncode == 1 and "no merge request was merged as bbbbbbbbbbbb" in none.stderr

    gitlab.merged.append(merged())
    never = run(variables, tmp_path, *fetch)
    assert never.returncode == 1 and "has no pipeline" in never.stderr

    # the last pipeline counts, and in it the plan job as it was run last
    gitlab.pipelines = [{"id": 10}, {"id": 12}, {"id": 11}]
    gitlab.jobs = {
        12: [
            {"id": 1, "name": "plan", "status": "success"},
            {"id": 3, "name": "plan", "status": "success"},
            {"id": 4, "name": "plan", "status": "failed"},
            {"id": 5, "name": "other", "status": "success"},
        ]
    }
    gitlab.plans = {1: b"old", 3: b"the plan", 5: b"another"}
    found = run(variables, tmp_path, *fetch)
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "plan.json").read_text() == "the plan"

    gitlab.plans = {}
    expired = run(variables, tmp_path, *fetch)
    assert expired.returncode == 1 and "404" in expired.stderr
    gitlab.jobs = {12: [{"id": 4, "name": "plan", "status": "failed"}]}
    failed = run(variables, tmp_path, *fetch)
    assert failed.returncode == 1 and "did not succeed: plan again" in failed.stderr


@pytest.mark.parametrize("way", ["merge_commit_sha", "squash_commit_sha", "sha"])
def test_a_merge_by_any_method_is_known(
    way: str, tmp_path: Path, variables: dict[str, str], gitlab: FakeGitLab
) -> None:
    gitlab.merged = [merged(**{"merge_commit_sha": None, way: COMMIT})]
    gitlab.pipelines = [{"id": 12}]
    gitlab.jobs = {12: [{"id": 1, "name": "plan-prod", "status": "success"}]}
    gitlab.plans = {1: b"the plan"}
    found = run(variables | {"CONNECT_PLAN": "plan-prod"}, tmp_path, "approved", "plan.json")
    assert found.returncode == 0, found.stderr


def test_applies_run_one_at_a_time_and_install_one_release() -> None:
    jobs = yaml.safe_load((EXAMPLE / ".gitlab-ci.yml").read_text())
    assert jobs["apply"]["resource_group"] == "connect-apply-$CONNECT_PLAN"
    assert "resource_group" not in jobs["plan"]
    lines = jobs[".connect"]["before_script"]
    assert '"$CONNECT_RELEASE"' in lines[1]
    assert lines[3].startswith("/tmp/connect/.github/actions/install.sh ")
