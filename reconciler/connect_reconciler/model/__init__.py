"""The values that planning and applying share. Pure: no I/O, clock or Kafka."""
