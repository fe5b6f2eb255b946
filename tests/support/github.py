"""GitHub's REST API as far as the actions use it: comments, issues, artefacts and merged pull
requests, in memory.

Answers in GitHub's shapes, which recorded.py checks; whatever is asked of it otherwise is 404. A
list has pages.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.recorded import as_recorded

TOKEN = "token-of-the-job"
REPOSITORY = "team/connectors"
BOT = "github-actions[bot]"


class FakeGitHub:
    """Serves between `start` and `stop`; its lists are for the test to fill and to read."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.issues: list[dict[str, Any]] = []
        self.artifacts: list[dict[str, Any]] = []
        self.pulls: list[dict[str, Any]] = []
        self.commits: dict[int, list[str]] = {}
        self.may_write = True
        self.calls: list[str] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def _do(self) -> None:
                fake._answer(self)

            do_GET = do_POST = do_PATCH = _do

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def comment(self, login: str, body: str) -> dict[str, Any]:
        """A comment on pull request 7."""
        number = 100 + len(self.comments)
        made = {
            "id": number,
            "body": body,
            "user": {"login": login},
            "html_url": f"https://github.test/c/{number}",
        }
        self.comments.append(made)
        return made

    def issue(self, *, labels: list[str], **fields: Any) -> dict[str, Any]:
        """An open issue with labels of these names."""
        number = 1 + len(self.issues)
        made = {
            "number": number,
            "state": "open",
            "html_url": f"https://github.test/i/{number}",
            "labels": [{"name": label} for label in labels],
            **fields,
        }
        self.issues.append(made)
        return made

    def artifact(self, name: str, run: int, commit: str, **fields: Any) -> dict[str, Any]:
        """What a run for `commit` uploaded; in this repository if no other is named."""
        made = {
            "name": name,
            "created_at": f"2026-11-{run:02}T10:00:00Z",
            "expired": False,
            "workflow_run": {
                "id": run,
                "head_sha": commit,
                "repository_id": 1,
                "head_repository_id": 1,
            },
        }
        made["workflow_run"] |= fields.pop("workflow_run", {})
        self.artifacts.append(made | fields)
        return made

    def merged(
        self, number: int, head: str, merge: str, commits: list[str] | None = None, **fields: Any
    ) -> None:
        """A pull request that was merged as the commit `merge`; `commits` are those in it."""
        when = "2026-11-21T10:00:00Z"
        made = {"number": number, "merged_at": when, "merge_commit_sha": merge}
        self.pulls.append(made | {"head": {"sha": head}} | fields)
        self.commits[number] = [head, merge] if commits is None else commits

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        url = urlsplit(request.path)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        length = int(request.headers.get("Content-Length") or 0)
        body = json.loads(request.rfile.read(length)) if length else None
        path = url.path.removeprefix(f"/repos/{REPOSITORY}")
        self.calls.append(f"{request.command} {path}")
        allowed = request.headers.get("Authorization") == f"Bearer {TOKEN}"
        refused = request.command != "GET" and not self.may_write
        found = None
        if allowed and not refused:
            found = self._find(request.command, path, query, body)
        done = 201 if request.command == "POST" else 200
        status = 401 if not allowed else 403 if refused else 404 if found is None else done
        if found is None:
            said = {401: "Bad credentials", 403: "Resource not accessible by integration"}
            found = {"message": said.get(status, "Not Found")}
        text = json.dumps(found).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    def _find(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        match method, path:
            case "GET", "/issues/7/comments":
                return _page("comment", self.comments, query)
            case "POST", "/issues/7/comments":
                return as_recorded("github", "comment", self.comment(BOT, body["body"]))
            case "GET", "/issues":
                named = [
                    each
                    for each in self.issues
                    if each["state"] == query["state"]
                    and query["labels"] in [label["name"] for label in each["labels"]]
                ]
                return _page("issue", named, query)
            case "POST", "/issues":
                return as_recorded("github", "issue", self.issue(**body))
            case "GET", "/actions/artifacts":
                named = [each for each in self.artifacts if each["name"] == query["name"]]
                return {"total_count": len(named), "artifacts": _page("artifact", named, query)}
        if method == "GET" and (commit := re.fullmatch(r"/commits/(\w+)/pulls", path)):
            # GitHub names every pull request that the commit is in
            holding = [each for each in self.pulls if commit[1] in self.commits[each["number"]]]
            return _page("pull request", holding, query)
        if method == "PATCH" and (found := re.fullmatch(r"/issues/(comments/)?(\d+)", path)):
            among, key = (self.comments, "id") if found[1] else (self.issues, "number")
            (item,) = (each for each in among if each[key] == int(found[2]))
            item.update(body)
            return as_recorded("github", "comment" if found[1] else "issue", item)
        return None


def _page(kind: str, items: list[dict[str, Any]], query: dict[str, str]) -> list[Any]:
    size, page = int(query["per_page"]), int(query["page"])
    shown = items[(page - 1) * size : page * size]
    return [as_recorded("github", kind, item) for item in shown]
