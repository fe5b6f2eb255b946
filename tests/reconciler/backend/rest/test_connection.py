"""Which way a request takes: through no proxy to a local address, whatever the environment says."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.client import RestClient
from connect_reconciler.backend.rest.connection import is_local
from connect_reconciler.backend.rest.refusals import Retries
from connect_specs.desired import RestTarget
from connect_specs.diagnostics import ConnectError, Invalid
from support.serving import serving

AT_ONCE = Retries(rebalance_s=0, read_s=0, busy_s=0)
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def passed() -> list[str]:
    """What the proxy was asked to pass on."""
    return []


@pytest.fixture
def proxy(passed: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real proxy for plain HTTP, which keeps what it is asked for and answers it itself."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        # No route has the absolute URL that a proxy is asked for
        passed.append(Request(scope).headers["host"])
        await JSONResponse(["through the proxy"])(scope, receive, send)

    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with serving(answer, lifespan="off") as address:
        monkeypatch.setenv("HTTP_PROXY", f"http://{address}")
        monkeypatch.setenv("http_proxy", f"http://{address}")
        monkeypatch.setenv("ALL_PROXY", f"http://{address}")
        yield address


@pytest.fixture
def here() -> Iterator[str]:
    """The port of a server on this machine."""

    async def answer(request: Request) -> JSONResponse:
        return JSONResponse(["directly"])

    with serving(Starlette(routes=[Route("/{path:path}", answer)])) as address:
        yield address.rpartition(":")[2]


def read(url: str, *, direct: bool = False) -> object:
    with RestClient(RestTarget(url, connect_s=2), retries=AT_ONCE, direct=direct) as client:
        return client.read("/connectors", shapes.names)


def test_a_local_address_takes_no_proxy(proxy: str, passed: list[str], here: str) -> None:
    """The trap: HTTP_PROXY is set, as in most companies, and an apply to this machine fails."""
    for host in ("localhost", "127.0.0.1"):
        assert read(f"http://{host}:{here}") == ["directly"]
    assert passed == []


def test_our_own_runtime_takes_none_wherever_it_listens(
    proxy: str, passed: list[str], here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = socket.getaddrinfo

    def resolved(host: object, *more: object, **named: object) -> object:
        return known("127.0.0.1" if host == "runtime.test" else host, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    assert read(f"http://runtime.test:{here}", direct=True) == ["directly"]
    assert passed == []


def test_any_other_address_takes_the_proxy_unless_no_proxy_names_it(
    proxy: str, passed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read("http://connect.invalid:8083") == ["through the proxy"]
    assert passed == ["connect.invalid:8083"]
    monkeypatch.setenv("NO_PROXY", "other.invalid,connect.invalid")
    with pytest.raises(ConnectError, match="cannot be reached"):
        read("http://connect.invalid:8083")
    assert passed == ["connect.invalid:8083"]


@pytest.mark.parametrize("proxy_url", ["socks5://localhost:1", "ftp://h:1"])
def test_a_proxy_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, proxy_url: str
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("ALL_PROXY", proxy_url)
    with pytest.raises(Invalid) as refused:
        read("http://connect.invalid:8083")
    assert "ALL_PROXY" in refused.value.diagnostics[0].hint


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("a.localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", True),
        (socket.gethostname(), True),
        ("localhost.example.com", False),
        ("connect", False),
        ("10.0.0.1", False),
        ("fe80::1", False),
        ("", False),
    ],
)
def test_which_hosts_are_local(host: str, local: bool) -> None:
    assert is_local(host) is local
