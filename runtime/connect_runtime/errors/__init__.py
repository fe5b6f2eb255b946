"""Handles records that fail: retries, tolerance, logging and dead letter queues (`errors.*`)."""
