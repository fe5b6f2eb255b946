"""The target's TLS, user, headers and times, against a server that really wants them."""

from __future__ import annotations

import base64
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import certifi
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.client import OutcomeUnknown, RestClient
from connect_reconciler.backend.rest.refusals import Retries
from connect_runtime.kafka.local_processes import LOOPBACK
from connect_specs.desired import RestTarget
from connect_specs.diagnostics import Unreachable
from support.certificates import Authority, Certificate
from support.serving import serving

AT_ONCE = Retries(rebalance_s=0, read_s=0)


async def echo(request: Request) -> JSONResponse:
    return JSONResponse({"headers": dict(request.headers), "path": request.url.path})


APP = Starlette(routes=[Route("/{path:path}", echo)])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Certificate:
    return authority.sign("server")


@pytest.fixture(scope="module")
def https(server: Certificate) -> Iterator[str]:
    with serving(APP, ssl_certfile=server.certificate, ssl_keyfile=server.key) as address:
        yield f"https://{address}"


@pytest.fixture(scope="module")
def mutual(authority: Authority, server: Certificate) -> Iterator[str]:
    """A server that talks only to those whom the authority knows."""
    with serving(
        APP,
        ssl_certfile=server.certificate,
        ssl_keyfile=server.key,
        ssl_ca_certs=str(authority.own.certificate),
        ssl_cert_reqs=ssl.CERT_REQUIRED,
    ) as address:
        yield f"https://{address}"


def read(target: RestTarget) -> Any:
    with RestClient(target, retries=AT_ONCE) as client:
        return client.read("/connectors", shapes.a_map)


def test_an_authority_of_ones_own_is_trusted(https: str, authority: Authority) -> None:
    assert read(RestTarget(https, ca_file=authority.own.certificate))["path"] == "/connectors"


def test_the_workers_own_certificate_is_trusted(https: str, server: Certificate) -> None:
    assert read(RestTarget(https, ca_file=server.certificate))["path"] == "/connectors"


def test_an_authority_that_nobody_named_is_not(https: str, tmp_path: Path) -> None:
    other = Authority.make(tmp_path, "other")
    for target in (RestTarget(https), RestTarget(https, ca_file=other.own.certificate)):
        with pytest.raises(Unreachable) as refused:
            read(target)
        (problem,) = refused.value.diagnostics
        assert problem.code == "cluster.bad-tls"
        assert "ca_file" in problem.hint


def test_https_of_a_worker_without_tls_says_so() -> None:
    with serving(APP) as address, pytest.raises(Unreachable) as refused:
        read(RestTarget(f"https://{address}"))
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.what) == (
        "cluster.bad-tls",
        "what answers there does not speak TLS",
    )
    assert "http://" in problem.hint


def test_the_systems_authorities_are_trusted(
    https: str, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that OpenSSL finds, by a file or a folder, and no list that came with a package."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Unreachable):
        read(RestTarget(https))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.own.certificate))
    assert read(RestTarget(https))["path"] == "/connectors"
    monkeypatch.delenv("SSL_CERT_FILE")
    folder = tmp_path / "certificates"
    folder.mkdir()
    (folder / f"{_subject_hash(authority.own.certificate)}.0").write_bytes(
        authority.own.certificate.read_bytes()
    )
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    assert read(RestTarget(https))["path"] == "/connectors"


def test_no_authority_but_the_systems_is_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The trap: certifi's list stands in for the system's, which may trust less, or more."""
    (tmp_path / "none.pem").write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    asked: list[str] = []
    monkeypatch.setattr(certifi, "where", lambda: asked.append("certifi") or "")
    seen: list[ssl.SSLContext] = []
    client = httpx.Client

    def made(**settings: Any) -> httpx.Client:
        seen.append(settings["verify"])
        return client(**settings)

    monkeypatch.setattr(httpx, "Client", made)
    for url in ("https://connect.test", "http://connect.test"):
        RestClient(RestTarget(url)).close()
    assert [context.cert_store_stats()["x509_ca"] for context in seen] == [0, 0]
    assert seen[0].verify_mode is ssl.CERT_REQUIRED and seen[0].check_hostname
    assert asked == []


def _subject_hash(certificate: Path) -> str:
    """The name under which OpenSSL looks for an authority in a folder."""
    command = ["openssl", "x509", "-noout", "-subject_hash", "-in", str(certificate)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_client_says_who_it_is(mutual: str, authority: Authority) -> None:
    client = authority.sign("client")
    target = RestTarget(
        mutual,
        ca_file=authority.own.certificate,
        cert_file=client.certificate,
        key_file=client.key,
    )
    assert read(target)["path"] == "/connectors"


def test_a_client_that_does_not_is_refused(mutual: str, authority: Authority) -> None:
    with pytest.raises(Unreachable) as refused:
        read(RestTarget(mutual, ca_file=authority.own.certificate))
    (problem,) = refused.value.diagnostics
    assert "cert_file" in problem.hint


def test_certificate_files_that_are_none(https: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for ca_file in (broken, tmp_path / "missing.pem"):
        with pytest.raises(Unreachable) as refused:
            read(RestTarget(https, ca_file=ca_file))
        assert refused.value.diagnostics[0].code == "cluster.bad-certificate"


def test_user_password_and_headers_are_sent(https: str, authority: Authority) -> None:
    target = RestTarget(
        https,
        user="jöe",
        password="hunter2",
        headers={"X-Tenant": "orders"},
        ca_file=authority.own.certificate,
    )
    sent = read(target)["headers"]
    kind, _, given = sent["authorization"].partition(" ")
    assert (kind, base64.b64decode(given).decode()) == ("Basic", "jöe:hunter2")
    assert sent["x-tenant"] == "orders"
    assert "hunter2" not in repr(target)


@pytest.fixture
def silent() -> Iterator[str]:
    """Takes connections, and never says anything."""
    with socket.create_server((LOOPBACK, 0)) as listening:
        yield f"http://{LOOPBACK}:{listening.getsockname()[1]}"


def test_an_answer_is_waited_for_as_long_as_the_target_says(silent: str) -> None:
    begun = time.monotonic()
    with RestClient(RestTarget(silent, answer_s=0.3), retries=AT_ONCE) as client:
        with pytest.raises(Unreachable):
            client.read("/connectors", shapes.names)
        with pytest.raises(OutcomeUnknown):
            client.change("PUT", "/connectors/a/stop")
    assert 0.6 <= time.monotonic() - begun < 30
