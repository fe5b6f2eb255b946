"""What a user declares: specs, project settings, offsets, names and the diagnostics about them.

The lowest layer: no Kafka, no Spark, no clock, no network.
"""
