"""Source tasks: records from `poll` to Kafka, with their offsets."""
