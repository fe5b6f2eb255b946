"""What `connect test` does: tests of specs, records before and after, and old specs against new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from connect_reconciler.backend.backend import Backend
from connect_reconciler.backend.last_records import LastRecords, last_records
from connect_reconciler.backend.observe.connector_clusters import open_view, worker_properties
from connect_reconciler.backend.plugins import local_definitions
from connect_reconciler.model.live import Kind
from connect_reconciler.testing.check import Mismatch, check
from connect_reconciler.testing.compare import Comparison, compare
from connect_reconciler.testing.inputs import (
    default_topic,
    message_of,
    normal_schema,
    source_record_of,
)
from connect_reconciler.testing.outcomes import Run
from connect_reconciler.testing.prepare import (
    Prepared,
    Subject,
    parts_of,
    prepared,
    resolved_config,
)
from connect_reconciler.validation.configs import check_project
from connect_reconciler.validation.judges import NO_KAFKA, kind_by_class
from connect_runtime.client_overrides import PREFIXES
from connect_runtime.connector_clients import ConnectorClients
from connect_runtime.tasks.sink_topics import matching, named_topics, topic_pattern
from connect_runtime.worker_config import from_project
from connect_specs.desired import Desired, DesiredConnector, Project
from connect_specs.diagnostics import ConnectError, Diagnostic, Invalid, by_severity
from connect_specs.fields import did_you_mean
from connect_specs.plugin_definitions import Definitions
from connect_specs.record_input import RecordInput, read_lines
from connect_specs.record_tests import ExpectedRecord, RecordTest
from connect_specs.redaction import Redactor
from connect_specs.text_files import read_text

_ISOLATION = "isolation.level"


@dataclass(frozen=True, slots=True)
class CheckedRecord:
    """A test, and what is not as it expects; nothing if it passes."""

    test: RecordTest
    mismatches: tuple[Mismatch, ...]
    redactor: Redactor


@dataclass(frozen=True, slots=True)
class Shown:
    """The runs of one connector's records. `complete` False: there was no time to read all."""

    name: str
    kind: Kind
    runs: tuple[Run, ...]
    redactor: Redactor
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Compared:
    """What the old config made of a connector's records, and what the spec makes of them."""

    name: str
    comparison: Comparison
    old: tuple[Run, ...]
    new: tuple[Run, ...]
    redactor: Redactor
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Subjects:
    """The connectors of a project as they can be run."""

    project: Project
    plugins: Definitions
    worker: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, project: Project) -> Subjects:
        """Raises Invalid for wrong properties in connect.yaml."""
        errors, _ = by_severity(check_project(project))
        if errors:
            raise Invalid(*errors)
        worker: Mapping[str, str] = project.worker
        if project.uses_runtime:
            kafka = NO_KAFKA if project.kafka is None else None
            worker = from_project(project, kafka, resolve=False)[0].properties
        return cls(project, local_definitions(project), worker)

    def subject(self, spec: DesiredConnector, label: str = "") -> Subject:
        """The connector of a spec."""
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
        )


def chosen(desired: Desired, names: Iterable[str]) -> tuple[DesiredConnector, ...]:
    """The connectors of these names or spec files; all of them if there are none. Raises
    Invalid."""
    found: dict[str, DesiredConnector] = {}
    problems = []
    for name in names:
        named = [
            each
            for each in desired.connectors.values()
            if name in (each.name, each.where.file) or Path(name) == Path(each.where.file)
        ]
        if not named:
            what = f"no spec has the connector {name!r}"
            hint = did_you_mean(name, desired.connectors)
            problems.append(Diagnostic("test.no-connector", what, hint=hint))
        found |= {each.name: each for each in named}
    if problems:
        raise Invalid(*problems)
    return tuple(found.values()) or tuple(desired.connectors.values())


def check_tests(
    subjects: Subjects, desired: Desired, tests: Sequence[RecordTest]
) -> tuple[CheckedRecord, ...]:
    """Runs tests. Raises Invalid for records and configs that cannot be used, all at once."""
    found: list[CheckedRecord] = []
    problems: list[Diagnostic] = []
    for name, group in groupby(tests, key=lambda test: test.connector):
        subject = subjects.subject(desired.connectors[name])
        try:
            with prepared(subject) as ready:
                found += _checked(subject, ready, tuple(group))
        except Invalid as invalid:
            problems.extend(invalid.diagnostics)
    if problems:
        raise Invalid(*dict.fromkeys(problems))
    return tuple(found)


def _checked(
    subject: Subject, ready: Prepared, tests: Sequence[RecordTest]
) -> Iterator[CheckedRecord]:
    records = inputs_of(subject, [test.input for test in tests])
    expected = [_with_normal_schemas(test) for test in tests]
    for test, wanted, record in zip(tests, expected, records, strict=True):
        outcome = ready.pipeline.run(record).outcome
        yield CheckedRecord(test, check(wanted, outcome), ready.redactor)


def _with_normal_schemas(test: RecordTest) -> Any:
    if not isinstance(test.expected, ExpectedRecord):
        return test.expected
    parts = {
        name: normal_schema(each, test.where) if name.endswith("_schema") else each
        for name, each in test.expected.parts.items()
    }
    return ExpectedRecord(parts)


def inputs_of(subject: Subject, given: Sequence[RecordInput]) -> tuple[Any, ...]:
    """What a connector's pipeline takes. Raises Invalid with every record that is not valid."""
    topic = default_topic(subject.config, subject.kind)
    found: list[Any] = []
    problems: list[Diagnostic] = []
    for number, each in enumerate(given):
        try:
            if subject.kind == "sink":
                found.append(message_of(each, topic, number))
            else:
                found.append(source_record_of(each, topic))
        except Invalid as invalid:
            problems.extend(invalid.diagnostics)
    if problems:
        raise Invalid(*problems)
    return tuple(found)


def records_in(file: Path, name: str) -> tuple[RecordInput, ...]:
    """The records of a file with one JSON object a line. Raises Invalid."""
    problems: list[Diagnostic] = []
    found = read_lines(read_text(file, name), name, problems)
    if problems:
        raise Invalid(*problems)
    return found


def newest(backend: Backend, subject: Subject, number: int) -> LastRecords:
    """The last records of a sink's topics, read as its consumer reads them. Raises Invalid."""
    if subject.kind != "sink":
        what = f"{subject.name} is a source: its topic holds what comes out, not what goes in"
        hint = "give records with --records FILE, or write a test"
        raise Invalid(Diagnostic("test.source", what, subject.where, hint=hint))
    if backend.project.rest_only:
        what = "records are read from Kafka, and connect.yaml names only a REST API"
        hint = "add kafka: to connect.yaml, or give records with --records FILE"
        raise Invalid(Diagnostic("test.no-kafka", what, subject.where, hint=hint))
    overrides = {key: text for key, text in subject.config.items() if key.startswith(PREFIXES)}
    config = {**subject.config, **resolved_config(subject, overrides)}
    worker = worker_properties(backend.project, backend.kafka)
    topics = backend.project.topics.offsets
    clients = ConnectorClients(
        backend.project.group_id, topics, worker, subject.name, config, "sink"
    )
    view = open_view(clients)
    view.cluster_id()
    sizes = view.topics()
    pattern = topic_pattern(config)
    names = named_topics(config) if pattern is None else matching(pattern, sizes)
    view.ensure_visible(names)
    partitions = [(name, at) for name in sorted(names) for at in range(sizes.get(name, 0))]
    isolation = "read_committed" if subject.is_ours else "read_uncommitted"
    properties = {
        _ISOLATION: clients.consumer().get(_ISOLATION, isolation),
        **clients.offsets_consumer(),
    }
    return last_records(properties, view.log_ranges(partitions), number)


def show(subject: Subject, records: Sequence[Any], *, complete: bool = True) -> Shown:
    """Runs records through a connector."""
    with prepared(subject) as ready:
        runs = tuple(map(ready.pipeline.run, records))
        return Shown(subject.name, subject.kind, runs, ready.redactor, complete)


def compared(
    old: Subject, new: Subject, records: Sequence[Any], *, complete: bool = True
) -> Compared:
    """Runs the same records through both."""
    with prepared(old) as before, prepared(new) as after:
        first = tuple(map(before.pipeline.run, records))
        second = tuple(map(after.pipeline.run, records))
        both = _Both(before.redactor, after.redactor)
    return Compared(new.name, compare(first, second), first, second, both, complete)


class _Both(Redactor):
    """Redacts the secrets of two configs."""

    def __init__(self, first: Redactor, second: Redactor) -> None:
        super().__init__()
        self._each = (first, second)

    def redact(self, text: str) -> str:
        for each in self._each:
            text = each.redact(text)
        return text


def live_subject(subjects: Subjects, backend: Backend, spec: DesiredConnector) -> Subject | None:
    """The connector as it is on the cluster; None if it is not there."""
    backend.ensure_one_cluster(spec.name)
    config = backend.config(spec.name)
    if config is None:
        return None
    return subjects.subject(replace(spec, config=config, key_locations={}), "on the cluster")


def is_same(old: Subject, new: Subject) -> bool:
    """Whether both do the same to every record, as far as configs can say."""
    mine, theirs = (
        (parts_of(each.config), parts_of(each.worker), each.kind) for each in (old, new)
    )
    return mine == theirs


@dataclass(frozen=True, slots=True)
class Comparisons:
    """What was compared, and why the other connectors were not."""

    compared: tuple[Compared, ...]
    skipped: Mapping[str, str]


def compare_all(
    subjects: Iterable[tuple[Subject | None, Subject]],
    records: Callable[[Subject], LastRecords],
    *,
    strict: bool,
) -> Comparisons:
    """Compares each connector with its old config, None where there was none. Unless `strict`,
    connectors that cannot be compared are skipped, and so are those with the same config."""
    found: list[Compared] = []
    skipped: dict[str, str] = {}
    for old, new in subjects:
        try:
            if old is None:
                what = f"{new.name} has no earlier config to compare with"
                raise Invalid(Diagnostic("test.new", what, new.where))
            if not strict and is_same(old, new):
                continue
            taken = records(new)
            found.append(compared(old, new, taken.messages, complete=taken.complete))
        except ConnectError as error:
            if strict or not isinstance(error, Invalid):
                raise
            skipped[new.name] = "; ".join(each.what for each in error.diagnostics)
    return Comparisons(tuple(found), skipped)
