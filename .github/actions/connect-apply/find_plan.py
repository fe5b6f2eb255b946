"""Which run uploaded the plan? find_plan.py NAME writes `run-id=` for GITHUB_OUTPUT, or fails.

The newest artefact of that name counts; names end with the commit that was reviewed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import github_api


def main(name: str) -> None:
    """Prints the run's id."""
    found = [
        artifact
        for artifact in github_api.listed(f"/actions/artifacts?name={quote(name)}")
        if artifact["name"] == name and not artifact["expired"]
    ]
    if not found:
        sys.exit(f"no plan was uploaded as {name}, or it has expired: plan again")
    newest = max(found, key=lambda artifact: artifact["created_at"])
    print(f"run-id={newest['workflow_run']['id']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
