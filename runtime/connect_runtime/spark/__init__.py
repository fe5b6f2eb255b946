"""Runs tasks on Spark; only this package imports pyspark."""
