"""The memory that Java tasks need in an executor's container."""

from __future__ import annotations

import pytest

from connect_runtime.settings.executor_memory import overhead_problem

YARN, KUBERNETES = "yarn", "k8s://https://a:6443"


@pytest.mark.parametrize("master", ["local[4]", "spark://a:7077"])
def test_masters_without_containers_limit_nothing(master: str) -> None:
    assert overhead_problem(master, {}) is None


@pytest.mark.parametrize(
    ("master", "worker", "needed"),
    [
        # heap, 300 beside it, 100 and 18 of Python
        (YARN, {}, 2466),
        # a quarter of 1,024 + 384 is the heap
        (KUBERNETES, {}, 770),
        (KUBERNETES, {"spark.executor.memory": "8g", "spark.executor.cores": "8"}, 2592),
        (YARN, {"spark.executor.memory": "8g", "spark.executor.cores": "10"}, 2628),
        # a JVM for each of four tasks
        (
            YARN,
            {"spark.executor.cores": "8", "spark.task.cpus": "2", "java.tasks.jvm": "own"},
            3420,
        ),
        (YARN, {"java.jvm.options": "-Xmx256m -Xmx1G"}, 1442),
        # Python is set apart
        (YARN, {"spark.executor.pyspark.memory": "1g"}, 2348),
        (KUBERNETES, {"spark.executor.pyspark.memory": "1g"}, 770),
    ],
)
def test_less_than_the_jvms_may_take_is_a_problem(
    master: str, worker: dict[str, str], needed: int
) -> None:
    problem = overhead_problem(master, worker)
    assert problem is not None
    assert f"spark.executor.memoryOverhead to {needed}m" in problem


@pytest.mark.parametrize(
    "worker",
    [
        {"spark.executor.memoryOverhead": "3g"},
        {"spark.executor.memoryOverhead": "3072"},
        {"spark.executor.memoryOverheadFactor": "3"},
        {"java.jvm.options": "-Xmx64m", "spark.executor.memoryOverhead": "500m"},
    ],
)
def test_enough_is_no_problem(worker: dict[str, str]) -> None:
    assert overhead_problem(YARN, worker) is None


def test_what_spark_refuses_is_left_to_it() -> None:
    assert overhead_problem(YARN, {"spark.executor.cores": "many"}) == overhead_problem(YARN, {})
