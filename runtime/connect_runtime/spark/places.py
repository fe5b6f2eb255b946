"""Asks Spark where attempts run, by their job groups. Without an answer from a JVM that is dying,
nothing is known."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Final

from connect_runtime.spark.session import SparkSession

_log = logging.getLogger(__name__)

# Spark notes where a job ran a moment after it has failed
_NOTED_S: Final = 5.0
_POLL_S: Final = 0.05
_UNKNOWN: Final = "unknown"


def node_of(session: SparkSession, group: str) -> str:
    """Returns the host that an attempt ran on, to be shown."""
    deadline = time.monotonic() + _NOTED_S
    try:
        while True:
            found = session.host_of(group)
            if found or time.monotonic() > deadline:
                return found or _UNKNOWN
            time.sleep(_POLL_S)
    except Exception:
        _log.debug("It is not known where %s ran", group, exc_info=True)
        return _UNKNOWN


def other_hosts(session: SparkSession, host: str) -> Collection[str]:
    """Returns the hosts with executors but this one."""
    try:
        return session.hosts() - {host} if host != _UNKNOWN else ()
    except Exception:
        _log.debug("It is not known which nodes there are", exc_info=True)
        return ()


def waits_again(session: SparkSession, group: str) -> bool:
    """Whether an attempt has ended, and Spark wants to run it once more."""
    try:
        return session.waits_again(group)
    except Exception:
        _log.debug("It is not known whether %s runs", group, exc_info=True)
        return False
