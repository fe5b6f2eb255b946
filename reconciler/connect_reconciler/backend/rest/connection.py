"""The connection to a target's REST API: its TLS, proxy and login."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Mapping

import httpx

from connect_specs.desired import RestTarget
from connect_specs.diagnostics import Diagnostic, Invalid, Unreachable

_TRUST_HINT = "check ca_file, cert_file and key_file: PEM files, relative to connect.yaml"


def connected(
    target: RestTarget, *, direct: bool = False, transport: httpx.BaseTransport | None = None
) -> httpx.Client:
    """Returns a client of the target. It asks no proxy for a local address, nor for any if
    `direct`.

    Raises Unreachable for certificate files that cannot be used, Invalid for a proxy that cannot.
    """
    url = httpx.URL(target.url)
    auth = None if target.user is None else httpx.BasicAuth(target.user, target.password or "")
    try:
        return httpx.Client(
            base_url=url,
            auth=auth,
            headers={"Accept": "application/json", **target.headers},
            timeout=httpx.Timeout(target.answer_s, connect=target.connect_s),
            transport=transport,
            # Without TLS no authorities are loaded, which takes a while
            verify=_tls(target)
            if url.scheme == "https"
            else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            # Of the environment only the proxies count: authorities are those of _tls
            trust_env=not (direct or is_local(url.host)),
        )
    except (ImportError, ValueError, httpx.InvalidURL):
        text = "the proxy that the environment names cannot be used"
        hint = "check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY; NO_PROXY names hosts without a proxy"
        reason = "its address is none, or its scheme is not supported"
        problem = Diagnostic("cluster.bad-proxy", text, shown_url(target), reason, hint)
        raise Invalid(problem) from None


def shown_url(target: RestTarget) -> str:
    """Returns the target's address without a user and password."""
    return str(httpx.URL(target.url).copy_with(username=None, password=None))


def is_local(host: str) -> bool:
    """Returns True if a URL's host is this machine, by its name or its address."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost") or name == socket.gethostname().lower():
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback or address.is_unspecified


def _tls(target: RestTarget) -> ssl.SSLContext:
    """Returns a context that trusts the target's authorities, else the system's as OpenSSL finds
    them, by SSL_CERT_FILE and SSL_CERT_DIR. For our runtime its listeners' properties count."""
    if target.ssl is not None:
        return runtime_tls(target.ssl)
    try:
        context = ssl.create_default_context(cafile=target.ca_file)
        if target.ca_file is not None:
            # the file may hold the worker's own certificate, or an authority below another one
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if target.cert_file is not None:
            context.load_cert_chain(target.cert_file, target.key_file)
    except OSError as error:
        problem = "a certificate file of the target cannot be used"
        reason = error.strerror or type(error).__name__
        raise Unreachable(
            Diagnostic("cluster.bad-certificate", problem, why=reason, hint=_TRUST_HINT)
        ) from error
    return context


def runtime_tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Returns how our runtime is asked over https; `properties` are those of its listeners. Raises
    Invalid."""
    from connect_runtime.rest.tls import command_context

    try:
        return command_context(properties)
    except ImportError:
        problem = "the key stores of the runtime cannot be read: cryptography is not installed"
        hint = "pip install '.[runtime]' in the folder of connect's sources"
        raise Invalid(Diagnostic("runtime.not-installed", problem, hint=hint)) from None
