"""Prints records for `connect test`: values on the user's own terminal, counts anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from connect_reconciler.cli.output import progress, result, result_json
from connect_reconciler.render.record_tests import (
    HEAD,
    OLD_AND_NEW,
    comparison_json,
    comparison_markdown,
    comparison_text,
    different_rows,
    different_title,
    run_rows,
    run_title,
    runs_json,
    runs_text,
)
from connect_reconciler.testing.comparison import is_different
from connect_reconciler.testing.outcomes import FailedRecord
from connect_reconciler.workflow.record_runs import Compared, Comparisons, Shown
from connect_specs.desired import Project
from connect_specs.diagnostics import ExitCode
from connect_specs.plain_text import one_line, table

if TYPE_CHECKING:
    from connect_reconciler.cli.options import RecordOptions

# The number of differing records that are shown
_DIFFERENT_MAX = 3


def print_runs(connectors: Sequence[Shown], options: RecordOptions) -> int:
    """Prints records before and after; returns the exit code."""
    for connector in connectors:
        _print_incomplete(connector.name, len(connector.runs), complete=connector.complete)
    if options.as_json:
        documents = [
            {
                "connector": connector.name,
                "kind": connector.kind,
                "records": runs_json(connector.runs, connector.redactor.redact),
            }
            for connector in connectors
        ]
        result_json({"connectors": documents})
    else:
        for connector in connectors:
            redact = connector.redactor.redact
            for number, run in enumerate(connector.runs if options.shows_values else (), 1):
                _print_record(run_title(run, number, redact), HEAD, run_rows(run, redact))
            result(f"{connector.name}: {runs_text(connector.runs)}")
        if not options.shows_values:
            progress("values of records are shown on a terminal, and with --table or --json")
    runs = [run for connector in connectors for run in connector.runs]
    failed = any(isinstance(run.outcome, FailedRecord) for run in runs)
    return ExitCode.FAILED if failed else ExitCode.OK


def print_comparisons(
    comparisons: Comparisons, against: str, project: Project, options: RecordOptions
) -> int:
    """Prints the records that come out differently; returns the exit code."""
    counts = {compared.name: compared.comparison for compared in comparisons.compared}
    skipped = comparisons.skipped
    for compared in comparisons.compared:
        _print_incomplete(compared.name, len(compared.new), complete=compared.complete)
    if options.as_json:
        connectors = [
            {"connector": name, **comparison_json(count)} for name, count in counts.items()
        ]
        reasons = [{"connector": name, "why": reason} for name, reason in skipped.items()]
        result_json({"against": against, "connectors": connectors, "skipped": reasons})
    elif options.as_markdown:
        env = "" if project.env is None else f"/{project.env}"
        result(comparison_markdown(f"{project.name}{env}", against, counts, skipped))
    else:
        for compared in comparisons.compared:
            if options.shows_values:
                _print_different(compared)
            result(f"{compared.name}: {comparison_text(compared.comparison)}")
        for name, reason in skipped.items():
            progress(f"{name}: not compared: {reason}")
        if not counts and not skipped:
            result(f"nothing to compare: converters and transformations are those of {against}")
    if any(count.newly_failing for count in counts.values()):
        return ExitCode.FAILED
    differs = any(count.different for count in counts.values())
    return ExitCode.CHANGES if options.detailed_exitcode and differs else ExitCode.OK


def _print_different(compared: Compared) -> None:
    """Prints the first records that come out differently: with the old config, and the spec's."""
    pairs = [
        (number, base, changed)
        for number, (base, changed) in enumerate(zip(compared.old, compared.new, strict=True), 1)
        if is_different(base.outcome, changed.outcome)
    ]
    for number, base, changed in pairs[:_DIFFERENT_MAX]:
        title = different_title(base, changed, number, compared.redact)
        _print_record(title, OLD_AND_NEW, different_rows(base, changed, compared.redact))


def _print_record(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    cells = list(rows)
    lines = table(head, cells).splitlines() if cells else []
    result("\n".join((one_line(title), *(f"  {line}" for line in lines), "")))


def _print_incomplete(name: str, number: int, *, complete: bool) -> None:
    if not complete:
        progress(f"{name}: Kafka was slow; only {number:,} records were read in time")
