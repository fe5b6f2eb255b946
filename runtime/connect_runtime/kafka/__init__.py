"""Kafka itself: the embedded broker, its jars, and the clients that talk to a broker."""
