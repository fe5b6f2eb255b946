"""How to apply, as the user chooses it, and the options of the verbs that apply a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from connect_reconciler.cli.durations import duration

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Parallelism = Annotated[
    int, typer.Option(min=1, metavar="N", help="Connectors that are changed at a time.")
]
FailFast = Annotated[
    bool, typer.Option("--fail-fast", help="Begin no further connector after a failure.")
]
TakeOver = Annotated[
    bool, typer.Option("--takeover", help="End an apply that is at work, and go on after it.")
]
HealthTimeout = Annotated[
    float, typer.Option(min=0, metavar="S", help="Seconds to wait until all runs.")
]
HealthyFor = Annotated[
    float, typer.Option(min=0, metavar="S", help="Seconds that all must run without a break.")
]
Settle = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="S",
        help="Seconds after a change before a status over REST alone is taken for a new one.",
    ),
]
LockTimeout = Annotated[
    float,
    typer.Option(
        parser=duration,
        metavar="DURATION",
        help="How long to wait for another apply to end: 90, 30s, 5m, 1h.",
        show_default="0, which refuses at once",
    ),
]


@dataclass(frozen=True, slots=True)
class Choices:
    """`health_timeout`, `healthy_for`, `settle` and `lock_timeout` are in seconds."""

    parallelism: int = 8
    fail_fast: bool = False
    health_timeout: float = 60.0
    healthy_for: float = 2.0
    settle: float = 10.0
    lock_timeout: float = 0.0


DEFAULT = Choices()
