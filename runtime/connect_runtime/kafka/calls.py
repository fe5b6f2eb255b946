"""Logs every Kafka call that a verb makes: its name, its targets, duration and result.

Logs names and counts only, never record contents. Tasks' own polling is not logged. Costs almost
nothing while nobody listens.
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sized
from typing import ParamSpec, TypeVar

from connect_specs.counting import listed
from connect_specs.diagnostics import ConnectError

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("connect.requests.kafka")
_ADDRESS = "bootstrap.servers"
_NAMES_MAX = 5


def logged(what: str, *of: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Logs each call of a function, with the topics, groups or partitions in its parameters `of`.
    Of client properties only the address is logged."""

    def decorate(call: Callable[P, T]) -> Callable[P, T]:
        parameters = inspect.signature(call)

        @functools.wraps(call)
        def wrapper(*args: P.args, **named: P.kwargs) -> T:
            if not _log.isEnabledFor(logging.DEBUG):
                return call(*args, **named)
            given = parameters.bind(*args, **named).arguments
            subject = ", ".join(filter(None, (_names(given.get(name)) for name in of)))
            begun = time.monotonic()
            try:
                answer = call(*args, **named)
            except Exception as error:
                why = error if isinstance(error, ConnectError) else type(error).__name__
                _log.debug("%s %s: failed after %s: %s", what, subject, _ms(begun), why)
                raise
            _log.debug("%s %s: %s in %s", what, subject, _result(answer), _ms(begun))
            return answer

        return wrapper

    return decorate


def _names(value: object) -> str:
    """Returns some of the value's names, and how many more there are. Does not consume
    iterators."""
    if isinstance(value, Mapping) and _ADDRESS in value:
        return str(value[_ADDRESS])
    if isinstance(value, str) or not isinstance(value, Collection):
        return "" if value is None else _name(value)
    return listed(dict.fromkeys(map(_name, value)), _NAMES_MAX)


def _name(value: object) -> str:
    match value:
        case str():
            return value
        case (str(topic), int(partition), *_):
            return f"{topic}-{partition}"
        case _:
            return str(getattr(value, "topic", ""))


def _result(answer: object) -> str:
    if isinstance(answer, Sized) and not isinstance(answer, str | bytes):
        return f"{len(answer)} found"
    return "done"


def _ms(begun: float) -> str:
    return f"{(time.monotonic() - begun) * 1000:.0f} ms"
