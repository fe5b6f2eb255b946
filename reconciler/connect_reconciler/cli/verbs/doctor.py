"""`connect doctor`: do the topics and the REST API agree, and is all there as it must be?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from connect_reconciler.cli.options import AsJson
from connect_reconciler.cli.output import result, result_json
from connect_reconciler.cli.session import invocation
from connect_specs.diagnostics import ExitCode

if TYPE_CHECKING:
    from connect_reconciler.doctor.look import Report


def doctor(context: typer.Context, as_json: AsJson = False) -> int:
    """Check that topics and REST API agree, and that topics and versions are in order.

    Changes nothing. Exit code 1 if there are errors; warnings alone exit with 0.
    """
    from connect_reconciler.cli.connecting import backend_of
    from connect_reconciler.doctor.look import examine

    project = invocation(context).project()
    with backend_of(project) as backend:
        report = examine(backend)
    if as_json:
        result_json(_json(report))
    else:
        result(_text(report))
    return ExitCode.OK if report.healthy else ExitCode.FAILED


def _text(report: Report) -> str:
    from connect_specs.diagnostics_text import render_diagnostics

    errors = sum(finding.level == "error" for finding in report.findings)
    warnings = len(report.findings) - errors
    counts = [
        f"{count} {what}{'' if count == 1 else 's'}"
        for count, what in ((errors, "error"), (warnings, "warning"))
        if count
    ]
    lines = [f"Doctor: {', '.join(counts) or 'nothing is wrong'}"]
    lines += [f"  looked at {each}" for each in report.looked_at]
    found = "".join(
        render_diagnostics([finding.diagnostic], finding.level) for finding in report.findings
    )
    return "\n".join(lines) + "\n" + found


def _json(report: Report) -> dict[str, object]:
    from connect_reconciler.cli.entry import to_json

    return {
        "healthy": report.healthy,
        "looked_at": list(report.looked_at),
        "findings": [
            {"level": finding.level, **each}
            for finding in report.findings
            for each in to_json([finding.diagnostic])
        ],
    }
