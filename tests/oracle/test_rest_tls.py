"""A real Connect worker that speaks TLS alone, and only with clients that its authority knows: what
verbs do with it, and that our listeners answer as its do, from the same properties."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from connect_runtime.kafka.local_processes import LOOPBACK, free_port
from connect_runtime.server import Runtime
from connect_runtime.settings.worker_config import from_properties
from connect_specs.desired import RestTarget, TargetState
from connect_specs.diagnostics import Unreachable
from runtime.rest.client import WORKER
from runtime.rest.fake_verbs import FakeVerbs
from support.broker import BrokerAddress
from support.certificates import Authority
from support.oracle import Oracle
from support.rest_project import RestProject, sink

pytestmark = pytest.mark.oracle

PASSWORD = "changeit"
# of each worker the listener's port and the admin listener's differ
SETTINGS = {
    "access.control.allow.origin": r"https://a\.example,http://b.example:80",
    "access.control.allow.methods": "GET,POST,PUT",
    "response.http.headers.config": 'set X-A: b, "add X-C: d, e", add Cache-Control: no-cache, '
    "set Content-Type: text/x, setDate Expires: 1000",
}
ALLOWED = {"Origin": "https://a.example"}
PREFLIGHT = {**ALLOWED, "Access-Control-Request-Method": "PUT"}
CONFIGURED = ("x-a", "x-c", "cache-control", "expires", "content-type")
REQUESTS: list[tuple[str, str, Mapping[str, str]]] = [
    ("GET", "/", {}),
    ("GET", "/connectors", {}),
    ("GET", "/connectors", ALLOWED),
    ("GET", "/connectors", {"Origin": "HTTPS://A.example"}),
    ("GET", "/connectors", {"Origin": "http://b.example:80"}),
    ("GET", "/connectors/x", ALLOWED),
    ("GET", "/nope", ALLOWED),
    ("PUT", "/connectors", {}),
    ("GET", "/admin/loggers/root", ALLOWED),
    ("GET", "/admin/loggers/nope", {}),
    ("OPTIONS", "/connectors", {}),
    ("OPTIONS", "/connectors", ALLOWED),
    ("OPTIONS", "/connectors", PREFLIGHT),
    ("OPTIONS", "/connectors", {**PREFLIGHT, "Access-Control-Request-Method": "DELETE"}),
    ("OPTIONS", "/connectors", {**PREFLIGHT, "Access-Control-Request-Headers": "x-other"}),
    ("OPTIONS", "/admin/loggers", PREFLIGHT),
    ("OPTIONS", "/nope", PREFLIGHT),
]


@dataclass(frozen=True)
class Secured:
    worker: Oracle
    target: RestTarget
    admin: str
    authority: Authority
    stores: Mapping[str, str]


@pytest.fixture(scope="module")
def secured(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority.make(folder)
    client = authority.sign("client")
    url, admin = (f"https://{LOOPBACK}:{free_port()}" for _ in range(2))
    keys = stores(folder, authority)
    told = {**SETTINGS, "listeners": url, "admin.listeners": admin, **keys}
    trusted = ssl.create_default_context(cafile=authority.own.certificate)
    trusted.load_cert_chain(client.certificate, client.key)
    worker = Oracle.start(
        folder / "worker",
        broker.bootstrap_servers,
        group_id=f"tls-{secrets.token_hex(4)}",
        # as a properties file has it
        settings={key: value.replace("\\", "\\\\") for key, value in told.items()},
        verify=trusted,
    )
    try:
        yield Secured(
            worker,
            RestTarget(
                url,
                ca_file=authority.own.certificate,
                cert_file=client.certificate,
                key_file=client.key,
            ),
            admin,
            authority,
            keys,
        )
    finally:
        worker.kill()


def stores(folder: Path, authority: Authority) -> Mapping[str, str]:
    """What a worker is, and whom it trusts, as Java keeps it."""
    if shutil.which("keytool") is None:
        pytest.skip("keytool is not installed")
    server = authority.sign("server")
    key_store, trust_store = folder / "server.p12", folder / "trust.p12"
    for command in (
        [
            *("openssl", "pkcs12", "-export", "-passout", f"pass:{PASSWORD}"),
            *("-in", server.certificate, "-inkey", server.key, "-out", key_store),
        ],
        [
            *("keytool", "-importcert", "-noprompt", "-alias", "authority"),
            *("-storetype", "PKCS12", "-storepass", PASSWORD),
            *("-file", authority.own.certificate, "-keystore", trust_store),
        ],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    settings = {
        "keystore.location": str(key_store),
        "keystore.type": "PKCS12",
        "keystore.password": PASSWORD,
        "key.password": PASSWORD,
        "truststore.location": str(trust_store),
        "truststore.type": "PKCS12",
        "truststore.password": PASSWORD,
        "client.auth": "required",
        "endpoint.identification.algorithm": "",
    }
    return {
        f"{prefix}.https.ssl.{key}": text
        for prefix in ("listeners", "admin.listeners")
        for key, text in settings.items()
    }


def test_plan_and_apply_over_mutual_tls(secured: Secured, unique: str, tmp_path: Path) -> None:
    project = RestProject(secured.worker.url, secured.worker.group_id, reached=secured.target)
    project.want(replace(sink(unique, tmp_path / "out.txt", unique), state=TargetState.PAUSED))
    project.settle()
    project.specs = {}
    project.settle()


def test_who_is_not_known_is_told_so(secured: Secured) -> None:
    unknown = replace(secured.target, cert_file=None, key_file=None)
    project = RestProject(secured.worker.url, secured.worker.group_id, reached=unknown)
    with pytest.raises(Unreachable) as refused:
        project.plan()
    (problem,) = refused.value.diagnostics
    assert (problem.code, "cert_file" in problem.hint) == ("cluster.bad-tls", True)


@contextlib.contextmanager
def our_listeners(secured: Secured, folder: Path) -> Iterator[tuple[str, str]]:
    """A regular and an admin listener of ours, with the same properties and no connectors."""
    url, admin = (f"https://{LOOPBACK}:{free_port()}" for _ in range(2))
    properties = {**WORKER, **SETTINGS, **secured.stores}
    config, warnings = from_properties(
        {**properties, "listeners": url, "admin.listeners": admin}, data_folder=folder
    )
    assert not warnings
    runtime: Any = Runtime(config)
    runtime._connect, runtime._serving = FakeVerbs(), True
    runtime._cluster_id = "kafka"
    with contextlib.ExitStack() as closing:
        runtime._serve(closing)
        yield url, admin


def client_for(secured: Secured, certificate: Path | None, key: Path | None) -> httpx.Client:
    trusted = ssl.create_default_context(cafile=secured.authority.own.certificate)
    if certificate is not None:
        trusted.load_cert_chain(certificate, key)
    return httpx.Client(verify=trusted, trust_env=False)


def test_our_listeners_answer_as_its_do(secured: Secured, tmp_path: Path) -> None:
    """Status, headers, body. But for dates and the name of the server all headers are compared;
    at a separate admin listener only ours have those of `response.http.headers.config`."""
    target = secured.target
    with (
        our_listeners(secured, tmp_path) as ours,
        client_for(secured, target.cert_file, target.key_file) as client,
    ):
        for theirs, own in zip((secured.worker.url, secured.admin), ours, strict=True):
            for method, path, headers in REQUESTS:
                found = [
                    seen(client.request(method, f"{url}{path}", headers=headers))
                    for url in (own, theirs)
                ]
                if theirs == secured.admin:
                    assert ("x-a", "b") in found[0][1]
                    found = [without_configured(each) for each in found]
                assert found[0] == found[1], (method, path, headers)


Seen = tuple[int, list[tuple[str, str]], Any]


def without_configured(answer: Seen) -> Seen:
    status, headers, body = answer
    return status, [each for each in headers if each[0] not in CONFIGURED], body


def seen(answer: httpx.Response) -> Seen:
    # a Java Set has another order each time
    methods = sorted(answer.headers.get("access-control-allow-methods", "").split(","))
    varies = {"date": "*", "expires": "*", "content-length": "*"}
    varies["access-control-allow-methods"] = ",".join(methods)
    headers = [
        (name.lower(), varies.get(name.lower(), value))
        for name, value in answer.headers.multi_items()
        if name.lower() != "server"
    ]
    body = answer.text
    if body.startswith("{"):
        body = {**json.loads(body)}
        for each in ("commit", "kafka_cluster_id", "level", "last_modified"):
            body.pop(each, None)
    return answer.status_code, sorted(headers), body


def test_our_listeners_take_the_clients_that_it_takes(secured: Secured, tmp_path: Path) -> None:
    stranger = Authority.make(tmp_path / "other").sign("stranger")
    with our_listeners(secured, tmp_path) as (ours, _):
        for certificate, key in ((None, None), (stranger.certificate, stranger.key)):
            with client_for(secured, certificate, key) as client:
                for url in (ours, secured.worker.url):
                    with pytest.raises(httpx.TransportError):
                        client.get(f"{url}/health")
