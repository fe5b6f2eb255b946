"""Makes live Kafka Connect clusters match their specs."""
