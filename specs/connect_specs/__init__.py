"""Reads what users declare: specs, project settings, offsets, names, and diagnostics about them.

The lowest layer: no Kafka, no Spark, no clock, no network.
"""
