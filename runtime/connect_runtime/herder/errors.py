"""A request that cannot be answered, with the HTTP status and text that Connect gives it."""

from __future__ import annotations

from connect_specs.diagnostics import Diagnostic, Failed


class RequestError(Failed):
    """`status` is the HTTP status, `message` Connect's text (connect-facts 4.5 and 5.1)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(Diagnostic(code=f"connect.{status}", what=message))
        self.status = status
        self.message = message

    def __reduce__(self) -> tuple[type[RequestError], tuple[int, str]]:
        return type(self), (self.status, self.message)


class NotLeader(RequestError):
    """A write reached a runtime that does not lead; the message says who does."""

    def __init__(self, leader: str | None) -> None:
        who = f"the leader is {leader}" if leader else "no leader is known at the moment"
        super().__init__(409, f"Cannot complete request: this worker does not lead, {who}")
        self.leader = leader

    def __reduce__(self) -> tuple[type[NotLeader], tuple[str | None]]:  # type: ignore[override]
        return type(self), (self.leader,)
