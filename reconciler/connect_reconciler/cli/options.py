"""Options that are read in several places, and how their values are read.

Options that belong together are a dataclass. A verb takes it as one parameter, and `expanded` makes
parameters of its fields for typer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

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
_DEFAULT: Final = Choices()


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


def _seconds(purpose: str, default: float | None = None) -> Any:
    """Returns an option for a duration; help shows the default if it is given."""
    default_text = False if default is None else duration_text(default)
    return typer.Option(
        parser=duration, metavar="DURATION", help=purpose, show_default=default_text
    )


class Warned(StrEnum):
    """The warnings to show: those about changes, or all."""

    CHANGES = "changes"
    ALL = "all"


# The argument of verbs for one connector
NAME = typer.Argument(metavar="NAME", help="The connector's name.", autocompletion=connector_names)
AsJson = Annotated[bool, typer.Option("--json", help="Write the result as JSON.")]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="GLOB",
        help="Only connectors whose names match. Repeatable.",
        autocompletion=connector_names,
    ),
]
Warnings = Annotated[
    Warned,
    typer.Option("--warnings", help="Show warnings about what changes, or all of them."),
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
Force = Annotated[
    bool, typer.Option("--force", help="Also change a connector that another project owns.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def expanded(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the verb with the fields of its dataclasses as parameters, which typer can read."""
    types = get_type_hints(verb, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in types.items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for name, parameter in signature(verb).parameters.items():
        if name in groups:
            options = get_type_hints(types[name], include_extras=True)
            parameters += [
                parameter.replace(name=o.name, default=o.default, annotation=options[o.name])
                for o in fields(types[name])
            ]
        else:
            parameters.append(parameter.replace(annotation=types[name]))

    def call(**values: Any) -> Any:
        for name, group in groups.items():
            values[name] = group(**{o.name: values.pop(o.name) for o in fields(group)})
        return verb(**values)

    call.__doc__ = verb.__doc__
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


@dataclass(frozen=True, slots=True)
class ScopeOptions:
    """The connectors that a verb is for: those that match a target, and no exclusion."""

    target: Targets = None
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="GLOB",
            help="Skip connectors whose names match. Repeatable.",
            autocompletion=connector_names,
        ),
    ] = None

    @property
    def scope(self) -> Scope:
        from connect_reconciler.plan.scope import Scope

        return Scope(tuple(self.target or ()), tuple(self.exclude or ()))


@dataclass(frozen=True, slots=True)
class PlanOptions(ScopeOptions):
    """The options of plans from specs: connectors, limits of deletes, and checks to override."""

    allow_empty: Annotated[
        bool,
        typer.Option(
            "--allow-empty", help="Allow a plan to delete every connector that the project owns."
        ),
    ] = False
    max_deletes: Annotated[
        int | None,
        typer.Option(
            "--max-deletes", min=0, metavar="N", help="Refuse a plan with more than N deletes."
        ),
    ] = None
    take_over: Annotated[
        list[str] | None,
        typer.Option(
            "--take-over",
            metavar="NAME",
            help="Over REST alone: change this connector, although its owner cannot be seen."
            " Repeatable.",
            autocompletion=connector_names,
        ),
    ] = None
    change_env: Annotated[
        bool,
        typer.Option(
            "--change-env",
            help="Allow another environment than the project was applied with last.",
        ),
    ] = False
    apply_pin: Annotated[
        list[str] | None,
        typer.Option(
            "--apply-pin",
            metavar="NAME",
            help="Apply this connector's pin, although no ledger says whether it was applied"
            " before. Repeatable.",
            autocompletion=connector_names,
        ),
    ] = None

    def in_project(self, project: Project) -> Project:
        """Returns the project with these limits over those of connect.yaml, and these checks
        overridden."""
        limits = replace(project.deletes, allow_empty=self.allow_empty)
        if self.max_deletes is not None:
            limits = replace(limits, most=self.max_deletes, where=None)
        pins = tuple(self.apply_pin or ())
        overrides = Overrides(tuple(self.take_over or ()), self.change_env, pins)
        return replace(project, deletes=limits, overrides=overrides)

    @property
    def words(self) -> tuple[str, ...]:
        """Returns the limits and overridden checks as options on a command line."""
        words = ["--allow-empty"] if self.allow_empty else []
        if self.max_deletes is not None:
            words += ["--max-deletes", str(self.max_deletes)]
        for name in self.take_over or ():
            words += ["--take-over", name]
        for name in self.apply_pin or ():
            words += ["--apply-pin", name]
        return (*words, *(("--change-env",) if self.change_env else ()))


@dataclass(frozen=True, slots=True)
class PlanForms:
    """The form of a plan on stdout, and the page to write. Raises BadParameter for two forms."""

    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Also write an HTML page with search and filters."
        ),
    ] = None
    warnings: Warnings = Warned.CHANGES
    as_markdown: Annotated[
        bool,
        typer.Option("--markdown", help="Write Markdown, short enough for a pull request comment."),
    ] = False
    as_json: AsJson = False

    def __post_init__(self) -> None:
        ensure_one_form(as_json=self.as_json, as_markdown=self.as_markdown)


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """The options of `apply` and `rollback`: how to change the cluster, and how long to wait."""

    parallelism: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="How many connectors to change at the same time."),
    ] = _DEFAULT.parallelism
    fail_fast: Annotated[
        bool,
        typer.Option("--fail-fast", help="Stop starting new connectors after the first failure."),
    ] = False
    takeover: Annotated[
        bool, typer.Option("--takeover", help="Take the lease over from a running apply.")
    ] = False
    health_timeout: Annotated[
        float,
        _seconds("How long to wait for connectors to become healthy.", _DEFAULT.health_timeout),
    ] = _DEFAULT.health_timeout
    healthy_for: Annotated[
        float | None,
        _seconds(
            "How long connectors must stay healthy. Default: 10s; 2s if their tasks are known"
            " to have polled or put records since the change."
        ),
    ] = _DEFAULT.healthy_for
    settle: Annotated[
        float,
        _seconds(
            "How long a status must stand if it may be from before the change.", _DEFAULT.settle
        ),
    ] = _DEFAULT.settle
    lock_timeout: Annotated[
        float,
        _seconds(
            "How long to wait for a running apply: 90, 30s, 5m, 1h. Default: 12 seconds, "
            "until the lease of a killed apply has expired."
        ),
    ] = _DEFAULT.lock_timeout

    def choices(self, *, require_running: bool = False) -> Choices:
        """Returns these options as the choices of an apply."""
        values = asdict(self) | {"require_running": require_running}
        del values["takeover"]
        return Choices(**values)


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The records to run, and the form of the output. Raises Invalid for options that exclude each
    other.

    Records may be secret: their values go to the user's own terminal, or to the form that was asked
    for.
    """

    records: Annotated[
        Path | None,
        typer.Option("--records", metavar="FILE", help="Run records from FILE, one JSON a line."),
    ] = None
    last: Annotated[
        int | None,
        typer.Option("--last", min=1, metavar="N", help="Run the last N records of its topics."),
    ] = None
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="live|REF",
            help="Compare with the cluster's config, or the spec at a git ref.",
        ),
    ] = None
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Also write the tests' results as JUnit XML."),
    ] = None
    detailed_exitcode: Annotated[
        bool,
        typer.Option(
            "--detailed-exitcode", help="With --against: exit with 4 if records would differ."
        ),
    ] = False
    as_table: Annotated[
        bool, typer.Option("--table", help="Show values of records, also if not on a terminal.")
    ] = False
    as_markdown: Annotated[
        bool,
        typer.Option("--markdown", help="With --against: Markdown, counts and field names only."),
    ] = False
    as_json: AsJson = False

    def __post_init__(self) -> None:
        runs = self.records is not None or self.last is not None
        compares = self.against is not None
        two = self.records is not None and self.last is not None
        for is_wrong, problem in (
            (two, "--records and --last exclude each other"),
            (self.junit is not None and (runs or compares), "--junit is for tests alone"),
            (self.as_markdown and not compares, "--markdown needs --against"),
            (self.detailed_exitcode and not compares, "--detailed-exitcode needs --against"),
        ):
            if is_wrong:
                raise Invalid(Diagnostic("usage", problem, hint="leave one of the options out"))
        ensure_one_form(as_json=self.as_json, as_markdown=self.as_markdown)

    @property
    def shows_values(self) -> bool:
        """Returns whether tables of records are printed."""
        return self.as_table or sys.stdout.isatty()


def ensure_one_form(*, as_json: bool, as_markdown: bool) -> None:
    """Raises BadParameter if both forms are requested: stdout holds one result."""
    if as_json and as_markdown:
        raise typer.BadParameter("--json and --markdown cannot be used together")


def ensure_whole(scope: Scope) -> None:
    """Raises Invalid for --target or --exclude with a saved plan."""
    if not scope.whole:
        problem = "a saved plan is applied unchanged: --target and --exclude cannot be used with it"
        hint = "use them with `connect plan --out`"
        raise Invalid(Diagnostic("apply.scope-of-a-file", problem, hint=hint))
