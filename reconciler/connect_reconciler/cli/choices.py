"""How to apply, as the user chooses it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choices:
    """`health_timeout` and `healthy_for` are in seconds; `rolls_back` is an apply's id."""

    parallelism: int = 8
    fail_fast: bool = False
    health_timeout: float = 60.0
    healthy_for: float = 2.0
    rolls_back: str | None = None
