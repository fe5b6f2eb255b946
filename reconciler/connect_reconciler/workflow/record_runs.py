"""Runs records of a file or of Kafka through connectors: before and after, and old against new."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from connect_reconciler.backend.backend import Backend
from connect_reconciler.backend.observe.connector_offsets import open_view, worker_properties
from connect_reconciler.backend.observe.kafka_view import LastRecords, last_records
from connect_reconciler.model.live import Kind
from connect_reconciler.testing.comparison import Comparison, compare
from connect_reconciler.testing.outcomes import RecordRun
from connect_reconciler.testing.subjects import Subject, pipeline_keys, prepared, resolved_config
from connect_reconciler.workflow.testing import Subjects, inputs_of
from connect_runtime.settings.connector_clients import PREFIXES, ConnectorClients
from connect_runtime.settings.connector_topics import matching_topics, named_topics, topic_pattern
from connect_specs.desired import DesiredConnector, Project
from connect_specs.diagnostics import ConnectError, Diagnostic, Invalid
from connect_specs.loader import load_specs
from connect_specs.project import load_project
from connect_specs.record_tests import RecordInput, RecordTest, read_lines
from connect_specs.secrets import Redactor
from connect_specs.text_files import read_text

LIVE: Final = "live"

_LAST: Final = 1000
_GIT_CODE: Final = "git.ref"
_ISOLATION: Final = "isolation.level"


@dataclass(frozen=True, slots=True)
class Shown:
    """The runs of one connector's records. `complete` False: there was no time to read all."""

    name: str
    kind: Kind
    runs: tuple[RecordRun, ...]
    redactor: Redactor
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Compared:
    """The results of a connector's records with its earlier config and with its spec."""

    name: str
    comparison: Comparison
    old: tuple[RecordRun, ...]
    new: tuple[RecordRun, ...]
    redactors: tuple[Redactor, Redactor]
    complete: bool = True

    def redact(self, text: str) -> str:
        """Returns the text without the secrets of both configs."""
        for redactor in self.redactors:
            text = redactor.redact(text)
        return text


@dataclass(frozen=True, slots=True)
class Comparisons:
    """The comparisons, and why other connectors were not compared."""

    compared: tuple[Compared, ...]
    skipped: Mapping[str, str]


# --- where records come from ---


@dataclass(frozen=True, slots=True)
class Records:
    """The records to run: those of a file, else the `last` of a connector's topics. `tests` have
    records of sources, whose topics hold only what came out."""

    backend: Backend | None
    file: tuple[RecordInput, ...] | None
    last: int | None
    tests: Sequence[RecordTest] = ()

    def of(self, subject: Subject) -> LastRecords:
        """Returns the input of the connector's pipeline. Raises Invalid if there is none."""
        inputs: Sequence[RecordInput] | None = self.file
        if inputs is None and subject.kind == "source" and self.last is None:
            inputs = [test.input for test in self.tests if test.connector == subject.name] or None
        if inputs is not None:
            return LastRecords(inputs_of(subject, inputs), True)
        return newest(self.backend, subject, self.last or _LAST)


def records_in(file: Path, name: str) -> tuple[RecordInput, ...]:
    """Reads the records of a file with one JSON object a line. Raises Invalid."""
    problems: list[Diagnostic] = []
    records = read_lines(read_text(file, name), name, problems)
    if problems:
        raise Invalid(*problems)
    return records


def newest(backend: Backend | None, subject: Subject, number: int) -> LastRecords:
    """Reads the last records of a sink's topics, as its consumer reads them. Raises Invalid."""
    if subject.kind != "sink":
        message = f"{subject.name} is a source: its topic holds what comes out, not what goes in"
        hint = "give records with --records FILE, or write a test"
        raise Invalid(Diagnostic("test.source", message, subject.location, hint=hint))
    if backend is None or backend.project.rest_only:
        message = "records are read from Kafka, and connect.yaml names only a REST API"
        hint = "add kafka: to connect.yaml, or give records with --records FILE"
        raise Invalid(Diagnostic("test.no-kafka", message, subject.location, hint=hint))
    clients = _clients(backend, subject)
    view = open_view(clients)
    view.cluster_id()
    sizes = view.topics()
    pattern = topic_pattern(clients.config)
    names = named_topics(clients.config) if pattern is None else matching_topics(pattern, sizes)
    view.ensure_visible(names)
    partitions = [(name, at) for name in sorted(names) for at in range(sizes.get(name, 0))]
    # The default of the workers' consumers
    isolation = "read_committed" if subject.is_ours else "read_uncommitted"
    properties = {
        **clients.offsets_consumer(),
        _ISOLATION: clients.consumer().get(_ISOLATION, isolation),
    }
    return last_records(properties, view.log_ranges(partitions), number)


def _clients(backend: Backend, subject: Subject) -> ConnectorClients:
    """Returns the sink's Kafka clients; references in their properties are resolved."""
    project = backend.project
    overrides = {key: text for key, text in subject.config.items() if key.startswith(PREFIXES)}
    config = {**subject.config, **resolved_config(subject, overrides)}
    worker = worker_properties(project, backend.kafka)
    topic = project.topics.offsets
    return ConnectorClients(project.group_id, topic, worker, subject.name, config, "sink")


# --- before and after ---


def show(subject: Subject, records: Records) -> Shown:
    """Runs records through a connector."""
    with prepared(subject) as pipeline:
        taken = records.of(subject)
        runs = tuple(map(pipeline.run, taken.messages))
        return Shown(subject.name, subject.kind, runs, pipeline.redactor, taken.complete)


# --- a project at a git ref ---


@contextmanager
def project_at(project: Project, ref: str, *, whole: bool) -> Iterator[Project]:
    """Opens the project at `ref`, read with the same values. Its files are there within the
    context: those of its own folder, or with `whole` all of the repository, which may take long.

    Raises Invalid where there is no such ref, or no project in it.
    """
    folder = project.folder.resolve()
    commit = _git(folder, ref, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    # From within a folder, git archives this folder alone
    top = Path(_git(folder, ref, "rev-parse", "--show-toplevel")).resolve() if whole else folder
    place = folder.relative_to(top)
    with TemporaryDirectory(prefix="connect-") as temporary:
        copy, archive = Path(temporary, "copy"), Path(temporary, "archive")
        _git(top, ref, "archive", "--format=tar", f"--output={archive}", commit)
        with tarfile.open(archive) as files:
            try:
                files.extractall(copy, filter=partial(_without_others, place.as_posix()))
            except tarfile.FilterError as error:
                message = f"the project at {ref} cannot be read: a link leads out of the repository"
                raise Invalid(Diagnostic(_GIT_CODE, message, ref, type(error).__name__)) from None
        archive.unlink()
        file = copy / place / project.file.name
        if not file.is_file():
            message = f"there is no {project.file.name} at {ref}"
            hint = "name a commit that has this project"
            raise Invalid(Diagnostic(_GIT_CODE, message, ref, hint=hint))
        yield load_project(file, project.env, given=project.given)


def _without_others(place: str, member: tarfile.TarInfo, copy: str) -> tarfile.TarInfo | None:
    """Leaves out links of others that lead elsewhere. Raises FilterError for the project's own."""
    try:
        return tarfile.data_filter(member, copy)
    except tarfile.FilterError:
        if place == "." or member.name.startswith(f"{place}/"):
            raise
        return None


def _git(folder: Path, ref: str, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, check=False, timeout=120
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        message, hint = "git cannot be run", "install git, or use --against live"
        raise Invalid(Diagnostic(_GIT_CODE, message, ref, type(error).__name__, hint)) from None
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        message = f"git cannot read this project at {ref!r}"
        hint = "name a branch, a tag or a commit; in CI, fetch it first: git fetch origin main"
        raise Invalid(Diagnostic(_GIT_CODE, message, ref, reason, hint))
    return os.fsdecode(done.stdout).removesuffix("\n")


# --- old against new ---


def old_subjects(
    against: str,
    subjects: Subjects,
    specs: Sequence[DesiredConnector],
    backend: Backend | None,
) -> list[Subject | None]:
    """Returns the connectors as they are on the cluster, or as their specs are at a git ref, under
    their names or former ones; None for one that is not there. Raises Invalid."""
    if against != LIVE:
        return _at_ref(subjects, against, specs)
    assert backend is not None, "the cluster is asked"
    return [_live(subjects, backend, spec) for spec in specs]


def _live(subjects: Subjects, backend: Backend, spec: DesiredConnector) -> Subject | None:
    backend.ensure_one_cluster(spec.name)
    config = backend.config(spec.name)
    if config is None and spec.renamed_from is not None:
        config = backend.config(spec.renamed_from)
    if config is None:
        return None
    return subjects.subject(replace(spec, config=config, key_locations={}), "on the cluster")


def _at_ref(
    subjects: Subjects, ref: str, specs: Sequence[DesiredConnector]
) -> list[Subject | None]:
    try:
        return _read_at_ref(subjects, ref, specs, whole=False)
    except Invalid:
        # Its specs, links or files may lead out of its folder
        return _read_at_ref(subjects, ref, specs, whole=True)


def _read_at_ref(
    current: Subjects, ref: str, specs: Iterable[DesiredConnector], *, whole: bool
) -> list[Subject | None]:
    with project_at(current.project, ref, whole=whole) as earlier:
        if not whole and any(".." in Path(entry).parts for entry in earlier.specs):
            # A glob finds no less in an empty folder, and says nothing
            return _read_at_ref(current, ref, specs, whole=True)
        subjects = replace(Subjects.of(earlier), java=current.java)
        connectors = load_specs(earlier).connectors
        specs_at_ref = (
            connectors.get(spec.name) or connectors.get(spec.renamed_from or "") for spec in specs
        )
        return [
            None if spec is None else subjects.subject(spec, f"at {ref}") for spec in specs_at_ref
        ]


def compare_all(
    pairs: Iterable[tuple[Subject | None, Subject]], records: Records, *, strict: bool
) -> Comparisons:
    """Compares connectors with their old configs, None where there was none. Unless `strict`,
    connectors that cannot be compared are skipped, and so are those with the same config."""
    compared: list[Compared] = []
    skipped: dict[str, str] = {}
    for earlier, subject in pairs:
        try:
            if earlier is None:
                message = f"{subject.name} has no earlier config to compare with"
                raise Invalid(Diagnostic("test.new", message, subject.location))
            if strict or not is_same(earlier, subject):
                compared.append(_compared(earlier, subject, records))
        except ConnectError as error:
            if strict or not isinstance(error, Invalid):
                raise
            skipped[subject.name] = "; ".join(problem.what for problem in error.diagnostics)
    return Comparisons(tuple(compared), skipped)


def is_same(earlier: Subject, later: Subject) -> bool:
    """Returns True if both do the same to every record, as far as configs can show."""
    mine, theirs = (
        (pipeline_keys(subject.config), pipeline_keys(subject.worker), subject.kind)
        for subject in (earlier, later)
    )
    return mine == theirs


def _compared(earlier: Subject, subject: Subject, records: Records) -> Compared:
    with prepared(earlier) as earlier_pipeline, prepared(subject) as pipeline:
        taken = records.of(subject)
        first: tuple[RecordRun, ...] = tuple(map(earlier_pipeline.run, taken.messages))
        second: tuple[RecordRun, ...] = tuple(map(pipeline.run, taken.messages))
        redactors = earlier_pipeline.redactor, pipeline.redactor
    comparison = compare(first, second)
    return Compared(subject.name, comparison, first, second, redactors, taken.complete)
