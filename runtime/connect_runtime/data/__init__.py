"""Converts between connectors' values and Kafka's bytes, in batches."""
