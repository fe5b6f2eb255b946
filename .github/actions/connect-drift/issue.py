"""Opens, updates or closes the one issue about drift: issue.py EXIT_CODE LABEL TITLE FILE

4 means drift: the open issue with LABEL gets FILE's text, or there is a new one. 0 means none: an
open issue says so and is closed. After any other code nobody knows, and the issue stays as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import github_api

# GitHub takes some more
_LENGTH_MAX = 65_000
_RESOLVED = "**Resolved: there is no drift any more.** This is what there was:"


def main(exit_code: str, label: str, title: str, file: str) -> None:
    """Makes the issue say what is."""
    if exit_code not in ("0", "4"):
        print(f"connect drift ended with {exit_code}: the issue stays as it is")
        return
    open_issues = github_api.listed(f"/issues?state=open&labels={quote(label)}")
    # GitHub lists pull requests among issues
    issue = next((each for each in open_issues if "pull_request" not in each), None)
    body = Path(file).read_text(encoding="utf-8")[:_LENGTH_MAX]
    if exit_code == "0":
        if issue is not None:
            told = f"{_RESOLVED}\n\n{issue['body'] or ''}"[:_LENGTH_MAX]
            changes = {"state": "closed", "state_reason": "completed", "body": told}
            github_api.update(f"/issues/{issue['number']}", changes)
            print(f"no drift any more: closed {issue['html_url']}")
    elif issue is None:
        made = github_api.create("/issues", {"title": title, "body": body, "labels": [label]})
        print(made["html_url"])
    else:
        print(github_api.update(f"/issues/{issue['number']}", {"body": body})["html_url"])


if __name__ == "__main__":
    main(*sys.argv[1:])
