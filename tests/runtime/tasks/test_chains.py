"""Transformations in tasks on a real broker: offsets, hooks, and batches that are put again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect_runtime.api import RetriableError, SinkBatch, SinkTask, SourceBatch, SourceRecord
from connect_runtime.tasks.launch import AttemptEnd
from support.broker import create_topic, produce, read_to_end
from support.task_runs import Scripted, committed, started, stopped
from support.wait import wait_until

JAVA = "org.apache.kafka.connect.transforms"
DROP_TOMBSTONES = {
    "transforms": "drop",
    "transforms.drop.type": "Filter",
    "transforms.drop.predicate": "empty",
    "predicates": "empty",
    "predicates.empty.type": "RecordIsTombstone",
}


def record(cluster: Any, value: str | None, n: int) -> SourceRecord:
    return SourceRecord({"p": 1}, {"n": n}, cluster.data, value)


class Noted(Scripted):
    """Also notes commits."""

    def commit(self) -> None:
        self.events.append("commit")


def scripted(*script: Any) -> type[Noted]:
    return type("Task", (Noted,), {"script": list(script), "events": []})


def test_a_sources_records_get_a_new_topic(cluster: Any, topic: Any, install: Any) -> None:
    topic(1)
    create_topic(cluster.bootstrap_servers, f"{cluster.data}-new", partitions=1)
    running = started(
        cluster, install, scripted([record(cluster, "a", 1), record(cluster, None, 2)]),
        **DROP_TOMBSTONES | {
            "transforms": "drop,route,insert",
            "transforms.route.type": f"{JAVA}.RegexRouter",
            "transforms.route.regex": "(.*)",
            "transforms.route.replacement": "$1-new",
            "transforms.insert.type": "InsertHeader",
            "transforms.insert.header": "h",
            "transforms.insert.value.literal": "12",
        },
    )  # fmt: skip
    wait_until(lambda: cluster.values(f"{cluster.data}-new") == ["a"], what="the record")

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    (found,) = read_to_end(cluster.bootstrap_servers, f"{cluster.data}-new")
    assert found.headers() == [("h", b"12")]
    assert cluster.values() == []
    in_use = cluster.newest(cluster.topics.status)
    assert f"status-topic-{cluster.data}-new:connector-c" in in_use
    assert f"status-topic-{cluster.data}:connector-c" not in in_use


def test_dropped_records_move_offsets_and_the_task_is_told(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(1)
    task = scripted(
        [record(cluster, None, 1)],
        SourceBatch(cluster.data, {"p": 2}, [None, None], source_offset={"n": 7}),
        [SourceRecord({"p": 3}, None, cluster.data, None)],
    )
    running = started(cluster, install, task, **DROP_TOMBSTONES)
    wait_until(lambda: task.events.count(None) == 4, what="all records")

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert cluster.values() == []
    assert cluster.newest(cluster.topics.offsets) == {
        '["c",{"p":1}]': {"n": 1},
        '["c",{"p":2}]': {"n": 7},
    }
    assert task.events[-1] == "commit"


class Collecting(SinkTask):
    """Keeps what it is given; `busy` errors come first."""

    events: list[Any]
    busy: int

    def start(self, props: Mapping[str, str]) -> None:
        pass

    def put(self, records: SinkBatch) -> None:
        if not len(records):
            return
        self.events.append([(r.topic, r.value, r.original_topic) for r in records])
        self.context.request_commit()
        if self.busy:
            type(self).busy -= 1
            self.context.timeout(10)
            raise RetriableError("busy")

    def close(self, partitions: Sequence[Any]) -> None:
        pass

    def stop(self) -> None:
        pass


def sink(cluster: Any) -> dict[str, str]:
    return {"topics": cluster.data, "consumer.override.group.id": f"connect-{cluster.name}"}


def test_a_sinks_position_moves_over_what_was_dropped(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(1)
    written = [(None, b"a"), (None, None), (None, b"b"), (None, None)]
    produce(cluster.bootstrap_servers, cluster.data, written)
    task = type("Task", (Collecting,), {"events": [], "busy": 0})

    running = started(cluster, install, task, **sink(cluster), **DROP_TOMBSTONES)
    wait_until(lambda: committed(cluster) == 4, what="the commit")

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert [value for put in task.events for _, value, _ in put] == ["a", "b"]


def test_a_batch_that_is_put_again_is_not_transformed_again(
    cluster: Any, topic: Any, install: Any
) -> None:
    topic(1)
    produce(cluster.bootstrap_servers, cluster.data, [(None, b"a")])
    task = type("Task", (Collecting,), {"events": [], "busy": 2})
    route = {
        "transforms": "route",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "x$0",
    }

    running = started(cluster, install, task, **sink(cluster), **route)
    wait_until(lambda: committed(cluster) == 1, what="the commit")

    assert stopped(cluster, running) is AttemptEnd.STOPPED
    assert task.events == [[(f"x{cluster.data}", "a", cluster.data)]] * 3
