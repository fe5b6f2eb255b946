"""A Kafka Connect runtime: Connect's topics, formats and REST API, with tasks on Spark."""

from typing import Final

# The one version of Apache Kafka: of the broker and tools that come along, of the Connect whose
# REST API and plugins ours equal, and of the worker that tests and benchmarks compare with.
# kafka/jars.sha256 lists its jars.
KAFKA_VERSION: Final = "4.3.1"
