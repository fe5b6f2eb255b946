"""A Kafka Connect runtime: Connect's topics, formats and REST API, with tasks on Spark."""
