"""What a runtime and its tasks measure, under the names of Connect's MBeans in Prometheus."""
