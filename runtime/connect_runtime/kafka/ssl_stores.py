"""Reads keys and certificates that Kafka's `ssl.*` properties name: PEM, PKCS12 and JKS.

A store's content says if it is PKCS12 or JKS, whatever `ssl.*.type` is, as in Java. No message
holds a password or a part of a key.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from connect_runtime.kafka import jks
from connect_specs.diagnostics import Diagnostic, Invalid

_TYPES: Final = ("JKS", "PKCS12", "PEM")
_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_PRIVATE: Final = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL
)
_END: Final = b"-----END CERTIFICATE-----"
# Reads a store by its password and the key's
_Load: TypeAlias = Callable[[bytes, str | None, str | None], Any]


@dataclass(frozen=True, slots=True)
class KeyChain:
    """A private key and its certificates, its own first; trusted certificates without a key."""

    key: Any
    certificates: Sequence[Any]


class SslStores:
    """The `ssl.*` properties after a prefix, or without one if there are none with it, and the
    stores that they name. Each method that reads one raises Invalid, naming the property."""

    def __init__(self, properties: Mapping[str, str], prefix: str = "") -> None:
        own = {k.removeprefix(prefix): v for k, v in properties.items() if k.startswith(prefix)}
        self._values = own or properties
        self._prefix = prefix if own else ""

    def get(self, key: str, default: str = "") -> str:
        return self._values.get(key, default).strip()

    @property
    def has_trust_store(self) -> bool:
        return bool(self.get("ssl.truststore.certificates") or self.get("ssl.truststore.location"))

    @property
    def has_key_here(self) -> bool:
        location = self.get("ssl.keystore.location")
        return bool(self.get("ssl.keystore.key") or (location and Path(location).exists()))

    def refuse(self, key: str, problem: str, hint: str = "") -> NoReturn:
        """Raises Invalid for a property."""
        text = f"Invalid value for configuration {self._prefix}{key}: {problem}"
        raise Invalid(Diagnostic("worker.invalid", text, f"{self._prefix}{key}", hint=hint))

    def key_chain(self) -> KeyChain | None:
        """Returns the key store's content; None if there is no key store."""
        if self.get("ssl.keystore.key"):
            pem = f"{self.get('ssl.keystore.key')}\n{self.get('ssl.keystore.certificate.chain')}"
            return self._pem_chain(pem.encode(), "ssl.keystore.key")
        content = self._content("keystore")
        if content is None:
            return None
        if self.is_pem("keystore"):
            return self._pem_chain(content, "ssl.keystore.location")
        chain: KeyChain = self._load(content, "keystore", _pkcs12, _jks_key)
        if chain.key is None:
            self.refuse("ssl.keystore.location", "the key store holds no private key")
        return chain

    def trusted(self) -> Sequence[Any] | None:
        """Returns the trust store's certificates; None if there is no trust store."""
        if self.get("ssl.truststore.certificates"):
            pem = self.get("ssl.truststore.certificates").encode()
            return self._pem_certificates(pem, "ssl.truststore.certificates")
        content = self._content("truststore")
        if content is None:
            return None
        if self.is_pem("truststore"):
            return self._pem_certificates(content, "ssl.truststore.location")
        certificates: Sequence[Any] = self._load(
            content, "truststore", lambda *of: _pkcs12(*of).certificates, _jks_trusted
        )
        if not certificates:
            self.refuse("ssl.truststore.location", "the trust store holds no certificate")
        return certificates

    def is_pem(self, store: str) -> bool:
        """Returns whether the `keystore` or `truststore` is a PEM file by its type."""
        return self.get(f"ssl.{store}.type").upper() == "PEM"

    def _content(self, store: str) -> bytes | None:
        location, kind = f"ssl.{store}.location", f"ssl.{store}.type"
        path = self.get(location)
        if self.get(kind, "JKS").upper() not in _TYPES:
            self.refuse(kind, f"must be one of {', '.join(_TYPES)}")
        if not path:
            return None
        try:
            return Path(path).read_bytes()
        except OSError as error:
            self.refuse(location, f"{path} cannot be read: {error.strerror}")

    def _pem_chain(self, pem: bytes, key: str) -> KeyChain:
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        password = self.get("ssl.key.password").encode() or None
        private = _PRIVATE.search(pem)
        certificates = self._pem_certificates(pem, key)
        if private is None:
            self.refuse(key, "there is no private key in it")
        loaded = self._read(
            lambda: load_pem_private_key(private[0], password),
            key,
            "the private key cannot be read, or ssl.key.password is wrong",
        )
        return KeyChain(loaded, certificates)

    def _pem_certificates(self, pem: bytes, key: str) -> Sequence[Any]:
        from cryptography.x509 import load_pem_x509_certificates

        if _END not in pem:
            self.refuse(key, "there is no certificate in it")
        certificates: Sequence[Any] = self._read(
            lambda: load_pem_x509_certificates(pem), key, "the certificates cannot be read"
        )
        return certificates

    def _load(self, content: bytes, store: str, pkcs12: _Load, jks_: _Load) -> Any:
        location, password = f"ssl.{store}.location", self.get(f"ssl.{store}.password") or None
        if content.startswith(_JCEKS_MAGIC):
            path = self.get(location)
            self.refuse(
                location,
                f"{path} is a JCEKS store, which is not read here",
                f"keytool -importkeystore -srckeystore {path} -srcstoretype JCEKS "
                f"-destkeystore {store}.p12 -deststoretype PKCS12",
            )
        load = jks_ if content.startswith(jks.MAGIC) else pkcs12
        key_password = self.get("ssl.key.password") or password
        return self._read(
            lambda: load(content, password, key_password),
            location,
            f"it is neither PKCS12 nor JKS, or ssl.{store}.password is wrong",
        )

    def _read(self, load: Callable[[], Any], key: str, problem: str) -> Any:
        content = None
        # an error's text may hold parts of the store
        with contextlib.suppress(Exception):
            content = load()
        if content is None:
            self.refuse(key, problem)
        return content


def _pkcs12(content: bytes, password: str | None, key_password: str | None) -> KeyChain:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    loaded = load_pkcs12(content, None if password is None else password.encode())
    entries = [*filter(None, [loaded.cert]), *loaded.additional_certs]
    return KeyChain(loaded.key, [entry.certificate for entry in entries])


def _jks_key(content: bytes, password: str | None, key_password: str | None) -> KeyChain:
    from cryptography.hazmat.primitives.serialization import load_der_private_key
    from cryptography.x509 import load_der_x509_certificate

    for entry in jks.read_jks(content, password):
        if entry.protected_key is not None:
            key = jks.plain_key(entry.protected_key, key_password or "")
            chain = [load_der_x509_certificate(der) for der in entry.certificates]
            return KeyChain(load_der_private_key(key, None), chain)
    return KeyChain(None, ())


def _jks_trusted(content: bytes, password: str | None, _: str | None) -> Sequence[Any]:
    """Returns what Java trusts: the first certificate of each entry."""
    from cryptography.x509 import load_der_x509_certificate

    entries = jks.read_jks(content, password)
    return [load_der_x509_certificate(entry.certificates[0]) for entry in entries]


def to_pem(certificates: Sequence[Any]) -> bytes:
    """Returns certificates as PEM."""
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def client_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns librdkafka's settings for a client's stores of PKCS12 and JKS; none for PEM, which
    librdkafka reads by itself, or without TLS. Raises Invalid."""
    if not properties.get("security.protocol", "").strip().upper().endswith("SSL"):
        return {}
    stores, settings = SslStores(properties), {}
    if properties.get("ssl.truststore.location") and not stores.is_pem("truststore"):
        settings["ssl.ca.pem"] = to_pem(stores.trusted() or ()).decode()
    if properties.get("ssl.keystore.location") and not stores.is_pem("keystore"):
        chain = stores.key_chain()
        if chain is not None:
            settings["ssl.certificate.pem"] = to_pem(chain.certificates).decode()
            settings["ssl.key.pem"] = _pem_key(chain.key)
    return settings


def _pem_key(key: Any) -> str:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode()
