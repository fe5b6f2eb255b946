"""Which run uploaded the plan to apply? find_plan.py NAME MERGED [REVIEWED]

Writes its id, and the artefact's name, to GITHUB_OUTPUT.
MERGED is the commit that was merged, and REVIEWED the one that was planned; without it, that is the
last commit of the pull request that was merged as MERGED. The plan is the newest one that a run for
exactly that commit uploaded, in this repository and none of its forks. Where there is none, it says
why in $RUNNER_TEMP/connect-apply.md, and fails.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import github_api


def main(name: str, merged: str, reviewed: str = "") -> None:
    """Writes the pull request's number, the artefact's name and its run's id."""
    if not reviewed:
        request = _merged_as(merged)
        reviewed = request["head"]["sha"]
        _output("number", int(request["number"]))
    artefact = _newest(f"{name}-{reviewed}", reviewed)
    _output("artifact", artefact["name"])
    _output("run-id", int(artefact["workflow_run"]["id"]))


def _merged_as(commit: str) -> dict[str, Any]:
    """GitHub names every pull request that has the commit, also those that began after it."""
    merged = [
        request
        for request in github_api.listed(f"/commits/{quote(commit)}/pulls")
        if request["merged_at"] and request["merge_commit_sha"] == commit
    ]
    if not merged:
        _fail(f"no pull request was merged as {commit[:12]}, so nobody approved a plan for it")
    return merged[0]


def _newest(name: str, commit: str) -> dict[str, Any]:
    found = [
        artefact
        for artefact in github_api.listed(f"/actions/artifacts?name={quote(name)}")
        if artefact["name"] == name and _is_of(commit, artefact["workflow_run"])
    ]
    kept = [artefact for artefact in found if not artefact["expired"]]
    if not found:
        _fail(f"no plan was uploaded for {commit[:12]}: it failed, still runs or was never made")
    if not kept:
        _fail(f"the plan for {commit[:12]} is no longer kept")
    return max(kept, key=lambda artefact: artefact["created_at"])


def _is_of(commit: str, run: dict[str, Any]) -> bool:
    """Anyone may name an artefact like ours, and a fork's run has its artefacts here."""
    return (
        run["head_sha"] == commit and run["head_repository_id"] == run["repository_id"] is not None
    )


def _output(name: str, value: object) -> None:
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        file.write(f"{name}={value}\n")


def _fail(why: str) -> NoReturn:
    text = f"**Nothing was applied:** {why}.\n\nPlan again, and have it approved.\n"
    (Path(os.environ["RUNNER_TEMP"]) / "connect-apply.md").write_text(text, encoding="utf-8")
    with Path(os.environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as summary:
        summary.write(text)
    sys.exit(why)


if __name__ == "__main__":
    main(*sys.argv[1:])
