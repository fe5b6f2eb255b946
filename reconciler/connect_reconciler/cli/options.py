"""Options that several verbs share, and how their values are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from connect_reconciler.cli.session import connector_names
from connect_reconciler.workflow.user import Choices
from connect_specs.desired import Overrides
from connect_specs.diagnostics import Diagnostic, Invalid
from connect_specs.plain_text import EXAMPLES, duration_text, seconds_of

if TYPE_CHECKING:
    from connect_reconciler.plan.scope import Scope
    from connect_specs.desired import Project

_SHORTEST_S = 0.1


DEFAULT: Final = Choices()


def duration(text: str | float) -> float:
    """Returns a duration such as `90`, `30s`, `5m` or `1h` in seconds. Raises BadParameter."""
    seconds = seconds_of(str(text).strip())
    if seconds is None:
        raise typer.BadParameter(f"{text!r} is not a duration; write {EXAMPLES}")
    return seconds


def interval(text: str | float) -> float:
    """Returns how often to check, in seconds. Raises BadParameter below 0.1 s."""
    seconds = duration(text)
    if seconds < _SHORTEST_S:
        raise typer.BadParameter(f"{text!r} is shorter than {duration_text(_SHORTEST_S)}")
    return seconds


class Warned(StrEnum):
    """The warnings to show: those about changes, or all."""

    CHANGES = "changes"
    ALL = "all"


AsJson = Annotated[bool, typer.Option("--json", help="Write the result as JSON.")]
AsMarkdown = Annotated[
    bool,
    typer.Option("--markdown", help="Write Markdown, short enough for a pull request comment."),
]
PageFile = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Also write an HTML page with search and filters."),
]
Warnings = Annotated[
    Warned,
    typer.Option("--warnings", help="Show warnings about what changes, or all of them."),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="GLOB",
        help="Only connectors whose names match. Repeatable.",
        autocompletion=connector_names,
    ),
]
Excludes = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="GLOB",
        help="Skip connectors whose names match. Repeatable.",
        autocompletion=connector_names,
    ),
]
ExplainVars = Annotated[
    bool,
    typer.Option("--explain-vars", help="Show which file each value of values/ comes from."),
]
Every = Annotated[
    float,
    typer.Option(
        "--every",
        parser=interval,
        metavar="DURATION",
        help="How often to check: 90, 30s, 5m, 1h.",
        show_default="30s",
    ),
]
AllowEmpty = Annotated[
    bool,
    typer.Option(
        "--allow-empty", help="Allow a plan to delete every connector that the project owns."
    ),
]
MaxDeletes = Annotated[
    int | None,
    typer.Option(
        "--max-deletes", min=0, metavar="N", help="Refuse a plan with more than N deletes."
    ),
]


TakenOver = Annotated[
    list[str] | None,
    typer.Option(
        "--take-over",
        metavar="NAME",
        help="Over REST alone: change this connector, although its owner cannot be seen."
        " Repeatable.",
        autocompletion=connector_names,
    ),
]
ChangeEnv = Annotated[
    bool,
    typer.Option(
        "--change-env", help="Allow another environment than the project was applied with last."
    ),
]


ApplyPins = Annotated[
    list[str] | None,
    typer.Option(
        "--apply-pin",
        metavar="NAME",
        help="Apply this connector's pin, although no ledger says whether it was applied before."
        " Repeatable.",
        autocompletion=connector_names,
    ),
]


def ensure_one_form(*, as_json: bool, as_markdown: bool) -> None:
    """Raises BadParameter if both forms are requested: stdout holds one result."""
    if as_json and as_markdown:
        raise typer.BadParameter("--json and --markdown cannot be used together")


@dataclass(frozen=True, slots=True)
class Forms:
    """The files for a plan, and its form on stdout. Raises BadParameter for two forms."""

    out: Path | None
    html: Path | None
    as_markdown: bool
    as_json: bool
    warned: Warned = Warned.CHANGES

    def __post_init__(self) -> None:
        ensure_one_form(as_json=self.as_json, as_markdown=self.as_markdown)


def with_delete_limits(project: Project, most: int | None, *, allow_empty: bool) -> Project:
    """Returns the project with the delete limits of the command line over those of connect.yaml."""
    limits = replace(project.deletes, allow_empty=allow_empty)
    if most is not None:
        limits = replace(limits, most=most, where=None)
    return replace(project, deletes=limits)


def delete_options(most: int | None, *, allow_empty: bool) -> tuple[str, ...]:
    """Returns the delete limits as options on a command line."""
    number = () if most is None else ("--max-deletes", str(most))
    return (*(("--allow-empty",) if allow_empty else ()), *number)


def with_overrides(
    project: Project, take_over: list[str] | None, apply_pin: list[str] | None, *, change_env: bool
) -> Project:
    """Returns the project with the checks that the command line overrides."""
    overrides = Overrides(tuple(take_over or ()), change_env, tuple(apply_pin or ()))
    return replace(project, overrides=overrides)


def override_options(project: Project) -> tuple[str, ...]:
    """Returns the overridden checks as options on a command line."""
    overrides = project.overrides
    names = [word for name in overrides.take_over for word in ("--take-over", name)]
    names += [word for name in overrides.apply_pin for word in ("--apply-pin", name)]
    return (*names, *(("--change-env",) if project.overrides.change_env else ()))


def scope_of(targets: list[str] | None, exclude: list[str] | None) -> Scope:
    """Returns the scope that --target and --exclude choose."""
    from connect_reconciler.plan.scope import Scope

    return Scope(tuple(targets or ()), tuple(exclude or ()))


def ensure_whole(scope: Scope) -> None:
    """Raises Invalid for --target or --exclude with a saved plan."""
    if not scope.whole:
        problem = "a saved plan is applied unchanged: --target and --exclude cannot be used with it"
        hint = "use them with `connect plan --out`"
        raise Invalid(Diagnostic("apply.scope-of-a-file", problem, hint=hint))


Force = Annotated[
    bool, typer.Option("--force", help="Also change a connector that another project owns.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Parallelism = Annotated[
    int, typer.Option(min=1, metavar="N", help="How many connectors to change at the same time.")
]
FailFast = Annotated[
    bool, typer.Option("--fail-fast", help="Stop starting new connectors after the first failure.")
]
TakeOver = Annotated[
    bool, typer.Option("--takeover", help="Take the lease over from a running apply.")
]
HealthTimeout = Annotated[
    float,
    typer.Option(
        parser=duration,
        metavar="DURATION",
        help="How long to wait for connectors to become healthy.",
        show_default=duration_text(DEFAULT.health_timeout),
    ),
]
HealthyFor = Annotated[
    float | None,
    typer.Option(
        parser=duration,
        metavar="DURATION",
        help="How long connectors must stay healthy. Default: 10s; 2s if their tasks are known to "
        "have polled or put records since the change.",
        show_default=False,
    ),
]
Settle = Annotated[
    float,
    typer.Option(
        parser=duration,
        metavar="DURATION",
        help="How long a status must stand if it may be from before the change.",
        show_default=duration_text(DEFAULT.settle),
    ),
]
LockTimeout = Annotated[
    float,
    typer.Option(
        parser=duration,
        metavar="DURATION",
        help="How long to wait for a running apply: 90, 30s, 5m, 1h. Default: 12 seconds, "
        "until the lease of a killed apply has expired.",
        show_default=False,
    ),
]
