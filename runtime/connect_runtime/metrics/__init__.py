"""Measurements of a runtime and its tasks, under the names of Connect's MBeans in Prometheus."""
