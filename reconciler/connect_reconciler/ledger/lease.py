"""One apply at a time: the lease is ownership of the ledger's partition in a group of its own.

Kafka's group coordinator decides who holds it; no clock of ours does. A thread keeps the membership
alive while the apply waits for something else. Who lost the lease is told between actions, and is
fenced by the ledger besides. Who wants to take over fences the ledger, and joins under a name that
says so: the holder then lets go, and one that hangs is put out by the coordinator.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from connect_specs.diagnostics import ConnectError, Diagnostic, ExitCode, Failed

TAKES_OVER = " --takeover"

_POLL_S = 0.2
_LEAVE_S = 10.0
# How many polls lie between two looks for somebody who wants to take over.
_LOOK_EVERY = 5


class LeaseLost(Failed):
    """Another apply has the lease now; this one may not go on."""


class LeaseRefused(ConnectError):
    """Another apply holds the lease. Nothing was touched."""

    exit_code = ExitCode.UNREACHABLE


class Membership(Protocol):
    """Membership in the group whose only partition is the lease. Belongs to one thread; `term`
    grows with each time that the lease is won, and both may be read by any."""

    @property
    def leading(self) -> bool: ...
    @property
    def term(self) -> int: ...
    def poll(self, timeout_s: float = 0.0) -> None: ...
    def close(self) -> None: ...


class Lease:
    """A lease that was held once. `rival` names another member that has it or wants it now."""

    def __init__(
        self, join: Callable[[], Membership], rival: Callable[[], str | None] = lambda: None
    ) -> None:
        self._join = join
        self._rival = rival
        self._taken_by: str | None = None
        self._membership: Membership | None = None
        self._term: int | None = None
        self._settled = threading.Event()
        self._released = threading.Event()
        self._broken: ConnectError | None = None
        self._thread = threading.Thread(target=self._keep_alive, name="lease", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(
        cls,
        join: Callable[[], Membership],
        holder: Callable[[], str | None],
        *,
        timeout_s: float,
        rival: Callable[[], str | None] = lambda: None,
    ) -> Lease:
        """The lease, within `timeout_s`. Raises LeaseRefused, which says who holds it."""
        lease = cls(join, rival)
        try:
            if lease._wait(timeout_s):
                return lease
            who = holder()
        except BaseException:
            lease.release()
            raise
        lease.release()
        what = f"another apply is at work: {who}" if who else "the lease of this cluster is taken"
        hint = (
            "wait until it has ended, or end it with --takeover; one that was killed loses its"
            " lease within some seconds"
        )
        raise LeaseRefused(Diagnostic("apply.leased", what, hint=hint))

    @property
    def lost(self) -> bool:
        """Whether the lease is gone. Once gone it never comes back to this apply."""
        member = self._membership
        return (
            self._broken is not None
            or self._taken_by is not None
            or self._released.is_set()
            or member is None
            or not member.leading
            or member.term != self._term
        )

    def keep(self) -> None:
        """Raises LeaseLost if the lease is gone."""
        if self.lost:
            self._raise_if_taken()
            what = "another apply may have the lease of this cluster now"
            why = "" if self._broken is None else str(self._broken)
            hint = "see what the other one did, then plan again"
            raise LeaseLost(Diagnostic("apply.lease-lost", what, why=why, hint=hint))

    def release(self) -> None:
        """Leaves the group, so that the next apply need not wait."""
        self._released.set()
        self._thread.join(_LEAVE_S)

    def _raise_if_taken(self) -> None:
        if self._taken_by is None and self._broken is None and not self._released.is_set():
            self._taken_by = self._rival()
        if self._taken_by is not None:
            what = f"another apply has taken over: {self._taken_by}; this one begins nothing more"
            hint = "see what the other one did with `connect history`, then plan again"
            raise LeaseLost(Diagnostic("apply.taken-over", what, hint=hint))

    def _wait(self, timeout_s: float) -> bool:
        held = self._settled.wait(timeout_s)
        if self._broken is not None:
            raise self._broken
        return held

    def _keep_alive(self) -> None:
        try:
            membership = self._join()
            try:
                self._membership = membership
                polls = 0
                while not self._released.is_set():
                    membership.poll(_POLL_S)
                    polls += 1
                    if polls % _LOOK_EVERY == 0 and membership.leading and self._taken_by is None:
                        self._taken_by = self._rival()
                    if membership.leading and self._term is None:
                        self._term = membership.term
                        self._settled.set()
            finally:
                membership.close()
        except ConnectError as error:
            self._broken = error
            self._settled.set()


def identity(now_ms: int) -> str:
    """Who asks for the lease: `user@host pid 12 since 2026-11-21T14:00:00Z`."""
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or f"uid-{os.getuid()}"
    since = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{user}@{socket.gethostname()} pid {os.getpid()} since {since}"
