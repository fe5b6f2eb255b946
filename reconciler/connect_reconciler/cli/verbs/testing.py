"""`connect test`: what a spec's converters and transformations make of records."""

from __future__ import annotations

import logging
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from connect_reconciler.cli.options import RecordOptions
from connect_reconciler.cli.output import colour, result, result_json
from connect_reconciler.cli.session import Invocation, connector_names, invocation
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from connect_reconciler.backend.backend import Backend
    from connect_reconciler.workflow.testing import Subjects
    from connect_specs.desired import Desired, DesiredConnector, Project


def test(
    context: typer.Context,
    *,
    specs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SPEC",
            help="Connectors, or files of specs. Default: all.",
            autocompletion=connector_names,
        ),
    ] = None,
    options: RecordOptions,
) -> int:
    """Run converters and transformations over records, without a Connect cluster.

    Without options, checks the records of *.test.yaml beside the specs. With --records or --last,
    shows each record before and after. With --against, counts which of the last 1,000 records
    would come out differently. Exit code 1 if a test fails, a record fails, or, with --against, a
    record fails that did not. Kafka is only read.
    """
    from connect_reconciler.cli.record_output import print_comparisons, print_runs
    from connect_reconciler.workflow import record_runs as runs
    from connect_reconciler.workflow.testing import Subjects, chosen
    from connect_specs.loader import load_specs
    from connect_specs.record_tests import load_tests
    from connect_specs.text_files import relative_name

    call = invocation(context)
    project = call.project()
    desired = load_specs(project)
    choices = [(name, relative_name(call.path(Path(name)), project.folder)) for name in specs or ()]
    selected = chosen(desired, choices)
    records, last, against = options.records, options.last, options.against
    logging.getLogger().addFilter(_is_no_advice)
    with closing(Subjects.of(project)) as subjects:
        if against is None and records is None and last is None:
            return _check(call, subjects, desired, selected if specs else None, options)
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
                return print_runs([runs.show(subject, taken) for subject in current], options)
            taken = runs.Records(backend, file, last, load_tests(project, desired.connectors))
            earlier = runs.old_subjects(against, subjects, selected, backend)
            done = runs.compare_all(zip(earlier, current, strict=True), taken, strict=bool(specs))
        return print_comparisons(done, against, project, options)


def _is_no_advice(record: logging.LogRecord) -> bool:
    """Returns False for the advice of a JVM to those who run workers."""
    return record.levelno >= logging.ERROR or not record.name.startswith("org.apache.kafka.")


@contextmanager
def _backend(project: Project, *, needed: bool) -> Iterator[Backend | None]:
    if not needed:
        yield None
        return
    from connect_reconciler.cli.connecting import backend_of

    with backend_of(project) as backend:
        yield backend


def _check(
    call: Invocation,
    subjects: Subjects,
    desired: Desired,
    only: Sequence[DesiredConnector] | None,
    options: RecordOptions,
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
    if options.junit is not None:
        file = call.path(options.junit)
        with written(file.parent, {file.name: results_junit(results)}, force=True):
            pass
    if options.as_json:
        result_json(results_json(results))
    elif results:
        result(results_text(results, style(colour=colour(sys.stdout))))
    else:
        result("no tests: those of connectors/orders.yaml are in connectors/orders.test.yaml")
    return ExitCode.FAILED if any(outcome.mismatches for outcome in results) else ExitCode.OK
