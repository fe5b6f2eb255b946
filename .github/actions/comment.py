"""Keeps one comment on the pull request up to date: comment.py PULL_REQUEST KEY AUTHOR FILE

KEY tells comments of several projects apart. A comment that AUTHOR wrote under this key is
replaced, so that no stale one is left standing; else there is a new one. The comment is FILE's
text; what stands in it is never read here. A token that may not comment is no failure: pull
requests from forks have one, and the job's summary holds the same text.
"""

from __future__ import annotations

import sys
from pathlib import Path

import github_api

_FORBIDDEN = 403
# What GitHub takes; it counts characters
_LENGTH_MAX = 65_536
_CUT = "\n\n_Cut here: the summary of the job has all of it._\n"


def main(pull_request: str, key: str, author: str, file: str) -> None:
    """Replaces the comment, or makes it."""
    marker = f"<!-- connect-comment {key.replace('-->', '')} -->"
    body = f"{marker}\n{Path(file).read_text(encoding='utf-8')}"
    if len(body) > _LENGTH_MAX:
        body = body[: _LENGTH_MAX - len(_CUT)] + _CUT
    try:
        print(_kept(int(pull_request), marker, author, body))
    except github_api.Refused as refused:
        if refused.status != _FORBIDDEN:
            raise
        print(f"::warning::No comment, as the token may write none: {refused}")


def _kept(pull_request: int, marker: str, author: str, body: str) -> str:
    for comment in github_api.listed(f"/issues/{pull_request}/comments"):
        # Anyone may write a comment that begins like ours
        if comment["user"]["login"] == author and comment["body"].startswith(marker):
            made = github_api.update(f"/issues/comments/{comment['id']}", {"body": body})
            break
    else:
        made = github_api.create(f"/issues/{pull_request}/comments", {"body": body})
    return str(made["html_url"])


if __name__ == "__main__":
    main(*sys.argv[1:])
