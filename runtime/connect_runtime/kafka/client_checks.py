"""Checks that the client properties of a worker and its connectors make valid clients.

Creates each kind of client that tasks use once, without an address, so nothing connects: invalid
properties are found when a worker starts or a config is validated, not when a task fails. Values
are never shown. References such as `${file:a:b}` are not resolved here, and files may be on other
machines, so both are left out; with a reference the whole login is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from connect_runtime.kafka import clients
from connect_specs.diagnostics import Diagnostic, Invalid

# An overridden assignor must be one of those that revoke only what moves: sinks rely on it.
_EAGER: Final = ("RangeAssignor", "RoundRobinAssignor", "StickyAssignor")
_COOPERATIVE: Final = "CooperativeStickyAssignor"
_STRATEGY: Final = "partition.assignment.strategy"
_LOGIN: Final = ("sasl.", "security.", "ssl.")
_QUIET: Final = {"log_level": 0}


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of client that tasks use: `fixed` overrides the properties."""

    name: str
    make: Callable[[Mapping[str, str], Mapping[str, Any]], Any]
    defaults: Mapping[str, str]
    fixed: Mapping[str, str]


_KINDS: Final = (
    _Kind(
        "producer",
        clients.producer,
        {"transaction.timeout.ms": "60000"},
        {"acks": "all", "enable.idempotence": "true", "transactional.id": "check"},
    ),
    _Kind(
        "consumer",
        clients.consumer,
        {"session.timeout.ms": "10000"},
        {"group.id": "check", "enable.auto.commit": "false"},
    ),
    _Kind("admin", clients.admin, {}, {}),
)


def check_worker_clients(worker: Mapping[str, str]) -> None:
    """Raises Invalid that names every worker property for which no client can be created."""
    problems = [
        Diagnostic("worker.invalid", f"Invalid value for configuration {key}: {why}", key)
        for kind in _KINDS
        for key, why in _invalid(kind, {}, _prefixed(worker, f"{kind.name}."), f"{kind.name}.")
    ]
    if problems:
        raise Invalid(*problems)


def override_errors(
    config: Mapping[str, str | None], worker: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yields invalid keys of `producer.override.`, `consumer.override.` and `admin.override.` with
    their errors."""
    for kind in _KINDS:
        prefix = f"{kind.name}.override."
        given = _prefixed(config, prefix)
        if given:
            yield from _invalid(kind, _prefixed(worker, f"{kind.name}."), given, prefix)


def _invalid(
    kind: _Kind, base: Mapping[str, str], given: Mapping[str, str], prefix: str
) -> Iterator[tuple[str, str]]:
    """Yields each property that is invalid by itself; if none, the error of all together."""
    if _is_eager(given.get(_STRATEGY, "")):
        why = (
            f"tasks of sinks need an assignor that stops only partitions that move: {_COOPERATIVE}"
        )
        yield f"{prefix}{_STRATEGY}", why
        given = {key: value for key, value in given.items() if key != _STRATEGY}
    together = _error(kind, {**base, **given})
    if together is None:
        return
    # a login is only valid as a whole
    login = {key: value for key, value in given.items() if key.startswith(_LOGIN)}
    others = sorted(given.keys() - login.keys())
    alone = {key: _error(kind, {**base, **login, key: given[key]}) for key in others}
    if _error(kind, {**base, **login}) is not None:
        alone = {min(login): together} if login else {}
    wrong = {key: why for key, why in alone.items() if why is not None}
    for key, why in (wrong or {min(given, default=""): together}).items():
        yield f"{prefix}{key}", why


def _error(kind: _Kind, properties: Mapping[str, str]) -> str | None:
    if any("${" in value for value in properties.values()):
        properties = {
            key: value
            for key, value in properties.items()
            if "${" not in value and not key.startswith(_LOGIN)
        }
    try:
        made = kind.make({**kind.defaults, **properties, **kind.fixed}, _QUIET)
    except Invalid as invalid:
        return "; ".join(each.why or each.what for each in invalid.diagnostics)
    if kind.name == "consumer":
        made.close()
    return None


def _is_eager(strategy: str) -> bool:
    return _COOPERATIVE not in strategy and any(name in strategy for name in _EAGER)


def _prefixed(config: Mapping[str, str | None], prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value
        for key, value in config.items()
        if key.startswith(prefix)
        and value is not None
        and not key.startswith(f"{prefix}override.")
        and not key.endswith((".bootstrap.servers", ".location"))
    }
