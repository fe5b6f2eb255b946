"""Several listeners: http and https, key stores, client certificates, and admin listeners."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from connect_runtime.rest import tls
from connect_runtime.rest.forwarding import Forwarding
from connect_runtime.rest.http_server import BoundSocket, ConnectionLimits, RestServer
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.rest.tls import (
    ADMIN_LISTENERS,
    LISTENERS,
    client_context,
    command_context,
    renewed_context,
    server_context,
)
from connect_runtime.server import Runtime
from connect_runtime.settings.worker_config import from_properties
from connect_specs.diagnostics import Invalid
from runtime.rest.client import WORKER, Client, app_of, client_of, running_source
from runtime.rest.serving import is_closed
from support.certificates import Authority, Certificate, java_store
from support.wait import wait_until

TABLE = yaml.safe_load(Path(__file__).with_name("tls_settings.yaml").read_text())

PASSWORD = "hunter2-of-the-store"
Properties = Mapping[str, str]


@dataclass(frozen=True)
class Files:
    """An authority, what it signed, and the same as stores."""

    folder: Path
    authority: Authority
    server: Certificate
    client: Certificate

    @property
    def pem(self) -> Path:
        """Key and certificate in one file."""
        path = self.folder / "server-both.pem"
        path.write_bytes(self.server.key.read_bytes() + self.server.certificate.read_bytes())
        return path

    def pkcs12(self, *more: str) -> Path:
        path = self.folder / "server.p12"
        openssl(
            *("pkcs12", "-export", "-passout", f"pass:{PASSWORD}", "-out", str(path)),
            *("-in", str(self.server.certificate), "-inkey", str(self.server.key), *more),
        )
        return path

    def trusting(self, *, with_certificate: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.own.certificate)
        if with_certificate:
            context.load_cert_chain(self.client.certificate, self.client.key)
        return context


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority.make(folder)
    return Files(folder, authority, authority.sign("server"), authority.sign("client"))


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)


def key_store(files: Files, kind: str) -> Properties:
    if kind == "PEM":
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(files.pem)}
    if kind == "inline":
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": files.server.key.read_text(),
            "ssl.keystore.certificate.chain": files.server.certificate.read_text(),
        }
    if kind == "encrypted":
        path = files.folder / "encrypted.pem"
        key = files.folder / "encrypted.key"
        openssl(
            *("pkcs8", "-topk8", "-passout", f"pass:{PASSWORD}"),
            *("-in", str(files.server.key), "-out", str(key)),
        )
        path.write_bytes(key.read_bytes() + files.server.certificate.read_bytes())
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(path),
            "ssl.key.password": PASSWORD,
        }
    if kind == "JKS":
        path = files.folder / "server.jks"
        java_store(path, "JKS", own=files.server, password=PASSWORD)
    else:
        path = files.pkcs12()
    store = {"ssl.keystore.location": str(path), "ssl.keystore.password": PASSWORD}
    return store | ({"ssl.keystore.type": kind} if kind else {})


def trust_store(files: Files, kind: str) -> Properties:
    if kind == "PEM":
        location = str(files.authority.own.certificate)
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}
    path = files.folder / f"trust.{kind}"
    java_store(path, kind, trusted=(files.authority.own.certificate,), password=PASSWORD)
    return {"ssl.truststore.location": str(path), "ssl.truststore.password": PASSWORD}


@contextlib.contextmanager
def https(
    properties: Properties, prefix: str = LISTENERS, limits: ConnectionLimits | None = None
) -> Iterator[str]:
    bound = BoundSocket.at("127.0.0.1", 0)
    tls = renewed_context(properties, prefix)
    server = RestServer(app_of(running_source()), bound, limits, tls)
    server.start()
    try:
        yield f"https://127.0.0.1:{bound.port}"
    finally:
        server.stop()


def ask(url: str, context: ssl.SSLContext) -> httpx.Response:
    with httpx.Client(verify=context, trust_env=False) as client:
        return client.post(
            f"{url}/connectors",
            json={"name": "c", "config": {"connector.class": "FileStreamSource", "topic": "t"}},
        )


@pytest.mark.parametrize("kind", ["PEM", "inline", "encrypted", "PKCS12", "JKS", ""])
def test_https_with_each_kind_of_key_store(files: Files, kind: str) -> None:
    prefixed = {f"{LISTENERS}{k}": v for k, v in key_store(files, kind).items()}
    with https({**prefixed, "ssl.keystore.location": "/none"}) as url:
        answer = ask(url, files.trusting(with_certificate=False))
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{url}/connectors/c"


def test_new_connections_get_keys_that_were_renewed(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tls, "_LOOK_EVERY_S", 0.0)
    other = Authority.make(tmp_path, "another")
    renewed = other.sign("renewed")
    store = tmp_path / "store.pem"
    store.write_bytes(files.pem.read_bytes())
    old = files.trusting(with_certificate=False)
    new = ssl.create_default_context(cafile=other.own.certificate)
    with https({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}) as url:
        assert ask(url, old).status_code == 201
        # half of it, by somebody who does not replace the file at once
        store.write_bytes(renewed.key.read_bytes())
        assert ask(url, old).status_code == 409
        assert "Renewed key stores of https listeners are not used" in caplog.text
        store.write_bytes(renewed.key.read_bytes() + renewed.certificate.read_bytes())
        assert ask(url, new).status_code == 409
        with pytest.raises(httpx.TransportError):
            ask(url, old)


def test_a_client_that_is_no_longer_trusted_resumes_no_session(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "_LOOK_EVERY_S", 0.0)
    store = tmp_path / "trust.pem"
    store.write_bytes(files.authority.own.certificate.read_bytes())
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(store)}
    client = files.trusting(with_certificate=True)

    def session(url: str, before: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool]:
        address = ("127.0.0.1", httpx.URL(url).port or 0)
        with (
            socket.create_connection(address, timeout=30) as plain,
            client.wrap_socket(plain, server_hostname="127.0.0.1", session=before) as secured,
        ):
            secured.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            if not secured.recv(100).startswith(b"HTTP/1.1 200"):
                raise ConnectionAbortedError
            return secured.session, bool(secured.session_reused)

    with https({**key_store(files, "PEM"), **trust, "ssl.client.auth": "required"}) as url:
        first, _ = session(url, None)
        assert session(url, first)[1]
        other = Authority.make(tmp_path, "another")
        store.write_bytes(other.own.certificate.read_bytes())
        with pytest.raises(OSError):
            session(url, first)


@pytest.mark.parametrize("trust", ["PEM", "PKCS12", "JKS"])
def test_client_certificates(files: Files, trust: str) -> None:
    stores = {**key_store(files, "PEM"), **trust_store(files, trust)}
    known, unknown = (files.trusting(with_certificate=each) for each in (True, False))
    stranger = Authority.make(files.folder / "other").sign("stranger")
    strange = files.trusting(with_certificate=False)
    strange.load_cert_chain(stranger.certificate, stranger.key)
    for clients, without, wrong in (
        ("none", True, True),
        ("requested", True, False),
        ("required", False, False),
    ):
        with https({**stores, "ssl.client.auth": clients}) as url:
            assert ask(url, known).status_code == 201
            for context, taken in ((unknown, without), (strange, wrong)):
                if taken:
                    assert ask(url, context).status_code in (201, 409)
                else:
                    with pytest.raises(httpx.TransportError):
                        ask(url, context)


def test_a_trust_store_may_hold_signed_certificates(files: Files) -> None:
    """As of Java's workers: a client's own certificate, or an authority below another one."""
    below = files.authority.delegate("below")
    client = below.sign("client-of-below")
    mutual = {
        **key_store(files, "PEM"),
        "ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
    }
    for trusted, taken in ((below.own, True), (client, True), (files.client, False)):
        presented = files.trusting(with_certificate=False)
        presented.load_cert_chain(client.certificate, client.key)
        with https({**mutual, "ssl.truststore.location": str(trusted.certificate)}) as url:
            if taken:
                assert ask(url, presented).status_code == 201
            else:
                with pytest.raises(httpx.TransportError):
                    ask(url, presented)


def test_half_open_handshakes_keep_no_client_out(files: Files) -> None:
    """Neither those that send nothing, nor those that stop halfway: they count as connections."""
    limits = ConnectionLimits(count=20)
    with (
        https(key_store(files, "PEM"), limits=limits) as url,
        contextlib.ExitStack() as stack,
    ):
        opened = [
            stack.enter_context(connected(url, b"\x16\x03\x01\x02\x00\x01" * (number % 2)))
            for number in range(100)
        ]
        assert ask(url, files.trusting(with_certificate=False)).status_code == 201
        assert is_closed(opened[0], 5)
        assert is_closed(opened[1], 5)
        assert len(limits.open) <= 20
        assert limits.closed >= 80


def test_a_handshake_has_a_deadline(files: Files) -> None:
    with (
        https(key_store(files, "PEM"), limits=ConnectionLimits(head_s=0.3)) as url,
        connected(url) as silent,
        connected(url, b"\x16\x03\x01\x02\x00\x01") as halfway,
    ):
        assert is_closed(silent, 10)
        assert is_closed(halfway, 10)


def test_a_client_that_does_not_end_tls_is_dropped(files: Files) -> None:
    limits = ConnectionLimits()
    context = files.trusting(with_certificate=False)
    with (
        https(key_store(files, "PEM"), limits=limits) as url,
        connected(url) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        assert limits.open
        wait_until(lambda: not limits.open, what="the connection to be closed", timeout_s=15)


def connected(url: str, sent: bytes = b"") -> socket.socket:
    """A connection without TLS."""
    made = socket.create_connection(("127.0.0.1", httpx.URL(url).port), timeout=10)
    made.sendall(sent)
    return made


def test_a_standby_with_invalid_key_stores_does_not_forward(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As while they are replaced. Nothing is sent."""
    verbs = running_source()
    verbs.follower, verbs.leader = True, "https://127.0.0.1:1"
    stores = {**key_store(files, "PEM"), "ssl.keystore.location": str(tmp_path / "gone.pem")}
    answer = client_of(verbs, tls=lambda: client_context(stores))("PUT", "/connectors/fs/pause")
    assert answer.status_code == 500
    assert answer.json()["message"] == (
        "IO Error trying to forward REST request: the ssl settings of this worker are invalid; its "
        "log says why"
    )
    assert "gone.pem cannot be read" in caplog.text


def test_a_login_is_sent_only_to_leaders_whose_names_are_verified(files: Files) -> None:
    verbs = running_source()
    verbs.follower, verbs.leader = True, "https://leader.example:1"
    stores = {**trust_store(files, "PEM"), "ssl.endpoint.identification.algorithm": ""}
    app = app_of(
        verbs,
        RestSettings(login_hosts=frozenset({"leader.example"})),
        tls=lambda: client_context(stores),
    )
    answer = Client(app)("PUT", "/connectors/fs/pause", headers={"Authorization": "Basic YTpi"})
    assert answer.status_code == 500
    assert "ssl.endpoint.identification.algorithm" in answer.json()["message"]


def test_a_standby_forwards_over_mutual_tls(files: Files) -> None:
    """With the same settings as its own listener's."""
    stores = {**key_store(files, "PEM"), **trust_store(files, "PEM"), "ssl.client.auth": "required"}
    verbs = running_source()
    verbs.follower = True
    with https(stores) as url:
        verbs.leader = url
        for properties, status in ((stores, 202), (key_store(files, "PEM"), 500)):
            asked = client_of(verbs, tls=lambda given=properties: client_context(given))
            answer = asked("PUT", "/connectors/fs/pause")
            assert answer.status_code == status
    assert answer.json()["message"].startswith("IO Error trying to forward REST request: ")
    assert Forwarding()._tls().verify_mode is ssl.CERT_REQUIRED


def test_commands_trust_the_runtime_whose_properties_they_have(files: Files) -> None:
    """By its trust store, or else by its own certificate if that is here. They show a certificate
    only to listeners that ask for one."""
    own, trust = key_store(files, "PEM"), trust_store(files, "PEM")
    required = {"ssl.client.auth": "required"}
    elsewhere = {"ssl.keystore.location": "/gone.pem"}
    for runtime, command, taken in (
        (own, own, True),
        (own, {**own, **trust, **elsewhere}, True),
        (own, {**own, **elsewhere}, False),
        ({**own, **trust, **required}, {**own, **trust, **required}, True),
        ({**own, **trust, **required}, {**own, **trust, **required, **elsewhere}, False),
        ({**own, **trust, **required}, {**own, **trust}, False),
    ):
        prefixed = {f"{LISTENERS}{key}": value for key, value in command.items()}
        with https(runtime) as url:
            if taken:
                assert ask(url, command_context(prefixed)).status_code == 201
            else:
                with pytest.raises(httpx.TransportError):
                    ask(url, command_context(prefixed))


def test_commands_do_not_trust_another_certificate_of_that_name(files: Files) -> None:
    other = Authority.make(files.folder / "impostor").sign("server")
    impostor = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": other.key.read_text(),
        "ssl.keystore.certificate.chain": other.certificate.read_text(),
    }
    with https(impostor) as url, pytest.raises(httpx.TransportError):
        ask(url, command_context(key_store(files, "PEM")))


@pytest.mark.parametrize(("given", "key", "said"), TABLE["refused"])
@pytest.mark.parametrize("prefix", [LISTENERS, ADMIN_LISTENERS])
def test_a_wrong_setting_is_named(
    files: Files, given: Properties, key: str, said: str, prefix: str
) -> None:
    jks = files.folder / "store.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    bare = files.folder / "bare.p12"
    openssl(
        *("pkcs12", "-export", "-nocerts", "-passout", f"pass:{PASSWORD}", "-out", str(bare)),
        *("-inkey", str(files.server.key), "-in", str(files.server.key)),
    )
    paths = {
        "{jks}": str(jks),
        "{bare}": str(bare),
        "{p12}": str(files.pkcs12()),
        "{key}": str(files.server.key),
        "{certificate}": str(files.server.certificate),
    }
    settings = {k: paths.get(v, v) for k, v in given.items() if k != "{pem}"}
    if "{pem}" in given:
        settings |= key_store(files, "PEM")
    with pytest.raises(Invalid) as raised:
        server_context({f"{prefix}{k}": v for k, v in settings.items()}, prefix)
    (problem,) = raised.value.diagnostics
    assert (problem.where or "").removeprefix(prefix) == key
    assert said in problem.what
    assert raised.value.__context__ is None or isinstance(raised.value.__context__, OSError)
    assert "sesame" not in str(problem)


def test_protocols_and_suites(files: Files) -> None:
    store = key_store(files, "PEM")
    only_old = server_context({**store, "ssl.enabled.protocols": "TLSv1.2"}, LISTENERS)
    assert only_old.maximum_version == only_old.minimum_version == ssl.TLSVersion.TLSv1_2
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    chosen = server_context({**store, "ssl.cipher.suites": suite}, LISTENERS)
    assert chosen.maximum_version == ssl.TLSVersion.TLSv1_2
    names = {each["name"] for each in chosen.get_ciphers() if each["protocol"] != "TLSv1.3"}
    assert names == {"ECDHE-ECDSA-AES256-GCM-SHA384"}
    newer = server_context({**store, "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, LISTENERS)
    assert newer.minimum_version == ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("admin", "regular_has", "admin_has"),
    [(None, True, None), ("", False, None), ("x", False, True)],
)
def test_a_worker_serves_all_its_listeners(
    files: Files, tmp_path: Path, admin: str | None, regular_has: bool, admin_has: bool | None
) -> None:
    """An http and an https one, and those of /admin/loggers."""
    store = {f"{LISTENERS}{k}": v for k, v in key_store(files, "PEM").items()}
    more = {} if admin is None else {"admin.listeners": admin and "http://127.0.0.1:0"}
    headers = {"response.http.headers.config": 'set X-A: b, "add X-C: d, e"'}
    config, warnings = from_properties(
        {**WORKER, **store, **more, **headers, "listeners": "https://127.0.0.1:0,http://[::1]:0"},
        data_folder=tmp_path,
    )
    assert not [each for each in warnings if "listeners" in each]
    with contextlib.ExitStack() as closing:
        ports: list[int] = []
        bind = BoundSocket.at
        patch = closing.enter_context(pytest.MonkeyPatch.context())

        def noted(host: str, port: int) -> BoundSocket:
            ports.append((made := bind(host, port)).port)
            return made

        patch.setattr(BoundSocket, "at", noted)
        advertised = Runtime(config)._serve(closing)
        urls = [f"https://127.0.0.1:{ports[0]}", f"http://[::1]:{ports[1]}"]
        assert advertised == urls[1]
        with httpx.Client(verify=files.trusting(with_certificate=False), trust_env=False) as client:
            for url in urls:
                assert client.get(f"{url}/health").status_code == 503
                found = client.get(f"{url}/admin/loggers")
                assert found.status_code == (200 if regular_has else 404)
                assert (found.headers["x-a"], found.headers["x-c"]) == ("b", "d, e")
            assert len(ports) == (3 if admin_has else 2)
            if admin_has:
                url = f"http://127.0.0.1:{ports[2]}"
                found = client.get(f"{url}/admin/loggers")
                assert (found.status_code, found.headers["x-a"]) == (200, "b")
                assert client.get(f"{url}/connectors").status_code == 404
