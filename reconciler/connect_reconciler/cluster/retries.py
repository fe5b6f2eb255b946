"""How long what did not succeed is asked again, and how long an answer asks to wait. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_TOO_MANY = 429
# What a load balancer answers for a worker that it does not reach, and a worker that is overloaded
_TURNED_AWAY = (_TOO_MANY, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Retries:
    """All in seconds. `rebalance_s`: how long 409 is asked again; `read_s`: how long a read that
    failed is, because a worker answers 500 to some while a rebalance is pending; `connect_s`: how
    long a worker that takes no connection is, which nothing was sent to then; `busy_s`: how long
    what was turned away is, by a worker with too much to do or by what stands before it.
    """

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


def is_turned_away(status: int) -> bool:
    """Whether this status says that the request may pass a while later."""
    return status in _TURNED_AWAY


def was_not_begun(status: int) -> bool:
    """Whether nobody can have begun what was turned away with this status."""
    return status == _TOO_MANY


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float:
    """What Retry-After asks for, in seconds or as an HTTP date (RFC 9110 10.2.3); 0 for nothing."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        then = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return max(0.0, (then - (now or datetime.now(UTC))).total_seconds())
