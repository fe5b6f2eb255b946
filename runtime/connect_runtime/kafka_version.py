"""The one version of Apache Kafka: of the broker and tools that come along, of the Connect whose
REST API and plugins ours equal, and of the worker that tests and benchmarks compare with.

kafka/jars.sha256 lists its jars.
"""

from typing import Final

KAFKA_VERSION: Final = "4.3.1"
