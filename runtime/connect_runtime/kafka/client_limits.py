"""Adapts settings to librdkafka's limits where Kafka's own clients accept more.

Values outside its ranges, and pairs that it refuses, become the nearest ones that it accepts: for
example, Kafka's `delivery.timeout.ms=120000` is longer than a short transaction, and only means "as
long as the transaction". Settings without a near equivalent stay, and librdkafka refuses them.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# librdkafka 2.16, CONFIGURATION.md
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "auto.commit.interval.ms": (0, 86_400_000),
    "batch.size": (1, 2_147_483_647),
    "connections.max.idle.ms": (0, 2_147_483_647),
    "delivery.timeout.ms": (1, 2_147_483_647),
    "fetch.max.bytes": (0, 2_147_483_135),
    "fetch.min.bytes": (1, 100_000_000),
    "fetch.wait.max.ms": (0, 300_000),
    "heartbeat.interval.ms": (1, 3_600_000),
    "linger.ms": (0, 900_000),
    "max.partition.fetch.bytes": (1, 1_000_000_000),
    "max.poll.interval.ms": (1, 86_400_000),
    "message.max.bytes": (1_000, 1_000_000_000),
    "metadata.max.age.ms": (1, 86_400_000),
    "reconnect.backoff.max.ms": (0, 3_600_000),
    "reconnect.backoff.ms": (0, 3_600_000),
    "request.timeout.ms": (1, 900_000),
    "retry.backoff.max.ms": (1, 300_000),
    "retry.backoff.ms": (1, 300_000),
    "sasl.kerberos.min.time.before.relogin": (0, 86_400_000),
    "session.timeout.ms": (1, 3_600_000),
    "socket.connection.setup.timeout.ms": (1_000, 2_147_483_647),
    "socket.receive.buffer.bytes": (0, 100_000_000),
    "socket.send.buffer.bytes": (0, 100_000_000),
    "transaction.timeout.ms": (1_000, 2_147_483_647),
}
_POLL_INTERVAL_MS: Final = 300_000
_MESSAGE_BYTES: Final = 1_000_000
# The broker decides these in KIP-848's protocol.
_OF_CLASSIC_GROUPS: Final = (
    "heartbeat.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
)


def within_limits(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns one client's settings, under librdkafka's names, within its limits."""
    found = {key: _in_range(key, value) for key, value in settings.items()}
    if str(found.get("group.protocol", "")).lower() == "consumer":
        found = {key: value for key, value in found.items() if key not in _OF_CLASSIC_GROUPS}
    elif "," in str(found.get("partition.assignment.strategy", "")):
        # a list of eager and cooperative assignors is in transition to cooperative
        names = str(found["partition.assignment.strategy"]).split(",")
        if "cooperative-sticky" in names:
            found["partition.assignment.strategy"] = "cooperative-sticky"
    return found | _agreeing({key: int(found[key]) for key in found if _is_number(found[key])})


def _agreeing(numbers: Mapping[str, int]) -> dict[str, int]:
    """Returns what has to change in pairs of numbers that librdkafka refuses together."""
    changed: dict[str, int] = {}
    longest = [
        numbers[k] for k in ("delivery.timeout.ms", "transaction.timeout.ms") if k in numbers
    ]
    if longest and "delivery.timeout.ms" in numbers:
        changed["delivery.timeout.ms"] = min(longest)
    if longest and "linger.ms" in numbers:
        changed["linger.ms"] = min(numbers["linger.ms"], min(longest) - 1)
    if "reconnect.backoff.ms" in numbers and "reconnect.backoff.max.ms" in numbers:
        pair = (numbers["reconnect.backoff.ms"], numbers["reconnect.backoff.max.ms"])
        changed["reconnect.backoff.max.ms"] = max(pair)
    if "session.timeout.ms" in numbers:
        session = numbers["session.timeout.ms"]
        if "max.poll.interval.ms" in numbers:
            changed["session.timeout.ms"] = min(session, numbers["max.poll.interval.ms"])
        elif session > _POLL_INTERVAL_MS:
            changed["max.poll.interval.ms"] = session
    if "fetch.max.bytes" in numbers:
        least = numbers.get("message.max.bytes", _MESSAGE_BYTES)
        changed["fetch.max.bytes"] = max(numbers["fetch.max.bytes"], least)
    return changed


def _in_range(key: str, value: Any) -> Any:
    if key not in _RANGES or not _is_number(value):
        return value
    low, high = _RANGES[key]
    return min(max(int(value), low), high)


def _is_number(value: Any) -> bool:
    try:
        int(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool)
