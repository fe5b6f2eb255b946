"""Runs the tests beside specs: which connectors, and whether records are as they expect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from connect_reconciler.backend.plugins import local_definitions
from connect_reconciler.testing.comparison import Mismatch, TestResult, check
from connect_reconciler.testing.inputs import (
    default_topic,
    message_of,
    normal_schema,
    source_record_of,
)
from connect_reconciler.testing.pipeline import Pipeline
from connect_reconciler.testing.subjects import Subject, prepared
from connect_reconciler.validation.configs import check_project
from connect_reconciler.validation.judges import kind_by_class, worker_of
from connect_runtime.engine.java_chains import JavaChains
from connect_runtime.engine.plugin_path import has_java_plugins
from connect_specs.desired import Desired, DesiredConnector, Project
from connect_specs.diagnostics import Diagnostic, Invalid, by_severity
from connect_specs.fields import did_you_mean
from connect_specs.plugin_definitions import Definitions
from connect_specs.record_tests import ExpectedRecord, RecordInput, RecordTest, stem_of
from connect_specs.secrets import Redactor


@dataclass(frozen=True, slots=True)
class Subjects:
    """The connectors of a project as they can be run. `java` has the Java plugins on the worker's
    plugin.path, for all of a run. Close it after use."""

    project: Project
    plugins: Definitions
    worker: Mapping[str, str] = field(repr=False)
    java: JavaChains | None = None

    @classmethod
    def of(cls, project: Project) -> Subjects:
        """Raises Invalid for wrong properties in connect.yaml."""
        errors, _ = by_severity(check_project(project))
        if errors:
            raise Invalid(*errors)
        worker = worker_of(project).properties if project.uses_runtime else project.worker
        java = JavaChains(worker) if has_java_plugins(worker) else None
        return cls(project, local_definitions(project), worker, java)

    def close(self) -> None:
        """Ends the JVM, if Java plugins needed one."""
        if self.java is not None:
            self.java.close()

    def subject(self, spec: DesiredConnector, label: str = "") -> Subject:
        """Returns the connector of a spec."""
        kind = kind_by_class(spec.config, self.plugins)
        if kind == "unknown":
            kind = "sink" if "topics" in spec.config else "source"
        return Subject(
            spec.name,
            kind,
            spec.config,
            self.worker,
            self.project.uses_runtime,
            spec.where,
            spec.key_locations,
            spec.sensitive,
            (*spec.secrets, *self.project.secrets),
            label,
            self.java,
        )


def chosen(desired: Desired, names: Sequence[tuple[str, str]]) -> tuple[DesiredConnector, ...]:
    """Returns the connectors that are named, all of them if none is. Each name is given as it
    was written, and as a file relative to connect.yaml: of the spec, or of its tests. Raises
    Invalid."""
    connectors: dict[str, DesiredConnector] = {}
    problems = []
    for name, file in names:
        own = desired.connectors.get(name)
        stem = stem_of(file)
        by_file = [spec for spec in desired.connectors.values() if stem_of(spec.where.file) == stem]
        those = by_file if own is None else [own]
        if not those:
            message = f"no spec has the connector {name!r}"
            hint = did_you_mean(name, desired.connectors)
            problems.append(Diagnostic("test.no-connector", message, hint=hint))
        connectors |= {spec.name: spec for spec in those}
    if problems:
        raise Invalid(*problems)
    return tuple(connectors.values()) or tuple(desired.connectors.values())


def check_tests(
    subjects: Subjects, desired: Desired, tests: Sequence[RecordTest]
) -> tuple[TestResult, ...]:
    """Runs tests. Raises Invalid for records and configs that cannot be used, all at once."""
    results: list[TestResult] = []
    problems: list[Diagnostic] = []
    for name, group in groupby(tests, key=lambda test: test.connector):
        subject = subjects.subject(desired.connectors[name])
        try:
            with prepared(subject) as pipeline:
                results += _checked(subject, pipeline, tuple(group))
        except Invalid as invalid:
            problems.extend(invalid.diagnostics)
    if problems:
        raise Invalid(*dict.fromkeys(problems))
    return tuple(results)


def _checked(
    subject: Subject, pipeline: Pipeline, tests: Sequence[RecordTest]
) -> Iterator[TestResult]:
    records = inputs_of(subject, [test.input for test in tests])
    expected = [_with_normal_schemas(test) for test in tests]
    for test, expectation, record in zip(tests, expected, records, strict=True):
        outcome = pipeline.run(record).outcome
        mismatches = tuple(
            _redacted(mismatch, pipeline.redactor) for mismatch in check(expectation, outcome)
        )
        yield TestResult(test.name, test.connector, test.where, mismatches)


def _redacted(mismatch: Mismatch, redactor: Redactor) -> Mismatch:
    return Mismatch(*map(redactor.redact, (mismatch.path, mismatch.expected, mismatch.actual)))


def _with_normal_schemas(test: RecordTest) -> Any:
    if not isinstance(test.expected, ExpectedRecord):
        return test.expected
    fields = {
        name: normal_schema(value, test.where) if name.endswith("_schema") else value
        for name, value in test.expected.parts.items()
    }
    return ExpectedRecord(fields)


def inputs_of(subject: Subject, records: Sequence[RecordInput]) -> tuple[Any, ...]:
    """Returns the inputs of a connector's pipeline. Raises Invalid with every record that is not
    valid."""
    topic = default_topic(subject.config, subject.kind)
    inputs: list[Any] = []
    problems: list[Diagnostic] = []
    for number, record in enumerate(records):
        try:
            if subject.kind == "sink":
                inputs.append(message_of(record, topic, number))
            else:
                inputs.append(source_record_of(record, topic))
        except Invalid as invalid:
            problems.extend(invalid.diagnostics)
    if problems:
        raise Invalid(*problems)
    return tuple(inputs)
