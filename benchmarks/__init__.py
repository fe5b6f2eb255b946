"""Measures this runtime against Apache Kafka Connect, side by side on one broker."""
