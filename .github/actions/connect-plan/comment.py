"""Keeps one comment on the pull request up to date: comment.py PULL_REQUEST KEY AUTHOR FILE

KEY tells comments of several projects apart. A comment that AUTHOR wrote under this key is
replaced, so that no stale plan is left standing; else there is a new one. The comment is FILE's
text; what stands in the plan is never read here.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import github_api


def main(pull_request: str, key: str, author: str, file: str) -> None:
    """Replaces the comment, or makes it."""
    marker = f"<!-- connect-plan-comment {key.replace('-->', '')} -->"
    body = f"{marker}\n{Path(file).read_text(encoding='utf-8')}"
    for comment in github_api.listed(f"/issues/{int(pull_request)}/comments"):
        # Anyone may write a comment that begins like ours
        if comment["user"]["login"] == author and comment["body"].startswith(marker):
            made = github_api.update(f"/issues/comments/{comment['id']}", {"body": body})
            break
    else:
        made = github_api.create(f"/issues/{int(pull_request)}/comments", {"body": body})
    print(made["html_url"])


if __name__ == "__main__":
    main(*sys.argv[1:])
