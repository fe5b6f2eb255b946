"""Makes TLS contexts from Kafka's `ssl.*` properties, for https listeners and requests to them.

As in Apache's SSLUtils, properties with a listener's prefix replace all `ssl.*` without one. No
message holds a password or a part of a key.

Stores may be renewed in their files: certificates are short-lived where a machine issues them, and
a restart would move all tasks.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from connect_runtime.files import stamp
from connect_runtime.kafka.ssl_stores import KeyChain, SslStores, to_pem

_log = logging.getLogger(__name__)

LISTENERS: Final = "listeners.https."
ADMIN_LISTENERS: Final = "admin.listeners.https."

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


def server_context(properties: Mapping[str, str], prefix: str) -> ssl.SSLContext:
    """Returns the context of https listeners. Raises Invalid, naming the property."""
    tls = SslStores(properties, prefix)
    chain = tls.key_chain()
    if chain is None:
        tls.refuse("ssl.keystore.location", "https listeners need a key store")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _verify_mode(tls)
    _load_chain(context, tls, chain)
    _trust(context, tls, ssl.Purpose.CLIENT_AUTH)
    _set_algorithms(context, tls)
    return context


def renewed_context(properties: Mapping[str, str], prefix: str) -> RenewedContext:
    """Returns the contexts of new connections of https listeners, with what was renewed in their
    stores. Raises Invalid."""
    tls = SslStores(properties, prefix)
    stores = [tls.get(f"ssl.{store}.location") for store in ("keystore", "truststore")]
    make = partial(server_context, properties, prefix)
    return RenewedContext(make, map(Path, filter(None, stores)))


def client_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Returns the context for requests to other workers' https listeners, which have the same
    settings as this one's. Raises Invalid."""
    tls = SslStores(properties, LISTENERS)
    return _client_context(tls, tls.key_chain())


def command_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Returns the context for requests of a project's commands to its own runtime, whose https
    listeners have these properties. Raises Invalid.

    Without a trust store, the runtime's own certificate is trusted beside the system's authorities.
    A command may run where the key store is not: then it has no certificate to show.
    """
    tls = SslStores(properties, LISTENERS)
    shows = tls.get("ssl.client.auth", "none") != "none"
    chain = tls.key_chain() if tls.has_key_here and (shows or not tls.has_trust_store) else None
    context = _client_context(tls, chain if shows else None)
    if chain is not None and not tls.has_trust_store:
        _trust_certificates(context, chain.certificates)
    return context


def _client_context(tls: SslStores, chain: KeyChain | None) -> ssl.SSLContext:
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
    tls = SslStores(properties, prefix)
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
        self._stamps = [stamp(file) for file in self._files]
        self._looked_at = time.monotonic()
        self._context = make()

    def __call__(self) -> ssl.SSLContext:
        moment = time.monotonic()
        if moment - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = moment
            self._look()
        return self._context

    def _look(self) -> None:
        stamps = [stamp(file) for file in self._files]
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._context = self._make()
            _log.info("Key stores of https listeners were renewed")
        except Exception as error:  # a connection must not fail because of it
            _log.warning("Renewed key stores of https listeners are not used: %s", error)


def _load_chain(context: ssl.SSLContext, tls: SslStores, chain: KeyChain) -> None:
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
            file.write(key + to_pem(chain.certificates))
        context.load_cert_chain(path, password=password)
    except ssl.SSLError:
        tls.refuse("ssl.keystore.location", "key and certificate differ")
    finally:
        with contextlib.suppress(OSError):
            Path(path).unlink()


def _trust(context: ssl.SSLContext, tls: SslStores, purpose: ssl.Purpose) -> None:
    trusted = tls.trusted()
    if trusted is None:
        context.load_default_certs(purpose)
    else:
        _trust_certificates(context, trusted)


def _trust_certificates(context: ssl.SSLContext, certificates: Sequence[Any]) -> None:
    """Trusts each, also those that others signed, as Java does: a client's own, or of an authority
    below another one."""
    context.load_verify_locations(cadata=to_pem(certificates).decode())
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _verify_mode(tls: SslStores) -> ssl.VerifyMode:
    mode = tls.get("ssl.client.auth", "none")
    if mode not in _CLIENTS:
        tls.refuse("ssl.client.auth", f"must be one of {', '.join(_CLIENTS)}")
    return _CLIENTS[mode]


def _names(tls: SslStores, key: str) -> list[str]:
    return [name.strip() for name in tls.get(key).split(",") if name.strip()]


def _set_algorithms(context: ssl.SSLContext, tls: SslStores) -> None:
    """Applies protocols and cipher suites. Suites of TLS 1.3 are all or none, as Python has it."""
    protocols = _names(tls, "ssl.enabled.protocols") or [*_VERSIONS]
    if not {*protocols} <= _VERSIONS.keys():
        tls.refuse("ssl.enabled.protocols", f"must be of {', '.join(_VERSIONS)}")
    suites = _names(tls, "ssl.cipher.suites")
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
