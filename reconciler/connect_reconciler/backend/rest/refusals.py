"""The meaning of a refusal: whether anything was done, and how long the request is sent again.
Pure.

Connect has no codes for most refusals, and sends them with status 500: only their texts identify
them. Our runtime sends a code in a header, which counts instead. Nothing else in the reconciler
reads those texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from connect_runtime.herder.verbs import REFUSAL_HEADER, Refusal, RequestError

_NOT_WRITTEN: Final = "Failed to write to config topic"
# A worker that did nothing: its leader could not write, and took back what it had; it could not
# read or fence what has to come first; or a rebalance is due
_NOT_DONE: Final = (
    _NOT_WRITTEN,
    "Failed to read to end of config topic before",
    "Failed to list offsets prior to",
    "Failed to perform zombie fencing",
    "Request cannot be completed because a rebalance is expected",
    "Timed out while trying to read to the end of the offsets topic prior to",
)
# A worker forwards most changes to its leader, which may be gone, or get one and not answer
_NOT_FORWARDED: Final = "IO Error trying to forward REST request"
_REFUSED: Final = "Connection refused"
# The worker continues with these nevertheless
_TIMED_OUT: Final = (
    "Request timed out",
    "Timed out while attempting to modify offsets",
    "Timed out while calling the 'alterOffsets' method",
)
_GROUP_ACTIVE: Final = "because its tasks haven't stopped completely yet"
_NOT_STOPPED: Final = "must be in the STOPPED state before their offsets"
_NO_CLASS: Final = "Failed to find any class that implements Connector"
# The last is our own, of a connector class
_CLASS_NOT_FOUND: Final = (
    "could not be found",
    "Failed to find any class",
    "has no connector class",
)
_OF_NULL: Final = "Invalid value null for configuration "
_LIST_OF_NULL: Final = " values must not be null."
_JETTY_PATH: Final = "Ambiguous URI"


def refusal_in(headers: Mapping[str, str]) -> Refusal | None:
    """Returns the code that our runtime sends; None from Connect, and of one that is not known."""
    try:
        return Refusal(headers.get(REFUSAL_HEADER, ""))
    except ValueError:
        return None


def nothing_done(text: str, refusal: Refusal | None) -> bool:
    """Returns True if the worker did nothing of what it was asked: it may be asked again."""
    if refusal is not None:
        return refusal in (Refusal.NOT_WRITTEN, Refusal.NOT_READ)
    return text.startswith(_NOT_DONE) or (unanswered_by_leader(text) and _REFUSED in text)


def unanswered_by_leader(text: str) -> bool:
    """Returns True if the worker's leader did not answer: it may have done what it was asked."""
    return text.startswith(_NOT_FORWARDED)


def not_written(error: RequestError) -> bool:
    """Returns True if the leader's write to the config topic broke off; the record may be there all
    the same."""
    return _is(error, Refusal.NOT_WRITTEN, error.message.startswith(_NOT_WRITTEN))


def timed_out(error: RequestError) -> bool:
    """Returns True if the worker stopped waiting, and may still do what it was asked."""
    return _is(error, Refusal.TIMED_OUT, error.message.startswith(_TIMED_OUT))


def group_is_active(error: RequestError) -> bool:
    """Returns True if a task that was asked to end is still in the sink's consumer group."""
    return _is(error, Refusal.GROUP_ACTIVE, _GROUP_ACTIVE in error.message)


def wants_stop(error: RequestError) -> bool:
    """Offsets can only be changed while the connector is stopped."""
    return _is(error, Refusal.NOT_STOPPED, _NOT_STOPPED in error.message)


def _is(error: RequestError, refusal: Refusal, by_text: bool) -> bool:
    return by_text if error.refusal is None else error.refusal is refusal


def no_such_class(error: RequestError) -> bool:
    """Returns True if no worker has the connector's class."""
    return _is(error, Refusal.NO_SUCH_CLASS, _NO_CLASS in error.message)


def class_not_found(text: str) -> bool:
    """Returns True if a key of a config names a class that the worker does not have."""
    return any(phrase in text for phrase in _CLASS_NOT_FOUND)


def follows_from_another(text: str) -> bool:
    """Returns True if the key has an error of its own: a value that cannot be parsed is then judged
    as null."""
    return text.startswith(_OF_NULL) or text.endswith(_LIST_OF_NULL)


def is_unlisted(error: RequestError) -> bool:
    """Returns True if the class is in a module that the workers of our runtime do not list."""
    return error.refusal is Refusal.UNLISTED_MODULE


def takes_no_such_path(text: str) -> bool:
    """Returns True if Jetty, below Connect, refuses the path itself, such as one with a slash in a
    connector's name."""
    return _JETTY_PATH in text


TOO_MANY: Final = 429
# From a load balancer that does not reach a worker, and from a worker that is overloaded
TURNED_AWAY: Final = (TOO_MANY, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Retries:
    """All in seconds. `rebalance_s`: how long 409 is asked again; `read_s`: how long a read that
    failed is, because a worker answers 500 to some while a rebalance is pending; `connect_s`: how
    long a worker that takes no connection is, which nothing was sent to then; `busy_s`: how long
    requests are repeated that a busy worker, or a proxy in front of it, turned away."""

    rebalance_s: float = 30.0
    read_s: float = 3.0
    connect_s: float = 0.0
    busy_s: float = 10.0
    follow_s: float = 10.0
    every_s: float = 0.1
    every_most_s: float = 2.0


# In the middle of a change: a worker that is started again takes some seconds to be back
PATIENT = Retries(read_s=10.0, connect_s=20.0, busy_s=30.0)
# For a question beside the way to a plan
HASTY = Retries(rebalance_s=3.0, read_s=0, busy_s=3.0)


def retry_after_s(headers: Mapping[str, str], now_time: datetime | None = None) -> float:
    """Returns what Retry-After asks for, in seconds or as an HTTP date (RFC 9110 10.2.3); 0 for
    nothing."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        retry_at = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if retry_at.tzinfo is None:
        retry_at = retry_at.replace(tzinfo=UTC)
    return max(0.0, (retry_at - (now_time or datetime.now(UTC))).total_seconds())
