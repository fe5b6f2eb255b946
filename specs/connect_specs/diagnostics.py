"""Problems as values: code, what, where, why and a hint; and the exit codes.

Loaders collect diagnostics and return all of them at once. `ConnectError` carries them to the CLI,
where one place prints them and ends the process. A diagnostic never holds a secret value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]
Blocks: TypeAlias = Literal["plan", "connector", "offsets"]


class ExitCode(IntEnum):
    """The one table of exit codes, the same for every verb."""

    OK = 0
    FAILED = 1
    INVALID = 2
    UNREACHABLE = 3
    CHANGES = 4
    STALE = 5
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in a file. `line` and `column` count from 1; 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem.

    `code` is stable and dotted (`spec.unknown-field`), `what` one sentence, `where` a file location
    or the name of a connector, topic or address, `why` the reason if `what` does not hold it,
    `hint` what to do next.

    A plan with an error is never applied. `blocks` says what an error also keeps out of the plan
    that is shown: nothing ("plan"), all actions of its connector, or only those for its offsets.
    """

    code: str
    what: str
    where: Location | str | None = None
    why: str = ""
    hint: str = ""
    severity: Severity = field(default="error", compare=False)
    blocks: Blocks = field(default="plan", compare=False)


def warning(
    code: str, what: str, where: Location | str | None = None, why: str = "", hint: str = ""
) -> Diagnostic:
    """Returns a diagnostic that stops nothing."""
    return Diagnostic(code, what, where, why, hint, severity="warning")


def by_place(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Returns the diagnostics in file order; those without a place in a file come first."""

    def place(diagnostic: Diagnostic) -> tuple[Location, str, str]:
        where = diagnostic.where if isinstance(diagnostic.where, Location) else Location("")
        return where, diagnostic.code, diagnostic.what

    return sorted(diagnostics, key=place)


def by_severity(
    diagnostics: Iterable[Diagnostic],
) -> tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]]:
    """Returns the errors, and the warnings, each in their order."""
    problems = tuple(diagnostics)
    return (
        tuple(problem for problem in problems if problem.severity == "error"),
        tuple(problem for problem in problems if problem.severity == "warning"),
    )


@dataclass(frozen=True, slots=True)
class NextStep:
    """A command that a user can copy, and its purpose."""

    command: str
    why: str


class ConnectError(Exception):
    """An error that the user is meant to read. Subclasses fix the exit code. The verb that failed
    sets `next_steps`.

    Safe to pickle, so that Spark can carry it between processes.
    """

    exit_code: ExitCode = ExitCode.FAILED
    next_steps: tuple[NextStep, ...] = ()

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        return "; ".join(
            d.what if d.where is None else f"{d.where}: {d.what}" for d in self.diagnostics
        )

    @property
    def why(self) -> str:
        """Returns the reasons, which the text does not hold; empty if there are none."""
        return "; ".join(d.why for d in self.diagnostics if d.why)

    @property
    def explained(self) -> str:
        """Returns the text, with the reasons in parentheses."""
        return f"{self} ({self.why})" if self.why else str(self)


class Failed(ConnectError):
    """The work was tried and did not succeed."""


class Invalid(ConnectError):
    """The input is wrong: usage, a spec, a request. Nothing was touched."""

    exit_code = ExitCode.INVALID


class Unreachable(ConnectError):
    """The cluster cannot be reached, or does not allow the request."""

    exit_code = ExitCode.UNREACHABLE


class Stale(ConnectError):
    """The plan relies on something that has changed since. Nothing was touched."""

    exit_code = ExitCode.STALE
