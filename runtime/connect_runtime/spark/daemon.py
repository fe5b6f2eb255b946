"""Runs the process that Spark forks Python workers from, with all that tasks need pre-imported.

Forked workers share those pages: 50 tasks start in 4.7 s instead of 8.1 s (2 cores), and an idle
one takes 13 MB instead of 42 MB. Nothing here may start a thread, because forks do not copy
threads. Spark runs it by `spark.python.daemon.module`.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys

# Names the driver's Python, major.minor, in the environment of this process
DRIVER_PYTHON = "CONNECT_DRIVER_PYTHON"

_MODULES = (
    "confluent_kafka",
    # hash codes of Java's strings
    "encodings.utf_16_le",
    "orjson",
    "pyspark.worker",
    "connect_runtime.spark.worker",
    "connect_runtime.tasks.run",
)


def main() -> None:
    """Imports, then serves forks until Spark closes stdin."""
    _check_python()
    # another Python may be unable to import them
    from pyspark.daemon import manager

    from connect_runtime.kafka.kafka_logging import log_outages
    from connect_runtime.logs.log_output import log_to
    from connect_runtime.plugins import registry
    from connect_runtime.spark import node_watch

    log_to(None, logging.INFO)
    for module in _MODULES:
        importlib.import_module(module)
    registry.load_built_in()
    log_outages()
    _use_encryption()
    _use_kafka()
    _forget_finders()
    # frozen objects are not touched by collections, so their pages stay shared
    gc.disable()
    gc.collect()
    gc.freeze()
    node_watch.start()
    manager()


def _check_python() -> None:
    """Refuses another minor version than the driver's: Python's pickles and packages are bound to
    one. Spark would say so only after all imports."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    driver_version = os.environ.get(DRIVER_PYTHON, version)
    if version != driver_version:
        own = f"This node runs Python {version} ({sys.executable})"
        sys.exit(f"{own}, and the driver Python {driver_version}")


def _use_encryption() -> None:
    """Decrypts something, which loads OpenSSL's algorithms: 3 MB that tasks then share."""
    from connect_runtime.spark import attempts

    key = attempts.new_key()
    attempts.decrypt(attempts.encrypt("", key), key)


def _use_kafka() -> None:
    """Makes a Kafka client, which prepares librdkafka for all tasks: 4 ms of CPU in each. Its
    threads have ended when this returns."""
    from confluent_kafka import Producer

    Producer({"log_level": 0})


def _forget_finders() -> None:
    """Removes cached finders. Each worker invalidates the caches of all, for which it copies their
    pages, and those of pyspark.zip read the whole archive directory again: 0.1 s of CPU per task.
    Finders are created again on demand."""
    sys.path_importer_cache.clear()


if __name__ == "__main__":
    main()
