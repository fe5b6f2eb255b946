"""A merge request's note with the plan, and the plan that was merged. Standard library only.

    merge_request.py note PLAN.md TOLD.txt

keeps one note on the merge request; where there is no plan, it holds what `connect` told.

    merge_request.py approved PLAN.json

fetches the plan of the merge request that was merged as this commit, from its last pipeline.

GITLAB_TOKEN is a project access token with the scope `api`: as a Reporter it writes notes, as a
Developer it reads artefacts too.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

JOB = os.environ.get("CONNECT_PLAN", "plan")
# GitLab takes a million characters
LENGTH_MAX = 900_000


def call(method, path, body=None, *, of_project=True):
    """The answer's bytes."""
    where = f"/projects/{os.environ['CI_PROJECT_ID']}" if of_project else ""
    request = urllib.request.Request(
        f"{os.environ['CI_API_V4_URL']}{where}{path}",
        method=method,
        data=body and json.dumps(body).encode(),
        headers={"PRIVATE-TOKEN": os.environ["GITLAB_TOKEN"], "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        sys.exit(f"GitLab refused {method} {path}: {error.code} {error.reason}")


def listed(path):
    """Every item of a list, over all its pages."""
    for page in range(1, 1000):
        sign = "&" if "?" in path else "?"
        items = json.loads(call("GET", f"{path}{sign}per_page=100&page={page}"))
        yield from items
        if len(items) < 100:
            return


def note(plan, told):
    """Replaces the note, or makes it. Only a note of this token's own user is replaced."""
    marker = f"<!-- connect {JOB} -->"
    text = Path(plan).read_text(encoding="utf-8", errors="replace")
    if not text:
        lines = Path(told).read_text(encoding="utf-8", errors="replace").splitlines()
        quoted = "".join(f"    {line}\n" for line in lines)  # Four spaces quote whatever it holds
        text = f"**There is no plan:**\n\n{quoted}"
    body = {"body": f"{marker}\n{text[:LENGTH_MAX]}"}
    here = f"/merge_requests/{os.environ['CI_MERGE_REQUEST_IID']}/notes"
    me = json.loads(call("GET", "/user", of_project=False))["id"]
    for each in listed(here):
        if each["author"]["id"] == me and each["body"].startswith(marker):
            call("PUT", f"{here}/{each['id']}", body)
            return
    call("POST", here, body)


def approved(file):
    """Writes the plan. What is in it need not be believed: `connect apply` plans again."""
    commit = os.environ["CI_COMMIT_SHA"]
    merged = [
        each
        for each in listed(f"/repository/commits/{commit}/merge_requests")
        if each["state"] == "merged"
        # By whichever way: a merge commit, a squash, or a fast-forward of the branch itself
        and commit in (each["merge_commit_sha"], each["squash_commit_sha"], each["sha"])
    ]
    if not merged:
        sys.exit(f"no merge request was merged as {commit[:12]}, so nobody approved a plan for it")
    pipelines = list(listed(f"/merge_requests/{merged[0]['iid']}/pipelines"))
    if not pipelines:
        sys.exit(f"merge request {merged[0]['iid']} has no pipeline, so no plan")
    last = max(pipelines, key=lambda each: each["id"])
    jobs = [
        each
        for each in listed(f"/pipelines/{last['id']}/jobs")
        if each["name"] == JOB and each["status"] == "success"
    ]
    if not jobs:
        sys.exit(f"the last plan of merge request {merged[0]['iid']} did not succeed: plan again")
    newest = max(jobs, key=lambda each: each["id"])
    Path(file).write_bytes(call("GET", f"/jobs/{newest['id']}/artifacts/plan.json"))


if __name__ == "__main__":
    {"note": note, "approved": approved}[sys.argv[1]](*sys.argv[2:])
