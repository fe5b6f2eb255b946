"""A real Connect worker that speaks TLS alone, and only with clients that its authority knows."""

from __future__ import annotations

import secrets
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from connect_runtime.kafka.ports import LOOPBACK, free_port
from connect_specs.desired import RestTarget
from connect_specs.diagnostics import Unreachable
from connect_specs.states import TargetState
from support.broker import BrokerAddress
from support.certificates import Authority
from support.oracle import Oracle
from support.rest_project import RestProject, sink

pytestmark = pytest.mark.oracle

PASSWORD = "changeit"


@dataclass(frozen=True)
class Secured:
    worker: Oracle
    target: RestTarget


@pytest.fixture(scope="module")
def secured(broker: BrokerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority.make(folder)
    client = authority.sign("client")
    url = f"https://{LOOPBACK}:{free_port()}"
    trusted = ssl.create_default_context(cafile=authority.own.certificate)
    trusted.load_cert_chain(client.certificate, client.key)
    worker = Oracle.start(
        folder / "worker",
        broker.bootstrap_servers,
        group_id=f"tls-{secrets.token_hex(4)}",
        settings={"listeners": url, **stores(folder, authority)},
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
    return {f"listeners.https.ssl.{key}": text for key, text in settings.items()}


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
