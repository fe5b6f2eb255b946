"""`connect test`: what a spec's converters and transformations make of records."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import AsJson, ensure_one_form
from connect_reconciler.cli.output import colour, result, result_json
from connect_reconciler.cli.session import Invocation, connector_names, invocation
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from connect_reconciler.backend.backend import Backend
    from connect_reconciler.workflow.testing import Subjects
    from connect_specs.desired import Desired, DesiredConnector, Project


Specs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SPEC",
        help="Connectors, or files of specs. Default: all.",
        autocompletion=connector_names,
    ),
]
RecordsFile = Annotated[
    Path | None,
    typer.Option("--records", metavar="FILE", help="Run records from FILE, one JSON a line."),
]
Last = Annotated[
    int | None,
    typer.Option("--last", min=1, metavar="N", help="Run the last N records of its topics."),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="live|REF",
        help="Compare with the cluster's config, or the spec at a git ref.",
    ),
]
JunitFile = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Also write the tests' results as JUnit XML."),
]
DetailedExitcode = Annotated[
    bool,
    typer.Option(
        "--detailed-exitcode", help="With --against: exit with 4 if records would differ."
    ),
]
AsTable = Annotated[
    bool, typer.Option("--table", help="Show values of records, also if not on a terminal.")
]
AsMarkdown = Annotated[
    bool,
    typer.Option("--markdown", help="With --against: Markdown, counts and field names only."),
]


def test(
    context: typer.Context,
    specs: Specs = None,
    records: RecordsFile = None,
    last: Last = None,
    against: Against = None,
    junit: JunitFile = None,
    detailed_exitcode: DetailedExitcode = False,
    as_table: AsTable = False,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> int:
    """Run converters and transformations over records, without a Connect cluster.

    Without options, checks the records of *.test.yaml beside the specs. With --records or --last,
    shows each record before and after. With --against, counts which of the last 1,000 records
    would come out differently. Exit code 1 if a test fails, a record fails, or, with --against, a
    record fails that did not. Kafka is only read.
    """
    from connect_reconciler.cli.record_output import RecordOutput, print_comparisons, print_runs
    from connect_reconciler.workflow import record_runs as runs
    from connect_reconciler.workflow.testing import Subjects, chosen
    from connect_specs.loader import load_specs
    from connect_specs.record_tests import load_tests
    from connect_specs.text_files import relative_name

    output = RecordOutput(as_table, as_markdown, as_json)
    _ensure_usage(
        records=records,
        last=last,
        against=against,
        junit=junit,
        detailed=detailed_exitcode,
        as_markdown=as_markdown,
    )
    ensure_one_form(as_json=as_json, as_markdown=as_markdown)
    call = invocation(context)
    project = call.project()
    desired = load_specs(project)
    choices = [(name, relative_name(call.path(Path(name)), project.folder)) for name in specs or ()]
    selected = chosen(desired, choices)
    subjects = Subjects.of(project)
    if against is None and records is None and last is None:
        return _check(call, subjects, desired, selected if specs else None, junit, as_json=as_json)
    current = [subjects.subject(spec) for spec in selected]
    file = None if records is None else runs.records_in(call.path(records), str(records))
    if file is not None and len(current) != 1:
        problem = "--records is for one connector"
        hint = "name it: connect test NAME --records FILE"
        raise Invalid(Diagnostic("usage", problem, hint=hint))
    reads = file is None and any(subject.kind == "sink" for subject in current)
    with _backend(project, needed=reads or against == runs.LIVE) as backend:
        if against is None:
            taken = runs.Records(backend, file, last)
            return print_runs([runs.show(subject, taken) for subject in current], output)
        taken = runs.Records(backend, file, last, load_tests(project, desired.connectors))
        earlier = runs.old_subjects(against, subjects, selected, backend)
        done = runs.compare_all(zip(earlier, current, strict=True), taken, strict=bool(specs))
    return print_comparisons(done, against, project, output, detailed=detailed_exitcode)


@contextmanager
def _backend(project: Project, *, needed: bool) -> Iterator[Backend | None]:
    if not needed:
        yield None
        return
    from connect_reconciler.cli.connecting import backend_of

    with backend_of(project) as backend:
        yield backend


def _ensure_usage(
    *,
    records: Path | None,
    last: int | None,
    against: str | None,
    junit: Path | None,
    detailed: bool,
    as_markdown: bool,
) -> None:
    runs = records is not None or last is not None
    wrong = [
        (records is not None and last is not None, "--records and --last exclude each other"),
        (junit is not None and (runs or against is not None), "--junit is for tests alone"),
        (as_markdown and against is None, "--markdown needs --against"),
        (detailed and against is None, "--detailed-exitcode needs --against"),
    ]
    for is_wrong, problem in wrong:
        if is_wrong:
            raise Invalid(Diagnostic("usage", problem, hint="leave one of the options out"))


def _check(
    call: Invocation,
    subjects: Subjects,
    desired: Desired,
    only: Sequence[DesiredConnector] | None,
    junit: Path | None,
    *,
    as_json: bool,
) -> int:
    from connect_reconciler.cli.project_files import written
    from connect_reconciler.render.record_tests import results_json, results_junit, results_text
    from connect_reconciler.render.texts import style
    from connect_reconciler.workflow.testing import check_tests
    from connect_specs.record_tests import load_tests, stem_of

    tests = load_tests(subjects.project, desired.connectors)
    if only is not None:
        names = {spec.name for spec in only}
        tests = tuple(case for case in tests if case.connector in names)
        if not tests:
            spec = only[0]
            problem = f"there is no test of {spec.name}"
            hint = f"write {stem_of(spec.where.file)}.test.yaml, or use --records or --last"
            raise Invalid(Diagnostic("test.no-tests", problem, spec.where, hint=hint))
    results = check_tests(subjects, desired, tests)
    if junit is not None:
        file = call.path(junit)
        with written(file.parent, {file.name: results_junit(results)}, force=True):
            pass
    if as_json:
        result_json(results_json(results))
    elif results:
        result(results_text(results, style(colour=colour(sys.stdout))))
    else:
        result("no tests: those of connectors/orders.yaml are in connectors/orders.test.yaml")
    return ExitCode.FAILED if any(outcome.mismatches for outcome in results) else ExitCode.OK
