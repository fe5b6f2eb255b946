"""`connect test`: what a spec's converters and transformations make of records."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from connect_reconciler.cli.options import AsJson, ensure_one_form
from connect_reconciler.cli.output import colour, result, result_json
from connect_reconciler.cli.session import Invocation, connector_names, invocation
from connect_specs.diagnostics import Diagnostic, ExitCode, Invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from connect_reconciler.backend.backend import Backend
    from connect_reconciler.backend.last_records import LastRecords
    from connect_reconciler.testing.prepare import Subject
    from connect_reconciler.workflow.testing import (
        CheckedRecord,
        Comparisons,
        Shown,
        Subjects,
    )
    from connect_specs.desired import Desired, DesiredConnector, Project

_LIVE = "live"
_LAST = 1000


def test(
    context: typer.Context,
    specs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SPEC",
            help="Connectors, or files of specs. Default: all.",
            autocompletion=connector_names,
        ),
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option("--records", metavar="FILE", help="Run records from FILE, one JSON a line."),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--last", min=1, metavar="N", help="Run the last N records of its topics."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="live|REF",
            help="Compare with the cluster's config, or the spec at a git ref.",
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Also write the tests' results as JUnit XML."),
    ] = None,
    detailed_exitcode: Annotated[
        bool,
        typer.Option(
            "--detailed-exitcode", help="With --against: exit with 4 if records would differ."
        ),
    ] = False,
    as_table: Annotated[
        bool, typer.Option("--table", help="Show values of records, also if not on a terminal.")
    ] = False,
    as_markdown: Annotated[
        bool,
        typer.Option("--markdown", help="With --against: Markdown, counts and field names only."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Run converters and transformations over records, without a Connect cluster.

    Without options, checks the records of *.test.yaml beside the specs. With --records or --last,
    shows each record before and after. With --against, counts which of the last 1,000 records
    would come out differently. Exit code 1 if a test fails, a record fails, or, with --against, a
    record fails that did not. Kafka is only read.
    """
    from connect_reconciler.cli.record_output import Output, tell_compared, tell_shown
    from connect_reconciler.workflow.testing import Subjects, chosen
    from connect_specs.loader import load_specs

    output = Output(as_table, as_markdown, as_json)
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
    found = chosen(desired, specs or ())
    subjects = Subjects.of(project)
    taken = _Records(call, project, desired, subjects, records, last)
    if against is not None:
        done = taken.compared(against, found, strict=bool(specs))
        return tell_compared(done, against, project, output, detailed=detailed_exitcode)
    if records is not None or last is not None:
        return tell_shown(taken.shown(found), output)
    return _check(call, subjects, desired, found if specs else None, junit, as_json=as_json)


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
    for is_wrong, what in wrong:
        if is_wrong:
            raise Invalid(Diagnostic("usage", what, hint="leave one of the options out"))


# --- tests ---


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
    from connect_reconciler.render.test_results import results_json, results_junit, results_text
    from connect_reconciler.render.texts import style
    from connect_reconciler.workflow.testing import check_tests
    from connect_specs.record_tests import load_tests, stem_of

    tests = load_tests(subjects.project, desired.connectors)
    if only is not None:
        names = {spec.name for spec in only}
        tests = tuple(each for each in tests if each.connector in names)
        if not tests:
            spec = only[0]
            what = f"there is no test of {spec.name}"
            hint = f"write {stem_of(spec.where.file)}.test.yaml, or use --records or --last"
            raise Invalid(Diagnostic("test.no-tests", what, spec.where, hint=hint))
    results = [_result(each) for each in check_tests(subjects, desired, tests)]
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
    return ExitCode.FAILED if any(each.mismatches for each in results) else ExitCode.OK


def _result(checked: CheckedRecord) -> Any:
    from connect_reconciler.render.test_results import TestResult
    from connect_reconciler.testing.check import Mismatch

    redact = checked.redactor.redact
    mismatches = tuple(
        Mismatch(redact(each.path), redact(each.expected), redact(each.found))
        for each in checked.mismatches
    )
    return TestResult(checked.test.name, checked.test.connector, checked.test.where, mismatches)


# --- records, shown or compared ---


class _Records:
    """Where records come from: a file, the connectors' topics, or, to compare sources, their
    tests."""

    def __init__(
        self,
        call: Invocation,
        project: Project,
        desired: Desired,
        subjects: Subjects,
        file: Path | None,
        last: int | None,
    ) -> None:
        self._call = call
        self._project = project
        self._desired = desired
        self._subjects = subjects
        self._file = file
        self._last = last

    def shown(self, found: Sequence[DesiredConnector]) -> list[Shown]:
        from connect_reconciler.workflow.testing import show

        chosen = [self._subjects.subject(each) for each in found]
        self._ensure_one(chosen)
        with self._backend(needed=self._file is None) as backend:
            runs = []
            for each in chosen:
                taken = self._of(each, backend)
                runs.append(show(each, taken.messages, complete=taken.complete))
        return runs

    def compared(
        self, against: str, found: Sequence[DesiredConnector], *, strict: bool
    ) -> Comparisons:
        from connect_reconciler.workflow.testing import compare_all

        new = [self._subjects.subject(each) for each in found]
        self._ensure_one(new)
        kafka = self._file is None and any(each.kind == "sink" for each in new)
        with self._backend(needed=kafka or against == _LIVE) as backend:
            old = self._old(against, found, backend)
            pairs = zip(old, new, strict=True)
            return compare_all(pairs, lambda each: self._of(each, backend), strict=strict)

    def _old(
        self, against: str, found: Sequence[DesiredConnector], backend: Backend | None
    ) -> list[Subject | None]:
        from connect_reconciler.workflow.at_ref import project_at
        from connect_reconciler.workflow.testing import Subjects, live_subject
        from connect_specs.loader import load_specs

        if against == _LIVE:
            assert backend is not None, "it was asked for"
            return [live_subject(self._subjects, backend, each) for each in found]
        with project_at(self._project, against) as project:
            there, connectors = Subjects.of(project), load_specs(project).connectors
            specs = (connectors.get(each.name) for each in found)
            label = f"at {against}"
            return [None if each is None else there.subject(each, label) for each in specs]

    def _of(self, subject: Subject, backend: Backend | None) -> LastRecords:
        from connect_reconciler.backend.last_records import LastRecords
        from connect_reconciler.workflow.testing import inputs_of, newest, records_in
        from connect_specs.record_tests import load_tests

        if self._file is not None:
            given = records_in(self._call.path(self._file), str(self._file))
            return LastRecords(inputs_of(subject, given), True)
        if subject.kind == "source" and self._last is None:
            tests = load_tests(self._project, self._desired.connectors)
            own = [each.input for each in tests if each.connector == subject.name]
            if own:
                return LastRecords(inputs_of(subject, own), True)
        assert backend is not None, "it was asked for"
        return newest(backend, subject, self._last or _LAST)

    def _ensure_one(self, chosen: Sequence[Subject]) -> None:
        if self._file is not None and len(chosen) != 1:
            what, hint = (
                "--records is for one connector",
                "name it: connect test NAME --records FILE",
            )
            raise Invalid(Diagnostic("usage", what, hint=hint))

    @contextmanager
    def _backend(self, *, needed: bool) -> Iterator[Backend | None]:
        if not needed:
            yield None
            return
        from connect_reconciler.cli.connecting import backend_of

        with backend_of(self._project) as backend:
            yield backend
