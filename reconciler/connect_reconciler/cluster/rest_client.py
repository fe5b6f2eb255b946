"""A Connect cluster's REST API as a caller sees it: what was sent, refused, or never answered.

Turns what happens on the way into errors. A cluster that rebalances is asked again for a while.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import httpx
import orjson

from connect_reconciler.cluster.port import OutcomeUnknown
from connect_runtime.herder.errors import RequestError
from connect_specs.desired import RestTarget
from connect_specs.diagnostics import Diagnostic, Unreachable

T = TypeVar("T")

_NOT_ALLOWED = (401, 403, 407)
_CONFLICT = 409
# What a worker that did nothing says with a 500: its leader could not write, and took back what it
# had; it could not read or fence what has to come first; or a rebalance is due. To be asked again.
_NOT_DONE = (
    "Failed to write to config topic",
    "Failed to read to end of config topic before",
    "Failed to list offsets prior to",
    "Failed to perform zombie fencing",
    "Request cannot be completed because a rebalance is expected",
    "Timed out while trying to read to the end of the offsets topic prior to",
)
# A worker passes most changes on to its leader, which may be gone, or get it and not answer
_NOT_PASSED_ON = "IO Error trying to forward REST request"
_REFUSED = "Connection refused"
# What an overloaded worker of ours answers, which began nothing.
_BUSY = 503
LOGIN_HINT: Final = "give the target a user and password, or headers, that may do it"
# Answers of a proxy that had passed the request on.
_GATEWAY = (502, 504)


@dataclass(frozen=True, slots=True)
class Retries:
    """All in seconds. `rebalance_s`: how long 409 is asked again; `read_s`: how long a read that
    failed is, because a worker answers 500 to some while a rebalance is pending; `connect_s`: how
    long a worker that takes no connection is, which nothing was sent to then.
    """

    rebalance_s: float = 30.0
    read_s: float = 3.0
    connect_s: float = 0.0
    follow_s: float = 10.0
    every_s: float = 0.1
    every_most_s: float = 2.0


# In the middle of a change: a worker that is started again takes some seconds to be back
PATIENT = Retries(read_s=10.0, connect_s=20.0)


class RestClient:
    """Asks one Connect cluster. `transport` replaces the network, for tests."""

    def __init__(
        self,
        target: RestTarget,
        *,
        retries: Retries | None = None,
        login_hint: str = LOGIN_HINT,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._retries = retries or Retries()
        self._login_hint = login_hint
        self._clock = clock
        self._sleep = sleep
        url = httpx.URL(target.url)
        # A user and password in the URL are sent, and never shown.
        self._shown = shown_url(target)
        self._may_want_certificate = url.scheme == "https" and target.cert_file is None
        auth = None if target.user is None else httpx.BasicAuth(target.user, target.password or "")
        self._client = httpx.Client(
            base_url=url,
            auth=auth,
            headers={"Accept": "application/json", **target.headers},
            timeout=httpx.Timeout(target.answer_s, connect=target.connect_s),
            transport=transport,
            verify=_tls(target),
        )

    def healthy(self) -> bool:
        """Whether a worker answers that has completed its start."""
        try:
            return self._client.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def read(self, path: str, *, exists: bool = False) -> Any:
        """The answer to GET, decoded; None for 404. A read can always be asked again.

        `exists`: it was just created, so that 404 passes.

        Raises RequestError with Connect's status and text, Unreachable.
        """
        unanswered: list[httpx.TransportError] = []

        def ask() -> httpx.Response | None:
            try:
                return self._sent("GET", path)
            except httpx.TransportError as error:
                unanswered.append(error)
                return None

        def again(response: httpx.Response | None) -> float:
            if response is None or response.status_code >= 500:
                return self._retries.read_s
            if exists and response.status_code == 404:
                return self._retries.follow_s
            return self._retries.rebalance_s if response.status_code == _CONFLICT else 0

        response = self._until_settled(ask, again)
        if response is None:
            raise self._unreachable(unanswered[-1]) from unanswered[-1]
        if response.status_code == 404 and _is_json(response):
            return None
        return self._json(response)

    def change(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        final: Callable[[], bool] = lambda: False,
        exists: bool = False,
    ) -> Any:
        """The answer to a request that changes something. `final` tells a 409 that will not pass;
        with `exists` 404 does.

        Raises RequestError, Unreachable if it was never sent, OutcomeUnknown if no answer came.
        """
        content = None if body is None else orjson.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}

        def ask() -> httpx.Response:
            try:
                return self._sent(method, path, content, headers)
            except httpx.TransportError as error:
                if _tls_refusal(error) is not None:
                    raise self._unreachable(error) from error
                what = f"no answer came to {method} {path}: it may have taken place"
                raise OutcomeUnknown(
                    Diagnostic("cluster.no-answer", what, self._shown, _why(error))
                ) from error

        def again(response: httpx.Response) -> float:
            if response.status_code == 500 and _was_not_done(_error_text(response)):
                return self._retries.rebalance_s
            if (
                response.status_code == _BUSY
                and "Retry-After" in response.headers
                and (_is_json(response))
            ):
                return self._retries.rebalance_s
            if exists and response.status_code == 404:
                return self._retries.follow_s
            if response.status_code != _CONFLICT or final():
                return 0
            return self._retries.rebalance_s

        response = self._until_settled(ask, again)
        if response.status_code in _GATEWAY and not _is_json(response):
            what = f"what stands before the cluster gave up on {method} {path}"
            why = f"HTTP {response.status_code}"
            raise OutcomeUnknown(Diagnostic("cluster.no-answer", what, self._shown, why))
        if response.status_code == 500 and _error_text(response).startswith(_NOT_PASSED_ON):
            what = f"the cluster's leader did not answer to {method} {path}: it may have done it"
            why = _error_text(response)
            raise OutcomeUnknown(Diagnostic("cluster.no-answer", what, self._shown, why))
        return self._json(response)

    def _sent(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """What answered, as soon as anyone takes the connection. Raises Unreachable for nobody."""
        begun, wait = self._clock(), self._retries.every_s
        while True:
            try:
                return self._client.request(method, path, content=content, headers=headers)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                late = self._clock() - begun + wait > self._retries.connect_s
                if late or _tls_refusal(error) is not None:
                    raise self._unreachable(error) from error
            self._sleep(wait)
            wait = min(2 * wait, self._retries.every_most_s)

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Whether the condition came true in time."""
        begun = self._clock()
        while not condition():
            if self._clock() - begun > timeout_s:
                return False
            self._sleep(self._retries.every_s)
        return True

    def _until_settled(self, ask: Callable[[], T], again: Callable[[T], float]) -> T:
        """Asks until `again` says for how long no more; the last answer counts."""
        begun, wait = self._clock(), self._retries.every_s
        while True:
            answer = ask()
            if self._clock() - begun + wait > again(answer):
                return answer
            self._sleep(wait)
            wait = min(2 * wait, self._retries.every_most_s)

    def _json(self, response: httpx.Response) -> Any:
        """The answer's body; raises what it says is wrong."""
        status = response.status_code
        if status in _NOT_ALLOWED:
            what = f"the Connect cluster does not allow this: {status} {response.reason_phrase}"
            why = _error_text(response) if _is_json(response) else ""
            raise Unreachable(
                Diagnostic("cluster.not-allowed", what, self._shown, why, self._login_hint)
            )
        if status in (503, *_GATEWAY) and not _is_json(response):
            what = f"what stands before the Connect cluster answers {status}"
            raise Unreachable(Diagnostic("cluster.unreachable", what, self._shown))
        if not response.is_success:
            raise RequestError(status, _error_text(response))
        if not response.content:
            return None
        if not _is_json(response):
            what = "what answers is not a Connect cluster: it does not speak JSON"
            raise Unreachable(Diagnostic("cluster.not-connect", what, self._shown))
        return orjson.loads(response.content)

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        refusal = _tls_refusal(error)
        if refusal is not None:
            what = "the Connect cluster and this side do not trust each other's certificates"
            hint = "check the target's ca_file; a cluster may also want a cert_file and key_file"
            why = refusal.reason or str(refusal)
            return Unreachable(Diagnostic("cluster.bad-tls", what, self._shown, why, hint))
        what = "the Connect cluster cannot be reached"
        hint = "check the target's URL, and whether the cluster runs"
        if self._may_want_certificate:
            hint += " or wants a certificate of ours: cert_file and key_file"
        return Unreachable(Diagnostic("cluster.unreachable", what, self._shown, _why(error), hint))


def shown_url(target: RestTarget) -> str:
    """Its address without a user and password."""
    return str(httpx.URL(target.url).copy_with(username=None, password=None))


def connector_path(name: str, *rest: str) -> str:
    """Where a connector's part of the API is."""
    return "/".join(("/connectors", quote(name, safe=""), *rest))


def _tls(target: RestTarget) -> ssl.SSLContext | bool:
    if target.ca_file is None and target.cert_file is None:
        return True
    try:
        context = ssl.create_default_context(cafile=target.ca_file)
        if target.cert_file is not None:
            context.load_cert_chain(target.cert_file, target.key_file)
    except OSError as error:
        what = "a certificate file of the target cannot be used"
        why = error.strerror or type(error).__name__
        hint = "check ca_file, cert_file and key_file: PEM files, relative to connect.yaml"
        raise Unreachable(
            Diagnostic("cluster.bad-certificate", what, why=why, hint=hint)
        ) from error
    return context


def _is_json(response: httpx.Response) -> bool:
    kind: str = response.headers.get("Content-Type", "")
    return kind.startswith("application/json")


def _error_text(response: httpx.Response) -> str:
    if _is_json(response):
        try:
            body = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            body = None
        if isinstance(body, dict) and body.get("message"):
            return str(body["message"])
    return f"HTTP {response.status_code} {response.reason_phrase}"


def _was_not_done(text: str) -> bool:
    return text.startswith(_NOT_DONE) or (text.startswith(_NOT_PASSED_ON) and _REFUSED in text)


def _tls_refusal(error: BaseException) -> ssl.SSLError | None:
    """Why TLS failed, if it did; what was sent then was never looked at."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def _why(error: httpx.TransportError) -> str:
    return str(error) or type(error).__name__
