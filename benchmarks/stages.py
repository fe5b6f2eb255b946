"""Where the time of a record goes: our own parts of a task, run in this process with a stopwatch.

The loop is that of a task without its orders and statuses. Times are CPU times, so that other
processes do not change them: of the task's thread by stage, and of librdkafka's threads together.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.inputs import Inputs
from benchmarks.topics import delete_topic, make_topic
from benchmarks.workloads import Workload
from connect_runtime.connectors.file_sink import FileStreamSinkTask
from connect_runtime.connectors.file_source import FileStreamSourceTask
from connect_runtime.errors.handler import ErrorHandler
from connect_runtime.metrics.task_metrics import TaskMetrics
from connect_runtime.storage.log import NewRecord
from connect_runtime.storage.snapshots import TaskId
from connect_runtime.tasks.launch import TaskLaunch
from connect_runtime.tasks.run import COLLECT_AFTER
from connect_runtime.tasks.sink.consumer import SinkConsumer
from connect_runtime.tasks.sink.decoder import Decoder
from connect_runtime.tasks.source.pipeline import RecordPipeline
from connect_runtime.tasks.source.source_task import SourceContext
from connect_runtime.tasks.source.transactions import PollBoundary, Transactions
from connect_runtime.tasks.task_setup import TaskSetup
from connect_specs.names import ClusterTopics

PROFILED: Final = ("source", "source-json", "sink", "sink-json", "sink-schemas")
_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_TASK: Final = "the connector's task"
_CONVERTER: Final = "the value converter"
_BATCHES: Final = "transformations and batches"
_CLIENT: Final = "calls of the Kafka client"
_COMMIT: Final = "commits"
_THREADS: Final = "threads of librdkafka"
STAGES: Final = (_TASK, _CONVERTER, _BATCHES, _CLIENT, _COMMIT, _THREADS)


@dataclass(frozen=True, slots=True)
class Profile:
    """Microseconds of CPU for a record by stage, and the whole in elapsed time."""

    workload: Workload
    stages: dict[str, float]
    elapsed: float


def profiles(workloads: Sequence[Workload], folder: Path, bootstrap: str) -> list[Profile]:
    """Profiles these workloads."""
    made = Inputs(folder, bootstrap)
    found = []
    # as in a Spark worker
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    for workload in workloads:
        run = _source if workload.kind == "source" else _sink
        found.append(run(workload, made, folder, bootstrap))
        total = sum(found[-1].stages.values())
        print(f"profile  {workload.name:14} {total:6.2f} µs of CPU a record", flush=True)
    return found


class _Stopwatch:
    """CPU seconds of this thread by stage. A stage within another is not part of it."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self._stages: list[str] = []
        self._since = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._switch()
        self._stages.append(name)
        try:
            yield
        finally:
            self._switch()
            self._stages.pop()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            with self.stage(name):
                return function(*given)

        return run

    def _switch(self) -> None:
        now = time.thread_time()
        if self._stages:
            self.seconds[self._stages[-1]] += now - self._since
        self._since = now


def _source(workload: Workload, made: Inputs, folder: Path, bootstrap: str) -> Profile:
    topic = f"profile-{workload.name}"
    make_topic(bootstrap, topic)
    file = str(made.file(workload.records))
    setup = _setup(bootstrap, workload, {"file": file, "topic": topic})
    watch = _Stopwatch()
    converters = setup.converters
    value = converters.value
    value.writer = _timed_maker(watch, value.writer)
    pipeline = RecordPipeline(converters, setup.chain, ErrorHandler())
    writer, boundary = Transactions(setup, TaskMetrics()), PollBoundary(shared=True)
    task = FileStreamSourceTask()
    task.initialize(SourceContext(setup.config, _NoOffsets(), None))
    task.start(setup.config)
    offset = NewRecord(f"{topic}-offsets", b"key", b"value")
    seen, run = 0, _Run(watch)
    while seen < workload.records.count:
        with watch.stage(_TASK):
            polled = task.poll() or ()
        seen += len(polled)
        with watch.stage(_BATCHES):
            sendings = pipeline.sendings(polled)
        with watch.stage(_CLIENT):
            for each in sendings:
                writer.send(each.topic, each.messages, each.partition)
        if boundary.due(writer, writer.opened_at, 0.0, empty=not polled):
            with watch.stage(_COMMIT):
                writer.commit([offset])
    writer.commit([offset])
    profile = run.profile(workload)
    writer.close()
    task.stop()
    delete_topic(bootstrap, topic)
    return profile


def _sink(workload: Workload, made: Inputs, folder: Path, bootstrap: str) -> Profile:
    file = folder / "profile.txt"
    topic = made.topic(workload.records)
    setup = _setup(bootstrap, workload, {"file": str(file), "topics": topic})
    watch = _Stopwatch()
    converters = setup.converters
    value = converters.value
    value.reader = _timed_maker(watch, value.reader)
    decoder = Decoder(converters, setup.chain, ErrorHandler())
    task = FileStreamSinkTask()
    task.start(setup.config)

    def gained(partitions: Sequence[Any]) -> Any:
        return consumer.starts(partitions)

    def ignored(*_: object) -> None:
        pass

    consumer = SinkConsumer(
        setup, gained=gained, settled=ignored, revoked=ignored, lost=ignored, answered=ignored
    )
    first = consumer.read(30.0)
    seen, run = 0, _Run(watch)
    delivery = first
    while seen < workload.records.count:
        seen += len(delivery.messages)
        with watch.stage(_BATCHES):
            batch = decoder.batch(delivery.messages)
        with watch.stage(_TASK):
            task.put(batch)
        with watch.stage(_CLIENT):
            delivery = consumer.read(0.2 if seen < workload.records.count else 0.0)
    profile = run.profile(workload)
    consumer.close()
    task.stop()
    file.unlink()
    return profile


class _Run:
    """From now to the profile of all records."""

    def __init__(self, watch: _Stopwatch) -> None:
        self._watch = watch
        self._began = time.monotonic()
        self._threads = time.process_time() - time.thread_time()

    def profile(self, workload: Workload) -> Profile:
        elapsed = time.monotonic() - self._began
        self._watch.seconds[_THREADS] = time.process_time() - time.thread_time() - self._threads
        count = workload.records.count
        stages = {name: s * 1e6 / count for name, s in self._watch.seconds.items()}
        return Profile(workload, stages, elapsed * 1e6 / count)


class _NoOffsets:
    """Implements `OffsetStorageReader`: nothing was committed."""

    def offset(self, partition: object) -> None:
        return None


def _timed_maker(watch: _Stopwatch, make: Callable[[], Any]) -> Callable[[], Any]:
    """A converter's `reader` or `writer` whose functions are timed."""
    return lambda: watch.timed(_CONVERTER, make())


def _setup(bootstrap: str, workload: Workload, own: dict[str, str]) -> TaskSetup:
    group = f"profile-{time.time_ns()}"
    config = own | dict(workload.config)
    launch = TaskLaunch(
        id=TaskId(workload.name, 0),
        attempt=1,
        generation=1,
        leader_term=1,
        assignments_offset=0,
        group_id=group,
        topics=ClusterTopics.of(group),
        worker_id="profile",
        config=config,
        connector_config=config,
        worker={
            "bootstrap.servers": bootstrap,
            "key.converter": _STRING,
            "value.converter": _STRING,
        },
    )
    return TaskSetup(launch)
