"""Asks Spark's JVM for what JMX exporters tell of a JVM: memory, threads, garbage collections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JvmFigures:
    """`memory` in bytes by area (heap, nonheap); `collections`, by collector: how many, and the
    seconds that they took."""

    memory: Mapping[str, int]
    threads: int
    collections: Mapping[str, tuple[int, float]]


def jvm_figures(jvm: Any) -> JvmFigures:
    """Asks through Py4J: about ten calls. Blocks until the JVM answers."""
    beans = jvm.java.lang.management.ManagementFactory
    memory = beans.getMemoryMXBean()
    return JvmFigures(
        {
            "heap": memory.getHeapMemoryUsage().getUsed(),
            "nonheap": memory.getNonHeapMemoryUsage().getUsed(),
        },
        beans.getThreadMXBean().getThreadCount(),
        {
            bean.getName(): (bean.getCollectionCount(), bean.getCollectionTime() / 1000)
            for bean in beans.getGarbageCollectorMXBeans()
        },
    )
