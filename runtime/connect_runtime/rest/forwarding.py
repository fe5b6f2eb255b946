"""Forwards requests that only the leader answers, as Connect's workers do: over at most two hops.

Apache's HerderRequestHandler and RestClient: the query parameter `forward` is absent on a client's
request, then true, then false. Of the headers only the login and the type of the body go along. A
request is sent once: if its answer is lost, the leader may have done it. Each has a connection of
its own: a kept one may be closed while the request is on its way.

The leader's URL comes from the group's member metadata, which every member writes for itself.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import anyio
import httpx
import orjson
from anyio import to_thread
from starlette.responses import Response

from connect_runtime.herder.verbs import LEADER_CHANGED, REFUSAL_HEADER, RequestError
from connect_runtime.rest.exchange import JSON, Call
from connect_runtime.rest.request_pools import BodyMemory, Busy
from connect_runtime.rest.rest_settings import MAX_BODY_BYTES, is_loopback
from connect_specs.diagnostics import Invalid

_log = logging.getLogger(__name__)

_FLAG: Final = "forward"
_NO_LEADER: Final = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance "
    "was underway."
)
_CONNECT_S: Final = 10.0
# Longer than a request waits for the leader's herder
_ANSWER_S: Final = 100.0
# A config that was merged with another, or the traces of many tasks
_ANSWER_BYTES: Final = 16 * 1024 * 1024
# The requests that wait for a leader at once; fewer than the connections that REST takes
_AT_ONCE: Final = 64
_PASSED_ON: Final = ("authorization", "content-type")
_PASSED_BACK: Final = (REFUSAL_HEADER, "Retry-After")
# As Apache's workers name themselves
_AGENT: Final = "kafka-connect"


class Forwarding:
    """Sends requests to the leader. `login_hosts`: the hosts, in lower case, that a login is sent
    to over https. `tls` returns how https leaders are verified, from files that may change.
    `admin_only`: the listener serves admin resources only. If the leader has such listeners, too,
    its advertised address, the only one that other workers learn, lacks these resources."""

    def __init__(
        self,
        login_hosts: Collection[str] = (),
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        max_body_bytes: int = MAX_BODY_BYTES,
        *,
        admin_only: bool = False,
    ) -> None:
        self._login_hosts = login_hosts
        self._tls = tls
        self._largest = _ANSWER_BYTES + 2 * max_body_bytes
        self._memory = BodyMemory(self._largest)
        self._waiting = 0
        self._admin_only = admin_only

    async def send(self, call: Call, leader: str | None) -> Response:
        """Returns the leader's answer. Raises RequestError 409 if there is no leader to forward it
        to, 400 if its advertised address lacks the admin resource, 500 if it does not answer, and
        Busy."""
        request = self.request(call, leader)
        if self._waiting >= _AT_ONCE:
            raise Busy
        self._waiting += 1
        try:
            with anyio.fail_after(_ANSWER_S):
                answer = await self._sent(request, call.base)
        except (httpx.HTTPError, OSError, ValueError) as error:
            reason = _reason(error)
            host = request.url.netloc.decode()
            text = "%s %s cannot be forwarded to %s: %s"
            _log.warning(text, call.method, call.target, host, reason)
            raise RequestError(500, f"IO Error trying to forward REST request: {reason}") from None
        finally:
            self._waiting -= 1
        if self._admin_only and answer.status_code == 404:
            raise RequestError(
                400,
                f"Only the leader, {leader}, does this, and that address does not serve /admin: "
                "send it to an admin listener of that worker",
            )
        return answer

    def request(self, call: Call, leader: str | None) -> httpx.Request:
        """Returns the request to the leader. Raises RequestError if it must not be forwarded."""
        hop = call.values(_FLAG)
        if hop and hop[0].lower() != "true":
            raise RequestError(409, LEADER_CHANGED)
        url = _leader_url(leader)
        if url is None:
            raise RequestError(409, _NO_LEADER)
        if "authorization" in call.headers and not self._may_have_login(url):
            raise RequestError(
                500,
                f"The request has a login and is not forwarded to the leader, {leader}: logins are "
                "sent to this machine, or over https to hosts that rest.forward.login.hosts lists",
            )
        headers = {"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": _AGENT}
        headers |= {name: call.headers[name] for name in _PASSED_ON if name in call.headers}
        parameters = [(key, value) for key, value in call.query if key != _FLAG]
        query = urlencode([(_FLAG, "false" if hop else "true"), *parameters])
        # the path is encoded as it came; httpx would encode it again
        path = quote(call.target.encode("latin-1"), safe="%/!$&'()*+,;=:@~")
        to = url.copy_with(raw_path=f"{path}?{query}".encode())
        sent = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
        return httpx.Request(call.method, to, headers=sent, content=call.body or None)

    def _may_have_login(self, url: httpx.URL) -> bool:
        if url.scheme == "https" and url.host.lower() in self._login_hosts:
            return True
        return is_loopback(url.host)

    async def _sent(self, request: httpx.Request, base: str) -> Response:
        # no proxies and no .netrc from the environment
        async with httpx.AsyncClient(
            verify=await self._verified(request),
            trust_env=False,
            timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
        ) as client:
            answer = await client.send(request, stream=True)
            try:
                return _passed_back(answer, await self._content(answer.aiter_raw()), base)
            finally:
                await answer.aclose()

    async def _verified(self, request: httpx.Request) -> ssl.SSLContext | bool:
        if request.url.scheme != "https":
            return False
        try:
            context = await to_thread.run_sync(self._tls)
        except Invalid as error:
            _log.warning("%s", error)
            raise ValueError(
                "the ssl settings of this worker are invalid; its log says why"
            ) from None
        is_named = context.check_hostname or is_loopback(request.url.host)
        if "authorization" in request.headers and not is_named:
            raise ValueError(
                "a login is sent only to a leader whose name its certificate has, and "
                "ssl.endpoint.identification.algorithm of this worker is empty"
            )
        return context

    async def _content(self, pieces: AsyncIterator[bytes]) -> bytes:
        content = bytearray()
        with self._memory.share() as grown_to:
            async for piece in pieces:
                content += piece
                if len(content) > self._largest:
                    raise ValueError(f"the leader's answer is larger than {self._largest} bytes")
                try:
                    grown_to(len(content))
                except Busy:
                    raise ValueError("the leader's answers take too much memory") from None
            if content:
                try:
                    orjson.loads(content)
                except orjson.JSONDecodeError:
                    raise ValueError("the leader's answer is not JSON") from None
            return bytes(content)


def _passed_back(answer: httpx.Response, content: bytes, base: str) -> Response:
    """Returns the answer to the client. A connector's location is at the worker that was asked."""
    status = answer.status_code
    if not (200 <= status < 300 or 400 <= status < 600):
        text = f"Unexpected status code when handling forwarded request: {status}"
        raise RequestError(500, text)
    headers = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
    location = answer.headers.get("location")
    if location is not None:
        headers["Location"] = f"{base}/{urlsplit(location).path.lstrip('/')}"
    is_json = answer.headers.get("content-type", "").partition(";")[0] == JSON
    return Response(content, status, headers, media_type=JSON if is_json else None)


def _leader_url(leader: str | None) -> httpx.URL | None:
    """Returns the URL of a leader; None if there is none, or what it calls itself is no URL of a
    worker."""
    try:
        url = httpx.URL(leader or "")
        is_worker = url.scheme in ("http", "https") and url.host and url.raw_path == b"/"
    except (httpx.InvalidURL, ValueError):  # ValueError: a host that IDNA refuses
        return None
    is_port = url.port is None or 0 < url.port < 1 << 16
    return url if is_worker and is_port and not url.userinfo else None


def _reason(error: BaseException) -> str:
    """Returns why there is no answer. "Connection refused" proves that nothing was sent."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):
            # one error for each of the host's addresses
            cause = cause.exceptions[0]
        if isinstance(cause, ConnectionRefusedError):
            return "Connection refused"
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
