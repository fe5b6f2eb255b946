"""Who may ask: names, origins of web pages, logins.
The worker property `response.http.headers.config`: its rules, and the headers of answers.
"""

from __future__ import annotations

import base64
import socket
from dataclasses import replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect_runtime.api import ConfigError
from connect_runtime.rest.access import refusal
from connect_runtime.rest.app import Served, create_app
from connect_runtime.rest.password import USER, make_password, read_password
from connect_runtime.rest.rest_settings import HeaderRule, RestSettings, parse_rules
from connect_runtime.server import Runtime
from connect_runtime.settings.worker_config import WorkerConfig, from_properties
from runtime.rest.client import SOURCE, WORKER, Client, client_of, error, running_source

TABLE = yaml.safe_load(Path(__file__).with_name("access.yaml").read_text())

LOOPBACK = RestSettings(loopback=True)
OPEN = RestSettings()
NO_HOST = (
    "This host name is not allowed here; rest.allowed.hosts lists the names that this worker "
    "answers to"
)
NO_ORIGIN = (
    "Requests of web pages from other origins are not allowed; access.control.allow.origin lists "
    "those that are"
)


def config(**properties: str) -> WorkerConfig:
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return from_properties({**WORKER, **given})[0]


def client(settings: RestSettings, password: str | None = None) -> Client:
    verbs = running_source()
    return Client(
        create_app(
            lambda: verbs,
            {},
            cluster_id=lambda: "k",
            commit="c",
            settings=settings,
            admits=lambda user, given: (user, given) == (USER, password),
        )
    )


@pytest.mark.parametrize(
    ("host", "settings", "allowed"),
    [
        ("localhost:8083", LOOPBACK, True),
        ("LOCALHOST", LOOPBACK, True),
        ("127.0.0.1:8083", LOOPBACK, True),
        ("[::1]:8083", LOOPBACK, True),
        ("192.168.0.7:9", LOOPBACK, True),
        ("evil.example:8083", LOOPBACK, False),
        ("localhost.evil.example", LOOPBACK, False),
        ("127.0.0.1.evil.example", LOOPBACK, False),
        ("localhost@evil.example", LOOPBACK, False),
        ("", LOOPBACK, False),
        ("[", LOOPBACK, False),
        ("localhost:x", LOOPBACK, True),
        (None, LOOPBACK, True),
        ("evil.example", OPEN, True),
        ("connect.example:8083", replace(OPEN, hosts=frozenset({"connect.example"})), True),
        ("other.example:8083", replace(OPEN, hosts=frozenset({"connect.example"})), False),
        ("127.0.0.1:8083", replace(OPEN, hosts=frozenset({"connect.example"})), False),
        ("connect.example", replace(LOOPBACK, hosts=frozenset({"connect.example"})), True),
    ],
)
def test_hosts_that_are_allowed(host: str | None, settings: RestSettings, allowed: bool) -> None:
    assert refusal(host, None, settings) == (None if allowed else NO_HOST)


@pytest.mark.parametrize(
    ("origin", "origins", "allowed"),
    [
        ("http://here:8083", (), True),
        ("HTTP://HERE:8083", (), True),
        ("https://here:8083", (), True),
        ("http://here", (), False),
        ("http://here:8083.evil.example", (), False),
        ("https://evil.example", (), False),
        ("null", (), False),
        ("http://[", (), False),
        ("", (), False),
        ("https://evil.example", ("*",), True),
        ("https://a.example", (r"https://(a|b)\.example",), True),
        ("https://A.example", (r"https://(a|b)\.example",), True),
        ("https://a.example.evil", (r"https://(a|b)\.example",), False),
        ("https://c.example", ("https://a.example", "https://c.example"), True),
        ("http://here:8083", ("https://a.example",), True),
    ],
)
def test_origins_that_are_allowed(origin: str, origins: tuple[str, ...], allowed: bool) -> None:
    found = refusal("here:8083", origin, replace(OPEN, origins=origins))
    assert found == (None if allowed else NO_ORIGIN)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/connectors", {"name": "new", "config": SOURCE}),
        ("POST", "/connectors/fs/restart", None),
        ("PUT", "/connectors/fs/pause", None),
        ("GET", "/connectors", None),
        ("OPTIONS", "/connectors", None),
        ("GET", "/nope", None),
    ],
)
def test_a_foreign_page_gets_nothing(method: str, path: str, body: object) -> None:
    ask = client(LOOPBACK)
    for headers, why in (
        ({"host": "evil.example:8083"}, NO_HOST),
        ({"host": "localhost:8083", "origin": "http://evil.example"}, NO_ORIGIN),
    ):
        found = ask(method, path, body, headers)
        assert (found.status_code, found.json()) == (403, error(403, why))
        assert "access-control-allow-origin" not in found.headers


def test_an_answer_to_a_page_of_an_allowed_origin_has_the_headers() -> None:
    """As Jetty's CrossOriginHandler: the origin is echoed, and a preflight request is told the
    methods, whatever it asks for."""
    origins = config(
        access_control_allow_origin="https://a.example", access_control_allow_methods="PUT,DELETE"
    ).rest
    ask = client(replace(origins, loopback=False, hosts=frozenset()))
    found = ask("GET", "/connectors", None, {"origin": "https://a.example"})
    assert found.headers["access-control-allow-origin"] == "https://a.example"
    assert found.headers["vary"] == "Origin"
    assert "access-control-allow-methods" not in found.headers
    for method in ("PUT", "PATCH"):
        asked = {"origin": "https://a.example", "access-control-request-method": method}
        found = ask("OPTIONS", "/connectors/fs/pause", None, asked)
        assert found.status_code == 200
        assert found.headers["access-control-allow-methods"] == "PUT,DELETE"
        assert found.headers["access-control-allow-headers"] == "Content-Type"
        assert found.headers["access-control-allow-origin"] == "https://a.example"
        assert found.headers["access-control-max-age"] == "60"
    assert ask("OPTIONS", "/nope", None, asked).status_code == 404


def test_a_preflight_request_needs_no_login() -> None:
    """Browsers send none with it. It learns which login to send, and nothing of connectors."""
    ask = client(replace(OPEN, login=True, origins=("https://a.example",)), "sesame")
    asked = {"origin": "https://a.example", "access-control-request-method": "PUT"}
    found = ask("OPTIONS", "/connectors/fs/pause", None, asked)
    assert found.status_code == 200
    assert found.headers["access-control-allow-headers"] == "Content-Type,Authorization"
    for method, headers in (("OPTIONS", {}), ("PUT", asked), ("GET", asked)):
        assert ask(method, "/connectors/fs/pause", None, headers).status_code == 401


def test_origins_are_patterns_of_their_own() -> None:
    """Flags and groups of one are not in the way of another."""
    patterns = config(access_control_allow_origin=r"(?i)https://(?P<x>A)\.e,(?P<x>http://b)").rest
    for origin, allowed in (("https://a.e", True), ("http://b", True), ("http://c", False)):
        assert (refusal("127.0.0.1", origin, patterns) is None) == allowed
        found = client(patterns)("GET", "/connectors", None, {"host": "[::1]", "origin": origin})
        assert found.headers.get("access-control-allow-origin") == (origin if allowed else None)


def test_every_origin_is_echoed() -> None:
    ask = client(replace(OPEN, origins=("*",)))
    found = ask("GET", "/connectors", None, {"origin": "http://bar.example"})
    assert found.headers["access-control-allow-origin"] == "http://bar.example"


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("connect", "wrong"),
        basic("other", "right"),
        {"authorization": "Basic !"},
        {"authorization": "Basic"},
        {"authorization": "Bearer right"},
        basic("connect", "rïght"),
    ],
)
def test_a_request_without_the_password_is_refused(headers: dict[str, str]) -> None:
    found = client(RestSettings(login=True), "right")("GET", "/connectors", None, headers)
    assert (found.status_code, found.json()) == (
        401,
        error(401, "User cannot access the resource."),
    )
    assert found.headers["www-authenticate"].startswith("Basic realm=")


def test_the_password_admits_and_health_needs_none() -> None:
    ask = client(RestSettings(login=True), "right")
    assert ask("GET", "/connectors", None, basic("connect", "right")).json() == ["fs"]
    assert ask("GET", "/health").status_code == 200
    nobody = client(RestSettings(login=True), None)
    assert nobody("GET", "/connectors", None, basic("connect", "")).status_code == 401
    assert nobody("GET", "/connectors", None, basic("connect", "None")).status_code == 401


def test_the_password_is_a_file_of_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert read_password(folder) is None
    make_password(folder)
    first = read_password(folder)
    assert first is not None and len(first) >= 32
    assert [each.name for each in folder.iterdir()] == ["rest-password"]
    (folder / "rest-password").chmod(0o644)
    make_password(folder)
    assert read_password(folder) == first
    assert (folder / "rest-password").stat().st_mode & 0o777 == 0o600
    make_password(folder, replace=True)
    assert read_password(folder) not in (None, first)
    assert (folder / "rest-password").stat().st_mode & 0o777 == 0o600


def test_worker_properties_set_hosts_login_and_body_size() -> None:
    found = config(listeners="http://127.0.0.1:8083").rest
    own = "127.0.0.1"
    assert found == RestSettings(loopback=True, hosts=frozenset({own}), own_name=own)
    found = config(listeners="http://:8083", rest_authentication="basic").rest
    assert (found.loopback, found.login) == (False, True)
    found = config(
        listeners="http://localhost:1",
        rest_advertised_host_name="Me.example",
        rest_allowed_hosts="a.example, B.example",
        rest_max_body_bytes="2048",
    ).rest
    assert found.loopback
    assert found.hosts == {"me.example", "a.example", "b.example"}
    assert found.max_body_bytes == 2048
    assert config(listeners="http://:8083", rest_advertised_host_name="x").rest.hosts == set()


def test_a_loopback_listener_beside_others_answers_no_foreign_page() -> None:
    """A page whose name was made to resolve to this machine (DNS rebinding), where another listener
    answers to any name."""
    worker = config(
        listeners="http://0.0.0.0:0,http://127.0.0.1:0",
        admin_listeners="http://[::1]:0",
        rest_advertised_host_name="Me.example",
    )
    everywhere, here = worker.listeners
    assert worker.rest.admin is not None
    for listener, name, status in (
        (everywhere, "evil.example:8083", 503),
        (here, "evil.example:8083", 403),
        (*worker.rest.admin, "evil.example:8083", 403),
        (here, "localhost:8083", 503),
        (here, "me.example", 503),
    ):
        ask = Client(Runtime(worker)._app(listener, Served.ALL))
        same = {"host": name, "origin": f"http://{name}"}
        assert ask("GET", "/connectors", None, same).status_code == status, (listener, name)


@pytest.mark.parametrize(("properties", "open_hosts", "open_listeners"), TABLE["open_listeners"])
def test_listeners_without_login_and_certificates_are_open(
    properties: dict[str, str], open_hosts: list[str], open_listeners: int
) -> None:
    found, _ = from_properties({**WORKER, **properties})
    assert list(found.open_hosts) == open_hosts
    assert len(found.open_listeners) == open_listeners


def test_the_advertised_name_is_an_allowed_host() -> None:
    found = config(listeners="http://:8083", rest_allowed_hosts="connect.example").rest
    assert found.hosts == {"connect.example", socket.gethostname().lower()}
    found = config(listeners="http://10.0.0.7:8083", rest_allowed_hosts="connect.example").rest
    assert found.hosts == {"connect.example", "10.0.0.7"}


# As Apache's RestServerConfigTest has them
VALID = [
    "add  X-XSS-Protection: 1; mode=block",
    "set X-XSS-Protection: 1; mode=block",
    "setDate Last-Modified: 1",
    "addDate Expires: 0",
    "SET a:b",
]
INVALID = [
    "set",
    "badaction  X-Frame-Options:DENY",
    "set add X-XSS-Protection:1",
    "addX-XSS-Protection",
    "X-XSS-Protection:",
    "add X-XSS-Protection: ",
    "set X-XSS-Protection",
    "set X: y: z",
    "setDate X: soon",
    "set X:a\x01b",
    "setDate X: 999999999999999",
    "setDate X: -9999999999999",
    "add Content-Length: 1",
    "set transfer-encoding: chunked",
    f"set X: {'y' * 200_000}",
]


@pytest.mark.parametrize("rule", VALID)
def test_rules_that_connect_takes(rule: str) -> None:
    assert len(parse_rules(rule)) == 1


@pytest.mark.parametrize("rule", INVALID)
def test_other_rules_are_refused(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"response\.http\.headers\.config"):
        parse_rules(rule)


def test_a_rule_in_quotes_may_hold_commas() -> None:
    assert parse_rules('add Cache-Control: a, "set X-B: c, d"') == (
        HeaderRule("Cache-Control", "a", adds=True, from_now=False),
        HeaderRule("X-B", "c, d", adds=False, from_now=False),
    )
    assert parse_rules(" ") == ()


def test_answers_have_the_headers() -> None:
    rules = parse_rules("set Content-Type: x/y, set X-A: 1, add X-A: 2, setDate Expires: 3600000")
    ask: Any = client_of(running_source(), RestSettings(headers=rules))
    for path in ("/", "/nope", "/connectors/a%2Fb"):
        found = ask("GET", path)
        assert found.headers.get_list("x-a") == ["1", "2"]
        expires = parsedate_to_datetime(found.headers["expires"])
        assert expires is not None
    assert ask("GET", "/").headers["content-type"] == "application/json"
