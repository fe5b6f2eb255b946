"""The cluster port over Connect's REST API, Apache's and ours.

Turns what happens on the way into the port's errors: never sent, never answered, or refused. A
cluster that rebalances is asked again for a while; decides nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import orjson

from connect_reconciler.cluster.port import OutcomeUnknown
from connect_runtime.herder.errors import RequestError
from connect_runtime.herder.values import ConnectorStatus
from connect_runtime.rest import wire
from connect_specs.desired import OffsetEntry
from connect_specs.diagnostics import Diagnostic, Unreachable
from connect_specs.states import TargetState

T = TypeVar("T")

_NOT_ALLOWED = (401, 403, 407)
_CONFLICT = 409
# Answers of a proxy that had passed the request on.
_GATEWAY = (502, 504)


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """All in seconds. `answer_s` is longer than the 90 s after which Connect itself gives up.

    `rebalance_s`: how long 409 is asked again; `read_s`: how long a read that failed is, because a
    worker answers 500 to some while a rebalance is pending.
    """

    connect_s: float = 5.0
    answer_s: float = 100.0
    rebalance_s: float = 30.0
    read_s: float = 3.0
    every_s: float = 0.1
    every_most_s: float = 2.0


class HttpCluster:
    """Implements `Cluster`. `transport` replaces the network, for tests."""

    def __init__(
        self,
        url: str,
        *,
        limits: HttpLimits | None = None,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._limits = limits or HttpLimits()
        self._clock = clock
        self._sleep = sleep
        # A user and password in the URL are sent, and never shown.
        self._shown = str(httpx.URL(url).copy_with(username=None, password=None))
        self._client = httpx.Client(
            base_url=url,
            headers={"Accept": "application/json"},
            timeout=httpx.Timeout(self._limits.answer_s, connect=self._limits.connect_s),
            transport=transport,
        )

    @property
    def runs_tasks(self) -> bool:
        return True

    def ready(self) -> bool:
        """Whether a worker answers that has completed its start."""
        try:
            return self._client.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    def create(self, name: str, config: Mapping[str, str], state: TargetState) -> None:
        body = {"name": name, "config": dict(config), "initial_state": state.value.upper()}
        # The same status says that the name is taken and that the cluster rebalances.
        self._change("POST", "/connectors", body, final=lambda: self.config(name) is not None)

    def update_config(self, name: str, config: Mapping[str, str]) -> None:
        self._change("PUT", _path(name, "config"), dict(config))

    def config(self, name: str) -> Mapping[str, str] | None:
        found: Mapping[str, str] | None = self._read(_path(name, "config"))
        return found

    def status(self, name: str) -> ConnectorStatus | None:
        found = self._read(_path(name, "status"))
        return None if found is None else wire.connector_status_from_json(found)

    def stop(self, name: str) -> None:
        self._change("PUT", _path(name, "stop"))

    def pause(self, name: str) -> None:
        self._change("PUT", _path(name, "pause"))

    def resume(self, name: str) -> None:
        self._change("PUT", _path(name, "resume"))

    def restart(self, name: str) -> None:
        self._change("POST", _path(name, "restart") + "?includeTasks=true&onlyFailed=true")

    def delete(self, name: str) -> None:
        self._change("DELETE", _path(name))

    def offsets(self, name: str) -> Sequence[OffsetEntry]:
        found = self._read(_path(name, "offsets"))
        if found is None:
            raise RequestError(404, f"Connector {name} not found")
        return wire.offsets_from_json(found)

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        return _message(self._change("PATCH", _path(name, "offsets"), wire.offsets_json(offsets)))

    def reset_offsets(self, name: str) -> str:
        return _message(self._change("DELETE", _path(name, "offsets")))

    def close(self) -> None:
        self._client.close()

    # --- how ---

    def _read(self, path: str) -> Any:
        """None for 404. A read can always be asked again."""
        unanswered: list[httpx.TransportError] = []

        def ask() -> httpx.Response | None:
            try:
                return self._client.get(path)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                raise self._unreachable(error) from error
            except httpx.TransportError as error:
                unanswered.append(error)
                return None

        def again(response: httpx.Response | None) -> float:
            if response is None or response.status_code >= 500:
                return self._limits.read_s
            return self._limits.rebalance_s if response.status_code == _CONFLICT else 0

        response = self._until_settled(ask, again)
        if response is None:
            raise self._unreachable(unanswered[-1]) from unanswered[-1]
        if response.status_code == 404 and _is_json(response):
            return None
        return self._json(response)

    def _change(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        final: Callable[[], bool] = lambda: False,
    ) -> Any:
        """`final` tells a 409 that will not pass."""
        content = None if body is None else orjson.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}

        def ask() -> httpx.Response:
            try:
                return self._client.request(method, path, content=content, headers=headers)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                raise self._unreachable(error) from error
            except httpx.TransportError as error:
                what = f"no answer came to {method} {path}: it may have taken place"
                raise OutcomeUnknown(
                    Diagnostic("cluster.no-answer", what, self._shown, _why(error))
                ) from error

        def again(response: httpx.Response) -> float:
            if response.status_code != _CONFLICT or final():
                return 0
            return self._limits.rebalance_s

        response = self._until_settled(ask, again)
        if response.status_code in _GATEWAY and not _is_json(response):
            what = f"what stands before the cluster gave up on {method} {path}"
            why = f"HTTP {response.status_code}"
            raise OutcomeUnknown(Diagnostic("cluster.no-answer", what, self._shown, why))
        return self._json(response)

    def _until_settled(self, ask: Callable[[], T], again: Callable[[T], float]) -> T:
        """Asks until `again` says for how long no more; the last answer counts."""
        begun, wait = self._clock(), self._limits.every_s
        while True:
            answer = ask()
            if self._clock() - begun + wait > again(answer):
                return answer
            self._sleep(wait)
            wait = min(2 * wait, self._limits.every_most_s)

    def _json(self, response: httpx.Response) -> Any:
        """The answer's body; raises what it says is wrong."""
        status = response.status_code
        if status in _NOT_ALLOWED:
            what = f"the Connect cluster does not allow this: {status} {response.reason_phrase}"
            hint = "put a user that may do it into the target's URL"
            raise Unreachable(Diagnostic("cluster.not-allowed", what, self._shown, hint=hint))
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
        what = "the Connect cluster cannot be reached"
        hint = "check the target's URL, and whether the cluster runs"
        return Unreachable(Diagnostic("cluster.unreachable", what, self._shown, _why(error), hint))


def _path(name: str, *rest: str) -> str:
    return "/".join(("/connectors", quote(name, safe=""), *rest))


def _is_json(response: httpx.Response) -> bool:
    kind: str = response.headers.get("Content-Type", "")
    return kind.startswith("application/json")


def _message(answer: Any) -> str:
    return str(answer.get("message", "")) if isinstance(answer, dict) else ""


def _error_text(response: httpx.Response) -> str:
    if _is_json(response):
        try:
            body = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            body = None
        if isinstance(body, dict) and body.get("message"):
            return str(body["message"])
    return f"HTTP {response.status_code} {response.reason_phrase}"


def _why(error: httpx.TransportError) -> str:
    return str(error) or type(error).__name__
