"""What the actions ask of GitHub's REST API: list, create, update. Standard library only.

GITHUB_API_URL, GITHUB_REPOSITORY and GITHUB_TOKEN are what a runner sets and an action passes on.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

_TIMEOUT_S = 30
_PAGE = 100


class Refused(SystemExit):
    """GitHub did not do what it was asked; ends the step with its words. `status` 0: no answer."""

    def __init__(self, told: str, status: int = 0) -> None:
        super().__init__(" ".join(told.split()))
        self.status = status


def listed(path: str) -> Iterator[dict[str, Any]]:
    """Every item of a list, over all its pages. `path` begins after the repository."""
    for page in range(1, 1000):
        sign = "&" if "?" in path else "?"
        found = _call("GET", f"{path}{sign}per_page={_PAGE}&page={page}")
        items = (
            found
            if isinstance(found, list)
            else next(value for value in found.values() if isinstance(value, list))
        )
        yield from items
        if len(items) < _PAGE:
            return


def create(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """A new comment or issue."""
    made: dict[str, Any] = _call("POST", path, body)
    return made


def update(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """What is given of it is replaced."""
    made: dict[str, Any] = _call("PATCH", path, body)
    return made


def _call(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    url = f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}{path}"
    request = urllib.request.Request(
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
            "Content-Type": "application/json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        told = error.read(500).decode(errors="replace")
        raise Refused(f"GitHub refused {method} {path}: {error.code} {told}", error.code) from None
    except urllib.error.URLError as error:
        raise Refused(f"GitHub cannot be reached for {method} {path}: {error.reason}") from None
