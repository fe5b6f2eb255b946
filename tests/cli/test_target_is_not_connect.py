"""A target's URL at which something else than Connect answers: exit code 3, and nothing is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from connect_reconciler.cli import entry
from connect_runtime import KAFKA_VERSION
from support.serving import serving

ABOUT = {"version": KAFKA_VERSION, "commit": "c", "kafka_cluster_id": "k"}
LOGIN = "<html><head><title>Sign in</title><script>x()</script></head><body>Login</body></html>"

Other = tuple[str, str, str, list[str], bool]
Answer = Callable[[str], Response]


def knows_its_root_only(path: str) -> Response:
    return JSONResponse(ABOUT) if path == "/" else JSONResponse({"status": 404}, 404)


def gives_a_list(path: str) -> Response:
    return JSONResponse(ABOUT) if path == "/" else JSONResponse([])


# What answers, the status that is named, and a word of what came
ELSE: dict[str, tuple[Answer, str, str]] = {
    "200 with an empty body": (lambda path: Response(), "200 OK", "an empty body"),
    "a login page": (lambda path: HTMLResponse(LOGIN), "200 OK", "text/html, Sign in Login"),
    "a redirect": (
        lambda path: RedirectResponse("http://u:hunter2@sso.test/in?code=hunter2", 302),
        "302 Found",
        "a redirect to http://sso.test/in",
    ),
    "404 of a wrong base path": (
        lambda path: JSONResponse({"error_code": 404, "message": "HTTP 404 Not Found"}, 404),
        "404 Not Found",
        "HTTP 404 Not Found",
    ),
    "404 of a web server": (lambda path: HTMLResponse("<h1>no</h1>", 404), "404 Not Found", "no"),
    "another REST API": (
        lambda path: JSONResponse({"version": "1"}),
        "200 OK",
        "a map without commit, kafka_cluster_id",
    ),
    "a root alone": (knows_its_root_only, "404 Not Found", '{"status":404}'),
    "a list for a map": (gives_a_list, "200 OK", "a list where a map is expected"),
    "not JSON": (
        lambda path: Response("{", media_type="application/json"),
        "200 OK",
        "answered 200 OK: {",
    ),
    "500 of a proxy": (
        lambda path: Response("boom\nboom " + "x" * 5000, 500, media_type="text/plain"),
        "500 Internal Server Error",
        "text/plain, boom boom xxx",
    ),
}
VERBS = (
    ("plan",),
    ("apply", "--yes"),
    ("status",),
    ("drift",),
    ("stop", "a"),
    ("restart", "a"),
    ("offsets", "list", "a"),
    ("export", "a", "--live"),
)


@pytest.fixture(params=list(ELSE), ids=lambda label: label)
def other(request: pytest.FixtureRequest) -> Iterator[Other]:
    """Its URL with a login and a path, what errors name of it, the changes that it was asked for,
    and whether it says that it is Connect."""
    answer, status, body = ELSE[request.param]
    changes: list[str] = []

    async def respond(request: Request) -> Response:
        if request.method != "GET":
            changes.append(f"{request.method} {request.url.path}")
        return answer(request.url.path.removeprefix("/base") or "/")

    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    with serving(Starlette(routes=[Route("/{path:path}", respond, methods=methods)])) as address:
        root = answer in (knows_its_root_only, gives_a_list)
        yield f"http://joe:hunter2@{address}/base", status, body, changes, root


def test_every_verb_ends_with_3_and_names_what_answered(
    other: Other,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    url, status, body, changes, root = other
    shown = url.replace("joe:hunter2@", "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connect.yaml").write_text(
        f"project: p\ncluster:\n  group.id: g\n  target: {{rest: '{url}'}}\n"
    )
    config = {"connector.class": "FileStreamSource", "topic": "t", "password": "hunter2"}
    spec = {"name": "a", "config": config}
    (tmp_path / "connectors" / "a.json").write_text(json.dumps(spec))
    for words in VERBS:
        code = entry.run(words)
        said, told = capfd.readouterr()
        assert code == 3, (words, said, told)
        assert "why: " in told and f" {shown}/" in told, told
        assert f"answered {status}" in told, (words, told)
        assert root or body in told, (words, told)
        assert "  hint: " in told
        assert "hunter2" not in said + told
        assert "create" not in said
        assert len(told) < 2000
    # What says of itself that it is Connect may be asked for something, which it does not take
    assert root or changes == []
