"""What `connect test` prints of records: values on the user's own terminal, counts anywhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connect_reconciler.cli.output import progress, result, result_json, table
from connect_reconciler.render.record_tests import (
    comparison_json,
    comparison_markdown,
    comparison_text,
)
from connect_reconciler.render.records import (
    HEAD,
    OLD_AND_NEW,
    different_rows,
    different_title,
    run_rows,
    run_title,
    runs_json,
    runs_text,
)
from connect_reconciler.testing.compare import is_different
from connect_reconciler.testing.outcomes import Failed
from connect_reconciler.workflow.record_runs import Compared, Comparisons, Shown
from connect_specs.desired import Project
from connect_specs.diagnostics import ExitCode
from connect_specs.printable import one_line

# How many records that come out differently are shown
_DIFFERENT_MAX = 3


@dataclass(frozen=True, slots=True)
class Output:
    """How to print. Records may be secret: their values go to the user's own terminal, or where
    they were asked for."""

    as_table: bool
    as_markdown: bool
    as_json: bool

    @property
    def shows_values(self) -> bool:
        """Whether tables of records are printed."""
        return self.as_table or sys.stdout.isatty()


def tell_shown(shown: Sequence[Shown], output: Output) -> int:
    """Prints records before and after; returns the exit code."""
    for each in shown:
        _tell_incomplete(each.name, len(each.runs), complete=each.complete)
    if output.as_json:
        documents = [
            {
                "connector": each.name,
                "kind": each.kind,
                "records": runs_json(each.runs, each.redactor.redact),
            }
            for each in shown
        ]
        result_json({"connectors": documents})
    else:
        for each in shown:
            if output.shows_values:
                for number, run in enumerate(each.runs, 1):
                    title = run_title(run, number, each.redactor.redact)
                    _tell_record(title, HEAD, run_rows(run, each.redactor.redact))
            result(f"{each.name}: {runs_text(each.runs)}")
        if not output.shows_values:
            progress("values of records are shown on a terminal, and with --table or --json")
    fails = any(isinstance(run.outcome, Failed) for each in shown for run in each.runs)
    return ExitCode.FAILED if fails else ExitCode.OK


def tell_compared(
    done: Comparisons, against: str, project: Project, output: Output, *, detailed: bool
) -> int:
    """Prints which records come out differently; returns the exit code."""
    found = {each.name: each.comparison for each in done.compared}
    for each in done.compared:
        _tell_incomplete(each.name, len(each.new), complete=each.complete)
    if output.as_json:
        compared = [{"connector": name, **comparison_json(each)} for name, each in found.items()]
        skipped = [{"connector": name, "why": why} for name, why in done.skipped.items()]
        result_json({"against": against, "connectors": compared, "skipped": skipped})
    elif output.as_markdown:
        env = "" if project.env is None else f"/{project.env}"
        result(comparison_markdown(f"{project.name}{env}", against, found, done.skipped))
    else:
        for each in done.compared:
            if output.shows_values:
                _tell_different(each)
            result(f"{each.name}: {comparison_text(each.comparison)}")
        for name, why in done.skipped.items():
            progress(f"{name}: not compared: {why}")
        if not found and not done.skipped:
            result(f"nothing to compare: converters and transformations are those of {against}")
    if any(each.newly_failing for each in found.values()):
        return ExitCode.FAILED
    differs = any(each.different for each in found.values())
    return ExitCode.CHANGES if detailed and differs else ExitCode.OK


def _tell_different(each: Compared) -> None:
    """The first records that come out differently: with the old config, and with the spec."""
    pairs = [
        (number, old, new)
        for number, (old, new) in enumerate(zip(each.old, each.new, strict=True), 1)
        if is_different(old.outcome, new.outcome)
    ]
    for number, old, new in pairs[:_DIFFERENT_MAX]:
        title = different_title(old, new, number, each.redact)
        _tell_record(title, OLD_AND_NEW, different_rows(old, new, each.redact))


def _tell_record(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    found = list(rows)
    lines = table(head, found).splitlines() if found else []
    result("\n".join((one_line(title), *(f"  {line}" for line in lines), "")))


def _tell_incomplete(name: str, number: int, *, complete: bool) -> None:
    if not complete:
        progress(f"{name}: Kafka was slow; only {number:,} records were read in time")
