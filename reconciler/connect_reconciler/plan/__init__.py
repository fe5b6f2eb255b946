"""From desired and live to a plan: pure functions over frozen values. No I/O, clock or Kafka."""
