"""GitLab's REST API as far as the example uses it: notes and the plan of a merged request.

Answers in GitLab's shapes, which recorded.py checks.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.recorded import as_recorded

TOKEN = "token-of-the-project"
ME = 1


class FakeGitLab:
    """Serves between `start` and `stop`; its lists are for the test to fill and to read."""

    def __init__(self) -> None:
        self.notes: list[dict[str, Any]] = []
        self.merged: list[dict[str, Any]] = []
        self.pipelines: list[dict[str, Any]] = []
        self.jobs: dict[int, list[dict[str, Any]]] = {}
        self.plans: dict[int, bytes] = {}
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def _do(self) -> None:
                fake._answer(self)

            do_GET = do_POST = do_PUT = _do

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/v4"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def note(self, author: int, body: str) -> dict[str, Any]:
        """A note on merge request 3."""
        made = {"id": 100 + len(self.notes), "author": {"id": author}, "body": body}
        self.notes.append(made)
        return made

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        url = urlsplit(request.path)
        length = int(request.headers.get("Content-Length") or 0)
        body = json.loads(request.rfile.read(length)) if length else None
        path = url.path.removeprefix("/api/v4")
        found: Any = None
        if request.headers.get("PRIVATE-TOKEN") == TOKEN:
            found = self._find(request.command, path, body)
        query = {key: int(values[-1]) for key, values in parse_qs(url.query).items()}
        if isinstance(found, list):
            size, page = query["per_page"], query["page"]
            found = found[(page - 1) * size : page * size]
        text = found if isinstance(found, bytes) else json.dumps(found).encode()
        done = 201 if request.command == "POST" else 200
        request.send_response(404 if found is None else done)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    def _find(self, method: str, path: str, body: Any) -> Any:
        match method, path.removeprefix("/projects/7"):
            case "GET", "/user":
                return as_recorded("gitlab", "user", {"id": ME})
            case "GET", "/merge_requests/3/notes":
                return _all("note", self.notes)
            case "POST", "/merge_requests/3/notes":
                return as_recorded("gitlab", "note", self.note(ME, body["body"]))
            case "GET", "/merge_requests/3/pipelines":
                return _all("pipeline", self.pipelines)
            case "GET", where if re.fullmatch(r"/repository/commits/\w+/merge_requests", where):
                return _all("merge request", self.merged)
            case "GET", where if found := re.fullmatch(r"/pipelines/(\d+)/jobs", where):
                return _all("job", self.jobs[int(found[1])])
            case "GET", where if found := re.fullmatch(r"/jobs/(\d+)/artifacts/plan.json", where):
                return self.plans.get(int(found[1]))
            case "PUT", where if found := re.fullmatch(r"/merge_requests/3/notes/(\d+)", where):
                (item,) = (each for each in self.notes if each["id"] == int(found[1]))
                item.update(body)
                return as_recorded("gitlab", "note", item)
        return None


def _all(kind: str, items: list[dict[str, Any]]) -> list[Any]:
    return [as_recorded("gitlab", kind, item) for item in items]
