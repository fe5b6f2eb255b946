"""Stores that Java's keytool makes, and those that are damaged."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate

from connect_runtime.kafka.client_config import client_config
from connect_runtime.kafka.jks import plain_key, read_jks
from connect_runtime.kafka.ssl_stores import SslStores
from connect_specs.diagnostics import Invalid
from support.certificates import Authority, Certificate, java_store

PASSWORD = "hunter2-of-the-store"
OF_THE_KEY = "hunter2-of-the-kéy"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def own(authority: Authority) -> Certificate:
    return authority.sign("own")


@pytest.fixture(scope="module")
def jks(authority: Authority, own: Certificate) -> Path:
    """A key with a password of its own, and two certificates that are trusted."""
    other = Authority.make(authority.folder, "other")
    trusted = (authority.own.certificate, other.own.certificate)
    path = authority.folder / "all.jks"
    return java_store(
        path, "JKS", trusted=trusted, own=own, password=PASSWORD, key_password=OF_THE_KEY
    )


def key_store(path: Path, **more: str) -> Mapping[str, str]:
    return {"ssl.keystore.location": str(path), "ssl.keystore.password": PASSWORD} | {
        key.replace("_", "."): value for key, value in more.items()
    }


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_key_with_its_certificate(authority: Authority, own: Certificate, kind: str) -> None:
    path = java_store(authority.folder / f"own.{kind}", kind, own=own, password=PASSWORD)
    # a type that does not fit does not matter, as in Java
    for properties in (key_store(path), key_store(path, ssl_keystore_type="PKCS12")):
        chain = SslStores(properties).key_chain()
        assert chain is not None
        expected = load_pem_private_key(own.key.read_bytes(), None)
        assert chain.key.private_numbers() == expected.private_numbers()  # type: ignore[union-attr]
        assert chain.certificates == [load_pem_x509_certificate(own.certificate.read_bytes())]


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_all_certificates_of_a_trust_store_are_trusted(authority: Authority, kind: str) -> None:
    other = Authority.make(authority.folder, "second")
    certificates = (authority.own.certificate, other.own.certificate)
    path = authority.folder / f"trust.{kind}"
    java_store(path, kind, trusted=certificates, password=PASSWORD)
    store = {"ssl.truststore.location": str(path), "ssl.truststore.password": PASSWORD}
    expected = {load_pem_x509_certificate(file.read_bytes()) for file in certificates}
    assert {*(SslStores(store).trusted() or ())} == expected


def test_a_jks_trust_store_needs_no_password(authority: Authority, jks: Path) -> None:
    path = authority.folder / "open.jks"
    java_store(path, "JKS", trusted=(authority.own.certificate,), password=PASSWORD)
    expected = [load_pem_x509_certificate(authority.own.certificate.read_bytes())]
    assert SslStores({"ssl.truststore.location": str(path)}).trusted() == expected


def test_a_key_may_have_a_password_of_its_own(jks: Path, own: Certificate) -> None:
    chain = SslStores(key_store(jks, ssl_key_password=OF_THE_KEY)).key_chain()
    assert chain is not None
    assert chain.certificates == [load_pem_x509_certificate(own.certificate.read_bytes())]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"ssl_key_password": "hunter2-another"},
        {"ssl_key_password": OF_THE_KEY, "ssl_keystore_password": "hunter2-another"},
    ],
)
def test_a_wrong_password_is_named_and_not_shown(jks: Path, more: dict[str, str]) -> None:
    with pytest.raises(Invalid) as refused:
        SslStores(key_store(jks, **more), "producer.").key_chain()
    (problem,) = refused.value.diagnostics
    assert problem.where == "ssl.keystore.location"
    assert "ssl.keystore.password is wrong" in problem.what
    assert "hunter2" not in repr(refused.value)


def test_a_store_of_another_type_is_refused_with_the_command_that_converts_it(
    authority: Authority,
) -> None:
    path = authority.folder / "trust.jceks"
    java_store(path, "JCEKS", trusted=(authority.own.certificate,), password=PASSWORD)
    with pytest.raises(Invalid) as refused:
        SslStores({"ssl.truststore.location": str(path)}).trusted()
    (problem,) = refused.value.diagnostics
    assert "JCEKS" in problem.what
    assert problem.hint.startswith(f"keytool -importkeystore -srckeystore {path}")


def test_a_key_store_is_a_trust_store_too_without_the_keys_password(jks: Path) -> None:
    store = {"ssl.truststore.location": str(jks), "ssl.truststore.password": PASSWORD}
    trusted = SslStores(store).trusted() or ()
    assert {certificate.subject.rfc4514_string() for certificate in trusted} == {
        *("CN=authority", "CN=other", "CN=own")
    }


def test_a_damaged_store_is_a_value_error(jks: Path) -> None:
    def read(content: bytes) -> bytes:
        keys = [entry.protected_key for entry in read_jks(content, PASSWORD)]
        return b"".join(plain_key(key, OF_THE_KEY) for key in keys if key)

    content = jks.read_bytes()
    assert read(content)
    for length in range(len(content)):
        with pytest.raises(ValueError, match="store"):
            read(content[:length])
    for position in range(len(content)):
        flipped = bytearray(content)
        flipped[position] ^= 0x41
        with pytest.raises(ValueError, match=r"store|key"):
            read(bytes(flipped))


def test_a_damaged_key_is_a_value_error(jks: Path) -> None:
    """Without the store's password, only the key's own sum notices it."""
    (key,) = filter(None, (entry.protected_key for entry in read_jks(jks.read_bytes(), None)))
    plain = plain_key(key, OF_THE_KEY)
    unnoticed = 0
    for position in range(len(key)):
        flipped = bytearray(key)
        flipped[position] ^= 0x41
        try:
            assert plain_key(bytes(flipped), OF_THE_KEY) == plain
            unnoticed += 1
        except ValueError:
            continue
    assert unnoticed == 2  # of the algorithm's parameters, which are empty


def test_a_client_without_tls_reads_no_store() -> None:
    properties = {"ssl.keystore.location": "/none.jks", "ssl.truststore.location": "/none.jks"}
    for protocol in ("PLAINTEXT", "SASL_PLAINTEXT"):
        settings = client_config(properties | {"security.protocol": protocol}).settings
        assert settings == {"security.protocol": protocol.lower()}
