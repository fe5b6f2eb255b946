"""What the process that tasks are forked from does before the first of them."""

import subprocess
import sys

# Spark's own server would wait for Spark
_PREPARED = """
import os, sys
from connect_runtime.spark import daemon, node_watch
import pyspark.daemon
node_watch.start = lambda: None
pyspark.daemon.manager = lambda: None
daemon.main()
print(len(os.listdir("/proc/self/task")), *sys.modules)
before = set(sys.modules)
"utf-16".encode("utf-16-le")
from connect_runtime.kafka import clients
clients.producer({"bootstrap.servers": "127.0.0.1:1"})
print(*set(sys.modules) - before)
"""


def test_it_has_one_thread_and_all_modules_when_it_begins_to_fork() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PREPARED], capture_output=True, text=True, timeout=60, check=True
    )
    prepared, later = done.stdout.splitlines()
    threads, *modules = prepared.split()
    assert threads == "1"
    assert {"connect_runtime.tasks.source.source_task", "connect_runtime.tasks.sink.sink_task"} <= {
        *modules
    }
    assert later == ""
    assert done.stderr == ""
