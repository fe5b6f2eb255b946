"""Makes TLS contexts from Kafka's `ssl.*` properties, for https listeners and requests to them.

Key stores and trust stores are PEM or PKCS12. As in Apache's SSLUtils, properties with a listener's
prefix replace all `ssl.*` without one. No message holds a password or a part of a key.

Stores may be renewed in their files: certificates are short-lived where a machine issues them, and
a restart would move all tasks.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from connect_specs.diagnostics import Diagnostic, Invalid

_log = logging.getLogger(__name__)

LISTENERS: Final = "listeners.https."
ADMIN_LISTENERS: Final = "admin.listeners.https."

_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_TYPES: Final = ("JKS", "PKCS12", "PEM")
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_SUITES_OF_TLS_1_3: Final = frozenset(
    """
    TLS_AES_128_GCM_SHA256 TLS_AES_256_GCM_SHA384 TLS_CHACHA20_POLY1305_SHA256
    TLS_AES_128_CCM_SHA256 TLS_AES_128_CCM_8_SHA256
    """.split()
)
_CLIENTS: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_PRIVATE: Final = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL
)
_END: Final = b"-----END CERTIFICATE-----"
_LOOK_EVERY_S: Final = 10.0
# The properties that are read here, after a prefix
KEYS: Final = frozenset(
    """
    ssl.cipher.suites ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
    ssl.keystore.password ssl.keystore.type ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.password ssl.truststore.type
    """.split()
)


@dataclass(frozen=True, slots=True)
class _Chain:
    """A private key and its certificates, its own first; trusted certificates without a key."""

    key: Any
    certificates: Sequence[Any]


def server_context(properties: Mapping[str, str], prefix: str) -> ssl.SSLContext:
    """Returns the context of https listeners. Raises Invalid, naming the property."""
    tls = _Properties(properties, prefix)
    chain = tls.key_chain()
    if chain is None:
        tls.refuse("ssl.keystore.location", "https listeners need a key store")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = tls.one_of("ssl.client.auth", "none", _CLIENTS)
    _load_chain(context, tls, chain)
    _trust(context, tls, ssl.Purpose.CLIENT_AUTH)
    _set_algorithms(context, tls)
    return context


def renewed_context(properties: Mapping[str, str], prefix: str) -> RenewedContext:
    """Returns the contexts of new connections of https listeners, with what was renewed in their
    stores. Raises Invalid."""
    tls = _Properties(properties, prefix)
    stores = [tls.get(f"ssl.{store}.location") for store in ("keystore", "truststore")]
    make = partial(server_context, properties, prefix)
    return RenewedContext(make, map(Path, filter(None, stores)))


def client_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Returns the context for requests to other workers' https listeners, which have the same
    settings as this one's. Raises Invalid."""
    tls = _Properties(properties, LISTENERS)
    return _client_context(tls, tls.key_chain())


def command_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Returns the context for requests of a project's commands to its own runtime, whose https
    listeners have these properties. Raises Invalid.

    Without a trust store, the runtime's own certificate is trusted beside the system's authorities.
    A command may run where the key store is not: then it has no certificate to show.
    """
    tls = _Properties(properties, LISTENERS)
    shows = tls.get("ssl.client.auth", "none") != "none"
    chain = tls.key_chain() if tls.has_key_here and (shows or not tls.has_trust_store) else None
    context = _client_context(tls, chain if shows else None)
    if chain is not None and not tls.has_trust_store:
        _trust_certificates(context, chain.certificates)
    return context


def _client_context(tls: _Properties, chain: _Chain | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(tls.get("ssl.endpoint.identification.algorithm", "https"))
    if chain is not None:
        _load_chain(context, tls, chain)
    _trust(context, tls, ssl.Purpose.SERVER_AUTH)
    _set_algorithms(context, tls)
    return context


def asks_for_certificates(properties: Mapping[str, str], prefix: str) -> bool:
    """Returns True if https listeners take only clients with certificates that a trust store
    holds."""
    tls = _Properties(properties, prefix)
    return tls.get("ssl.client.auth", "none") == "required" and tls.has_trust_store


class RenewedContext:
    """Returns the context of a new connection: that of `make`, made again once a file has changed.
    Files that cannot be loaded, such as half of a renewal, leave the context as it is.

    A client that resumes a session shows no certificate. Sessions end with the context that began
    them, so that clients resume none once they are no longer trusted.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Iterable[Path]) -> None:
        """Raises as `make` does."""
        self._make = make
        self._files = tuple(files)
        self._stamps = [_stamp(file) for file in self._files]
        self._looked_at = time.monotonic()
        self._context = make()

    def __call__(self) -> ssl.SSLContext:
        moment = time.monotonic()
        if moment - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = moment
            self._look()
        return self._context

    def _look(self) -> None:
        stamps = [_stamp(file) for file in self._files]
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._context = self._make()
            _log.info("Key stores of https listeners were renewed")
        except Exception as error:  # a connection must not fail because of it
            _log.warning("Renewed key stores of https listeners are not used: %s", error)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


class _Properties:
    """The `ssl.*` properties of listeners, and their full names for messages."""

    def __init__(self, properties: Mapping[str, str], prefix: str) -> None:
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
        text = f"Invalid value for configuration {self._prefix}{key}: {problem}"
        raise Invalid(Diagnostic("worker.invalid", text, f"{self._prefix}{key}", hint=hint))

    def one_of(self, key: str, default: str, choices: Mapping[str, Any]) -> Any:
        value = self.get(key, default)
        if value not in choices:
            self.refuse(key, f"must be one of {', '.join(choices)}")
        return choices[value]

    def names(self, key: str) -> list[str]:
        return [name.strip() for name in self.get(key).split(",") if name.strip()]

    def key_chain(self) -> _Chain | None:
        """Returns the key store's content; None if there is no key store."""
        if self.get("ssl.keystore.key"):
            pem = f"{self.get('ssl.keystore.key')}\n{self.get('ssl.keystore.certificate.chain')}"
            return self._pem_chain(pem.encode(), "ssl.keystore.key")
        content = self._store("keystore")
        if content is None:
            return None
        if self.get("ssl.keystore.type").upper() == "PEM":
            return self._pem_chain(content, "ssl.keystore.location")
        chain = self._pkcs12(content, "keystore")
        if chain.key is None:
            self.refuse("ssl.keystore.location", "the key store holds no private key")
        return chain

    def trusted(self) -> Sequence[Any] | None:
        """Returns the trust store's certificates; None if there is no trust store."""
        if self.get("ssl.truststore.certificates"):
            pem = self.get("ssl.truststore.certificates").encode()
            return self._pem_certificates(pem, "ssl.truststore.certificates")
        content = self._store("truststore")
        if content is None:
            return None
        if self.get("ssl.truststore.type").upper() == "PEM":
            return self._pem_certificates(content, "ssl.truststore.location")
        certificates = self._pkcs12(content, "truststore").certificates
        if not certificates:
            self.refuse("ssl.truststore.location", "the trust store holds no certificate")
        return certificates

    def _store(self, store: str) -> bytes | None:
        location, kind = f"ssl.{store}.location", f"ssl.{store}.type"
        path = self.get(location)
        if self.get(kind, "JKS").upper() not in _TYPES:
            self.refuse(kind, "must be PEM or PKCS12")
        if not path:
            return None
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            self.refuse(location, f"{path} cannot be read: {error.strerror}")
        if content.startswith(_JKS_MAGIC):
            self.refuse(
                location,
                f"{path} is a JKS store, which is not read here",
                f"keytool -importkeystore -srckeystore {path} -destkeystore {store}.p12 "
                f"-deststoretype PKCS12, then {self._prefix}{kind}=PKCS12",
            )
        return content

    def _pem_chain(self, pem: bytes, key: str) -> _Chain:
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
        return _Chain(loaded, certificates)

    def _pem_certificates(self, pem: bytes, key: str) -> Sequence[Any]:
        from cryptography.x509 import load_pem_x509_certificates

        if _END not in pem:
            self.refuse(key, "there is no certificate in it")
        certificates: Sequence[Any] = self._read(
            lambda: load_pem_x509_certificates(pem), key, "the certificates cannot be read"
        )
        return certificates

    def _pkcs12(self, content: bytes, store: str) -> _Chain:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

        password = self.get(f"ssl.{store}.password").encode() or None
        loaded = self._read(
            lambda: load_pkcs12(content, password),
            f"ssl.{store}.location",
            f"it is not PKCS12, or ssl.{store}.password is wrong",
        )
        entries = [*filter(None, [loaded.cert]), *loaded.additional_certs]
        return _Chain(loaded.key, [entry.certificate for entry in entries])

    def _read(self, load: Callable[[], Any], key: str, problem: str) -> Any:
        content = None
        # an error's text may hold parts of the store
        with contextlib.suppress(Exception):
            content = load()
        if content is None:
            self.refuse(key, problem)
        return content


def _load_chain(context: ssl.SSLContext, tls: _Properties, chain: _Chain) -> None:
    """Loads the chain by way of a file, which Python needs: encrypted, and gone at once."""
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
    )

    password = secrets.token_bytes(32).hex()
    key = chain.key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
    )
    handle, path = tempfile.mkstemp()
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(key + _pem(chain.certificates))
        context.load_cert_chain(path, password=password)
    except ssl.SSLError:
        tls.refuse("ssl.keystore.location", "key and certificate differ")
    finally:
        with contextlib.suppress(OSError):
            Path(path).unlink()


def _trust(context: ssl.SSLContext, tls: _Properties, purpose: ssl.Purpose) -> None:
    trusted = tls.trusted()
    if trusted is None:
        context.load_default_certs(purpose)
    else:
        _trust_certificates(context, trusted)


def _trust_certificates(context: ssl.SSLContext, certificates: Sequence[Any]) -> None:
    """Trusts each, also those that others signed, as Java does: a client's own, or of an authority
    below another one."""
    context.load_verify_locations(cadata=_pem(certificates).decode())
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _pem(certificates: Sequence[Any]) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def _set_algorithms(context: ssl.SSLContext, tls: _Properties) -> None:
    """Applies protocols and cipher suites. Suites of TLS 1.3 are all or none, as Python has it."""
    protocols = tls.names("ssl.enabled.protocols") or [*_VERSIONS]
    if not {*protocols} <= _VERSIONS.keys():
        tls.refuse("ssl.enabled.protocols", f"must be of {', '.join(_VERSIONS)}")
    suites = tls.names("ssl.cipher.suites")
    of_tls_1_2 = [suite for suite in suites if "_WITH_" in suite]
    unknown = {*suites} - {*of_tls_1_2} - _SUITES_OF_TLS_1_3
    if unknown:
        tls.refuse("ssl.cipher.suites", f"there is no suite {', '.join(sorted(unknown))}")
    if suites:
        has_suites = {"TLSv1.2": bool(of_tls_1_2), "TLSv1.3": len(of_tls_1_2) < len(suites)}
        protocols = [protocol for protocol in protocols if has_suites[protocol]]
    if not protocols:
        tls.refuse("ssl.cipher.suites", "no suite is of a protocol of ssl.enabled.protocols")
    versions = sorted(_VERSIONS[protocol] for protocol in protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if of_tls_1_2:
        try:
            context.set_ciphers(":".join(map(_openssl_name, of_tls_1_2)))
        except ssl.SSLError:
            tls.refuse("ssl.cipher.suites", "OpenSSL has none of these suites")


def _openssl_name(suite: str) -> str:
    """Returns OpenSSL's name: TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is
    ECDHE-RSA-AES256-GCM-SHA384."""
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_", "AES").replace("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305")
    cipher = cipher.replace("_CBC_", "_")
    prefix = "" if exchange == "RSA" else f"{exchange}-"
    return f"{prefix}{cipher}".replace("_", "-")
