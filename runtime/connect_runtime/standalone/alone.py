"""Leads without an election: a standalone worker is alone."""

from __future__ import annotations


class Alone:
    """Implements `Candidate`."""

    leading = True
    term = 1

    def poll(self, timeout_s: float = 0.0) -> None:
        """Does nothing: there is nobody to ask."""

    def close(self) -> None:
        """Leaves nothing behind."""
