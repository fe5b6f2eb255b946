"""A Connect cluster's REST API as a caller sees it: what was sent, refused, or never answered.

Turns what happens on the way into errors. A cluster that rebalances, or has too much to do, is
asked again for a while.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
import orjson

from connect_reconciler.backend.rest import shapes
from connect_reconciler.backend.rest.answers import (
    LOGIN_HINT,
    TargetRequest,
    connects_text,
    decoded,
    in_words,
    is_starting,
    not_connect,
    refused,
)
from connect_reconciler.backend.rest.connection import connected, shown_url
from connect_reconciler.backend.rest.exchange_log import exchanged
from connect_reconciler.backend.rest.refusals import (
    TOO_MANY,
    TURNED_AWAY,
    Retries,
    nothing_done,
    refusal_in,
    retry_after_s,
    unanswered_by_leader,
)
from connect_reconciler.backend.rest.shapes import ACCEPTED, About, ExpectedAnswer
from connect_runtime.waiting import wait_until
from connect_specs.desired import RestTarget
from connect_specs.diagnostics import ConnectError, Diagnostic, Failed, Unreachable

T = TypeVar("T")

_CONFLICT = 409
_TRUST_HINT = (
    "check the target's ca_file, or without one the system's certificate authorities"
    " (SSL_CERT_FILE); a cluster may also want a cert_file and key_file"
)
_RUNTIME_TRUST_HINT = (
    "check listeners.https.ssl.truststore.* under 'worker', or without them the system's"
    " authorities (SSL_CERT_FILE); a runtime that asks for certificates wants its key store here"
)


class OutcomeUnknown(Failed):
    """A change was asked for and no answer came: it may have taken place, or may still."""


class RestClient:
    """Asks one Connect cluster. `direct`: through no proxy. `transport` replaces the network, for
    tests."""

    def __init__(
        self,
        target: RestTarget,
        *,
        retries: Retries | None = None,
        login_hint: str = LOGIN_HINT,
        direct: bool = False,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._target = target
        self._retries = retries or Retries()
        self._login_hint = login_hint
        self._clock = clock
        self._sleep = sleep
        self._shown = shown_url(target)
        self._trust_hint = _TRUST_HINT if target.ssl is None else _RUNTIME_TRUST_HINT
        self._client = connected(target, direct=direct, transport=transport)

    @classmethod
    def checked(cls, target: RestTarget, retries: Retries | None = None) -> Self:
        """Opens a client of a Connect cluster. Raises Unreachable where something else answers."""
        client = cls(target, retries=retries)
        try:
            client.about()
        except BaseException:
            client.close()
            raise
        return client

    def healthy(self) -> bool:
        """Returns True if a worker answers that has completed its start."""
        try:
            return self._sent(TargetRequest(self._target, "GET", "/health")).status_code == 200
        except (httpx.TransportError, Unreachable):
            return False

    def about(self) -> About:
        """Reads the cluster's version and ids. Raises Unreachable where something else than Connect
        answers."""
        return self.must("/", shapes.about)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def must(self, path: str, parse: Callable[[Any], T]) -> T:
        """Returns the answer to GET where every Connect cluster has one. Raises as `read` does, and
        Unreachable for 404."""
        request = TargetRequest(self._target, "GET", path)
        response = self._got(request, exists=False)
        if response.status_code == 404:
            raise not_connect(request, response)
        body: T = self._body(request, response, ExpectedAnswer((200,), parse))
        return body

    def read(
        self,
        path: str,
        parse: Callable[[Any], T],
        *,
        exists: bool = False,
        once: bool = False,
    ) -> T | None:
        """Returns the answer to GET as `parse` makes it; None for 404. A read can always be asked
        again, unless it may only be asked `once`.

        `exists`: it was just created, so that 404 passes.

        Raises RequestError with Connect's status and text, Unreachable for anything else.
        """
        request = TargetRequest(self._target, "GET", path)
        response = self._got(request, exists=exists, once=once)
        if response.status_code == 404 and connects_text(response) is not None:
            return None
        body: T = self._body(request, response, ExpectedAnswer((200,), parse))
        return body

    def change(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        expect: ExpectedAnswer = ACCEPTED,
        final: Callable[[], bool] = lambda: False,
        done: Callable[[], bool] | None = None,
        exists: bool = False,
    ) -> Any:
        """Returns the status and the body of the answer to a request that changes something.

        `final` returns True for a 409 that will not pass; with `exists` 404 does. `done` returns
        True if a request that was turned away on its way took place all the same; the answer is
        None then.

        Raises RequestError, Unreachable if it was never sent or what answers is not Connect,
        OutcomeUnknown if no answer of Connect came.
        """
        content = None if body is None else orjson.dumps(body)
        request = TargetRequest(self._target, method, path, content)

        def repeat_s(response: httpx.Response) -> float:
            status, text = response.status_code, connects_text(response) or ""
            if status == 500 and nothing_done(text, refusal_in(response.headers)):
                return self._retries.rebalance_s
            if exists and status == 404:
                return self._retries.follow_s
            if status != _CONFLICT or final():
                return 0
            return self._retries.rebalance_s

        def took_place() -> bool:
            try:
                return done is not None and done()
            except ConnectError:
                # The cluster turns requests away
                return False

        response = self._changed(request, repeat_s, took_place)
        if response is None:
            return None
        if _turned_away(response):
            if _not_begun(response) or connects_text(response) is not None:
                raise refused(request, response, self._login_hint)
            problem = f"a proxy or load balancer in front of the cluster gave up on {method} {path}"
            reason = in_words(request, response)
            raise self._unknown(problem, reason)
        text = connects_text(response) or ""
        if response.status_code == 500 and unanswered_by_leader(text):
            problem = f"the cluster's leader did not answer to {method} {path}: it may have done it"
            raise self._unknown(problem, text)
        return self._body(request, response, expect)

    def _got(self, request: TargetRequest, *, exists: bool, once: bool = False) -> httpx.Response:
        """Returns the last answer to a read."""
        pause = self._pauses()
        unanswered: httpx.TransportError | None = None
        while True:
            response: httpx.Response | None = None
            try:
                response = self._sent(request)
            except httpx.TransportError as error:
                unanswered = error
            limit_s = 0.0 if once else self._read_again_s(response, exists=exists)
            if pause(limit_s, response):
                continue
            if response is None:
                assert unanswered is not None
                raise self._unreachable(unanswered) from unanswered
            return response

    def _pauses(self) -> Callable[[float, httpx.Response | None], bool]:
        """Returns a function that sleeps before a request is sent again, longer each time, and at
        least as long as the answer demands. If that takes longer than the limit since the first
        request, in seconds, it returns False at once."""
        start_s, wait = self._clock(), self._retries.every_s

        def pause(limit_s: float, response: httpx.Response | None) -> bool:
            nonlocal wait
            wait_s = wait
            if response is not None and _turned_away(response):
                wait_s = max(wait, retry_after_s(response.headers))
            if self._clock() - start_s + wait_s > limit_s:
                return False
            self._sleep(wait_s)
            wait = min(2 * wait, self._retries.every_most_s)
            return True

        return pause

    def _read_again_s(self, response: httpx.Response | None, *, exists: bool) -> float:
        """Returns how long a read with such an answer is repeated, in seconds."""
        if response is None:
            return self._retries.read_s
        status = response.status_code
        if _turned_away(response):
            return self._retries.busy_s
        if status >= 500:
            return self._retries.read_s
        if exists and status == 404:
            return self._retries.follow_s
        return self._retries.rebalance_s if status == _CONFLICT else 0

    def _changed(
        self,
        request: TargetRequest,
        repeat_s: Callable[[httpx.Response], float],
        took_place: Callable[[], bool],
    ) -> httpx.Response | None:
        """Returns the last answer to a change; None once it is seen to have taken place. It is
        looked for before a request that may have passed is sent once more."""
        pause, unsure = self._pauses(), False
        while True:
            response = self._answer(request)
            if _turned_away(response):
                unsure = unsure or not _not_begun(response)
                limit_s = self._retries.busy_s
            else:
                # The first of two requests may be what the second one is refused for
                if unsure and response.is_client_error and took_place():
                    return None
                limit_s = repeat_s(response)
            if not pause(limit_s, response):
                return response
            if unsure and took_place():
                return None

    def _answer(self, request: TargetRequest) -> httpx.Response:
        """Sends a change. Raises OutcomeUnknown on a timeout."""
        try:
            return self._sent(request)
        except httpx.TransportError as error:
            if _tls_refusal(error) is not None:
                raise self._unreachable(error) from error
            problem = f"no answer came to {request.method} {request.path}: it may have taken place"
            raise self._unknown(problem, _reason(error)) from error

    def _unknown(self, problem: str, reason: str) -> OutcomeUnknown:
        hint = "`connect status` shows whether it has"
        return OutcomeUnknown(Diagnostic("cluster.no-answer", problem, self._shown, reason, hint))

    def _sent(self, request: TargetRequest) -> httpx.Response:
        """Sends a request to the first worker that accepts the connection. Raises Unreachable."""
        pause = self._pauses()
        headers = {} if request.content is None else {"Content-Type": "application/json"}
        while True:
            try:
                return exchanged(
                    request,
                    lambda: self._client.request(
                        request.method, request.path, content=request.content, headers=headers
                    ),
                )
            except httpx.DecodingError as error:
                # The answer is unknown
                raise httpx.RemoteProtocolError("its answer cannot be unpacked") from error
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
                if _tls_refusal(error) is not None or not pause(self._retries.connect_s, None):
                    raise self._unreachable(error) from error

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Returns True if the condition came true in time."""
        every_s = self._retries.every_s
        return wait_until(
            condition, timeout_s, every_s=every_s, clock=self._clock, sleep=self._sleep
        )

    def _body(
        self, request: TargetRequest, response: httpx.Response, expect: ExpectedAnswer
    ) -> Any:
        """Returns the answer's body. Raises the error of a refusal, or of an unexpected body."""
        if not response.is_success:
            raise refused(request, response, self._login_hint)
        if response.status_code not in expect.statuses:
            raise not_connect(request, response)
        if expect.parse is None and not response.content:
            return None
        body = decoded(response)
        if body is None:
            raise not_connect(request, response)
        try:
            parsed = body if expect.parse is None else expect.parse(body)
            return (parsed, response.headers.get(expect.header, "")) if expect.header else parsed
        except KeyError as error:
            raise not_connect(request, response, f"a map without {error}") from error
        except shapes.WrongShape as error:
            raise not_connect(request, response, str(error)) from error
        except (TypeError, ValueError, AttributeError) as error:
            # Its text may quote the body
            reason = "not the body that Connect answers with"
            raise not_connect(request, response, reason) from error

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        refusal = _tls_refusal(error)
        if refusal is not None and refusal.reason == "WRONG_VERSION_NUMBER":
            problem = "what answers there does not speak TLS"
            hint = "if these workers listen without TLS, write http:// in the target's URL"
            return Unreachable(Diagnostic("cluster.bad-tls", problem, self._shown, hint=hint))
        if refusal is not None:
            problem = "the Connect cluster and this side do not trust each other's certificates"
            reason = refusal.reason or str(refusal)
            return Unreachable(
                Diagnostic("cluster.bad-tls", problem, self._shown, reason, self._trust_hint)
            )
        problem = "the Connect cluster cannot be reached"
        hint = "check the target's URL, and whether the cluster runs"
        if isinstance(error, httpx.ProxyError):
            hint = "check the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names, or NO_PROXY"
        elif self._target.cert_file is None and self._shown.startswith("https"):
            hint += " or wants a certificate of ours: cert_file and key_file"
        return Unreachable(
            Diagnostic("cluster.unreachable", problem, self._shown, _reason(error), hint)
        )


def connector_path(name: str, *words: str) -> str:
    """Returns the path of a connector's part of the API."""
    return "/".join(("/connectors", quote(name, safe=""), *words))


def _turned_away(response: httpx.Response) -> bool:
    """Returns True if the request may pass a while later."""
    return response.status_code in TURNED_AWAY or is_starting(response)


def _not_begun(response: httpx.Response) -> bool:
    """Returns True if the answer proves that the server did nothing."""
    return response.status_code == TOO_MANY or is_starting(response)


def _tls_refusal(error: BaseException) -> ssl.SSLError | None:
    """Returns the TLS error behind this one, if it is one; the request was never read then."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _reason(error: httpx.TransportError) -> str:
    return str(error) or type(error).__name__
