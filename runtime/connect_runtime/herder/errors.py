"""Errors that refuse a request, with the HTTP status and text that Connect gives them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from connect_specs.diagnostics import Diagnostic, Failed

# Response header with the `Refusal`: the body keeps Connect's shape
REFUSAL_HEADER: Final = "Connect-Refusal"
# Connect's text where another worker took over what the request needs
LEADER_CHANGED: Final = (
    "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
)


class Refusal(StrEnum):
    """Why a request was refused, where Connect itself has only a text."""

    NOT_WRITTEN = "not-written"
    NOT_READ = "not-read"
    TIMED_OUT = "timed-out"
    NOT_STOPPED = "not-stopped"
    GROUP_ACTIVE = "group-active"
    STILL_WRITING = "still-writing"
    NO_SUCH_CLASS = "no-such-class"
    UNLISTED_MODULE = "unlisted-module"
    PLUGIN_FAILED = "plugin-failed"


class RequestError(Failed):
    """`status` is the HTTP status, `message` Connect's text (connect-facts 4.5 and 5.1)."""

    def __init__(self, status: int, message: str, refusal: Refusal | None = None) -> None:
        super().__init__(Diagnostic(code=f"connect.{status}", what=message))
        self.status = status
        self.message = message
        self.refusal = refusal

    def __reduce__(self) -> tuple[type[RequestError], tuple[int, str, Refusal | None]]:
        return type(self), (self.status, self.message, self.refusal)


class WouldWait(Exception):
    """What was asked on an event loop's thread would wait there; it is to be asked on another."""


class NotLeader(RequestError):
    """A write reached a runtime that is not the leader, which did nothing. `leader`: its URL; None
    if no other leader is known."""

    def __init__(self, leader: str | None) -> None:
        who = f"the leader is {leader}" if leader else "no leader is known at the moment"
        super().__init__(409, f"Cannot complete request: this worker does not lead, {who}")
        self.leader = leader

    def __reduce__(self) -> tuple[type[NotLeader], tuple[str | None]]:  # type: ignore[override]
        return type(self), (self.leader,)
