"""Sink tasks: records from Kafka to `put`, and offset commits."""
