"""Compares the memory of an executor's container with what Java tasks need there beside Spark.

YARN and Kubernetes end a container that takes more than it asked for: `spark.executor.memory`
for Spark's own heap, and `spark.executor.memoryOverhead` for JVMs of Java tasks and, unless YARN
sets `spark.executor.pyspark.memory` apart, Python.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from connect_runtime.settings.jvm_options import HEAP_MIB, NODE_HEAP_MIB, OPTIONS_KEY, shares_jvm
from connect_runtime.settings.slots import LOADED_TASK_BYTES

_YARN: Final = "yarn"
_KUBERNETES: Final = "k8s:"
_SIZE: Final = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNIT_MIB: Final = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}
_LARGEST: Final = re.compile(r"-Xmx(\d+[kmg]?)", re.IGNORECASE)
# A busy JVM of Debezium's: its classes, threads and buffers
_BESIDE_HEAP_MIB: Final = 300
# Spark's daemon and the agent
_PYTHON_MIB: Final = 100
# Spark's defaults
_EXECUTOR_MIB: Final = 1024
_LEAST_OVERHEAD_MIB: Final = 384
_FACTOR: Final = 0.1


def overhead_problem(master: str, worker: Mapping[str, str]) -> str | None:
    """Returns a sentence if the executors of a worker with Java plugins have less memory beside
    Spark's heap than its JVMs and Python may take; None if it suffices, and on masters that limit
    nothing. Sizes are in MiB."""
    if not master.startswith((_YARN, _KUBERNETES)):
        return None
    heap = _mib(worker.get("spark.executor.memory", ""), 1) or _EXECUTOR_MIB
    factor = _number(worker.get("spark.executor.memoryOverheadFactor", ""), _FACTOR)
    default = max(heap * factor, _LEAST_OVERHEAD_MIB)
    overhead = _mib(worker.get("spark.executor.memoryOverhead", ""), 1) or default
    slots = _slots(worker)
    # a JVM sees the limit of a container, which YARN's need not have: it counts memory itself
    most = heap + overhead if master.startswith(_KUBERNETES) else math.inf
    needed = _needed(worker, most, slots)
    # Kubernetes sets it apart in cluster mode only, and the runtime is the driver
    if not (master.startswith(_YARN) and worker.get("spark.executor.pyspark.memory")):
        needed += _PYTHON_MIB + slots * LOADED_TASK_BYTES // (1 << 20)
    if overhead >= needed:
        return None
    return (
        f"Each executor has {overhead:.0f} MiB beside Spark's heap, and Java tasks may take "
        f"{needed:.0f} MiB there: set spark.executor.memoryOverhead to {needed:.0f}m, or limit the "
        f"heap with -Xmx in {OPTIONS_KEY}"
    )


def _needed(worker: Mapping[str, str], container: float, slots: int) -> float:
    """Returns what the JVMs of an executor may take."""
    shared = shares_jvm(worker, {})
    heap = min(container / 4, NODE_HEAP_MIB if shared else HEAP_MIB)
    for limit in _LARGEST.findall(worker.get(OPTIONS_KEY, "")):
        heap = _mib(limit, 1 / 1024**2)
    return (1 if shared else slots) * (heap + _BESIDE_HEAP_MIB)


def _slots(worker: Mapping[str, str]) -> int:
    cores = _number(worker.get("spark.executor.cores", ""), 1)
    return max(1, int(cores // (_number(worker.get("spark.task.cpus", ""), 1) or 1)))


def _number(text: str, default: float) -> float:
    """Returns a number; the default for what Spark refuses."""
    try:
        return float(text)
    except ValueError:
        return default


def _mib(size: str, unit: float) -> float:
    """Returns a size in MiB; 0 if it is none. A number without a unit is of `unit` MiB."""
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        return 0.0
    return int(match[1]) * (_UNIT_MIB[match[2].lower()] if match[2] else unit)
